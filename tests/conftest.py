"""What all tests share: no network, and threads that sleep while they wait."""

from __future__ import annotations

import os

# Before torch is imported, here and in every process that a test starts.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

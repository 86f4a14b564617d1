"""What a page is told when something is refused."""

from __future__ import annotations

from typing import Any

from pipelines.errors import BadInput
from reuse import NotCompatible


def told(error: BadInput | NotCompatible) -> dict[str, Any]:
    """The words, and which field or fields they are about."""
    if isinstance(error, BadInput):
        return {"error": str(error), "field": error.field, "fix": error.fix}
    return {"error": str(error), "fields": [one.name for one in error.differences]}

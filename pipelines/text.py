"""A prompt as text encoders get it."""

from __future__ import annotations

import html


def clean_prompt(text: str) -> str:
    """Mojibake and HTML entities mended, white space collapsed, as diffusers does for UMT5."""
    import ftfy

    return " ".join(html.unescape(html.unescape(ftfy.fix_text(text))).split())

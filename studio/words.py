"""Words for searching: what people write, folded and cut so that full-text search finds it.

Case and accents do not count. Scripts that are written without spaces are cut into their signs, so
that a piece of a Chinese or Japanese sentence is found as a phrase of signs. An emoji is a word.
"""

from __future__ import annotations

import re
import unicodedata

_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff]")
# Thai, Lao, Tibetan, Myanmar, Khmer, kana, Bopomofo, Hangul, Han and what extends them.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U0001b000-\U0001b16f"
    "\U00020000-\U000323af]"
)
_OF_A_WORD = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No"))


def folded(text: str) -> str:
    """The text without case, accents and differences of width."""
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFC", plain)


def tokens(text: str) -> str:
    """The words of a text with one space between two; empty if there are none."""
    found: list[str] = []
    for sign in folded(text):
        category = unicodedata.category(sign)
        if (_UNSPACED.match(sign) and category in _OF_A_WORD) or category == "So":
            found += (" ", sign, " ")
        elif category in _OF_A_WORD and not "\ufe00" <= sign <= "\ufe0f":
            found.append(sign)
        else:
            found.append(" ")
    return " ".join("".join(found).split())


def query(text: str) -> str:
    """The full-text query for what a person typed: every word, as the beginning of one. Empty if
    there is no word in it. Nothing that is typed is an operator."""
    phrases = (tokens(word) for word in text.split())
    return " ".join(f'"{phrase}"*' for phrase in phrases if phrase)

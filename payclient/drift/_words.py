"""What of a text may be kept: a word in the clear, or only its shape."""

from __future__ import annotations

import re
from collections.abc import Collection

MIN_REFERENCES = 3
"""References for which a word must have been seen: what is said of one payment may be the name of its payer."""

_MAX_LENGTH = 32
_MAX_WORDS = 12
_WORD = re.compile(r"[A-Za-z]+(?:[-_/+][A-Za-z]+)*")
_MARK = "\0"
_OTHER = re.compile(r"[^A-Za-z0-9:. TZ+-]")


def marked(text: str) -> str:
    """Return *text* as a part of a raw cell that `cleared` decides upon."""
    return _MARK + text


def is_marked(part: str) -> bool:
    """Return whether *part* of a raw cell is still to be decided upon."""
    return part[:1] == _MARK


def cleared(part: str, known: Collection[str]) -> str:
    """Return *part* of a raw cell as it may be kept: in the clear if it is a word and among the *known*."""
    if not is_marked(part):
        return part
    return part[1:] if part in known and len(part) <= _MAX_LENGTH + 1 and _WORD.fullmatch(part, 1) else shape(part[1:])


def shape(text: str) -> str:
    """Return kind and length of *text*, such as `<digits:12>`."""
    if not text:
        return "<empty>"
    kind = "digits" if text.isdigit() else "letters" if text.isalpha() else "mixed"
    return f"<{kind}:{len(text)}>" if len(text) <= _MAX_LENGTH else f"<{kind}:33+>"


def pattern(text: str) -> str:
    """Return the format of a time, with 9 for each digit and a for each letter."""
    if len(text) > _MAX_LENGTH:
        return shape(text)
    return re.sub(r"[A-Za-z]", "a", re.sub(r"[0-9]", "9", _OTHER.sub("?", text))) or "<empty>"


def phrase(text: str) -> tuple[str, ...]:
    """Return the first words of *text*, marked."""
    return tuple(marked(word.strip(".,;:!?'\"()[]")) for word in text.split()[:_MAX_WORDS])


def shape_of(part: str) -> str:
    """Return the shape of a kept part, whether it is one already or a word in the clear."""
    return part if part[:1] in "<(" or " " in part else shape(part)

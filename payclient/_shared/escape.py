"""Escape untrusted text, so that it can neither hide nor run anything."""

import re
from collections.abc import Iterable

_ASCII = re.compile("[0-9A-Za-z]")
# Greek, Cyrillic, Armenian, Cherokee, digits and hyphens of other blocks, and full-width forms.
_LOOK_ALIKE = re.compile("[\u0370-\u058f\u0660-\u0669\u06f0-\u06f9\u13a0-\u13ff\u2010-\u2015\u2212\uff01-\uff5e]")


def escape_unprintable(text: str, *, max_length: int | None = None) -> str:
    """Return *text* with each unprintable character as `<U+202E>`."""
    # That includes line ends, terminal escapes, marks that change the direction of text, and unusual spaces.
    if max_length is not None and len(text) > max_length:
        text = text[: max_length - 1] + "…"
    return text if text.isprintable() else "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in text)


def quote(value: object) -> str:
    """
    Return *value* for a sentence: text in quotes and shortened, numbers bare, None as `nothing`.

    The first character that looks like an ASCII one next to it is named.
    """
    if not isinstance(value, str):
        return "nothing" if value is None else str(value)
    match = None if value.isascii() or not _ASCII.search(value) else _LOOK_ALIKE.search(value)
    look_alike = "" if match is None else f" (contains U+{ord(match[0]):04X})"
    return f"'{escape_unprintable(value, max_length=80)}'{look_alike}"


def plural(count: int, noun: str) -> str:
    """Return `1 row`, or `2,000 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return ` (did you mean 'amount'?)`, the name most like *word*. Empty without a similar name."""
    return "".join(f" (did you mean {quote(name)}?)" for name in nearest(word, names))


def nearest(word: str, candidates: Iterable[str]) -> list[str]:
    """Return the name most like *word*, or the only name that begins with it. None without a similar name."""
    from difflib import get_close_matches  # noqa: PLC0415  only a mistake need load it

    names = [*candidates]
    longer = [name for name in names if word and name.casefold().startswith(word.casefold())]
    return get_close_matches(word, names, n=1, cutoff=0.75) or (longer if len(longer) == 1 else [])

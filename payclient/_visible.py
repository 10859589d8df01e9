"""Show text of strangers so that it can neither hide nor run anything."""

from __future__ import annotations


def visible(text: str, *, longest: int | None = None) -> str:
    """
    Return *text* with each character that does not print as `<U+202E>`.

    That covers line ends, escape sequences of terminals, marks that turn the direction of text,
    and spaces that only look like one.

    Args:
        text: Anything.
        longest: Characters to keep; what was cut off becomes one `…`.
    """
    if longest is not None and len(text) > longest:
        text = text[: longest - 1] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in text)


def quoted(value: object) -> str:
    """Return *value* for a sentence: text in quotes and shortened, numbers bare, None as `nothing`."""
    if value is None:
        return "nothing"
    return f"'{visible(value, longest=80)}'" if isinstance(value, str) else str(value)

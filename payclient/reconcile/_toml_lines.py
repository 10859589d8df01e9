"""
Find the line of a TOML file on which a key stands.

`tomllib` does not tell, so it is asked about the beginnings of the file: a key stands on the line behind the
longest beginning that is TOML and does not have it. That holds for headers, dotted keys and inline tables alike.
"""

from __future__ import annotations

import tomllib
from typing import Any, TypeAlias

Key: TypeAlias = tuple[str | int, ...]
"""From the outermost table on; a number is the position in a list, from 0."""


def line_of(text: str, key: Key) -> int:
    """
    Return the line of *key*, from 1; of the table around it where there is no such key, and 0 where none is.

    Args:
        text: The whole file; valid.
        key: What to look for.

    Shape:
        Time grows with the size of the file and the logarithm of its lines.
    """
    text = text.replace("\r\n", "\n")
    while key and not _has(tomllib.loads(text), key):
        key = key[:-1]
    if not key:
        return 0
    lines = text.split("\n")
    before, behind = 0, len(lines)
    while before + 1 < behind:
        middle = (before + behind) // 2
        last = _last_without(lines, key, middle, behind)
        before, behind = (before, middle) if last is None else (last, behind)
    return before + 1


def _last_without(lines: list[str], key: Key, start: int, stop: int) -> int | None:
    """Return the first beginning of *start* lines or more that is TOML; None if it has *key*, or none is."""
    for size in range(start, stop):
        try:
            document = tomllib.loads("\n".join(lines[:size]))
        except tomllib.TOMLDecodeError:  # it ends in the middle of a value
            continue
        return None if _has(document, key) else size
    return None


def _has(document: Any, key: Key) -> bool:
    for part in key:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):  # a value that is no table has no keys
            return False
    return True

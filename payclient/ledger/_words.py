"""The words by which columns and cells of a ledger are known, from `words.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def word_list(table: str, key: str | None = None) -> tuple[str, ...]:
    """Return the words of one key of *table*, or of all its keys, such as the languages."""
    texts = _TABLES[table].values() if key is None else [_TABLES[table][key]]
    return tuple(word for text in texts for word in text.split())

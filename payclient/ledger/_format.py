"""Tell what a ledger is written in, from the name of the file and from its first bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType

from payclient.ledger._errors import LedgerError
from payclient.ledger._ledger import LedgerFormat

SUFFIXES: Mapping[str, LedgerFormat] = MappingProxyType(
    {
        ".csv": "csv",
        ".tsv": "csv",
        ".txt": "csv",
        ".jsonl": "jsonl",
        ".ndjson": "jsonl",
        ".xlsx": "xlsx",
        ".xlsm": "xlsx",
        ".parquet": "parquet",
    }
)
"""Formats by the end of a file's name, before `.gz` if there is one."""

_ZIP = b"PK\x03\x04"
_PARQUET = b"PAR1\x15"  # the fifth byte begins every header inside, and no line of text holds it
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*[\[{\]])")
_SHOWN: Mapping[LedgerFormat, str] = {"csv": "CSV", "jsonl": "JSON Lines", "xlsx": "XLSX", "parquet": "Parquet"}


def recognise(name: str, first: bytes, chosen: LedgerFormat | None) -> LedgerFormat:
    """
    Return the format of a ledger.

    What was chosen counts first, then the name, then the first bytes; CSV if nothing tells.

    Args:
        name: Of the file; empty for a stream.
        first: The first bytes, at least eight if there are that many.
        chosen: By the user.

    Raises:
        LedgerError: When the bytes are those of another format, or of none that is read here.
    """
    if first.startswith(_OLE):
        message = "this is an old .xls file or has a password; save it as .xlsx without a password"
        raise LedgerError(message)
    found = _by_content(first)
    wanted = chosen or SUFFIXES.get(PurePath(name.lower().removesuffix(".gz")).suffix) or found or "csv"
    is_binary = wanted in ("xlsx", "parquet")
    if first and wanted != found and (is_binary or found in ("xlsx", "parquet")):
        what = f"its first bytes are those of {_SHOWN[found]}" if found else "its first bytes are not"
        message = f"the ledger should be {_SHOWN[wanted]}, but {what}; rename it, or choose the format that it has"
        raise LedgerError(message)
    return wanted


def _by_content(first: bytes) -> LedgerFormat | None:
    if first.startswith(_ZIP):
        return "xlsx"
    if first.startswith(_PARQUET):
        return "parquet"
    return "jsonl" if _JSON.match(first) else None

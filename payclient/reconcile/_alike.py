"""Compare texts that two programs may write differently."""

from __future__ import annotations

import re
from unicodedata import normalize

from payclient.reconcile._status import normalise

_SEPARATORS = re.compile(r"[-\s]+")
_PLACEHOLDERS = frozenset({"0", "n/a", "na", "nil", "none", "null"})


def stated(text: str | None) -> str | None:
    """Return *text* without surrounding spaces; None where it is empty or a dash, and so states nothing."""
    text = (text or "").strip()
    return text if any(map(str.isalnum, text)) else None


def reff_key(merchant_reff: str | None) -> str | None:
    """Return a `merchant_reff` normalised for case, width and spacing; None where it names no invoice."""
    text = stated(merchant_reff)
    key = None if text is None else " ".join(normalize("NFKC", text).casefold().split())
    return None if key in _PLACEHOLDERS else key


def same_code(ours: str, theirs: str) -> bool:
    """Say whether two payment codes have the same characters, apart from case, width, spaces and dashes."""
    return _bare(ours) == _bare(theirs)


def _bare(code: str) -> str:
    return _SEPARATORS.sub("", normalize("NFKC", code)).casefold()


def same_name(ours: str, theirs: str) -> bool:
    """Say whether two names are the same word, apart from case, width, spaces, dashes and underscores."""
    return normalise(normalize("NFKC", ours)) == normalise(normalize("NFKC", theirs))

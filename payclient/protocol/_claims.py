"""What a confirmation and a reconciliation derive alike from a transaction."""

UNPAID = frozenset({"pending", "canceled", "cancelled", "expired", "failed", "refunded"})
"""Status words, in lower case, of a transaction that no money, or no more, is expected of."""


def missing_amount(amount: int, fee: int | None, received: int | None) -> int:
    """Return how much less was received than was due. 0 if all was, or if that is unknown."""
    due = amount - (fee or 0)
    if received is None or received >= due:
        return 0
    # Without a known fee, only a payment of nothing is certainly too little.
    return due - received if fee is not None or received <= 0 < due else 0


def text_stated(text: str | None) -> str | None:
    """Return *text* without surrounding spaces. None if it is empty or a dash, and so says nothing."""
    text = (text or "").strip()
    return text if any(map(str.isalnum, text)) else None

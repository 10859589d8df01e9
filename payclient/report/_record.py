"""The JSON shapes of the two sides of a row."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from payclient._codec import transaction_as_json as ten_fields
from payclient._models import Transaction
from payclient.ledger import ABSENT, Entry, RejectedEntry
from payclient.ledger._entry import COMPARED

_WRITTEN = ("reference", *COMPARED, "created_at")


def entry_as_json(entry: Entry) -> dict[str, Any]:
    """Return the fields that the ledger has, `line` not among them; an empty cell is null."""
    values = ((name, getattr(entry, name)) for name in _WRITTEN)
    return {name: _plain(value) for name, value in values if value is not ABSENT}


def rejected_as_json(entry: RejectedEntry) -> dict[str, Any]:
    """Return what could be read of a rejected row, and why it was rejected."""
    return {"reference": entry.reference, "amount": entry.amount, "reason": entry.reason}


def transaction_as_json(transaction: Transaction) -> dict[str, Any]:
    """Return the ten fields in the order of the specification, and the deviations; not `raw`."""
    return {**ten_fields(transaction), "deviations": list(transaction.deviations)}


def _plain(value: Any) -> Any:
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value

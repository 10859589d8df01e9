"""The JSON shapes of what is stored and reported: ledger entries, transactions, observations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from payclient._codec import transaction_as_json as ten_fields
from payclient._models import Transaction
from payclient.ledger._entry import ABSENT, COMPARED, Entry, RejectedEntry
from payclient.reconcile._observation import Answer, Observation

_WRITTEN = ("reference", *COMPARED)


def entry_as_json(entry: Entry) -> dict[str, Any]:
    """Return the fields that the ledger has, `line` not among them; an empty cell is null."""
    values = ((name, getattr(entry, name)) for name in _WRITTEN)
    return {name: _plain(value) for name, value in values if value is not ABSENT}


def entry_from_json(line: int, value: Mapping[str, Any]) -> Entry:
    """Return what `entry_as_json` was given."""
    return Entry(line=line, **_with_expdate(value))


def rejected_as_json(entry: RejectedEntry) -> dict[str, Any]:
    """Return what could be read of a rejected row, and why it was rejected."""
    return {"reference": entry.reference, "amount": entry.amount, "reason": entry.reason}


def rejected_from_json(line: int, value: Mapping[str, Any]) -> RejectedEntry:
    """Return what `rejected_as_json` was given."""
    return RejectedEntry(line=line, **value)


def transaction_as_json(transaction: Transaction) -> dict[str, Any]:
    """Return the ten fields in the order of the specification, and the deviations; not `raw`."""
    return {**ten_fields(transaction), "deviations": list(transaction.deviations)}


def transaction_from_json(value: Mapping[str, Any]) -> Transaction:
    """Return what `transaction_as_json` was given, without `raw`."""
    fields = _with_expdate(value)
    fields["deviations"] = tuple(value["deviations"])
    return Transaction(**fields)


def observation_as_json(observation: Observation) -> dict[str, Any]:
    """Return an answer, with the time in ISO 8601."""
    transaction = observation.transaction
    return {
        "answer": observation.answer.value,
        "at": observation.at.isoformat(),
        "transaction": None if transaction is None else transaction_as_json(transaction),
        "error": observation.error,
        "message": observation.message,
    }


def observation_from_json(value: Mapping[str, Any]) -> Observation:
    """Return what `observation_as_json` was given."""
    transaction = value["transaction"]
    return Observation(
        answer=Answer(value["answer"]),
        at=datetime.fromisoformat(value["at"]),
        transaction=None if transaction is None else transaction_from_json(transaction),
        error=value["error"],
        message=value["message"],
    )


def _plain(value: Any) -> Any:
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value


def _with_expdate(value: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(value)
    if fields.get("expdate") is not None:
        fields["expdate"] = datetime.fromisoformat(fields["expdate"])
    return fields

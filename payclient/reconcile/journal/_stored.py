"""Turn ledger entries and answers into columns of the journal, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, TypeAlias

from attrs import fields

from payclient.ledger import ABSENT, Entry, RejectedEntry
from payclient.protocol import Transaction
from payclient.reconcile.journal._schema import ENTRY_COLUMNS, TRANSACTION_COLUMNS
from payclient.reconcile.values import Answer, Observation

StoredCell: TypeAlias = str | int | bytes | None

_ABSENT = b""
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)  # noqa: DTZ001  an expiry has no zone
_MICROSECOND = timedelta(microseconds=1)
_BOUND = 2**63
_MONEY = ("amount", "fee", "amount_received")
_TIMES = ("expdate", "created_at")
_OF_TRANSACTION = TRANSACTION_COLUMNS[:-1]
"""Without the deviations, which are JSON."""
_NO_TRANSACTION = (None,) * len(TRANSACTION_COLUMNS)


def entry_cells(entry: Entry | RejectedEntry) -> tuple[StoredCell, ...]:
    """Return `line`, `rejected` and `ENTRY_COLUMNS` for *entry*."""
    if isinstance(entry, RejectedEntry):
        stated = {name: _cell(getattr(entry, name)) for name in _OF_REJECTED}
        return entry.line, entry.reason, *map(stated.get, ENTRY_COLUMNS)
    return entry.line, None, *map(_cell, _of_entry(entry))


def entry_from(cells: Sequence[Any]) -> Entry | RejectedEntry:
    """Return the ledger row from its `entry_cells`."""
    line, rejected, *stored = cells
    values = _values(ENTRY_COLUMNS, stored)
    if rejected is None:
        return Entry(line=line, **values)
    return RejectedEntry(line=line, reason=rejected, **{name: values[name] for name in _OF_REJECTED})


def observation_cells(observation: Observation) -> tuple[StoredCell, ...]:
    """Return `ANSWER_COLUMNS` for *observation*."""
    said = (observation.answer.value, moment_cell(observation.at), observation.error, observation.message or None)
    found = observation.transaction
    if found is None:
        return (*said, observation.reused_from or None, *_NO_TRANSACTION)
    deviations = json.dumps(found.deviations) if found.deviations else None
    return (*said, observation.reused_from or None, *map(_cell, _of_transaction(found)), deviations)


def observation_from(cells: Sequence[Any]) -> Observation | None:
    """Return the answer from its `observation_cells`, without `Transaction.raw`; None where there is none."""
    answer, at, error, message, reused_from, *found = cells
    if answer is None:
        return None
    return Observation(
        answer=Answer(answer),
        at=moment_from(at),
        transaction=None if found[0] is None else _transaction(found),
        error=error,
        message=message or "",
        reused_from=reused_from or "",
    )


def _transaction(cells: Sequence[Any]) -> Transaction:
    *stored, deviations = cells
    values = _values(_OF_TRANSACTION, stored)
    return Transaction(**values, deviations=tuple(json.loads(deviations)) if deviations else ())


def _cell(value: Any) -> Any:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MICROSECOND if value.tzinfo is None else value.isoformat()
    if value is ABSENT:
        return _ABSENT
    # SQLite has 64 bits; what our own readers accept fits, what a program makes may not.
    return value if -_BOUND <= value < _BOUND else str(value)


def _values(names: Sequence[str], cells: Sequence[Any]) -> dict[str, Any]:
    values = dict(zip(names, cells, strict=True))
    for name in _MONEY:
        if isinstance(cell := values[name], str):
            values[name] = int(cell)
    for name in _TIMES:
        if isinstance(cell := values.get(name), int):
            values[name] = _EPOCH + timedelta(microseconds=cell)
        elif isinstance(cell, str):
            values[name] = datetime.fromisoformat(cell)
    if _ABSENT in cells:
        values |= dict.fromkeys((name for name, cell in values.items() if cell == _ABSENT), ABSENT)
    return values


def moment_cell(at: datetime) -> int:
    """Return a time in UTC as the journal stores it: microseconds since 1970, a quarter of the text."""
    return (at - _EPOCH_UTC) // _MICROSECOND


def moment_from(cell: int) -> datetime:
    """Return the time from its `moment_cell`."""
    return _EPOCH_UTC + timedelta(microseconds=cell)


_OF_REJECTED = ("reference", "amount", "amount_received", "status", "kind")
_of_entry, _of_transaction = attrgetter(*ENTRY_COLUMNS), attrgetter(*_OF_TRANSACTION)


def how_different(stored: Entry | RejectedEntry, entry: Entry | RejectedEntry) -> str:
    """Name the fields of a ledger row that differ; not their values, which may be confidential."""
    if type(stored) is not type(entry):
        return f"the row was {'rejected' if isinstance(stored, RejectedEntry) else 'usable'}, and is not now"
    names = [each.name for each in fields(type(entry)) if getattr(stored, each.name) != getattr(entry, each.name)]
    return f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} different"

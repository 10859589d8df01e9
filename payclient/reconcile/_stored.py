"""Turn ledger entries and answers into columns of the journal, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from attrs import fields, frozen

from payclient.ledger import ABSENT, Entry, RejectedEntry
from payclient.protocol import Transaction
from payclient.reconcile._earlier import Since
from payclient.reconcile._observation import Answer, Observation
from payclient.reconcile._schema import ENTRY_COLUMNS, TRANSACTION_COLUMNS

StoredCell: TypeAlias = str | int | bytes | None

_ABSENT = b""
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)  # noqa: DTZ001  an expiry has no zone
_MICROSECOND = timedelta(microseconds=1)
_BOUND = 2**63
_NO_TRANSACTION = (None,) * len(TRANSACTION_COLUMNS)


@frozen
class PendingLookup:
    """
    A reference to look up, once for all ledger rows that have it.

    Attributes:
        reference: What the service is asked.
        position: Of the first ledger row that has it, from 1.
        entries: Every ledger row that has it.
        since: What the previous run says about it; None without a previous run.
    """

    reference: str
    position: int
    entries: tuple[Entry, ...]
    since: Since | None = None


def entry_cells(entry: Entry | RejectedEntry) -> tuple[StoredCell, ...]:
    """Return `line`, `rejected` and `ENTRY_COLUMNS` for *entry*."""
    if isinstance(entry, RejectedEntry):
        cells = dict.fromkeys(ENTRY_COLUMNS) | {"reference": entry.reference, "amount": _money_cell(entry.amount)}
        cells |= {"amount_received": _money_cell(entry.amount_received)}
        cells |= {"status": _cell(entry.status), "kind": _cell(entry.kind)}
        return entry.line, entry.reason, *cells.values()
    return (
        entry.line,
        None,
        entry.reference,
        _cell(entry.merchant_reff),
        _money_cell(entry.amount),
        _money_cell(entry.fee),
        _money_cell(entry.amount_received),
        _cell(entry.status),
        _cell(entry.payment_method),
        _cell(entry.payment_code),
        _time_cell(entry.expdate),
        _time_cell(entry.created_at),
        _cell(entry.kind),
    )


def entry_from(cells: Sequence[Any]) -> Entry | RejectedEntry:
    """Return what `entry_cells` was given."""
    line, rejected, reference, reff, amount, fee, received, status, method, code, expdate, created_at, kind = cells
    if rejected is not None:
        return RejectedEntry(
            line=line,
            reason=rejected,
            reference=reference,
            amount=_money_value(amount),
            amount_received=_money_value(received),
            status=_value(status),
            kind=_value(kind),
        )
    return Entry(
        line=line,
        reference=reference,
        merchant_reff=_value(reff),
        amount=_money_value(amount),
        fee=_money_value(fee),
        amount_received=_money_value(received),
        status=_value(status),
        payment_method=_value(method),
        payment_code=_value(code),
        expdate=_time_value(expdate),
        created_at=_time_value(created_at),
        kind=_value(kind),
    )


def observation_cells(observation: Observation) -> tuple[StoredCell, ...]:
    """Return `ANSWER_COLUMNS` for *observation*."""
    said = (observation.answer.value, moment_cell(observation.at), observation.error, observation.message or None)
    head = (*said, observation.reused_from or None)
    found = observation.transaction
    if found is None:
        return (*head, *_NO_TRANSACTION)
    return (
        *head,
        found.reference,
        found.merchant_reff,
        found.payment_method,
        found.payment_name,
        _money_cell(found.amount),
        _money_cell(found.fee),
        _money_cell(found.amount_received),
        found.payment_code,
        _time_cell(found.expdate),
        found.status,
        json.dumps(found.deviations) if found.deviations else None,
    )


def observation_from(cells: Sequence[Any]) -> Observation | None:
    """Return what `observation_cells` was given; `Transaction.raw` is not kept. None where there is no answer."""
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
    reference, reff, method, name, amount, fee, received, code, expdate, status, deviations = cells
    return Transaction(
        reference=reference,
        merchant_reff=reff,
        payment_method=method,
        payment_name=name,
        amount=_money_value(amount),
        fee=_money_value(fee),
        amount_received=_money_value(received),
        payment_code=code,
        expdate=_time_value(expdate),
        status=status,
        deviations=tuple(json.loads(deviations)) if deviations else (),
    )


def _cell(value: Any) -> Any:
    return _ABSENT if value is ABSENT else value


def _value(cell: Any) -> Any:
    return ABSENT if cell == _ABSENT else cell


def _money_cell(value: Any) -> Any:
    # SQLite has 64 bits; what our own readers accept fits, what a program makes may not.
    return str(value) if type(value) is int and not -_BOUND <= value < _BOUND else _cell(value)


def money_from(cell: Any) -> int:
    """Return an amount that the journal stores."""
    return int(cell)


def _money_value(cell: Any) -> Any:
    return int(cell) if isinstance(cell, str) else _value(cell)


def moment_cell(at: datetime) -> int:
    """Return a time in UTC as the journal stores it: microseconds since 1970, a quarter of the text."""
    return (at - _EPOCH_UTC) // _MICROSECOND


def moment_from(cell: int) -> datetime:
    """Return what `moment_cell` was given."""
    return _EPOCH_UTC + timedelta(microseconds=cell)


def _time_cell(value: Any) -> Any:
    if not isinstance(value, datetime):
        return _cell(value)
    return (value - _EPOCH) // _MICROSECOND if value.tzinfo is None else value.isoformat()


def _time_value(cell: Any) -> Any:
    if isinstance(cell, int):
        return _EPOCH + timedelta(microseconds=cell)
    return datetime.fromisoformat(cell) if isinstance(cell, str) else _value(cell)


def how_different(stored: Entry | RejectedEntry, entry: Entry | RejectedEntry) -> str:
    """Name the fields of a ledger row that differ; not their values, which may be confidential."""
    if type(stored) is not type(entry):
        return f"the row was {'rejected' if isinstance(stored, RejectedEntry) else 'usable'}, and is not now"
    names = [each.name for each in fields(type(entry)) if getattr(stored, each.name) != getattr(entry, each.name)]
    return f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} different"

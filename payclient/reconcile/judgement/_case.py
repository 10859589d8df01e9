"""Everything known about one row, and the sum of a payment's ledger lines."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, tzinfo
from typing import Any

from attrs import evolve, frozen

from payclient._shared.escape import quote
from payclient.protocol import Transaction
from payclient.reconcile._fields import COMPARED_FIELDS
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry
from payclient.reconcile.nights import ReferenceRecord
from payclient.reconcile.rules import Kind, Rules, in_zone
from payclient.reconcile.values import Observation, StatementSide, Status, folded, normalise


def judged_entries(entries: Sequence[Entry], transaction: Transaction | None, rules: Rules) -> Sequence[Entry]:
    if not are_parts(entries, rules) or why_not_summed(entries, rules):
        return entries
    return [payment_of(entries, rules, transaction)]


def are_parts(entries: Sequence[Entry], rules: Rules) -> bool:
    """Return whether the rows of one reference are summed. A single charge is the payment already."""
    return rules.lines.are_summed and (len(entries) > 1 or rules.lines.kind is not None)


def why_not_summed(lines: Iterable[Entry], rules: Rules) -> str:
    """Return the reason why *lines* of one reference are not one payment. Empty if they are. Read lazily."""
    # Only the status must be the same, on all charges or, without a charge, on all lines: money that is paid and money
    # that is not cannot be summed.
    firsts: dict[bool, Entry] = {}
    problems: dict[bool, str] = {}
    for line in lines:
        is_charge = rules.lines.kind_of(line.kind) in (Kind.CHARGE, None)
        first = firsts.setdefault(is_charge, line)
        if is_charge not in problems and _state(line, rules) != _state(first, rules):
            said = f"status is {_said(first)} on line {first.line} and {_said(line)} on line {line.line}"
            problems[is_charge] = said
    return problems.get(True in firsts, "")


def _state(line: Entry, rules: Rules) -> object:
    if not isinstance(line.status, str):
        return line.status
    return rules.read_status(line.status) or normalise(line.status)


def _said(line: Entry) -> str:
    return "not given" if line.status is ABSENT else quote(line.status)


def unknown_kind(lines: Iterable[Entry], rules: Rules) -> str:
    for line in lines:
        kind = rules.lines.kind_of(line.kind)
        if kind is Kind.IGNORE:
            return (
                f"kind: {quote(line.kind)} on line {line.line} is left out by rules that came after the ledger was read"
            )
        if kind is None:
            word = quote(line.kind) if isinstance(line.kind, str) else "an empty cell"
            return (
                f"kind: {word} on line {line.line} is not listed in the rules; "
                f"add it to charge, refund, fee or ignore under [lines.kind]"
            )
    return ""


def payment_of(lines: Sequence[Entry], rules: Rules, transaction: Transaction | None = None) -> Entry:
    # The result does not depend on the order of the lines, but for its line and for texts that differ: of these, the
    # a row that agrees with the service counts, else the first. A payment whose refunds come to all that was charged
    # is refunded, with the numbers of its charges.
    by_kind: dict[Kind, list[Entry]] = {kind: [] for kind in Kind}
    for line in lines:
        by_kind[rules.lines.kind_of(line.kind) or Kind.CHARGE].append(line)
    charges, refunds, fees = by_kind[Kind.CHARGE], by_kind[Kind.REFUND], by_kind[Kind.FEE]
    charged, stated = _sum(charges, "amount"), charges or lines
    is_refunded = isinstance(charged, int) and charged > 0 and charged == _sum(refunds, "amount", abs)
    if is_refunded:
        refunds = []
    received = [_sum(charges, "amount_received"), _sum(refunds, "amount_received", _taken), *map(_taken_off, fees)]
    return evolve(
        lines[0],
        kind=ABSENT,
        status=Status.REFUNDED.value if is_refunded else stated[0].status,
        amount=_total([charged, _sum(refunds, "amount", _taken)], if_none=ABSENT),
        fee=_total([_sum([*charges, *fees, *refunds], "fee"), _sum(fees, "amount", abs)]),
        amount_received=_total(received),
        created_at=_oldest([each.created_at for each in stated], rules.time_zone),
        **{name: _agreeing(stated, name, transaction, rules) for name in _MAY_DIFFER},
    )


_MAY_DIFFER = {each.name: each.at_service for each in COMPARED_FIELDS if each.may_differ}


def _taken_off(fee: Entry) -> Any:
    if fee.amount_received is ABSENT:
        return ABSENT
    return _sum([fee], "amount" if fee.amount_received is None else "amount_received", _taken)


def _taken(number: int) -> int:
    return -abs(number)


def _sum(lines: Iterable[Entry], name: str, sign: Callable[[int], int] = int) -> Any:
    values = [getattr(line, name) for line in lines]
    return _total([sign(value) if isinstance(value, int) else value for value in values])


def _total(values: Sequence[Any], *, if_none: Any = None) -> Any:
    """Return the sum of the numbers among *values*. Without any, None for empty cells, and ABSENT for no cells."""
    numbers = [value for value in values if isinstance(value, int)]
    if numbers:
        return sum(numbers)
    return if_none if None in values else ABSENT


def _oldest(times: Sequence[Any], zone: tzinfo | None) -> Any:
    """Return the earliest time: a payment is as old as its first line."""
    stated = [time for time in times if isinstance(time, datetime)]
    if not stated:
        return None if None in times else ABSENT
    return min(stated, key=lambda time: in_zone(time, zone))


def _agreeing(lines: Sequence[Entry], name: str, transaction: Transaction | None, rules: Rules) -> Any:
    values = [getattr(line, name) for line in lines]
    stated = [value for value in values if value is not None and value is not ABSENT]
    if not stated:
        return None if None in values else ABSENT
    theirs = [] if transaction is None else [getattr(transaction, each) for each in _MAY_DIFFER[name]]
    keys = [folded(each, name) for each in theirs if isinstance(each, str)]
    same = [value for value in stated if value in theirs]
    same = same or [value for value in stated if isinstance(value, str) and rules.fold(value, name) in keys]
    return (same or stated)[0]


@frozen
class PendingLookup:
    """A reference to look up, once for all ledger rows that have it. Its position is the first row's, from 1."""

    reference: str
    position: int
    entries: tuple[Entry, ...]
    earlier: ReferenceRecord | None = None  # the record of the previous run about it


@frozen(kw_only=True)
class Case:
    """
    Everything known about one row.

    Attributes:
        entry: The ledger's side.
        first: The answer to the first lookup. None without one.
        second: The answer to the second lookup.
        rows: The number of ledger rows with this reference.
        duplicated: The sum of their amounts without the smallest. None if the ledger lacks amounts.
        is_repeat: A row before this one has the same reference.
        paid_with: Other references that are paid under the same merchant_reff. The first few.
        stands: It is the smallest of the payments under this merchant_reff, so the others are at stake.
        other_found: The number of other references found in the same run.
        ended_by: The failure that ended the run early. None when it did not.
        parts: The lines of one payment, which are summed. Empty if each row is for itself. The entry is the
            first.
        apart: Reason for not summing the rows with this reference. Empty if they are summed, or never are.
        earlier: The record of the previous run about the reference. None without a previous run.
        is_carried: A row of the previous run, which the ledger does not list any more.
        other_side: The statement's lines for the reference. None without a statement.
        unusable_line: A line of the same payment that cannot be used, so that the sum is not known.
    """

    entry: Entry | RejectedEntry
    first: Observation | None = None
    second: Observation | None = None
    rows: int = 1
    duplicated: int | None = None
    is_repeat: bool = False
    paid_with: tuple[str, ...] = ()
    stands: bool = False
    other_found: int = 0
    ended_by: Observation | None = None
    parts: tuple[Entry, ...] = ()
    apart: str = ""
    unusable_line: int | None = None
    other_side: StatementSide | None = None
    earlier: ReferenceRecord | None = None
    is_carried: bool = False

    @property
    def has_left(self) -> bool:
        """Whether it matched in an earlier run, and the ledger has lost it."""
        return self.is_carried and self.earlier is not None and self.earlier.has_left

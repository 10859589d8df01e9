"""
Records of the previous run about each reference, and their effect on the rows of this one.

A journal keeps it, so that a report can be written again without the folder of the previous run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from attrs import evolve, field, frozen

from payclient._escape import quote
from payclient.ledger import Entry
from payclient.reconcile.nights._changes import BreakRecord, changes_of, ledger_fingerprint, view_of
from payclient.reconcile.rules import STRICT, Rules, as_json, from_json
from payclient.reconcile.values import (
    BreakState,
    Bucket,
    Code,
    Finding,
    FindingTotal,
    Matched,
    Observation,
    Row,
    Settled,
    Side,
    Status,
)

_NOT_PAID = frozenset({Status.PENDING, Status.CANCELED, Status.EXPIRED, Status.FAILED})


@frozen(kw_only=True)
class ReferenceRecord:
    """The record of the previous run about one reference."""

    reference: str
    breaks: tuple[BreakRecord, ...] = ()
    is_paid: bool = False
    settled: Settled | None = None  # by its statement, with those before it
    is_in_ledger: bool = True  # and not in its statement alone
    matched: Matched | None = None  # of a row that is looked up again because it matched
    remembered: str = ""  # a line for the run after this one, about a row that matched and is not looked up

    @property
    def is_known(self) -> bool:
        """Whether it says anything that matters later."""
        is_of_recheck = self.matched is not None or self.remembered
        return bool(self.breaks or self.is_paid or self.settled or not self.is_in_ledger or is_of_recheck)

    @property
    def reversal(self) -> BreakRecord | None:
        """The break of the previous run that says the payment was reversed before."""
        return next((each for each in self.breaks if each.code is Code.REVERSED and not each.is_resolved), None)


Records: TypeAlias = Callable[[Callable[[str], bool]], Iterator[tuple[ReferenceRecord, Sequence[Entry]]]]
"""
Yields each reference to remember and its entries to look up again. Args: whether today's ledger lists a reference.
"""


@frozen(kw_only=True)
class PreviousRun:
    """The run before this one."""

    run: str
    folder: str
    last_observed_at: datetime | None
    rules: Rules = STRICT
    buckets: Mapping[str, int] = field(factory=dict[str, int])
    trend: tuple[tuple[str, int], ...] = ()  # name and number of breaks of the runs before it, the oldest first
    ledger_sha256: str = ""
    rows: int = 0  # of this run's ledger; those after them in the journal are carried over
    open_findings: FindingTotal | None = None
    recheck: str = ""  # the options by which it looked up rows that matched before it
    matched: int = 0  # the number of such rows that it knew of

    @property
    def trend_with_itself(self) -> tuple[tuple[str, int], ...]:
        """The trend that a run after this one has; the last few runs of it."""
        return (*self.trend, (self.run, self.buckets.get(Bucket.BREAK, 0)))[-_MAX_TREND:]

    @property
    def label(self) -> str:
        """The day of its last answer, or else its name; for people."""
        at = self.last_observed_at
        return quote(self.folder) if at is None else f"{at.day} {_MONTHS[at.month - 1]}"


_MAX_TREND = 29
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)


def reversal(earlier: ReferenceRecord, entry: Entry, answer: Observation, rules: Rules) -> Finding | None:
    """Return the finding that a payment of the previous run is not paid any more; None if it is, or never was."""
    before, found = earlier.reversal, answer.transaction
    if earlier.matched is not None:
        change = earlier.matched.changes(found, rules.read_status)
        return None if change is None else Finding(Code.REVERSED, change[2], ledger=change[0], service=change[1])
    status = None if found is None else rules.read_status(found.status)
    if not (earlier.is_paid or before) or (found is not None and status not in _NOT_PAID):
        return None
    has_changed = before is not None and before.ledger != ledger_fingerprint(Code.REVERSED, entry)
    if has_changed and status is not None and status is rules.status_of(entry):
        return None  # it was reported, and the ledger has followed
    said = "is not known to it now" if found is None else f"is {quote(found.status)} now"
    # The same values each night, so that the break is still open and not changed.
    ours: Side = "Paid" if before is None or not before.sides else before.sides[0][0]
    sentence = f"the service had it as paid in an earlier run, and it {said}"
    return Finding(Code.REVERSED, sentence, ledger=ours, service=None if found is None else found.status)


def with_history(row: Row, earlier: ReferenceRecord, *, run: str, previous: str) -> Row:
    """Return *row* of *run* with the age of each of its breaks, as *previous* knows them."""
    if row.bucket is not Bucket.BREAK or row.reference is None:
        return row
    before = {each.code: each for each in earlier.breaks}
    is_one_of_several = any(each.code is Code.DUPLICATE_REFERENCE for each in row.findings)
    was = view_of(row.reference, (), run=previous, remembered=earlier.breaks)
    now = view_of(row.reference, (row,), run=run)
    ages = {}
    for change in changes_of(was, now):
        known, history = before.get(change.now.code), change.history
        # Of several rows with the reference, this one may say what one of them said before.
        if is_one_of_several and known is not None and not known.code.is_of_ledger and not known.is_resolved:
            is_same = set(change.now.sides) <= set(known.sides)
            history = evolve(history, state=BreakState.STILL_OPEN if is_same else BreakState.CHANGED)
        ages[change.now.code] = history
    findings = (evolve(each, history=ages[each.code]) if each.is_decisive else each for each in row.findings)
    return evolve(row, findings=tuple(findings))


def record_cell(record: ReferenceRecord) -> str:
    """Return *record* as the journal stores it: empty for a payment of the ledger alone, as most are."""
    if record == ReferenceRecord(reference=record.reference, is_paid=True):
        return ""
    fields = as_json(evolve(record, reference=""))
    return json.dumps({name: value for name, value in fields.items() if value not in ("", [], None)})


def record_from(reference: str, cell: str | None) -> ReferenceRecord:
    """Return the record from its `record_cell`; None stands for a reference that the previous run does not know."""
    if not cell:
        return ReferenceRecord(reference=reference, is_paid=cell is not None)
    return from_json({"reference": reference, **json.loads(cell)}, ReferenceRecord)

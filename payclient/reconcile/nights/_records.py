"""Records of the previous run about each reference, and what became of its breaks, compared one reference at a time.

Design rules:

- A break is identified by its reference and code, never by its line: ledgers are sorted, cut and appended to.
- What cannot be known is not known, and never resolved: an unresolved or rejected row, a reference without a lookup.
- Ages come from the answers of both runs, never from the clock of the machine that compares them.
- A journal keeps the records, so that a report can be written again without the folder of the previous run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TypeAlias

from attrs import evolve, field, frozen

from payclient._escape import quote
from payclient.ledger import COMPARED, Entry
from payclient.reconcile.rules import ACCEPTED_BY, STRICT, Rules, as_json, from_json
from payclient.reconcile.values import (
    BreakState,
    Bucket,
    Code,
    Finding,
    FindingTotal,
    History,
    Matched,
    Observation,
    ResolvedBy,
    Row,
    Settled,
    Severity,
    Side,
    Status,
)

Fields: TypeAlias = tuple[tuple[object, ...], ...]
"""The compared fields of rows, `ABSENT` for a column that is missing."""


@frozen(kw_only=True)
class BreakRecord:
    """One break of a run: a line of its memory, and what the journal of the run after it has."""

    code: Code
    severity: Severity
    sentence: str
    sides: tuple[tuple[Side, Side], ...]  # on each row of the reference that has the finding
    ledger: str  # fingerprint of the fields that the finding is about
    service: str  # the same, of the service
    first_seen: datetime | None
    first_run: str
    state: BreakState = BreakState.NEW  # RESOLVED and NOT_KNOWN are memories of a break of an earlier run
    by: ResolvedBy | None = None
    gone_for: int = 0  # runs since the one that resolved it
    at_stake: int = 0  # the sum over the rows that have it; of one about all rows, once

    @property
    def is_resolved(self) -> bool:
        """Whether it was gone in that run, or before."""
        return self.state is BreakState.RESOLVED

    @property
    def is_present(self) -> bool:
        """Whether that run has it."""
        return self.state not in (BreakState.RESOLVED, BreakState.NOT_KNOWN)


@frozen(kw_only=True)
class ReferenceView:
    """The rows of one reference in one run, for comparison with another run."""

    reference: str
    at: datetime | None
    breaks: Mapping[Code, BreakRecord]  # with those that the run remembers from earlier ones
    waived: Mapping[Code, str]
    unknown: str  # the reason why a row could not be judged; empty if all were
    has_statement: bool  # as far as the rows tell
    ledger: Fields
    service: Fields  # empty without a transaction


@frozen(kw_only=True)
class BreakChange:
    """One break in two runs."""

    reference: str
    was: BreakRecord | None  # None if it is new
    now: BreakRecord
    history: History
    why: str = ""  # it is not known; empty if it is
    is_old: bool = False  # resolved before the earlier run already, and still
    beside: int | None = None  # the largest amount at stake that the later run finds for the reference


MAX_GONE_FOR = 400
"""Runs after which a resolved break is forgotten, so that what is remembered does not grow for ever."""

_NOT_JUDGED = frozenset({Bucket.UNRESOLVED, Bucket.REJECTED})
_NOT_ASKED = "the later run has no row with this reference, and did not ask about it"
_NO_STATEMENT = "the later run has no statement"
_OTHERS_UNKNOWN = "it was paid twice, and the later run does not know what became of the other payment"


def view_of(reference: str, rows: Sequence[Row], *, run: str, remembered: Iterable[BreakRecord] = ()) -> ReferenceView:
    """Return the view that a run has of one reference, from all its *rows* in any order."""
    # Of a remembered break, the run knows more than its rows say: state and age.
    at = min((row.observed_at for row in rows if row.observed_at is not None), default=None)
    unjudged = (f"{row.bucket}: {row.reason}" for row in rows if row.bucket in _NOT_JUDGED)
    found: dict[Code, list[Finding]] = {}
    waived: dict[Code, str] = {}
    for row in rows:
        for finding in row.findings:
            if row.bucket is Bucket.BREAK and finding.is_decisive:
                found.setdefault(finding.code, []).append(finding)
            elif finding.waived:
                waived[finding.code] = finding.waived
    ledger = tuple(sorted((_compared(row.entry) for row in rows if isinstance(row.entry, Entry)), key=repr))
    service = tuple({_compared(row.transaction): 0 for row in rows if row.transaction is not None})
    breaks = {each.code: each for each in remembered}
    for code, findings in found.items():
        worst = max(findings, key=lambda each: each.severity)
        before = worst.history or breaks.get(code)
        breaks[code] = BreakRecord(
            code=code,
            severity=worst.severity,
            sentence=worst.sentence,
            sides=tuple(sorted({(each.ledger, each.service) for each in findings}, key=repr)),
            ledger=_fingerprint(code, ledger),
            service=_fingerprint(code, service),
            first_seen=at if before is None else before.first_seen,
            first_run=run if before is None else before.first_run,
            state=BreakState.NEW if before is None else before.state,
            at_stake=sum(each.at_stake or 0 for each in findings[: 1 if code.is_of_ledger else None]),
        )
    return ReferenceView(
        reference=reference,
        at=at,
        breaks=breaks,
        waived=waived,
        unknown=next(unjudged, "") if rows else _NOT_ASKED,
        has_statement=any(row.other_side is not None for row in rows),
        ledger=ledger,
        service=service,
    )


def _compared(side: object) -> tuple[object, ...]:
    return tuple(getattr(side, name) for name in COMPARED)


def changes_of(
    was: ReferenceView,
    now: ReferenceView,
    *,
    is_judged: Callable[[str], bool] = lambda _: True,
    unchanged: Collection[ResolvedBy] = (),
) -> Iterator[BreakChange]:
    """Yield the change of each break of one reference, by code."""
    # A payment made twice is gone only when the later run has judged the other reference too. What is *unchanged* as a
    # whole cannot have resolved anything.
    for code in Code:
        before, after = was.breaks.get(code), now.breaks.get(code)
        if after is not None and after.is_present:
            yield _present(before, after, now)
        elif before is not None:
            yield _absent(before, was, now, is_judged, unchanged)


def _present(was: BreakRecord | None, now: BreakRecord, view: ReferenceView) -> BreakChange:
    first, state = was or now, BreakState.NEW
    if was is not None and was.is_resolved:
        state = BreakState.REOPENED
    elif was is not None:
        is_same = (was.sides, was.at_stake) == (now.sides, now.at_stake)
        state = BreakState.STILL_OPEN if is_same else BreakState.CHANGED
    now = evolve(now, first_seen=first.first_seen, first_run=first.first_run, state=state)
    return BreakChange(reference=view.reference, was=was, now=now, history=_history(now, view.at))


def _absent(
    was: BreakRecord,
    before: ReferenceView,
    now: ReferenceView,
    is_judged: Callable[[str], bool],
    unchanged: Collection[ResolvedBy],
) -> BreakChange:
    why, then = "", evolve(was, gone_for=was.gone_for + 1)
    if not was.is_resolved:
        why = _unknown(was, now, is_judged)
        by = None if why else _resolved_by(was, now, unchanged)
        then = evolve(was, state=BreakState.NOT_KNOWN if why else BreakState.RESOLVED, by=by)
    history, is_old = _history(then, now.at or before.at), was.is_resolved
    return BreakChange(reference=before.reference, was=was, now=then, history=history, why=why, is_old=is_old)


def _unknown(was: BreakRecord, now: ReferenceView, is_judged: Callable[[str], bool]) -> str:
    """Return the reason why the state of a break is not known in the later run; empty if it is."""
    if not now.unknown and was.code.is_of_statement and not now.has_statement:
        return _NO_STATEMENT
    if now.unknown or was.code is not Code.PAID_TWICE:
        return now.unknown
    others = (other for ledger, _ in was.sides for other in str(ledger).split(", "))
    return "" if all(map(is_judged, others)) else _OTHERS_UNKNOWN


def _history(known: BreakRecord, at: datetime | None) -> History:
    age = 0
    if at is not None and known.first_seen is not None:  # by the calendar: nightly runs are one day apart, not 0.99
        age = max((at.astimezone(UTC).date() - known.first_seen.astimezone(UTC).date()).days, 0)
    return History(state=known.state, first_seen=known.first_seen, first_run=known.first_run, age_days=age)


# Why a break is gone


def _resolved_by(was: BreakRecord, now: ReferenceView, unchanged: Collection[ResolvedBy]) -> ResolvedBy:
    waiver = now.waived.get(was.code, "")
    if waiver.startswith(ACCEPTED_BY):
        return ResolvedBy.ACCEPTANCE
    may_be_ours, may_be_theirs = (side not in unchanged for side in (ResolvedBy.LEDGER, ResolvedBy.SERVICE))
    if was.code.is_of_ledger and not waiver and may_be_ours:
        return ResolvedBy.LEDGER
    if was.code.is_of_service and not waiver and may_be_theirs:
        return ResolvedBy.SERVICE
    ours = may_be_ours and was.ledger != _fingerprint(was.code, now.ledger)
    theirs = may_be_theirs and was.service != _fingerprint(was.code, now.service)
    if was.code.is_of_statement and not waiver and (may_be_ours or may_be_theirs):
        if theirs:
            return ResolvedBy.SERVICE
        return ResolvedBy.LEDGER if was.code is Code.NOT_IN_LEDGER else ResolvedBy.STATEMENT
    if was.code is Code.PAID_TWICE and not ours and not theirs and may_be_theirs:
        return ResolvedBy.SERVICE  # the other payment is no longer paid there
    if ours and theirs:
        return ResolvedBy.BOTH
    if ours or theirs:
        return ResolvedBy.LEDGER if ours else ResolvedBy.SERVICE
    return ResolvedBy.RULE


def _fingerprint(code: Code, rows: Fields) -> str:
    """Return a checksum of the fields that a finding is about, without regard to the order of rows and repetition."""
    places = [COMPARED.index(name) for name in code.fields]
    values = sorted({repr([row[place] for place in places]) for row in rows})
    return sha256(repr(values).encode()).hexdigest()[:16]


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
        return self != ReferenceRecord(reference=self.reference)


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
    found = answer.transaction
    before = next((each for each in earlier.breaks if each.code is Code.REVERSED and not each.is_resolved), None)
    if earlier.matched is not None:
        change = earlier.matched.changes(found, rules.read_status)
        return None if change is None else Finding(Code.REVERSED, change[2], ledger=change[0], service=change[1])
    status = None if found is None else rules.read_status(found.status)
    if not (earlier.is_paid or before) or (found is not None and status not in _NOT_PAID):
        return None
    has_changed = before is not None and before.ledger != _fingerprint(Code.REVERSED, (_compared(entry),))
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
    is_one_of_several = any(each.code is Code.DUPLICATE_REFERENCE for each in row.findings)
    was = view_of(row.reference, (), run=previous, remembered=earlier.breaks)
    ages = {}
    for change in changes_of(was, view_of(row.reference, (row,), run=run)):
        known, history = change.was, change.history
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

"""
Internal: the previous run and what has changed since, compared one reference at a time.

Design rules:

- A break is identified by its reference and code, never by its line: ledgers are sorted, cut and appended to.
- Unknown stays unknown, and is never resolved: an unresolved or rejected row, a reference without a lookup.
- Ages are computed from the answers of both runs, never from the clock of the machine that compares them.
- A journal keeps the records, so that a report can be written again without the folder of the previous run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from itertools import groupby
from typing import Any, TypeAlias

from attrs import define, evolve, field, frozen

from payclient._shared.escape import quote
from payclient.protocol import Transaction
from payclient.reconcile._codec import as_json, from_json
from payclient.reconcile._judgement.codes import CLOSED, Code, Severity, Status
from payclient.reconcile._judgement.findings import (
    BreakState,
    Bucket,
    Finding,
    FindingTotal,
    History,
    ResolvedBy,
    Row,
    Side,
    read_list,
)
from payclient.reconcile._judgement.rules import STRICT, RuleChange, Rules
from payclient.reconcile._judgement.sides import Observation, Settled
from payclient.reconcile.ledger import ABSENT, Entry, UnusedColumn


@frozen(kw_only=True)
class BreakRecord:
    """One break of a run: a line of its memory, and of the next run's journal."""

    code: Code
    severity: Severity
    sentence: str
    sides: tuple[tuple[Side, Side], ...]  # one pair for each row of the reference with the finding
    ledger: str  # fingerprint of the fields that the finding is about
    service: str  # the same, of the service
    first_seen: datetime | None
    first_run: str
    state: BreakState = BreakState.NEW  # RESOLVED and NOT_KNOWN are memories of a break of an earlier run
    by: ResolvedBy | None = None
    gone_for: int = 0  # runs since its resolution
    at_stake: int = 0  # the largest over the rows that have it
    since_run: str = ""  # the run that found it last after it was gone, or that saw it gone. Empty if unknown

    @property
    def is_resolved(self) -> bool:
        return self.state is BreakState.RESOLVED

    @property
    def is_open(self) -> bool:
        """Whether a later run has to look at it: unless it is gone. One that was accepted is a break again one day."""
        return not self.is_resolved or self.by is ResolvedBy.ACCEPTANCE

    @property
    def is_present(self) -> bool:
        return self.state not in (BreakState.RESOLVED, BreakState.NOT_KNOWN)


@frozen(kw_only=True)
class BreakChange:
    """One break in two runs."""

    reference: str
    was: BreakRecord | None  # None if it is new
    now: BreakRecord
    history: History
    why: str = ""  # it is not known. Empty if it is
    is_old: bool = False  # resolved before the earlier run already, and still


_NO_STATEMENT = "the later run was without a statement"
_UNJUDGED = (Bucket.UNRESOLVED, Bucket.REJECTED)

MAX_GONE_FOR = 400
"""A resolved break, and the settlement of a reference without a row, are forgotten after this many runs."""


def breaks_of(rows: Sequence[Row], *, run: str, remembered: Iterable[BreakRecord] = ()) -> dict[Code, BreakRecord]:
    """Return the breaks of one reference, from all its *rows* in any order, and the records *remembered* before."""
    # An accepted finding is one, too: resolved by that.
    breaks = {record.code: record for record in remembered}
    by_code: dict[Code, list[Finding]] = {}
    judged = (row for row in rows if row.bucket not in _UNJUDGED)
    for finding in (finding for row in judged for finding in row.findings if not finding.code.is_soft):
        if finding.is_accepted or not finding.waived:
            by_code.setdefault(finding.code, []).append(finding)
    for code, found in by_code.items():
        findings = [finding for finding in found if finding.is_decisive] or found
        worst = max(findings, key=lambda finding: finding.severity)
        before = worst.history or breaks.get(code)
        breaks[code] = BreakRecord(
            code=code,
            severity=worst.severity,
            sentence=worst.sentence,
            sides=tuple(sorted({(finding.ledger, finding.service) for finding in findings}, key=repr)),
            ledger=_fingerprint(code, _entries(rows)),
            service=_fingerprint(code, _transactions(rows)),
            first_seen=observed_at(rows) if before is None else before.first_seen,
            first_run=run if before is None else before.first_run,
            state=BreakState.RESOLVED if worst.is_accepted else BreakState.NEW if before is None else before.state,
            by=ResolvedBy.ACCEPTANCE if worst.is_accepted else None,
            since_run=run if before is None else before.since_run,
            at_stake=max(finding.at_stake or 0 for finding in findings),
        )
    return breaks


def observed_at(rows: Iterable[Row]) -> datetime | None:
    """Return the time of the first answer. None without one."""
    return min((row.observed_at for row in rows if row.observed_at is not None), default=None)


def _entries(rows: Iterable[Row]) -> Iterator[Entry]:
    return (row.entry for row in rows if isinstance(row.entry, Entry))


def _transactions(rows: Iterable[Row]) -> Iterator[Transaction]:
    return (row.transaction for row in rows if row.transaction is not None)


def _fingerprint(code: Code, sides: Iterable[object]) -> str:
    """Return a checksum of the fields that a finding is about, without regard to the order of rows and repetition."""
    values = sorted({repr([getattr(side, name) for name in code.fields]) for side in sides})
    return sha256(repr(values).encode()).hexdigest()[:16]


def changes_of(
    reference: str,
    was: Mapping[Code, BreakRecord],
    rows: Sequence[Row],
    *,
    run: str,
    before: datetime | None = None,
    is_judged: Callable[[str], bool] = lambda _: True,
    unchanged: Collection[ResolvedBy] = (),
) -> Iterator[BreakChange]:
    """Yield the change of each break of one reference by code, from an earlier run to the *rows* of *run*."""
    # Without an answer in *run*, ages count to the answer of the earlier one, *before*. A payment that was paid twice
    # is gone only when the other reference is judged too. What is *unchanged* as a whole cannot have resolved anything.
    present, at = breaks_of(rows, run=run), observed_at(rows) or before
    for code in Code:
        then, now, why, is_old = was.get(code), present.get(code), "", False
        if now is not None and now.is_present:
            first, state = then or now, BreakState.NEW
            if then is not None and then.is_resolved:
                state = BreakState.REOPENED
            elif then is not None:
                is_same = (then.sides, then.at_stake) == (now.sides, now.at_stake)
                state = BreakState.STILL_OPEN if is_same else BreakState.CHANGED
            since = then.since_run if then is not None and then.is_open else run
            now = evolve(now, first_seen=first.first_seen, first_run=first.first_run, state=state, since_run=since)
        elif then is None:
            continue
        elif not then.is_open:
            now, is_old = evolve(then, gone_for=then.gone_for + 1), True
        else:
            why, is_old = _unknown(then, rows, is_judged), then.is_resolved
            by = then.by if why else _resolved_by(then, rows, unchanged)
            state = BreakState.RESOLVED if is_old or not why else BreakState.NOT_KNOWN
            since = then.since_run if why or by is ResolvedBy.ACCEPTANCE else run
            now = evolve(then, state=state, by=by, since_run=since)
        age = 0
        if at is not None and now.first_seen is not None:  # calendar days: nightly runs are one day apart, not 0.99
            age = max((at.astimezone(UTC).date() - now.first_seen.astimezone(UTC).date()).days, 0)
        names = ("state", "first_seen", "first_run", "since_run")
        history = History(**{name: getattr(now, name) for name in names}, age_days=age)
        yield BreakChange(reference=reference, was=then, now=now, history=history, why=why, is_old=is_old)


def _unknown(was: BreakRecord, rows: Sequence[Row], is_judged: Callable[[str], bool]) -> str:
    """Return the reason why the state of a break is not known in the later run. Empty if it is."""
    if not rows:
        return "the later run did not list this reference or ask about it"
    if unjudged := next((row for row in rows if row.bucket in _UNJUDGED), None):
        return f"{unjudged.bucket}: {unjudged.reason}"
    if was.code.is_of_statement and all(row.other_side is None for row in rows):
        return _NO_STATEMENT
    if was.ledger != _fingerprint(was.code, _entries(rows)) and (why := _not_compared(was.code, rows)):
        return why
    others = (other for ledger, _ in was.sides for other in read_list(str(ledger)))
    if was.code is not Code.PAID_TWICE or all(map(is_judged, others)):
        return ""
    return "it was paid twice, and the later run does not know the state of the other payment"


def _not_compared(code: Code, rows: Sequence[Row]) -> str:
    """Return why *rows* without a finding of *code* do not show that it is gone. Empty if they do."""
    # A status that is only assumed shows nothing.
    name = code.fields[0] if len(code.fields) == 1 or code.is_of_status else ""
    if name and all(getattr(row.entry, name, None) is ABSENT for row in rows):
        return f"the later run has no column for {name}"
    for row in rows:
        expiries = getattr(row.entry, "expdate", None), getattr(row.transaction, "expdate", None)
        if code is Code.STALE_PENDING and row.bucket is Bucket.OPEN and {*expiries} <= {ABSENT, None}:
            return "the later run knows no expiry"
        for each in row.findings:
            is_empty = each.code is Code.NOT_COMPARED and getattr(row.entry, name or "line") is None
            is_half = code is Code.SHORT_RECEIVED and each.code is Code.SERVICE_ARITHMETIC and each.leakage
            if is_half or (is_empty and name not in ("fee", "status")):  # an empty one of these is compared
                return each.sentence
    return ""


def _resolved_by(was: BreakRecord, rows: Sequence[Row], unchanged: Collection[ResolvedBy]) -> ResolvedBy:
    code = was.code
    waived = next((each for row in rows for each in row.findings if each.code is code and each.waived), None)
    if waived is not None and waived.is_accepted:
        return ResolvedBy.ACCEPTANCE
    may_be_ours, may_be_theirs = (side not in unchanged for side in (ResolvedBy.LEDGER, ResolvedBy.SERVICE))
    if code is Code.LEFT_THE_LEDGER and all(row.carried_from for row in rows):
        return ResolvedBy.RULE
    if code.side in ("ledger", "service") and not waived and code.side not in unchanged:
        return ResolvedBy(code.side)
    ours = may_be_ours and was.ledger != _fingerprint(code, _entries(rows))
    theirs = may_be_theirs and was.service != _fingerprint(code, _transactions(rows))
    if code.is_of_statement and not waived and (may_be_ours or may_be_theirs):
        if theirs:
            return ResolvedBy.SERVICE
        return ResolvedBy.LEDGER if code is Code.NOT_IN_LEDGER else ResolvedBy.STATEMENT
    if code is Code.PAID_TWICE and not ours and not theirs and may_be_theirs:
        return ResolvedBy.SERVICE  # the other payment is no longer paid there
    if ours:
        return ResolvedBy.BOTH if theirs else ResolvedBy.LEDGER
    return ResolvedBy.SERVICE if theirs else ResolvedBy.RULE


@frozen(kw_only=True)
class ReferenceRecord:
    """The record of the previous run about one reference."""

    reference: str
    breaks: tuple[BreakRecord, ...] = ()
    is_paid: bool = False
    other_state: str = ""  # the service's, if it is not paid. An unknown word stays as it is
    settled: Settled | None = None  # its statement's lines, with earlier ones
    is_in_ledger: bool = True  # False if only the statement lists it
    carried_from: str = ""  # the run whose ledger or statement listed it last. Empty for the previous one
    has_left: bool = False  # the ledger, without leave
    was_rejected: bool = False  # the ledger had it as a row that cannot be used, and lists it no more
    was_in_ledger: bool = False  # an earlier one. It has no row any more
    is_waiting: bool = False  # until a statement has to list it
    gone_for: int = 0  # runs without a row that has what was settled

    @property
    def state(self) -> str:
        return Status.PAID.value if self.is_paid else self.other_state

    @property
    def by_code(self) -> Mapping[Code, BreakRecord]:
        return {record.code: record for record in self.breaks}


ListedRow: TypeAlias = tuple[str, int, int, str | None, bool]
"""
Rows of the previous ledger: reference (empty without one), number, amount, creation as text, and whether they matched.
"""

Records: TypeAlias = Callable[
    [Callable[[str], bool], Callable[[ListedRow], bool]], Iterator[tuple[ReferenceRecord, Sequence[Entry]]]
]
"""
Yields each reference to remember and its entries to look up again.

Args: whether today's ledger lists a reference, and a function that takes each row of the previous ledger, and returns
whether today's misses it.
"""


@frozen(kw_only=True)
class PreviousRun:
    """The previous run."""

    run: str
    folder: str
    last_observed_at: datetime | None
    rules: Rules = STRICT
    buckets: Mapping[str, int] = field(factory=dict[str, int])
    trend: tuple[tuple[str, int], ...] = ()  # name and number of breaks of the earlier runs, the oldest first
    ledger_sha256: str = ""
    manifest_sha256: str = ""  # when this run began. A report that shows decisions has another one
    rows_sha256: str = ""  # the hash of its rows, which never change
    rows: int = 0  # rows of this run's ledger. Later ones in the journal are carried over
    open_findings: FindingTotal | None = None
    shown: Mapping[str, tuple[str, ...]] | None = None  # shown by it and earlier runs, by kind. None if unknown
    stated: tuple[str, ...] = ()  # the fields that its ledger had a column for, and `statement` if it had one
    left_out: tuple[tuple[str, str], ...] | None = None  # not compared by it: kind and name. None if unknown

    @property
    def trend_with_itself(self) -> tuple[tuple[str, int], ...]:
        """The trend for the next run: the last few runs."""
        return (*self.trend, (self.run, self.buckets.get(Bucket.BREAK, 0)))[-29:]


def reversal(earlier: ReferenceRecord, entry: Entry, answer: Observation, rules: Rules) -> Finding | None:
    """Return the finding that a payment of the previous run is not paid any more. None if it is, or never was."""
    transaction = answer.transaction
    before = next((each for each in earlier.breaks if each.code is Code.REVERSED and each.is_open), None)
    status = None if transaction is None else rules.read_status(transaction.status)
    if not (earlier.is_paid or before) or (transaction is not None and status not in (Status.PENDING, *CLOSED)):
        return None
    has_changed = before is not None and before.ledger != _fingerprint(Code.REVERSED, (entry,))
    if has_changed and status is not None and status is rules.status_of(entry):
        return None  # it was reported, and the ledger has followed
    said = "is not known to it now" if transaction is None else f"is {quote(transaction.status)} now"
    # The same values each night, so that the break is still open and not changed.
    ours: Side = "Paid" if before is None or not before.sides else before.sides[0][0]
    sentence = f"the service had it as paid in an earlier run, and it {said}"
    return Finding(Code.REVERSED, sentence, ledger=ours, service=None if transaction is None else transaction.status)


def with_history(
    row: Row, earlier: ReferenceRecord | None, *, run: str, is_judged: Callable[[str], bool] = lambda _: True
) -> Row:
    """
    Return *row* of *run* with the age of each of its breaks, as the previous run knows them.

    A row that matches stays open while the run does not know what it was followed for: without a statement, or the
    column of a break.
    """
    if earlier is None or row.reference is None:
        return row
    is_followed = row.bucket is Bucket.MATCHED and (earlier.breaks or earlier.is_waiting)
    if row.bucket is not Bucket.BREAK and not is_followed:
        return row
    is_one_of_several = any(finding.code is Code.DUPLICATE_REFERENCE for finding in row.findings)
    is_waiting = earlier.is_waiting and row.other_side is None and row.service_status is Status.PAID
    ages, why = dict[Code, History](), _NO_STATEMENT if is_waiting else ""
    for change in changes_of(row.reference, earlier.by_code, (row,), run=run, is_judged=is_judged):
        before, history, why = change.was, change.history, why or change.why
        # If several rows have the reference, this one may have the values that another one had before.
        if is_one_of_several and before is not None and before.code.side != "ledger" and not before.is_resolved:
            is_same = set(change.now.sides) <= set(before.sides)
            history = evolve(history, state=BreakState.STILL_OPEN if is_same else BreakState.CHANGED)
        ages[change.now.code] = history
    if is_followed:
        return evolve(row, bucket=Bucket.OPEN, reason=why) if why else row
    findings = (evolve(each, history=ages[each.code]) if each.is_decisive else each for each in row.findings)
    return evolve(row, findings=tuple(findings))


def record_cell(record: ReferenceRecord) -> str:
    """Return *record* as the journal stores it: empty for a payment only of the ledger, as most are."""
    if record == ReferenceRecord(reference=record.reference, is_paid=True):
        return ""
    fields = as_json(evolve(record, reference=""))
    return json.dumps({name: value for name, value in fields.items() if value not in ("", [], None)})


def record_from(reference: str, cell: str | None) -> ReferenceRecord:
    """Return the record from its `record_cell`. None stands for a reference that the previous run does not know."""
    if not cell:
        return ReferenceRecord(reference=reference, is_paid=cell is not None)
    return from_json({"reference": reference, **json.loads(cell)}, ReferenceRecord)


@frozen
class RowTotal:
    """A number of ledger rows and the sum of their amounts."""

    rows: int = 0
    amount: int = 0

    def __add__(self, other: RowTotal) -> RowTotal:
        return RowTotal(self.rows + other.rows, self.amount + other.amount)

    def __sub__(self, other: RowTotal) -> RowTotal:
        return RowTotal(self.rows - other.rows, self.amount - other.amount)


@frozen(kw_only=True)
class LedgerChange:
    """The rows of the ledger next to the previous run: `before + new - left = now`, amounts with `changed`."""

    before: RowTotal = RowTotal()
    new: RowTotal = RowTotal()
    left: RowTotal = RowTotal()
    changed: int = 0  # rows in both, with other values
    now: RowTotal = RowTotal()
    missing: RowTotal = RowTotal()  # rows that left, matched before and within the time that the ledger still covers
    references: tuple[str, ...] = ()  # the first of these
    nameless: tuple[int, ...] = ()  # amounts of the first rows that left without a reference to follow them by
    covers_from: datetime | None = None  # the first creation in the ledger. None if no row has one


def ledger_change(rows: Iterable[Sequence[Any]], covers_from: datetime | None) -> LedgerChange:
    """Return the change from *rows* in order: reference, is_now, number, amount, and whether it is missing if gone."""
    totals = {name: RowTotal() for name in ("before", "new", "left", "now", "missing")}
    changed, references, nameless = 0, list[str](), list[int]()
    for (reference, of), group in groupby(rows, key=lambda row: (row[0], not row[0] and int(row[3] or 0))):
        sides, is_missing = [RowTotal(), RowTotal()], True
        for _, is_now, number, amount, may_be_missed in group:
            sides[is_now] += RowTotal(number, int(amount or 0))
            is_missing = is_missing and bool(may_be_missed)
        more = sides[1] - sides[0]
        totals["before"] += sides[0]
        totals["now"] += sides[1]
        if more.rows:
            totals["new" if more.rows > 0 else "left"] += more if more.rows > 0 else RowTotal() - more
        else:
            changed += more.amount
        if not reference:
            nameless += [of] * min(-more.rows, 20 - len(nameless))
        elif is_missing:
            totals["missing"] += sides[0]
            references += [reference][: 20 - len(references)]
    return LedgerChange(
        **totals, changed=changed, references=tuple(references), nameless=tuple(nameless), covers_from=covers_from
    )


@define
class Answers:
    """A number of rows, and the times of the first and the last answer to them."""

    rows: int = 0
    oldest_at: datetime | None = None
    newest_at: datetime | None = None

    def add(self, first: datetime, last: datetime) -> None:
        self.rows += 1
        self.oldest_at = first if self.oldest_at is None else min(self.oldest_at, first)
        self.newest_at = last if self.newest_at is None else max(self.newest_at, last)


@frozen(kw_only=True)
class SincePrevious:
    """The changes since the previous run, apart from its breaks."""

    previous: PreviousRun
    carried: Mapping[Bucket, int]  # rows dropped from the ledger since, by current bucket
    changed_rules: tuple[str, ...] = ()
    rule_changes: tuple[RuleChange, ...] = ()
    changed_by: str = ""  # as the rules name it
    reused: Answers = field(factory=Answers)  # rows that were not looked up
    ledger: LedgerChange | None = None  # None if the rows of the previous run are not known

    @property
    def carried_rows(self) -> int:
        return sum(self.carried.values())


# What the service shows first

_MAX_LENGTH = 80
_MAX_KNOWN = 1_000
"""Limit of each kind. A service that shows more does not use words."""
_MAX_WORDS = 20
"""Limit of each column that is not used. A column with more words lists names, and a new name is meaningless."""
_MANY = {"(many values)": 0}
"""Stands for amounts, and for more words than the limit. Only the first run that has them names them."""
_OF_COLUMN = ": "


class Sight(StrEnum):
    """
    Something that the service shows.

    Attributes:
        STATUS: A word of status.
        METHOD: A short code of a payment method.
        DEVIATION: A kind of deviation from the specification.
        ERROR: An error of a lookup that remained after all retries.
        TRANSITION: A payment had one state in the previous run, and has another now.
        WORD: A word in a column of the ledger or the statement that is not used.
    """

    STATUS = "status"
    METHOD = "method"
    DEVIATION = "deviation"
    ERROR = "error"
    TRANSITION = "transition"
    WORD = "word"


@frozen(kw_only=True)
class FirstSeen:
    """Something that no earlier run has shown, with the payments that show it and their amount, if it is not a word."""

    kind: Sight
    value: str
    rows: int
    amount: int

    @property
    def column(self) -> str:
        """The column of a word."""
        return self.value.partition(_OF_COLUMN)[0]


@define
class Shown:
    """Counts what the service shows in the rows of one run. Memory does not grow with them."""

    _counts: dict[Sight, dict[str, list[int]]] = field(init=False, factory=lambda: {kind: {} for kind in Sight})

    def add(self, row: Row) -> None:
        if row.is_repeat or row.reused_from:
            return
        amount = (row.service_amount if row.transaction is not None else row.ledger_amount) or 0
        for kind, value in _sights(row):
            counts, short = self._counts[kind], value[:_MAX_LENGTH]
            if len(counts) < _MAX_KNOWN or short in counts:
                count = counts.setdefault(short, [0, 0])
                count[0] += 1
                count[1] += amount

    def set_words(self, columns: Iterable[UnusedColumn]) -> None:
        """Set the words of the unused columns. The column stands before each word."""
        self._counts[Sight.WORD] = {
            f"{column.name[:_MAX_LENGTH]}{_OF_COLUMN}{word[:_MAX_LENGTH]}": [rows, 0]
            for column in columns
            for word, rows in (column.words if 0 < len(column.words) <= _MAX_WORDS else _MANY).items()
        }

    def known(self, before: Mapping[str, tuple[str, ...]] | None) -> Mapping[str, tuple[str, ...]]:
        """Return what this run and the runs *before* have shown, by kind, for the next run."""
        earlier = before or {}
        return {
            kind.value: tuple(sorted({*earlier.get(kind.value, ()), *counts})[:_MAX_KNOWN])
            for kind, counts in self._counts.items()
        }

    def first(self, before: Mapping[str, tuple[str, ...]] | None) -> Iterator[FirstSeen]:
        """Yield the parts that no earlier run has shown, the most rows first. Nothing if *before* is unknown."""
        for kind, counts in self._counts.items():
            known = None if before is None else before.get(kind.value)
            if known is not None and len(known) < _MAX_KNOWN:
                of_word = known if kind is Sight.WORD else ()
                of_column = Counter(value.partition(_OF_COLUMN)[0] for value in of_word)
                new = (
                    (value, count)
                    for value, count in counts.items()
                    if value not in known and of_column[value.partition(_OF_COLUMN)[0]] < _MAX_WORDS
                )
                for value, (rows, amount) in sorted(new, key=lambda each: (-each[1][0], each[0])):
                    yield FirstSeen(kind=kind, value=value, rows=rows, amount=amount)


def _sights(row: Row) -> Iterator[tuple[Sight, str]]:
    transaction = row.transaction
    if row.error:
        yield Sight.ERROR, row.error
    if transaction is None:
        return
    if transaction.status:
        yield Sight.STATUS, transaction.status
    if transaction.payment_method:
        yield Sight.METHOD, transaction.payment_method
    for deviation in dict.fromkeys(transaction.deviations):
        yield Sight.DEVIATION, deviation
    if row.state_before:
        yield Sight.TRANSITION, f"{row.state_before} → {row.state}"

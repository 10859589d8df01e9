"""Internal: the figures of a report, added up row by row."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar
from weakref import finalize

from attrs import define, evolve, field

from payclient.reconcile._fields import COMPARED, COMPARED_FIELDS
from payclient.reconcile._judgement import causes, records
from payclient.reconcile._judgement import summary as result
from payclient.reconcile._judgement.codes import BridgeStep, Code, Difference, PatternKind, Severity, Status, Step
from payclient.reconcile._judgement.decisions import Decision, Decisions, Key
from payclient.reconcile._judgement.errors import TieOutError
from payclient.reconcile._judgement.findings import BreakState, Bucket, Finding, FindingTotal, Origin, Row
from payclient.reconcile._judgement.records import RowTotal
from payclient.reconcile._judgement.rule_values import in_zone
from payclient.reconcile._judgement.rules import STRICT, Accepted, Rules, changed_rules, rule_changes
from payclient.reconcile._judgement.sides import StatementTotals
from payclient.reconcile._judgement.summary import AcceptanceState
from payclient.reconcile.ledger import ABSENT, Entry

Value: TypeAlias = str | int | None

# Amounts are text, because they may have more than 64 bits.
_TABLES = (
    "postings (reference, part, code, severity, age, amount TEXT)",
    "causes (cause, reference, line, at_stake TEXT)",
)
_POST = "INSERT INTO postings VALUES (?, ?, ?, ?, ?, ?)"
_SHARE = "INSERT INTO causes VALUES (?, ?, ?, ?)"

_OF_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def temporary_database(*tables: str, folder: Path | None = None) -> sqlite3.Connection:
    """Open a database with *tables* that is not kept, in *folder* or else with the temporary files of SQLite."""
    path = "" if folder is None else folder / "tables.sqlite"
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for statement in (
        *("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA cache_size = -16384"),  # KiB
        *(f"CREATE TABLE {table}" for table in tables),
        "BEGIN",
    ):
        database.execute(statement)
    return database


@contextmanager
def _disk_faults() -> Generator[None]:
    """Raise a fault of the disk as an `OSError`, as the files of a report do. Other errors are bugs."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _OF_THE_DISK:
            raise
        raise OSError(f"the temporary tables of the report cannot be written: {error}") from error


FIELDS = ("amount", "status", *(name for name in COMPARED if name not in ("amount", "status")))
"""The fields that are compared, in the order of reports."""

_TEXTS = frozenset(column.name for column in COMPARED_FIELDS if column.is_text)
_fields_of = attrgetter(*FIELDS)
_MAX_METHODS = 1_000
_MAX_METHOD_LENGTH = 80
_MIN_ROWS = 20
_MIN_SHARE = 20  # a pattern explains at least one in this number of breaks
_MAX_SHOWN = 20
_ALL_USED = result.Compared()

_OPENING, _CHANGED = "opening", "changed amount"
"""The parts of the roll-forward of open findings other than the states."""
_OPEN = tuple(state for state in BreakState if state is not BreakState.RESOLVED)
_NEWS = tuple(state for state in BreakState if state.is_news)

_Step = TypeVar("_Step", bound=BridgeStep)

_POSTINGS = "SELECT reference, part, code, severity, age, amount FROM postings ORDER BY reference, part, code, rowid"
_CAUSES = """
    SELECT cause, reference, at_stake FROM causes
    WHERE cause IN (SELECT cause FROM causes GROUP BY cause HAVING count(*) >= ?) ORDER BY cause, reference
"""


@define
class Span:
    """A number of answers, and the times of the first and the last one."""

    count: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def add(self, first: datetime, last: datetime) -> None:
        self.count += 1
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)


@define
class Tally:
    """
    The rows of a report, in the order of the ledger, and its summary.

    Args:
        decisions: Without the accepted differences, which are among the rules.
        folder: Where the temporary file of the breaks lies. None for the system's folder of such files.

    Note:
        The breaks are kept in that file until the tally is gone. Memory does not grow with the rows.

    Raises:
        OSError: When the file cannot be written. By every method.
    """

    _rules: Rules = STRICT
    _decisions: Decisions = field(factory=dict[Key, Decision])
    _previous: records.PreviousRun | None = None
    _folder: Path | None = None
    _database: sqlite3.Connection = field(init=False)
    close: Callable[[], object] = field(init=False)  # otherwise done together with the object
    _acceptances: dict[str, dict[Accepted, AcceptanceState]] = field(init=False, factory=dict)  # keys are references
    _shown: records.Shown = field(init=False, factory=records.Shown)
    _still_there: dict[Key, Decision] = field(init=False, factory=dict)
    _times: tuple[tuple[datetime, datetime], ...] = field(init=False, default=())  # first and last: instant, as written
    _answers: Span = field(init=False, factory=Span)
    _reused: Span = field(init=False, factory=Span)
    # Keys are attributes of the result that they go to.
    _counts: Counter[str] = field(init=False, factory=Counter)
    _of_lines: Counter[str] = field(init=False, factory=Counter)
    _not_compared: dict[str, Any] = field(init=False, factory=Counter[str])
    _without_amount: int = field(init=False, default=0)
    _origins: Counter[Origin] = field(init=False, factory=Counter)
    _carried: Counter[Bucket] = field(init=False, factory=Counter)
    _breaks: Counter[Severity] = field(init=False, factory=Counter)
    _buckets: defaultdict[Bucket, result.Total] = field(init=False, factory=lambda: defaultdict(result.Total))
    _codes: defaultdict[Code, result.Total] = field(init=False, factory=lambda: defaultdict(result.Total))
    _steps: dict[Step, Difference[Step]] = field(init=False)
    _moves: dict[causes.SettlementStep, Difference[causes.SettlementStep]] = field(init=False)
    _states: defaultdict[Status | None, Counter[str]] = field(init=False, factory=lambda: defaultdict(Counter[str]))
    _compared: Counter[str] = field(init=False, factory=Counter)  # has a field if the ledger has it
    _leakage: dict[str, Counter[str]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        with _disk_faults():
            self._database = temporary_database(*_TABLES, folder=self._folder)
        self.close = finalize(self, self._database.close)
        self._steps = {step: Difference(step=step) for step in Step}
        self._moves = {step: Difference(step=step) for step in causes.SettlementStep}
        for acceptance in self._rules.accepted:
            self._acceptances.setdefault(acceptance.reference, {})[acceptance] = AcceptanceState.MET_NO_ROW

    def _insert(self, query: str, rows: Iterable[tuple[Value, ...]]) -> None:
        with _disk_faults():
            self._database.executemany(query, rows)

    def _select(self, query: str, *values: Value) -> Iterator[Any]:
        with _disk_faults():
            yield from self._database.execute(query, values)

    def add(self, row: Row) -> None:
        self._shown.add(row)
        self._add_money(row)
        self._add_answers(row)
        self._add_leakage(row)
        origin = row.origin
        self._origins[origin] += 1
        self._carried[row.bucket] += origin is Origin.CARRIED
        if origin is Origin.LEDGER:
            self._add_lines(row)
        if row.bucket is Bucket.BREAK:
            self._add_break(row)
        states = self._acceptances.get(row.reference or "", {})
        for acceptance, state in states.items():
            states[acceptance] = min(state, _state_of(acceptance, row, self._rules), key=list(AcceptanceState).index)

    def _add_money(self, row: Row) -> None:
        total = result.Total.of(row)
        self._buckets[row.bucket] += total
        for code in {finding.code for finding in row.findings}:
            self._codes[code] += total
        _move(self._steps, causes.step_of(row), total.paid_difference)
        for step, amount in causes.settlement_moves(row):
            _move(self._moves, step, amount)
        if causes.is_counted(row):
            self._states[row.service_status]["service_rows"] += 1
            self._states[row.service_status]["service_amount"] += total.service_amount

    def _add_answers(self, row: Row) -> None:
        self._counts["tolerated"] += row.is_tolerated
        self._counts["material"] += row.is_material
        self._counts["changed_during_run"] += row.is_changed_during_run
        self._counts["lacking_probe"] += row.lacks_probe
        if row.observed_at is not None:
            span = self._reused if row.reused_from else self._answers
            span.add(row.observed_at, row.confirmed_at or row.observed_at)

    def _add_leakage(self, row: Row) -> None:
        lost = [finding for finding in row.findings if finding.leakage and not finding.waived]
        if lost and row.transaction is not None and not row.is_repeat:
            method = (row.transaction.payment_method or "")[:_MAX_METHOD_LENGTH]
            name = method if method in self._leakage or len(self._leakage) < _MAX_METHODS else "(other)"
            of_method = self._leakage.setdefault(name, Counter())
            of_method["rows"] += 1
            for finding in lost:
                what = "possible" if finding.code is Code.SERVICE_ARITHMETIC else finding.code.value
                of_method[what] += finding.leakage

    def _add_lines(self, row: Row) -> None:
        """Add a row of the ledger: its lines, their times, and the fields that are compared."""
        self._states[row.ledger_status]["ledger_rows"] += 1
        self._states[row.ledger_status]["ledger_amount"] += row.ledger_amount or 0
        self._without_amount += row.ledger_amount is None
        lines = row.parts or (row.entry,)
        self._counts["lines"] += len(lines)
        created = [line.created_at for line in lines if isinstance(line, Entry)]
        times = [(in_zone(at, self._rules.time_zone), at) for at in created if isinstance(at, datetime)]
        self._of_lines["lines"] += len(times)
        self._of_lines["without"] += (0 if row.bucket is Bucket.REJECTED else len(lines)) - len(times)
        if times:
            times = [*self._times, *times]
            self._times = min(times, key=itemgetter(0)), max(times, key=itemgetter(0))
        if not isinstance(row.entry, Entry):
            return
        for name, cell in zip(FIELDS, _fields_of(row.entry), strict=True):
            if cell is not ABSENT:
                # A dash cannot be compared, and an empty fee is 0.
                has_value = name == "fee" if cell is None else name not in _TEXTS or any(map(str.isalnum, cell))
                self._compared[name] += has_value and row.transaction is not None
        if row.transaction is not None and row.entry.status is ABSENT:
            is_assumed = row.ledger_status is not None
            self._not_compared["assumed_paid"] += is_assumed
            self._not_compared["status_left_out"] += not is_assumed
            self._not_compared["not_paid"] += not is_assumed and row.service_status is not Status.PAID

    def _add_break(self, row: Row) -> None:
        self._breaks[row.severity] += 1
        shared = (json.dumps(cause) for cause in dict.fromkeys(causes.causes(row)))
        self._insert(_SHARE, ((cause, row.reference, row.line, str(row.at_stake)) for cause in shared))
        decisive = [finding for finding in row.findings if finding.is_decisive]
        new = (finding for finding in decisive if finding.history is None or finding.history.state is BreakState.NEW)
        self._insert(_POST, (_posting(BreakState.NEW, row.reference, finding, finding.at_stake) for finding in new))
        for key in ((row.reference or "", finding.code.value) for finding in decisive):
            if (decision := self._decisions.get(key)) is not None and decision.is_due:
                self._still_there[key] = decision

    def add_change(self, change: records.BreakChange) -> None:
        """Count a break, unless it was resolved before."""
        was, now, history = change.was, change.now, change.history
        if change.is_old:
            return
        postings = [_posting(history.state, change.reference, now, now.at_stake, history.age_days)]
        self._counts["newly_unknown"] += was is not None and was.is_present and not now.is_present and bool(change.why)
        if was is not None and not was.is_resolved:
            postings.append(_posting(_OPENING, change.reference, was, was.at_stake))
        if was is not None and history.state is BreakState.CHANGED:
            postings.append(_posting(_CHANGED, change.reference, now, now.at_stake - was.at_stake))
        self._insert(_POST, postings)

    def summary(
        self,
        statement: StatementTotals | None = None,
        *,
        payout: int | None = None,
        columns: Collection[str] = (),
        left_out: result.Compared = _ALL_USED,
        ledger_change: records.LedgerChange | None = None,
    ) -> result.Summary:
        """Return the result. *columns* are the used fields, and a verdict has to name what is *left_out*."""
        since = before = None
        if self._previous is not None:
            since, before = self._since(self._previous, ledger_change), self._previous.shown
        compared = self._with_comparisons(left_out, columns)
        self._shown.set_words((*compared.unused, *compared.unused_in_statement, *compared.ignored))
        first_seen = [*self._shown.first(before)]
        words = [sight for sight in first_seen if sight.kind is records.Sight.WORD]
        oldest, newest = (written for _, written in self._times) if self._times else (None, None)
        return result.Summary(
            rows=self._origins[Origin.LEDGER],
            period=result.Period(first=oldest, last=newest, **self._of_lines),
            buckets=MappingProxyType({bucket: self._buckets[bucket] for bucket in Bucket}),
            codes=MappingProxyType({code: self._codes[code] for code in Code if code in self._codes}),
            breaks=MappingProxyType({severity: self._breaks[severity] for severity in reversed(Severity)}),
            open_findings=self.open_findings(),
            **self._counts,
            first_observed_at=self._answers.first,
            last_observed_at=self._answers.last,
            tie_out=self._tie_out(),
            compared=evolve(compared, news=tuple(self._newly_left_out(compared, words))),
            leakage=tuple(result.Leakage(method=method, **sums) for method, sums in sorted(self._leakage.items())),
            acceptances=tuple(self._notices()),
            patterns=self._patterns(),
            still_there=tuple(self._still_there.values()),
            since=since,
            shown=self._shown.known(before),
            first_seen=tuple(sight for sight in first_seen if sight not in words),
            settlement=None if statement is None else self._settlement(statement, payout),
        )

    def open_findings(self) -> result.OpenFindings:
        """Return the roll-forward, from the closing total of the previous run, if it has one."""
        by_part, by_code, by_age = (defaultdict[str, FindingTotal](FindingTotal) for _ in range(3))
        news, payments = Counter[Severity](), FindingTotal()
        for _, of_payment in groupby(self._select(_POSTINGS), key=itemgetter(0)):
            at_stake: list[int] = []
            for (part, code), rows in groupby(of_payment, key=itemgetter(1, 2)):
                # Any number of rows may list a payment: it is at stake once, with the largest amount.
                *_, severity, age, first = next(rows)
                total = FindingTotal(1, max(int(amount) for amount in chain([first], map(itemgetter(5), rows))))
                by_part[part] += total
                news[severity] += part in _NEWS
                if part in _OPEN:
                    by_code[code] += total
                    by_age[age] += total
                    at_stake.append(total.amount)
            payments += FindingTotal(1, max(at_stake)) if at_stake else FindingTotal()
        stated = None if self._previous is None else self._previous.open_findings
        by_state = {state: by_part[state] for state in BreakState}
        found = result.OpenFindings(
            opening=by_part[_OPENING] if stated is None else stated,
            new=by_state[BreakState.NEW],
            reopened=by_state[BreakState.REOPENED],
            resolved=by_state[BreakState.RESOLVED],
            changed=by_part[_CHANGED],
            closing=sum((by_state[state] for state in _OPEN), FindingTotal()),
            by_state=MappingProxyType(by_state),
            by_code=MappingProxyType({code: by_code[code] for code in Code if code in by_code}),
            by_age=MappingProxyType({age: by_age[age] for age in result.AGES}),
            payments=payments,
            news=MappingProxyType({severity: news[severity] for severity in reversed(Severity)}),
        )
        steps = found.opening + found.new + found.reopened - found.resolved + FindingTotal(0, found.changed.amount)
        if steps != found.closing:
            raise TieOutError(f"the roll-forward does not tie: it leads to {steps}, and {found.closing} is open")
        return found

    def _notices(self) -> Iterator[result.AcceptanceNotice]:
        for each in self._rules.accepted:
            state = self._acceptances[each.reference][each]
            is_settled = state is AcceptanceState.MET_NO_ROW and (each.reference, each.code.value) in self._decisions
            needs_review = state not in (AcceptanceState.HOLDS, AcceptanceState.UNKNOWN)
            if needs_review and not is_settled:  # a decision cannot be removed from the rules
                yield result.AcceptanceNotice(each, state)

    def _tie_out(self) -> causes.TieOut:
        states = {state: causes.StateTotal(**self._states[state]) for state in (*Status, None)}
        bridge = causes.TieOut(
            ledger_paid_total=states[Status.PAID].ledger_amount,
            steps=tuple(self._steps.values()),
            service_paid_total=states[Status.PAID].service_amount,
            rows_without_amount=self._without_amount,
            states=MappingProxyType(states),
        )
        if sum(step.rows for step in bridge.steps) != sum(total.rows for total in self._buckets.values()):
            raise TieOutError("the report does not tie: the steps have other rows than the buckets")
        if bridge.residual:
            message = f"the report does not tie: {bridge.residual} of {bridge.ledger_paid_total} is not explained"
            raise TieOutError(message)
        if any(step.added or step.taken_off for step in bridge.steps if step.step is Step.MATCHED):
            raise TieOutError("the report does not tie: rows that matched have other amounts at the service")
        return bridge

    def _settlement(self, statement: StatementTotals, payout: int | None) -> causes.Settlement:
        moves = dict(self._moves)
        _move(moves, causes.SettlementStep.FEES, statement.fee_amount, statement.fee_lines)
        _move(moves, causes.SettlementStep.REJECTED, statement.rejected_amount, statement.rejected_lines)
        bridge = causes.Settlement(
            service_paid_total=sum(total.service_paid for total in self._buckets.values()),
            steps=tuple(moves.values()),
            statement=statement,
            not_in_ledger=self._origins[Origin.STATEMENT],
            payout=payout,
        )
        if bridge.residual:
            raise TieOutError(f"the statement does not tie: {bridge.residual} of {statement.total} is not explained")
        payouts = sum(part.net for part in statement.payouts)
        if payouts != statement.total or any(part.residual for part in statement.payouts):
            raise TieOutError(f"the payouts do not tie: their sum is {payouts}, and the statement's {statement.total}")
        return bridge

    def _newly_left_out(
        self, compared: result.Compared, words: Iterable[records.FirstSeen]
    ) -> Iterator[tuple[str, str]]:
        """Yield what the previous run compared, or did not have, and is not compared now."""
        previous, new = self._previous, list[tuple[str, str]]()
        if previous is not None and previous.left_out is not None:
            gone = [(result.LEFT_OUT_FIELD, name) for name in previous.stated if name not in compared.stated]
            new = [fact for fact in dict.fromkeys((*compared.left_out, *gone)) if fact not in previous.left_out]
        named = {name for _, name in new}
        yield from new
        yield from ((word.kind.value, word.value) for word in words if word.column not in named)

    def _with_comparisons(self, left_out: result.Compared, columns: Collection[str]) -> result.Compared:
        return evolve(
            left_out,
            fields=MappingProxyType({name: self._compared[name] for name in FIELDS}),
            stated=tuple(name for name in FIELDS if name in self._compared or name in columns),
            **self._not_compared,
        )

    def _since(self, previous: records.PreviousRun, ledger: records.LedgerChange | None) -> records.SincePrevious:
        if ledger is not None and self._rules.may_leave:
            ledger = evolve(ledger, missing=RowTotal(), references=())
        return records.SincePrevious(
            previous=previous,
            carried=MappingProxyType({bucket: self._carried[bucket] for bucket in Bucket}),
            changed_rules=changed_rules(previous.rules, self._rules),
            rule_changes=rule_changes(previous.rules, self._rules),
            changed_by=self._rules.meta.changed_by,
            reused=self._reused.count,
            oldest_reused_at=self._reused.first,
            newest_reused_at=self._reused.last,
            ledger=ledger,
        )

    def _patterns(self) -> tuple[causes.Pattern, ...]:
        least = max(_MIN_ROWS, -(-self._buckets[Bucket.BREAK].rows // _MIN_SHARE))
        patterns: list[causes.Pattern] = []
        for cause, found in groupby(self._select(_CAUSES, least), key=itemgetter(0)):
            rows = amount = 0
            for _, of_payment in groupby(found, key=itemgetter(1)):
                stakes = [int(at_stake) for *_, at_stake in of_payment]
                rows, amount = rows + len(stakes), amount + max(stakes)
            kind, *values = json.loads(cause)
            lines = self._select("SELECT line FROM causes WHERE cause = ? ORDER BY rowid LIMIT 3", cause)
            patterns.append(causes.Pattern(PatternKind(kind), tuple(values), rows, amount, tuple(chain(*lines))))
        patterns.sort(key=lambda each: (-each.rows, list(PatternKind).index(each.kind)))
        return tuple(patterns[:_MAX_SHOWN])


def _state_of(accepted: Accepted, row: Row, rules: Rules) -> AcceptanceState:
    at = row.confirmed_at or row.observed_at
    finding = next((finding for finding in row.findings if finding.code is accepted.code), None)
    if row.bucket is Bucket.UNRESOLVED:
        return AcceptanceState.UNKNOWN
    if finding is None or at is None:
        return AcceptanceState.MET_NO_ROW
    days = accepted.days_left(at, rules.time_zone)
    if not finding.waived:
        return AcceptanceState.ENDED if days < 0 else AcceptanceState.CHANGED
    if not finding.is_accepted or days > 7:
        return AcceptanceState.HOLDS
    return AcceptanceState.ENDS_SOON


def _posting(
    part: str, reference: str | None, finding: Finding | records.BreakRecord, amount: int | None, days: int = 0
) -> tuple[Value, ...]:
    age = next(age for age, last in result.AGES.items() if last is None or days <= last)
    return reference, part, finding.code, int(finding.severity), age, str(amount or 0)


def _move(steps: dict[_Step, Difference[_Step]], step: _Step, amount: int, rows: int = 1) -> None:
    before = steps[step]
    added, taken_off = before.added + max(amount, 0), before.taken_off + min(amount, 0)
    steps[step] = Difference(step=step, rows=before.rows + rows, added=added, taken_off=taken_off)

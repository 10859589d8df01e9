"""The figures of a report, as queries on the tables of its rows."""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from attrs import define, evolve, field

from payclient.reconcile.ledger import UnusedColumn
from payclient.reconcile.nights import (
    BreakChange,
    BreakRecord,
    Decision,
    Decisions,
    Key,
    LedgerChange,
    PreviousRun,
    RowTotal,
    Shown,
    SincePrevious,
)
from payclient.reconcile.result._bridges import Settlement, SettlementStep, StateTotal, TieOut
from payclient.reconcile.result._patterns import MAY_BE_LATE, Cause, Pattern, are_alike, described
from payclient.reconcile.result._summary import (
    AGES,
    REMARKS,
    AcceptanceNotice,
    AcceptanceState,
    Compared,
    Leakage,
    OpenFindings,
    Period,
    Summary,
    Total,
)
from payclient.reconcile.result._tables import FIELDS, TOTAL, ResultTables, Value, creations, stored
from payclient.reconcile.rules import STRICT, Accepted, Rules, changed_rules, in_zone, rule_changes
from payclient.reconcile.values import (
    BreakState,
    BridgeStep,
    Bucket,
    Code,
    Difference,
    Finding,
    FindingTotal,
    PatternKind,
    Row,
    Severity,
    StatementTotals,
    Status,
    Step,
    TieOutError,
)

# ruff: noqa: S608  no text of a stranger is in a query; what is put together are names of columns

_MAX_METHODS = 1_000
_MIN_ROWS = 20
_MIN_SHARE = 20
"""The part of the breaks that a pattern explains at least, as one divided by this."""
_MIN_LIFT = 3
_MAX_SHOWN = 20
_MAX_LINES = 3
_SOON_DAYS = 7

_OPENING, _CHANGED = "opening", "changed amount"
"""The parts of the roll-forward of open findings other than the states."""
_OPEN = tuple(state for state in BreakState if state is not BreakState.RESOLVED)
_NEWS = tuple(state for state in BreakState if state.is_news)

_Step = TypeVar("_Step", bound=BridgeStep)

_COUNTS = """
    SELECT coalesce(sum(lines) FILTER (WHERE origin = 'ledger'), 0), coalesce(sum(dated), 0),
        coalesce(sum(lines) FILTER (WHERE origin = 'ledger' AND bucket <> 'rejected'), 0),
        coalesce(sum(is_tolerated), 0),
        coalesce(sum(is_changed), 0), coalesce(sum(lacks_probe), 0),
        min(observed_at) FILTER (WHERE NOT is_reused), max(last_at) FILTER (WHERE NOT is_reused)
    FROM rows
"""
_COMPARED = f"""
    SELECT {", ".join(f"coalesce(sum(compared >> {place} & 1), 0)" for place in range(len(FIELDS)))},
        {", ".join(f"coalesce(max(stated >> {place} & 1), 0)" for place in range(len(FIELDS)))},
        count(*) FILTER (WHERE scope = 'assumed'), count(*) FILTER (WHERE scope = 'left_out'),
        count(*) FILTER (WHERE scope = 'left_out' AND service_status IS NOT 'paid')
    FROM rows
"""
_CODES = """
    SELECT code, count(*), exact(ledger_amount), exact(service_amount), exact(ledger_paid), exact(service_paid)
    FROM (SELECT DISTINCT row, code FROM findings) JOIN rows ON rows.id = row GROUP BY code
"""
_LEAKAGE = """
    SELECT method, count(DISTINCT row), exact(leakage) FILTER (WHERE code = 'short_received'),
        exact(leakage) FILTER (WHERE code = 'fee_off_schedule'),
        exact(leakage) FILTER (WHERE code = 'service_arithmetic')
    FROM findings WHERE method IS NOT NULL GROUP BY method ORDER BY min(row)
"""
_REUSED = "SELECT count(observed_at), min(observed_at), max(observed_at) FROM rows WHERE is_reused"


@define
class Tally:
    """
    The rows of a report, in the order of the ledger, and its summary.

    Args:
        rules: The rules that the rows were judged by.
        decisions: The decisions, by reference and code; accepted differences are among the rules.
        previous: The previous run; None without one.
        folder: Where the temporary file of the rows lies; None for the system's folder of such files.

    Note:
        The rows are kept in that file until the tally is gone; memory does not grow with them.

    Raises:
        OSError: When the file cannot be written; by every method.
    """

    _rules: Rules = STRICT
    _decisions: Decisions = field(factory=dict[Key, Decision])
    _previous: PreviousRun | None = None
    _folder: Path | None = None
    _tables: ResultTables = field(init=False)
    _first: tuple[datetime, datetime] | None = field(init=False, default=None)  # the instant, and as the ledger has it
    _last: tuple[datetime, datetime] | None = field(init=False, default=None)
    _acceptances: dict[str, dict[Accepted, AcceptanceState]] = field(init=False, factory=dict)  # by reference
    _shown: Shown = field(init=False, factory=Shown)
    _material: int = field(init=False, default=0)
    _still_there: dict[Key, Decision] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._tables = ResultTables(self._folder)
        for each in self._rules.accepted:
            self._acceptances.setdefault(each.reference, {})[each] = AcceptanceState.MET_NO_ROW

    def close(self) -> None:
        """Remove what was taken; otherwise it is removed together with the object."""
        self._tables.close()

    def add(self, row: Row) -> None:
        """Take *row*."""
        times = creations(row)
        self._tables.add(row, len(times))
        self._shown.add(row)
        self._material += row.is_material
        for at in times:
            instant = in_zone(at, self._rules.time_zone)
            if self._first is None or instant < self._first[0]:
                self._first = instant, at
            if self._last is None or instant > self._last[0]:
                self._last = instant, at
        if row.bucket is Bucket.BREAK:
            new = [each for each in row.findings if each.history is None or each.history.state is BreakState.NEW]
            found = (_posting(BreakState.NEW, row.reference, each, each.at_stake) for each in new if each.is_decisive)
            self._tables.insert("postings", found)
            self._note_decisions(row)
        states = self._acceptances.get(row.reference or "", {})
        for each, state in states.items():
            # Of several rows with one reference, the one that needs a review counts.
            states[each] = min(state, _state_of(each, row, self._rules), key=_BY_URGENCY.index)

    def _note_decisions(self, row: Row) -> None:
        for code in (finding.code.value for finding in row.findings if finding.is_decisive):
            key = row.reference or "", code
            if (decision := self._decisions.get(key)) is not None and decision.is_due:
                self._still_there[key] = decision

    def add_change(self, change: BreakChange) -> None:
        """Count a break, unless it was resolved before."""
        was, now, history = change.was, change.now, change.history
        if change.is_old:
            return
        found = [_posting(history.state, change.reference, now, now.at_stake, history.age_days)]
        if was is not None and not was.is_resolved:
            found.append(_posting(_OPENING, change.reference, was, was.at_stake))
        if was is not None and history.state is BreakState.CHANGED:
            found.append(_posting(_CHANGED, change.reference, now, now.at_stake - was.at_stake))
        self._tables.insert("postings", found)

    def summary(
        self,
        statement: StatementTotals | None = None,
        *,
        payout: int | None = None,
        unused: Iterable[UnusedColumn] = (),
        unused_in_statement: Iterable[UnusedColumn] = (),
        ledger_change: LedgerChange | None = None,
    ) -> Summary:
        """
        Return the result.

        Args:
            statement: The statement as a whole, if there is one.
            payout: The amount that the bank received for it.
            unused: `Ledger.unused`, which a verdict has to name.
            unused_in_statement: That of the statement.
            ledger_change: The rows of the ledger next to the rows of the previous run.

        Raises:
            TieOutError: When the counts or the money do not tie, which is a bug of payclient.
        """
        select = self._tables.select
        ((lines, dated, usable, tolerated, changed, lacking_probe, first, last),) = select(_COUNTS)
        oldest, newest = (each and each[1] for each in (self._first, self._last))
        buckets = dict(self._totals(f"SELECT bucket, {TOTAL} FROM cells GROUP BY bucket", Bucket))
        codes = dict(self._totals(_CODES, Code))
        breaks = dict(select("SELECT severity, sum(rows) FROM cells WHERE bucket = 'break' GROUP BY severity"))
        origins = dict(select("SELECT origin, sum(rows) FROM cells GROUP BY origin"))
        since = None if self._previous is None else self._since(self._previous, ledger_change)
        before = None if self._previous is None else self._previous.shown
        counted = sum(total.rows for total in buckets.values())
        expected = origins.get("ledger", 0) + origins.get("statement", 0) + (since.carried_rows if since else 0)
        if not counted == expected == self._tables.count:
            message = f"rows added: {self._tables.count}, counted: {expected}, in the buckets: {counted}"
            raise TieOutError(message)
        return Summary(
            rows=origins.get("ledger", 0),
            lines=lines,
            period=Period(first=oldest, last=newest, lines=dated, without=usable - dated),
            buckets=MappingProxyType({bucket: buckets.get(bucket, Total()) for bucket in Bucket}),
            codes=MappingProxyType({code: codes[code] for code in Code if code in codes}),
            breaks=MappingProxyType({severity: breaks.get(severity, 0) for severity in reversed(Severity)}),
            open_findings=self.open_findings(),
            tolerated=tolerated,
            material=self._material,
            changed_during_run=changed,
            lacking_probe=lacking_probe,
            first_observed_at=_moment(first),
            last_observed_at=_moment(last),
            tie_out=self._tie_out(),
            compared=self._compared(tuple(unused), tuple(unused_in_statement)),
            leakage=self._leakage(),
            acceptances=tuple(self._notices()),
            patterns=self._patterns(),
            still_there=tuple(self._still_there.values()),
            since=since,
            shown=self._shown.known(before),
            first_seen=tuple(self._shown.first(before)),
            settlement=None if statement is None else self._settlement(statement, payout, origins.get("statement", 0)),
        )

    def open_findings(self) -> OpenFindings:
        """
        Return the roll-forward, from the closing total of the previous run, if it has one.

        Raises:
            TieOutError: When it does not tie, which is a bug of payclient.
        """
        by_part, by_code, by_age = self._posted("part"), self._posted("code", _OPEN), self._posted("age", _OPEN)
        news, nothing = self._posted("severity", _NEWS), FindingTotal()
        ((payments, largest),) = self._tables.select(_PAYMENTS)
        stated = None if self._previous is None else self._previous.open_findings
        by_state = {state: by_part.get(state, nothing) for state in BreakState}
        found = OpenFindings(
            opening=by_part.get(_OPENING, nothing) if stated is None else stated,
            new=by_state[BreakState.NEW],
            reopened=by_state[BreakState.REOPENED],
            resolved=by_state[BreakState.RESOLVED],
            changed=by_part.get(_CHANGED, nothing),
            closing=sum((by_state[state] for state in _OPEN), nothing),
            by_state=MappingProxyType(by_state),
            by_code=MappingProxyType({code: by_code[code] for code in Code if code in by_code}),
            by_age=MappingProxyType({age: by_age.get(age, nothing) for age in AGES}),
            payments=FindingTotal(payments, int(largest or 0)),
            news=MappingProxyType({each: news.get(each, nothing).count for each in reversed(Severity)}),
        )
        steps = found.opening + found.new + found.reopened - found.resolved + FindingTotal(0, found.changed.amount)
        if steps != found.closing:
            message = f"the roll-forward does not tie: it leads to {steps}, and {found.closing} is open"
            raise TieOutError(message)
        return found

    def _posted(self, key: str, states: Iterable[BreakState] = ()) -> dict[Any, FindingTotal]:
        query = f"SELECT {key}, count(*), exact(amount) FROM ({_posted(states)}) GROUP BY {key}"
        return {value: FindingTotal(count, int(amount)) for value, count, amount in self._tables.select(query)}

    def _notices(self) -> Iterator[AcceptanceNotice]:
        for each in self._rules.accepted:
            state = self._acceptances[each.reference][each]
            is_settled = state is AcceptanceState.MET_NO_ROW and (each.reference, each.code.value) in self._decisions
            if state in REMARKS and not is_settled:  # a decision cannot be removed from the rules
                yield AcceptanceNotice(each, state)

    def _totals(self, query: str, kind: Callable[..., Any]) -> Iterator[tuple[Any, Total]]:
        for key, *total in self._tables.select(query):
            yield kind(key), _total(*total)

    def _tie_out(self) -> TieOut:
        select = self._tables.select
        ours = _by_status(select(_of_status("ledger", "origin = 'ledger'")))
        theirs = _by_status(select(_of_status("service", "is_counted")))
        states = {state: StateTotal(*ours.get(state, (0, 0)), *theirs.get(state, (0, 0))) for state in (*Status, None)}
        query = """
            SELECT step, sum(rows), direction, exact(service_paid), exact(ledger_paid) FROM cells
            GROUP BY step, direction
        """
        ((without,),) = select("SELECT coalesce(sum(rows - stated), 0) FROM cells WHERE origin = 'ledger'")
        bridge = TieOut(
            ledger_paid_total=states[Status.PAID].ledger_amount,
            steps=_steps(
                Step,
                (
                    (step, rows, direction, int(theirs) - int(ours))
                    for step, rows, direction, theirs, ours in select(query)
                ),
            ),
            service_paid_total=states[Status.PAID].service_amount,
            rows_without_amount=without,
            states=MappingProxyType(states),
        )
        if bridge.residual:
            message = f"the report does not tie: {bridge.residual} of {bridge.ledger_paid_total} is not explained"
            raise TieOutError(message)
        if any(step.added or step.taken_off for step in bridge.steps if step.step is Step.MATCHED):
            message = "the report does not tie: rows that matched have other amounts at the service"
            raise TieOutError(message)
        return bridge

    def _settlement(self, statement: StatementTotals, payout: int | None, not_in_ledger: int) -> Settlement:
        query = """
            SELECT step, count(*), direction, exact(amount)
            FROM (SELECT *, sign(CAST(amount AS REAL)) AS direction FROM moves) GROUP BY step, direction
        """
        moves = [(step, rows, direction, int(amount)) for step, rows, direction, amount in self._tables.select(query)]
        for step, rows, amount in (
            (SettlementStep.FEES, statement.fee_lines, statement.fee_amount),
            (SettlementStep.REJECTED, statement.rejected_lines, statement.rejected_amount),
        ):
            moves += [(step, rows, amount, amount)] if rows else []
        ((paid,),) = self._tables.select("SELECT exact(service_paid) FROM cells")
        bridge = Settlement(
            service_paid_total=_number(paid),
            steps=_steps(SettlementStep, moves),
            statement=statement,
            not_in_ledger=not_in_ledger,
            payout=payout,
        )
        if bridge.residual:
            message = f"the statement does not tie: {bridge.residual} of {statement.total} is not explained"
            raise TieOutError(message)
        payouts = sum(each.net for each in statement.payouts)
        if payouts != statement.total or any(each.residual for each in statement.payouts):
            message = f"the payouts do not tie: they come to {payouts}, and the statement to {statement.total}"
            raise TieOutError(message)
        return bridge

    def _compared(self, *unused: tuple[UnusedColumn, ...]) -> Compared:
        (counts,) = self._tables.select(_COMPARED)
        compared, stated, (assumed, left_out, not_paid) = counts[: len(FIELDS)], counts[len(FIELDS) : -3], counts[-3:]
        return Compared(
            fields=MappingProxyType(dict(zip(FIELDS, compared, strict=True))),
            stated=tuple(name for name, is_stated in zip(FIELDS, stated, strict=True) if is_stated),
            assumed_paid=assumed,
            status_left_out=left_out,
            not_paid=not_paid,
            unused=unused[0],
            unused_in_statement=unused[1],
        )

    def _leakage(self) -> tuple[Leakage, ...]:
        found: dict[str, list[int]] = {}
        for place, (method, *numbers) in enumerate(self._tables.select(_LEAKAGE)):
            sums = found.setdefault(method if place < _MAX_METHODS else "(other)", [0, 0, 0, 0])
            sums[:] = map(sum, zip(sums, map(_number, numbers), strict=True))
        names = ("rows", "short_received", "fee_off_schedule", "possible")
        return tuple(Leakage(method=method, **dict(zip(names, found[method], strict=True))) for method in sorted(found))

    def _since(self, previous: PreviousRun, ledger: LedgerChange | None) -> SincePrevious:
        if ledger is not None and self._rules.may_leave:
            ledger = evolve(ledger, missing=RowTotal(), references=())
        select = self._tables.select
        carried = dict(select("SELECT bucket, sum(rows) FROM cells WHERE origin = 'carried' GROUP BY bucket"))
        ((reused, oldest, newest),) = select(_REUSED)
        return SincePrevious(
            previous=previous,
            carried=MappingProxyType({bucket: carried.get(bucket, 0) for bucket in Bucket}),
            changed_rules=changed_rules(previous.rules, self._rules),
            rule_changes=rule_changes(previous.rules, self._rules),
            changed_by=self._rules.meta.changed_by,
            reused=reused,
            oldest_reused_at=_moment(oldest),
            newest_reused_at=_moment(newest),
            ledger=ledger,
        )

    def _patterns(self) -> tuple[Pattern, ...]:
        counted = "SELECT coalesce(sum(rows), 0), coalesce(sum(rows) FILTER (WHERE bucket = 'break'), 0) FROM cells"
        ((rows, breaks),) = self._tables.select(counted)
        least = max(_MIN_ROWS, -(-breaks // _MIN_SHARE))
        shared = ((tuple(json.loads(text)), *rest, _OF_CAUSE, text) for text, *rest in self._shared(_OF_CAUSE, least))
        found: list[Any] = [*shared, *self._common_places(rows, breaks, least)]
        patterns: list[Pattern] = []
        for (kind, *values), count, amount, source, place in found:
            if kind == PatternKind.TIME:
                values = [*values, self._may_be_late(source, place, count)]  # noqa: PLW2901
            sentence, treatment = described((kind, *values))
            query = f"SELECT line FROM {source} AND place = ? ORDER BY id LIMIT {_MAX_LINES}"
            lines = tuple(line for (line,) in self._tables.select(query, (place,)))
            figures: dict[str, Any] = {"rows": count, "amount": int(amount), "lines": lines}
            patterns.append(Pattern(kind=PatternKind(kind), sentence=sentence, treatment=treatment, **figures))
        patterns.sort(key=lambda each: (-each.rows, list(PatternKind).index(each.kind), each.sentence))
        return tuple(patterns[:_MAX_SHOWN])

    def _may_be_late(self, source: str, place: str, count: int) -> bool:
        """Return whether most of the breaks of a place have a difference that a grace treats."""
        codes = ", ".join(f"'{code.value}'" for code in MAY_BE_LATE)
        of_codes = f"id IN (SELECT row FROM findings WHERE code IN ({codes}))"
        ((late,),) = self._tables.select(f"SELECT count(*) FROM {source} AND place = ? AND {of_codes}", (place,))
        return bool(2 * late > count)

    def _shared(self, source: str, least: int) -> list[Any]:
        """Return what many breaks share, with their number and the amount at stake in them."""
        of_payments = f"SELECT place, count(*) AS rows, largest(at_stake) AS at_stake FROM {source}"
        query = f"""
            SELECT place, sum(rows), exact(at_stake) FROM ({of_payments} GROUP BY place, reference)
            GROUP BY place HAVING sum(rows) >= ?
        """
        return list(self._tables.select(query, (least,)))

    def _common_places(self, rows: int, breaks: int, least: int) -> Iterator[tuple[Cause, int, Value, str, str]]:
        """Yield the places that are far more common among the breaks than in the ledger; of nested ones, one."""
        found: list[tuple[Cause, int, Value, str, str]] = []
        for kind, expression in _PLACES:
            source = f"(SELECT *, {expression} AS place FROM rows) WHERE place > ''"
            of_breaks = f"{source} AND bucket = 'break'"
            shared = {place: of_place for place, *of_place in self._shared(of_breaks, least)}
            marks = ", ".join("?" * len(shared))
            query = f"SELECT place, count(*) FROM {source} AND place IN ({marks}) GROUP BY place"
            for place, of_all in self._tables.select(query, shared) if shared else ():
                count, amount = shared[place]
                if count * rows >= _MIN_LIFT * of_all * breaks:
                    found.append(((kind, place), count, amount, of_breaks, place))
        found.sort(key=lambda each: (-each[1], -len(each[4]), each[4]))
        for number, each in enumerate(found):
            if not any(are_alike(each[0], earlier[0]) for earlier in found[:number]):
                yield each


_OF_CAUSE = "(SELECT *, cause AS place FROM causes JOIN rows ON id = row) WHERE true"
_PLACES = ((PatternKind.TIME, "created"), (PatternKind.TIME, "substr(created, 12)"))
"""The time of creation of a row: its day and hour, and its hour alone."""


_BY_URGENCY = (
    *(AcceptanceState.CHANGED, AcceptanceState.ENDED, AcceptanceState.ENDS_SOON),
    *(AcceptanceState.HOLDS, AcceptanceState.UNKNOWN, AcceptanceState.MET_NO_ROW),
)


def _state_of(accepted: Accepted, row: Row, rules: Rules) -> AcceptanceState:
    at = row.confirmed_at or row.observed_at
    finding = next((each for each in row.findings if each.code is accepted.code), None)
    if row.bucket is Bucket.UNRESOLVED:
        return AcceptanceState.UNKNOWN
    if finding is None or at is None:
        return AcceptanceState.MET_NO_ROW
    days = accepted.days_left(at, rules.time_zone)
    if not finding.waived:
        return AcceptanceState.ENDED if days < 0 else AcceptanceState.CHANGED
    if finding.waived != accepted.waiver or days > _SOON_DAYS:
        return AcceptanceState.HOLDS
    return AcceptanceState.ENDS_SOON


def _posting(
    part: str, reference: str | None, finding: Finding | BreakRecord, amount: int | None, days: int = 0
) -> tuple[Value, ...]:
    age = next(age for age, last in AGES.items() if last is None or days <= last)
    return str(part), int(finding.severity), finding.code.value, age, reference, stored(amount or 0)


def _posted(parts: Iterable[str] = ()) -> str:
    """Return the query of the findings in *parts*, or in all: one for all rows of a reference, with the largest."""
    # A group has the columns of its first row. Any number of rows may list a payment: it is at stake once.
    where = f"WHERE part IN ({', '.join(repr(str(part)) for part in parts)})" if parts else ""
    return f"""
        SELECT part, severity, code, age, reference, min(rowid), largest(amount) AS amount
        FROM postings {where} GROUP BY part, reference, code
    """


_PAYMENTS = f"""
    SELECT count(*), exact(amount) FROM (
        SELECT largest(amount) AS amount FROM ({_posted(_OPEN)}) GROUP BY reference
    )
"""


def _of_status(side: str, rows: str) -> str:
    return f"SELECT {side}_status, sum(rows), exact({side}_amount) FROM cells WHERE {rows} GROUP BY {side}_status"


def _by_status(found: Iterator[Any]) -> dict[Status | None, tuple[int, int]]:
    return {status and Status(status): (rows, int(amount)) for status, rows, amount in found}


def _steps(kinds: Iterable[_Step], moves: Iterable[Any]) -> tuple[Difference[_Step], ...]:
    """Return every step, empty ones included; a move has its step, its rows, its sign and its amount."""
    counts: dict[Any, list[int]] = {step: [0, 0, 0] for step in kinds}
    for step, rows, direction, amount in moves:
        of_step = counts[step]
        of_step[0] += rows
        of_step[1 if direction > 0 else 2] += amount
    return tuple(
        Difference(step=step, rows=rows, added=added, taken_off=taken_off)
        for step, (rows, added, taken_off) in counts.items()
    )


def _number(cell: Any) -> int:
    """Return an exact sum; SQLite has it as text beyond 64 bits, and as null without a row."""
    return int(cell or 0)


def _total(*cells: Any) -> Total:
    return Total(*map(_number, cells))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)

"""Internal: the result of a reconciliation, added up row by row: verdict, counts, money and exit status."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from importlib.metadata import version
from itertools import chain, groupby
from math import inf
from operator import attrgetter, itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar
from weakref import finalize

from attrs import define, evolve, field, frozen

from payclient.reconcile._fields import COMPARED, COMPARED_FIELDS
from payclient.reconcile._judgement import causes, codes, records
from payclient.reconcile._judgement import rules as rule_book
from payclient.reconcile._judgement.codes import Code, Difference, PatternKind, Severity, Status, Step
from payclient.reconcile._judgement.decisions import Decision, Decisions, Key
from payclient.reconcile._judgement.errors import TieOutError
from payclient.reconcile._judgement.findings import BreakState, Bucket, Finding, FindingTotal, Origin, Row
from payclient.reconcile._judgement.records import LedgerChange, RowTotal
from payclient.reconcile._judgement.rules import STRICT, Accepted, IgnoredLines, Rules, in_zone
from payclient.reconcile._judgement.sides import StatementTotals
from payclient.reconcile.ledger import ABSENT, Entry, Excluded, UnreadSheet, UnusedColumn, read_only


@frozen(kw_only=True)
class LedgerAbout:
    """
    The ledger that was read.

    Attributes:
        name: The file's name without its folder. Empty for a stream.
        format: `csv`, `jsonl`, `xlsx` or `parquet`.
        size_bytes: How much was read.
        sha256: Hash of everything read, in hexadecimal.
        columns: The name in the header, by field.
        ignored_columns: The other columns, in their order.
        warnings: Warnings from reading the ledger.
        excluded: Rows that are left out, by reason. Each is a warning, too.
        unused: Other columns that may change the meaning of a row, and were not ignored by name.
        ignored: The same for columns that were ignored by name.
        unread_sheets: Other sheets of the workbook that have rows, if no sheet was chosen by name.
    """

    name: str
    format: str
    size_bytes: int
    sha256: str
    columns: Mapping[str, str] = field(converter=read_only)
    ignored_columns: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    unused: tuple[UnusedColumn, ...] = ()
    ignored: tuple[UnusedColumn, ...] = ()
    unread_sheets: tuple[UnreadSheet, ...] = ()


@frozen(kw_only=True)
class JudgedAgain:
    """The run whose answers were judged a second time, its rules, and the names of the rules that differ now."""

    folder: str
    run: str
    rules_fingerprint: str
    changed_rules: tuple[str, ...] = ()


@frozen(kw_only=True)
class StatementAbout:
    """The statement that was read, the sums of its lines, and the amount that the bank received, if it was given."""

    file: LedgerAbout
    totals: StatementTotals = field(factory=StatementTotals)
    payout: int | None = None


@frozen(kw_only=True)
class About:
    """
    The run. Without clock, so that the same run gives the same bytes.

    Attributes:
        run: Name of the run: when it began, in UTC, and a fingerprint of ledger, service, key and rules, such as
            `20261121T020003Z-3f9a1c2d`. Names sort by time, to the second. Empty when it is not known.
        ledger: The file that was read. None if it was not a file.
        rules: How differences were judged.
        base_url: Address of the service. Empty when it is not known.
        environment: `live` or `sandbox`. Empty when it is not known.
        key_fingerprint: A short, non-reversible fingerprint of the first API key, never the key. Empty when not known.
        other_keys: Fingerprints of other keys: of the previous run, or of parts of this one.
        canary: The reference that was asked first, if one was.
        judged_again: The run whose answers these are, if they were judged again.
        ended_by: The failure that ended the run early. Empty when it was not.
        ignored_lines: Ledger lines that the rules leave out, by kind.
        statement: The other side. None without one.
        ledger_change: The rows of the ledger next to the rows of the previous run. None without one.
        payclient_version: Version of the package that wrote the report.
    """

    run: str = ""
    ledger: LedgerAbout | None = None
    rules: Rules = STRICT
    base_url: str = ""
    environment: str = ""
    key_fingerprint: str = ""
    other_keys: tuple[str, ...] = ()
    canary: str | None = None
    judged_again: JudgedAgain | None = None
    ended_by: str = ""
    ignored_lines: tuple[IgnoredLines, ...] = ()
    statement: StatementAbout | None = None
    ledger_change: LedgerChange | None = None
    payclient_version: str = field(factory=lambda: version("payclient"))

    @property
    def files(self) -> Mapping[str, LedgerAbout]:
        """The files that were read, by side."""
        files = {"ledger": self.ledger, "statement": self.statement.file if self.statement else None}
        return {side: file for side, file in files.items() if file is not None}

    @property
    def service(self) -> dict[str, Any]:
        """The service and the fingerprints of the keys, in the form for reports."""
        other = {"other_keys": list(self.other_keys)} if self.other_keys else {}
        return {name: getattr(self, name) for name in ("base_url", "environment", "key_fingerprint")} | other

    @property
    def ledger_sha256(self) -> str:
        """SHA-256 of the ledger. Empty if it was not a file."""
        return "" if self.ledger is None else self.ledger.sha256


@frozen(kw_only=True)
class Period:
    """The first and the last creation in a ledger, in its own form, and its usable rows with and without one."""

    first: datetime | None = None
    last: datetime | None = None
    lines: int = 0
    without: int = 0


@frozen
class Total:
    """
    Rows and their money.

    Attributes:
        rows: How many.
        ledger_amount: Sum of their amounts in the ledger. For carried rows, in the earlier ledger.
        service_amount: Sum of their amounts at the service, row by row, so a transaction that is
            on two rows counts twice. The tie-out counts it once.
        ledger_paid: The part of it that adds to the ledger's paid total.
        service_paid: The part that adds to the service's paid total, each reference once.
    """

    rows: int = 0
    ledger_amount: int = 0
    service_amount: int = 0
    ledger_paid: int = 0
    service_paid: int = 0

    @property
    def paid_difference(self) -> int:
        """The move of the rows on the bridge: the service's paid money, less the ledger's."""
        return self.service_paid - self.ledger_paid

    @classmethod
    def of(cls, row: Row) -> Total:
        return cls(1, row.ledger_amount or 0, row.service_amount or 0, *causes.paid_by(row))

    def __add__(self, other: Total) -> Total:
        return Total(
            self.rows + other.rows,
            self.ledger_amount + other.ledger_amount,
            self.service_amount + other.service_amount,
            self.ledger_paid + other.ledger_paid,
            self.service_paid + other.service_paid,
        )


LEFT_OUT_FIELD = "field"


@frozen(kw_only=True)
class Compared:
    """
    The number of comparisons by field.

    Attributes:
        fields: Rows with an answer to compare each field with, for every field there is, the amount first.
        stated: The fields that the ledger has a column for.
        assumed_paid: Rows that were assumed paid, because the ledger lacks a status column.
        status_left_out: Rows whose status was not compared, because the ledger lacks it and none was assumed.
        not_paid: The rows of these that are not paid at the service.
        unused: The ledger's columns that are neither used nor ignored by name, and may change the meaning of a row.
        unused_in_statement: The same of the statement.
        ignored: The columns of both files that are ignored by name, and may change the meaning of a row.
        unread_sheets: Other sheets of the files that have rows, if no sheet was chosen by name.
        news: What was compared in the previous run, or was not there: kind and name, as in `left_out`, or a new word.
            Rows without a reference that left its ledger, too: no run can follow them.
    """

    fields: Mapping[str, int] = MappingProxyType({})
    stated: tuple[str, ...] = ()
    assumed_paid: int = 0
    status_left_out: int = 0
    not_paid: int = 0
    unused: tuple[UnusedColumn, ...] = ()
    unused_in_statement: tuple[UnusedColumn, ...] = ()
    ignored: tuple[UnusedColumn, ...] = ()
    unread_sheets: tuple[UnreadSheet, ...] = ()
    news: tuple[tuple[str, str], ...] = ()

    @property
    def left_out(self) -> tuple[tuple[str, str], ...]:
        """The reasons for a verdict *partial*, each with its kind and name."""
        fields = {"amount": self.are_amounts_left_out, "status": self.status_left_out}
        return (
            *((LEFT_OUT_FIELD, name) for name, is_left_out in fields.items() if is_left_out),
            *(("column", column.name) for column in self.unused),
            *(("column of the statement", column.name) for column in self.unused_in_statement),
            *(("sheet", sheet.name) for sheet in self.unread_sheets),
        )

    @property
    def are_amounts_left_out(self) -> bool:
        """Whether rows were compared without their amounts: no column of the ledger is used as the amount."""
        others = any(self.fields.values()) or self.assumed_paid or self.status_left_out
        return not self.fields["amount"] and bool(others)


@frozen(kw_only=True)
class Leakage:
    """
    The leakage of one payment method.

    Attributes:
        method: The service's short code. Empty without one.
        rows: Rows with such a finding that is not waived.
        short_received: Money of paid transactions that did not arrive.
        fee_off_schedule: Fees above their schedule. Negative if below.
        possible: Money of paid transactions that may not have arrived: it is less than the amount, and no fee is known.
    """

    method: str
    rows: int = 0
    short_received: int = 0
    fee_off_schedule: int = 0
    possible: int = 0


class AcceptanceState(StrEnum):
    """
    The state of an acceptance in one run. If several rows have its reference, the first of these counts.

    Attributes:
        CHANGED: The difference has changed since it was accepted, so it counts.
        ENDED: Its last day has passed, so the difference counts.
        ENDS_SOON: It is valid, for at most seven more days.
        HOLDS: It is valid.
        UNKNOWN: Its row could not be looked up.
        MET_NO_ROW: The row, or its difference, is gone.
    """

    CHANGED = "changed"
    ENDED = "ended"
    ENDS_SOON = "ends_soon"
    HOLDS = "holds"
    UNKNOWN = "unknown"
    MET_NO_ROW = "met_no_row"


@frozen
class AcceptanceNotice:
    """An acceptance to review, with the reason."""

    accepted: Accepted
    state: AcceptanceState


AGES: Mapping[str, int | None] = MappingProxyType(
    {"up to 7 days": 7, "8 to 30 days": 30, "31 to 60 days": 60, "61 to 90 days": 90, "older": None}
)
"""The groups of age, each with its last day."""


@frozen(kw_only=True)
class OpenFindings:
    """The findings that make rows breaks, with the amounts at stake in them, and their roll-forward."""

    # A finding is counted once for its reference and code, even if many rows have it. Its amount is the largest of
    # the rows, or its own if it is about all rows. It stays open until it is resolved, even while its state is not
    # known. A payment with several findings has its money at stake in each of them. `payments` counts it once, with its
    # largest. The closing count is `opening + new + reopened - resolved`, and its amount is that `+ changed`.

    opening: FindingTotal
    new: FindingTotal
    reopened: FindingTotal
    resolved: FindingTotal
    changed: FindingTotal
    closing: FindingTotal
    by_state: Mapping[BreakState, FindingTotal]
    by_code: Mapping[Code, FindingTotal]
    by_age: Mapping[str, FindingTotal]
    payments: FindingTotal
    news: Mapping[Severity, int]

    @property
    def old(self) -> FindingTotal:
        """The findings that have been open for more than 30 days."""
        return sum((total for age, total in self.by_age.items() if (AGES[age] or inf) > 30), FindingTotal())


@frozen(kw_only=True)
class Summary:
    """
    The result of a reconciliation.

    Attributes:
        rows: Ledger rows, or payments if the rows of one reference are summed. With the rows that were carried over
            from the previous run, it is the sum of all buckets.
        lines: Ledger rows, each counted by itself.
        period: The first and the last creation of these.
        buckets: Rows and money by bucket, empty ones included.
        codes: Rows and money by finding, for findings that occur. A row counts under each of its codes.
        breaks: Rows in the bucket `break`, by the severity of their primary finding.
        open_findings: The findings that make these rows breaks, and how they follow from the previous run.
        tolerated: Rows that matched within a tolerance, or because the difference was accepted.
        material: Breaks with as much at stake as the rules call material.
        changed_during_run: Rows whose two answers differ.
        lacking_probe: Unresolved rows whose answer is not trusted, because no other reference was found.
        newly_unknown: Breaks whose state the previous run knew, and this one does not.
        first_observed_at: Time of the first answer. Answers of earlier runs do not count.
        last_observed_at: Time of the last answer, second lookups included.
        tie_out: The bridge from the ledger's paid total to the service's.
        compared: The fields that were compared, and the others.
        leakage: Losses from short payouts and off-schedule fees, by payment method.
        still_there: Decisions of earlier runs that a break was corrected in the ledger, although it is still there.
        acceptances: Accepted differences to review: unmatched, changed, ended or about to end.
        patterns: Common features of many breaks, the ones with the most rows first.
        since: The changes since the previous run. None without one.
        shown: The service's behaviour in this run and earlier ones, by kind.
        first_seen: The part of it that no earlier run has shown. Empty without a previous run.
        settlement: The bridge from the service's paid total to the statement's. None without a statement.
    """

    rows: int
    lines: int = 0
    period: Period
    buckets: Mapping[Bucket, Total]
    codes: Mapping[Code, Total]
    breaks: Mapping[Severity, int]
    open_findings: OpenFindings
    tolerated: int = 0
    material: int = 0
    changed_during_run: int = 0
    lacking_probe: int = 0
    newly_unknown: int = 0
    first_observed_at: datetime | None
    last_observed_at: datetime | None
    tie_out: causes.TieOut
    compared: Compared
    leakage: tuple[Leakage, ...] = ()
    acceptances: tuple[AcceptanceNotice, ...] = ()
    patterns: tuple[causes.Pattern, ...] = ()
    still_there: tuple[Decision, ...] = ()
    since: records.SincePrevious | None = None
    shown: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    first_seen: tuple[records.FirstSeen, ...] = ()
    settlement: causes.Settlement | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions that are true, in their order. There is at least one."""
        compared, unresolved = self.compared, self.buckets[Bucket.UNRESOLVED].rows
        rows = sum(total.rows for total in self.buckets.values())
        holds: Mapping[Condition, object] = {
            Condition.NOTHING_READ: not rows,
            Condition.NOTHING_FOUND: self.lacking_probe,
            Condition.NOTHING_ANSWERED: 0 < rows == unresolved and not self.lacking_probe,
            Condition.UNRESOLVED: unresolved > self.lacking_probe,
            Condition.BREAKS: self.buckets[Bucket.BREAK].rows,
            Condition.REJECTED: self.buckets[Bucket.REJECTED].rows,
            Condition.NOT_TIED: self.settlement is not None and self.settlement.is_off,
            Condition.AMOUNTS_LEFT_OUT: compared.are_amounts_left_out,
            Condition.SHEETS_LEFT_OUT: compared.unread_sheets,
            Condition.COLUMNS_LEFT_OUT: compared.unused,
            Condition.STATEMENT_LEFT_OUT: compared.unused_in_statement,
            Condition.STATUS_LEFT_OUT: compared.status_left_out,
            Condition.NOT_KNOWN: not unresolved and self.open_findings.by_state[BreakState.NOT_KNOWN].count,
            Condition.NEWLY_LEFT_OUT: compared.news,
            Condition.CLEAN: True,
        }
        return tuple(condition for condition in Condition if holds[condition])

    @property
    def verdict(self) -> Verdict:
        """The result in one word."""
        return self.conditions[0].verdict

    @property
    def to_act_upon(self) -> tuple[Condition, ...]:
        """The conditions with the next steps: the first, and in an incomplete run the first about breaks, too."""
        first = {condition.verdict: condition for condition in reversed(self.conditions)}
        also = first.get(Verdict.BREAKS) if self.verdict is Verdict.INCOMPLETE else None
        return tuple(filter(None, (first[self.verdict], also)))

    def exit_status(self, fail_on: Severity | str = Severity.MEDIUM, *, only_news: bool = False) -> int:
        """
        Return the exit status of a command.

        Args:
            fail_on: The least severe break that matters, a severity or its word, or `partial`: as `medium`, and a
                verdict *partial* matters, too.
            only_news: Whether only breaks matter that are new, changed or reopened since the previous run.

        Returns:
            The first that applies: 3 when no transaction was found, so the key or the environment may be wrong; 1 for
            breaks that matter, rejected rows, a statement that does not tie, and rows not paid at the service whose
            status was not compared; 75 for unresolved rows; 0.
        """
        is_partial = fail_on == Verdict.PARTIAL.value
        least = Severity.MEDIUM if is_partial else Severity[fail_on.upper()] if isinstance(fail_on, str) else fail_on
        breaks = self.open_findings.news if only_news and self.since is not None else self.breaks
        may_matter = {
            Condition.BREAKS: any(count for severity, count in breaks.items() if severity >= least),
            Condition.STATUS_LEFT_OUT: is_partial or self.compared.not_paid > 0,
            Condition.NOT_KNOWN: is_partial or self.newly_unknown > 0,
            Condition.NEWLY_LEFT_OUT: True,
        }
        of_others = {verdict: is_partial or verdict is not Verdict.PARTIAL for verdict in Verdict}
        statuses = {each.status for each in self.conditions if may_matter.get(each, of_others[each.verdict])}
        return next((status for status in EXIT_STATUSES if status in statuses), 0)


# How a run ends: of the conditions that are true, the first gives the verdict and the advice.

EXIT_STATUSES: Mapping[int, str] = MappingProxyType(
    {
        3: "no transaction was found, so key or environment may be wrong: name an existing reference with --canary",
        1: "breaks of at least medium severity, rejected rows, or columns newly left out (--fail-on changes that)",
        75: "incomplete; the same command resumes",
        0: "nothing to do",
    }
)
"""The exit statuses of a run that has ended, in words. The first that applies counts."""


class Verdict(StrEnum):
    """
    The result of a reconciliation in one word.

    Attributes:
        EMPTY: No row was read, so none was compared.
        CLEAN: Every row matched, or is open.
        PARTIAL: Every row matched, or is open, but the amounts, the status, a sheet or a column that may decide what a
            row means were not compared, a column that is ignored has a new word, or an earlier break is not known.
        BREAKS: Something differs, or a row was rejected.
        INCOMPLETE: Some rows lack a trustworthy answer, regardless of the others.
    """

    EMPTY = "empty"
    CLEAN = "clean"
    PARTIAL = "partial"
    BREAKS = "breaks"
    INCOMPLETE = "incomplete"


class Condition(codes.Described):
    """
    A fact about a run. The first that is true gives the verdict and the advice.

    Attributes:
        verdict: The verdict if it is the first that is true.
        status: The exit status of such a run, if it matters to the caller. Otherwise that is 0.
    """

    verdict: Verdict
    status: int

    NOTHING_READ = "nothing_read", Verdict.EMPTY, 0
    NOTHING_FOUND = "nothing_found", Verdict.INCOMPLETE, 3
    NOTHING_ANSWERED = "nothing_answered", Verdict.INCOMPLETE, 75
    UNRESOLVED = "unresolved", Verdict.INCOMPLETE, 75
    BREAKS = "breaks", Verdict.BREAKS, 1
    REJECTED = "rejected", Verdict.BREAKS, 1
    NOT_TIED = "not_tied", Verdict.BREAKS, 1
    AMOUNTS_LEFT_OUT = "amounts_left_out", Verdict.PARTIAL, 1
    SHEETS_LEFT_OUT = "sheets_left_out", Verdict.PARTIAL, 1
    COLUMNS_LEFT_OUT = "columns_left_out", Verdict.PARTIAL, 1
    STATEMENT_LEFT_OUT = "statement_left_out", Verdict.PARTIAL, 1
    STATUS_LEFT_OUT = "status_left_out", Verdict.PARTIAL, 1
    NOT_KNOWN = "not_known", Verdict.PARTIAL, 1
    NEWLY_LEFT_OUT = "newly_left_out", Verdict.PARTIAL, 1
    CLEAN = "clean", Verdict.CLEAN, 0


# The sums

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

_OPENING, _CHANGED = "opening", "changed amount"
"""The parts of the roll-forward of open findings other than the states."""
_OPEN = tuple(state for state in BreakState if state is not BreakState.RESOLVED)
_NEWS = tuple(state for state in BreakState if state.is_news)

_Step = TypeVar("_Step", bound=codes.BridgeStep)

_POSTINGS = "SELECT reference, part, code, severity, age, amount FROM postings ORDER BY reference, part, code, rowid"
_CAUSES = """
    SELECT cause, reference, at_stake FROM causes
    WHERE cause IN (SELECT cause FROM causes GROUP BY cause HAVING count(*) >= ?) ORDER BY cause, reference
"""


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
    _answers: records.Answers = field(init=False, factory=records.Answers)
    _reused: records.Answers = field(init=False, factory=records.Answers)
    # Keys are attributes of the result that they go to.
    _counts: Counter[str] = field(init=False, factory=Counter)
    _of_lines: Counter[str] = field(init=False, factory=Counter)
    _not_compared: dict[str, Any] = field(init=False, factory=Counter[str])
    _without_amount: int = field(init=False, default=0)
    _origins: Counter[Origin] = field(init=False, factory=Counter)
    _carried: Counter[Bucket] = field(init=False, factory=Counter)
    _breaks: Counter[Severity] = field(init=False, factory=Counter)
    _buckets: defaultdict[Bucket, Total] = field(init=False, factory=lambda: defaultdict(Total))
    _codes: defaultdict[Code, Total] = field(init=False, factory=lambda: defaultdict(Total))
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
        total = Total.of(row)
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
            answers = self._reused if row.reused_from else self._answers
            answers.add(row.observed_at, row.confirmed_at or row.observed_at)

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

    def summary(self, about: About | None = None) -> Summary:
        """Return the result of the run that *about* describes."""
        about, since, before = about or About(), None, None
        if self._previous is not None:
            since, before = self._since(self._previous, about.ledger_change), self._previous.shown
        compared = self._comparisons(about)
        self._shown.set_words((*compared.unused, *compared.unused_in_statement, *compared.ignored))
        first_seen = [*self._shown.first(before)]
        words = [sight for sight in first_seen if sight.kind is records.Sight.WORD]
        oldest, newest = (written for _, written in self._times) if self._times else (None, None)
        return Summary(
            rows=self._origins[Origin.LEDGER],
            period=Period(first=oldest, last=newest, **self._of_lines),
            buckets=MappingProxyType({bucket: self._buckets[bucket] for bucket in Bucket}),
            codes=MappingProxyType({code: self._codes[code] for code in Code if code in self._codes}),
            breaks=MappingProxyType({severity: self._breaks[severity] for severity in reversed(Severity)}),
            open_findings=self.open_findings(),
            **self._counts,
            first_observed_at=self._answers.oldest_at,
            last_observed_at=self._answers.newest_at,
            tie_out=self._tie_out(),
            compared=evolve(compared, news=tuple(self._newly_left_out(compared, words, about))),
            leakage=tuple(Leakage(method=method, **sums) for method, sums in sorted(self._leakage.items())),
            acceptances=tuple(self._notices()),
            patterns=self._patterns(),
            still_there=tuple(each for each in self._still_there.values() if each.run != about.run),
            since=since,
            shown=self._shown.known(before),
            first_seen=tuple(sight for sight in first_seen if sight not in words),
            settlement=None if about.statement is None else self._settlement(about.statement),
        )

    def open_findings(self) -> OpenFindings:
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
        found = OpenFindings(
            opening=by_part[_OPENING] if stated is None else stated,
            new=by_state[BreakState.NEW],
            reopened=by_state[BreakState.REOPENED],
            resolved=by_state[BreakState.RESOLVED],
            changed=by_part[_CHANGED],
            closing=sum((by_state[state] for state in _OPEN), FindingTotal()),
            by_state=MappingProxyType(by_state),
            by_code=MappingProxyType({code: by_code[code] for code in Code if code in by_code}),
            by_age=MappingProxyType({age: by_age[age] for age in AGES}),
            payments=payments,
            news=MappingProxyType({severity: news[severity] for severity in reversed(Severity)}),
        )
        steps = found.opening + found.new + found.reopened - found.resolved + FindingTotal(0, found.changed.amount)
        if steps != found.closing:
            raise TieOutError(f"the roll-forward does not tie: it leads to {steps}, and {found.closing} is open")
        return found

    def _notices(self) -> Iterator[AcceptanceNotice]:
        for each in self._rules.accepted:
            state = self._acceptances[each.reference][each]
            is_settled = state is AcceptanceState.MET_NO_ROW and (each.reference, each.code.value) in self._decisions
            needs_review = state not in (AcceptanceState.HOLDS, AcceptanceState.UNKNOWN)
            if needs_review and not is_settled:  # a decision cannot be removed from the rules
                yield AcceptanceNotice(each, state)

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

    def _settlement(self, side: StatementAbout) -> causes.Settlement:
        moves, statement = dict(self._moves), side.totals
        _move(moves, causes.SettlementStep.FEES, statement.fee_amount, statement.fee_lines)
        _move(moves, causes.SettlementStep.REJECTED, statement.rejected_amount, statement.rejected_lines)
        bridge = causes.Settlement(
            service_paid_total=sum(total.service_paid for total in self._buckets.values()),
            steps=tuple(moves.values()),
            statement=statement,
            not_in_ledger=self._origins[Origin.STATEMENT],
            payout=side.payout,
        )
        if bridge.residual:
            raise TieOutError(f"the statement does not tie: {bridge.residual} of {statement.total} is not explained")
        payouts = sum(part.net for part in statement.payouts)
        if payouts != statement.total or any(part.residual for part in statement.payouts):
            raise TieOutError(f"the payouts do not tie: their sum is {payouts}, and the statement's {statement.total}")
        return bridge

    def _newly_left_out(
        self, compared: Compared, words: Iterable[records.FirstSeen], about: About
    ) -> Iterator[tuple[str, str]]:
        """Yield what the previous run compared, or did not have, and is not compared now, and rows that no run can."""
        previous, new = self._previous, list[tuple[str, str]]()
        if previous is not None and previous.left_out is not None:
            stated = (*compared.stated, *["statement"] * (about.statement is not None))
            gone = [(LEFT_OUT_FIELD, name) for name in previous.stated if name not in stated]
            new = [fact for fact in dict.fromkeys((*compared.left_out, *gone)) if fact not in previous.left_out]
        named = {name for _, name in new}
        yield from new
        for amount in () if about.ledger_change is None else about.ledger_change.nameless:
            yield "lost row without a reference", f"amount {amount:,}" if amount else "no amount"
        yield from ((word.kind.value, word.value) for word in words if word.column not in named)

    def _comparisons(self, about: About) -> Compared:
        ledger, side, files = about.ledger, about.statement, about.files.values()
        used = ledger.columns if ledger else ()
        return Compared(
            fields=MappingProxyType({name: self._compared[name] for name in FIELDS}),
            stated=tuple(name for name in FIELDS if name in self._compared or name in used),
            unused=ledger.unused if ledger else (),
            unused_in_statement=side.file.unused if side else (),
            ignored=tuple(column for file in files for column in file.ignored),
            unread_sheets=tuple(sheet for file in files for sheet in file.unread_sheets),
            **self._not_compared,
        )

    def _since(self, previous: records.PreviousRun, ledger: LedgerChange | None) -> records.SincePrevious:
        if ledger is not None and self._rules.may_leave:
            ledger = evolve(ledger, missing=RowTotal(), references=())
        return records.SincePrevious(
            previous=previous,
            carried=MappingProxyType({bucket: self._carried[bucket] for bucket in Bucket}),
            changed_rules=rule_book.changed_rules(previous.rules, self._rules),
            rule_changes=rule_book.rule_changes(previous.rules, self._rules),
            changed_by=self._rules.meta.changed_by,
            reused=evolve(self._reused),
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
    age = next(age for age, last in AGES.items() if last is None or days <= last)
    return reference, part, finding.code, int(finding.severity), age, str(amount or 0)


def _move(steps: dict[_Step, Difference[_Step]], step: _Step, amount: int, rows: int = 1) -> None:
    before = steps[step]
    added, taken_off = before.added + max(amount, 0), before.taken_off + min(amount, 0)
    steps[step] = Difference(step=step, rows=before.rows + rows, added=added, taken_off=taken_off)

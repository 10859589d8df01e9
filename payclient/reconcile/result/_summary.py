"""The result of a reconciliation: verdict, counts, money and exit status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from attrs import define, field, frozen

from payclient._escape import plural
from payclient.ledger import Entry
from payclient.reconcile.nights import Decision, SincePrevious
from payclient.reconcile.result._bridges import Settlement, TieOut, paid_by
from payclient.reconcile.result._compared import Compared
from payclient.reconcile.result._leakage import Leakage
from payclient.reconcile.result._open_findings import AcceptanceNotice, OpenFindings
from payclient.reconcile.result._patterns import Pattern
from payclient.reconcile.rules import STRICT, Rules, in_zone
from payclient.reconcile.values import Bucket, Code, Row, Severity


@frozen(kw_only=True)
class Period:
    """The first and the last creation in a ledger, as it has them, and the number of its rows with and without one."""

    first: datetime | None = None
    last: datetime | None = None
    lines: int = 0
    without: int = 0

    @property
    def sentence(self) -> str:
        """For people."""
        if self.first is None or self.last is None:
            return "not stated: no row of the ledger has a time of creation"
        without = f"; {plural(self.without, 'row')} without a time" if self.without else ""
        first, last = (at.isoformat(" ", "seconds") for at in (self.first, self.last))
        return f"{first} to {last}, by the creation of {plural(self.lines, 'row')}{without}"


@define
class PeriodTally:
    """Finds the first and the last creation; a time without a zone is one of the rules' zone."""

    _rules: Rules = STRICT
    _lines: int = field(init=False, default=0)
    _without: int = field(init=False, default=0)
    _first: datetime | None = field(init=False, default=None)
    _last: datetime | None = field(init=False, default=None)

    def add(self, row: Row) -> None:
        """Count the ledger rows of *row*."""
        for entry in row.parts or (row.entry,):
            at = entry.created_at if isinstance(entry, Entry) else None
            if not isinstance(at, datetime):
                self._without += 1
                continue
            self._lines += 1
            if self._first is None or self._instant(at) < self._instant(self._first):
                self._first = at
            if self._last is None or self._instant(at) > self._instant(self._last):
                self._last = at

    def _instant(self, at: datetime) -> datetime:
        return in_zone(at, self._rules.time_zone)

    def period(self) -> Period:
        """Return the period of the rows so far."""
        return Period(first=self._first, last=self._last, lines=self._lines, without=self._without)


COMPLETENESS = "Only references in the ledger were looked up. Payments missing from the ledger cannot appear here."
"""Part of every report, because a report without findings might suggest otherwise."""


BOTH_WAYS = (
    "Only references in the ledger or the statement were looked up: from the ledger to the service, from the statement "
    "to the service, and from the service to the statement. Payments missing from both cannot appear here."
)
"""The same, with a statement."""


EXIT_STATUSES: Mapping[int, str] = MappingProxyType(
    {
        0: "nothing to do",
        1: "breaks of at least medium severity, or rejected rows (--fail-on moves the line)",
        3: "nothing was found, so the key or the environment may be wrong; name a reference that exists with --canary",
        75: "incomplete; the same command resumes",
    }
)
"""The exit statuses of a run that has ended, in words; `Summary.exit_status` returns one of them."""


class Verdict(StrEnum):
    """
    The result of a reconciliation in one word.

    Attributes:
        EMPTY: Nothing was read, so nothing was compared.
        CLEAN: Every row matched, or is open.
        PARTIAL: Every row matched, or is open, and the amounts or the status were not compared.
        BREAKS: Something differs, or a row was rejected.
        INCOMPLETE: Some rows have no trustworthy answer yet, whatever the others say.
    """

    EMPTY = "empty"
    CLEAN = "clean"
    PARTIAL = "partial"
    BREAKS = "breaks"
    INCOMPLETE = "incomplete"


@frozen
class Total:
    """
    Rows and their money.

    Attributes:
        rows: How many.
        ledger_amount: Sum of what the ledger states for them; for what was carried over, the earlier ledger.
        service_amount: Sum of what the service states for them, row by row, so a transaction that is
            on two rows counts twice; the tie-out counts it once.
        ledger_paid: What of it adds to the ledger's paid total.
        service_paid: What adds to the service's paid total, each reference once.
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
        """Return the total of one row."""
        return cls(1, row.ledger_amount or 0, row.service_amount or 0, *paid_by(row))

    def __add__(self, other: Total) -> Total:
        return Total(
            self.rows + other.rows,
            self.ledger_amount + other.ledger_amount,
            self.service_amount + other.service_amount,
            self.ledger_paid + other.ledger_paid,
            self.service_paid + other.service_paid,
        )


@frozen(kw_only=True)
class Summary:
    """
    The result of a reconciliation.

    Attributes:
        rows: Ledger rows, or payments where the rows of one reference are summed. With the rows that were carried over
            from the previous run, it is the sum of all buckets.
        lines: Ledger rows, each counted by itself.
        period: The first and the last creation of these.
        buckets: Rows and money by bucket, empty ones included.
        codes: Rows and money by finding, for findings that occur; a row counts under each of its codes.
        breaks: Rows in the bucket `break`, by the severity of their primary finding.
        open_findings: What makes these rows breaks, and how it follows from the run before.
        tolerated: Rows that matched within a tolerance, or because the difference was accepted.
        changed_during_run: Rows whose two answers differ.
        lacking_probe: Unresolved rows whose answer is not trusted, because no other reference was found.
        first_observed_at: Time of the first answer; answers of earlier runs do not count.
        last_observed_at: Time of the last answer, second lookups included.
        tie_out: The bridge from the ledger's paid total to the service's.
        compared: What was compared, and what was not.
        leakage: Losses from short payouts and off-schedule fees, by payment method.
        still_there: Decisions of earlier runs that a break was corrected in the ledger, where it is still there.
        acceptances: Accepted differences to review: unmatched, changed, ended or about to end.
        patterns: What many breaks have in common, those of the most rows first.
        since: What changed since the previous run; None without one.
        settlement: The bridge from the service's paid total to the statement's; None without a statement.
    """

    rows: int
    lines: int
    period: Period
    buckets: Mapping[Bucket, Total]
    codes: Mapping[Code, Total]
    breaks: Mapping[Severity, int]
    open_findings: OpenFindings
    tolerated: int = 0
    changed_during_run: int
    lacking_probe: int = 0
    first_observed_at: datetime | None
    last_observed_at: datetime | None
    tie_out: TieOut
    compared: Compared
    leakage: tuple[Leakage, ...] = ()
    acceptances: tuple[AcceptanceNotice, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    still_there: tuple[Decision, ...] = ()
    since: SincePrevious | None = None
    settlement: Settlement | None = None

    @property
    def verdict(self) -> Verdict:
        """The result in one word."""
        if not sum(total.rows for total in self.buckets.values()):
            return Verdict.EMPTY
        if self.buckets[Bucket.UNRESOLVED].rows:
            return Verdict.INCOMPLETE
        if self.buckets[Bucket.BREAK].rows or self.buckets[Bucket.REJECTED].rows or self._is_statement_off:
            return Verdict.BREAKS
        is_partial = self.compared.are_amounts_left_out or self.compared.status_left_out
        return Verdict.PARTIAL if is_partial else Verdict.CLEAN

    @property
    def _is_statement_off(self) -> bool:
        return self.settlement is not None and self.settlement.needs_attention

    @property
    def completeness(self) -> str:
        """The limits of the report, in one sentence."""
        sentences = [COMPLETENESS if self.settlement is None else BOTH_WAYS]
        if self.since is not None:
            sentences += [self.since.reused_sentence, self.since.recheck_sentence]
        return " ".join(filter(None, sentences))

    @property
    def sentence(self) -> str:
        """The scope and the result, in one sentence."""
        if self.verdict is Verdict.EMPTY:
            return "Nothing was read, so nothing was compared."
        counts = ", ".join(self._counted(bucket, total.rows) for bucket, total in self.buckets.items() if total.rows)
        what = f"{self.compared.what} of " if self.compared.what else ""
        what = f"amounts not compared; {what}" if self.compared.are_amounts_left_out else what
        summed = "" if self.lines == self.rows else f", summed to {plural(self.rows, 'payment')}"
        others = self.settlement.not_in_ledger if self.settlement else 0
        more = f" and {plural(others, 'reference')} that only the statement has" if others else ""
        if self.settlement is not None and self.settlement.problems:
            counts += f"; {self.settlement.problems}"
        if self.since is not None:
            carried, reused = self.since.carried_rows, self.since.reused
            more += f" and {carried:,} carried from {self.since.previous.label}" if carried else ""
            if self.since.rechecked is not None and self.since.rechecked.rows:
                more += f" and {self.since.rechecked.rows:,} looked up again"
            counts += f"; {self.open_findings.sentence}" + (f"; {plural(reused, 'answer')} reused" if reused else "")
        return f"{what}{plural(self.lines, 'ledger row')}{summed}{more}: {counts}."

    def _counted(self, bucket: Bucket, rows: int) -> str:
        if bucket is Bucket.BREAK:
            return plural(rows, "break")
        is_exact = bucket is not Bucket.MATCHED or not self.tolerated
        return f"{rows:,} {bucket}" + ("" if is_exact else f" ({self.tolerated:,} within tolerance or accepted)")

    def exit_status(self, fail_on: Severity | str = Severity.MEDIUM, *, only_news: bool = False) -> int:
        """
        Return the exit status of a command.

        Args:
            fail_on: The least severe break that matters; a severity or its word.
            only_news: Of the breaks, only those that are new, changed or reopened since the previous run matter.

        Returns:
            The first that applies: 3 when nothing was found, so the key or the environment may be wrong; 1 for breaks
            that matter, rejected rows, and rows not paid at the service whose status was not compared; 75 for
            unresolved rows; 0.
        """
        least = Severity[fail_on.upper()] if isinstance(fail_on, str) else fail_on
        breaks = self.open_findings.news if only_news and self.since is not None else self.breaks
        if self.lacking_probe:
            return 3
        if (
            self.buckets[Bucket.REJECTED].rows
            or self._is_statement_off
            or self.compared.not_paid
            or any(count for severity, count in breaks.items() if severity >= least)
        ):
            return 1
        return 75 if self.buckets[Bucket.UNRESOLVED].rows else 0

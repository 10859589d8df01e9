"""Internal: the result of a reconciliation: verdict, counts, money and exit status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from math import inf
from types import MappingProxyType

from attrs import frozen

from payclient.reconcile._judgement.causes import Pattern, Settlement, TieOut, paid_by
from payclient.reconcile._judgement.codes import Code, Described, Severity
from payclient.reconcile._judgement.decisions import Decision
from payclient.reconcile._judgement.findings import BreakState, Bucket, FindingTotal, Row
from payclient.reconcile._judgement.records import FirstSeen, SincePrevious
from payclient.reconcile._judgement.rules import Accepted
from payclient.reconcile.ledger import UnreadSheet, UnusedColumn


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
        return cls(1, row.ledger_amount or 0, row.service_amount or 0, *paid_by(row))

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
    tie_out: TieOut
    compared: Compared
    leakage: tuple[Leakage, ...] = ()
    acceptances: tuple[AcceptanceNotice, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    still_there: tuple[Decision, ...] = ()
    since: SincePrevious | None = None
    shown: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    first_seen: tuple[FirstSeen, ...] = ()
    settlement: Settlement | None = None

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
    def follow_ups(self) -> tuple[FollowUp, ...]:
        """The next steps, the best first: for the verdict, and for breaks in an incomplete run."""
        first = {condition.verdict: condition for condition in reversed(self.conditions)}
        also = (first.get(Verdict.BREAKS),) if self.verdict is Verdict.INCOMPLETE else ()
        return tuple(step for condition in (first[self.verdict], *also) if condition for step in condition.follow_ups)

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


class FollowUp(StrEnum):
    """The next steps after a verdict. The command line makes a command of each."""

    DIAGNOSE = "diagnose"
    RESUME = "resume"
    EXPLAIN = "explain"
    SHOW = "show"
    READ_LEDGER = "read_ledger"
    CHOOSE_COLUMNS = "choose_columns"
    CHOOSE_SHEET = "choose_sheet"
    ASSUME_PAID = "assume_paid"


class Condition(Described):
    """
    A fact about a run. The first that is true gives the verdict and the advice.

    Attributes:
        verdict: The verdict if it is the first that is true.
        status: The exit status of such a run, if it matters to the caller. Otherwise that is 0.
        follow_ups: The next steps, the best first.
    """

    verdict: Verdict
    status: int
    follow_ups: tuple[FollowUp, ...]

    NOTHING_READ = "nothing_read", Verdict.EMPTY, 0, (FollowUp.READ_LEDGER,)
    NOTHING_FOUND = "nothing_found", Verdict.INCOMPLETE, 3, (FollowUp.DIAGNOSE,)
    NOTHING_ANSWERED = "nothing_answered", Verdict.INCOMPLETE, 75, (FollowUp.DIAGNOSE, FollowUp.RESUME)
    UNRESOLVED = "unresolved", Verdict.INCOMPLETE, 75, (FollowUp.RESUME,)
    BREAKS = "breaks", Verdict.BREAKS, 1, (FollowUp.EXPLAIN,)
    REJECTED = "rejected", Verdict.BREAKS, 1, (FollowUp.READ_LEDGER,)
    NOT_TIED = "not_tied", Verdict.BREAKS, 1, (FollowUp.SHOW,)
    AMOUNTS_LEFT_OUT = "amounts_left_out", Verdict.PARTIAL, 1, (FollowUp.CHOOSE_COLUMNS,)
    SHEETS_LEFT_OUT = "sheets_left_out", Verdict.PARTIAL, 1, (FollowUp.CHOOSE_SHEET,)
    COLUMNS_LEFT_OUT = "columns_left_out", Verdict.PARTIAL, 1, (FollowUp.CHOOSE_COLUMNS,)
    STATEMENT_LEFT_OUT = "statement_left_out", Verdict.PARTIAL, 1, (FollowUp.RESUME,)
    STATUS_LEFT_OUT = "status_left_out", Verdict.PARTIAL, 1, (FollowUp.ASSUME_PAID,)
    NOT_KNOWN = "not_known", Verdict.PARTIAL, 1, (FollowUp.SHOW,)
    NEWLY_LEFT_OUT = "newly_left_out", Verdict.PARTIAL, 1, (FollowUp.READ_LEDGER,)
    CLEAN = "clean", Verdict.CLEAN, 0, ()

"""The result of a reconciliation: verdict, counts, money and exit status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from math import inf
from types import MappingProxyType

from attrs import frozen

from payclient._shared.escape import escape_unprintable, plural, quote
from payclient.reconcile.ledger import UnusedColumn, as_option
from payclient.reconcile.nights import Decision, FirstSeen, SincePrevious
from payclient.reconcile.result._bridges import Settlement, TieOut, paid_by
from payclient.reconcile.result._conditions import EXIT_STATUSES, Condition, FailOn, Remedy, Verdict
from payclient.reconcile.result._patterns import Pattern
from payclient.reconcile.rules import Accepted
from payclient.reconcile.values import BreakState, Bucket, Code, FindingTotal, Row, Severity


@frozen(kw_only=True)
class Period:
    """The first and the last creation in a ledger, as it has them, and its usable rows with and without one."""

    first: datetime | None = None
    last: datetime | None = None
    lines: int = 0
    without: int = 0

    @property
    def sentence(self) -> str:
        """For people."""
        if self.first is None or self.last is None:
            return "unknown: no row of the ledger has a time of creation"
        without = f"; {plural(self.without, 'row')} without a time" if self.without else ""
        first, last = (at.isoformat(" ", "seconds") for at in (self.first, self.last))
        return f"{first} to {last}, by the creation of {plural(self.lines, 'row')}{without}"


COMPLETENESS = "Only references in the ledger were looked up. Payments missing from the ledger cannot appear here."
"""Part of every report, because a report without findings might suggest otherwise."""


BOTH_WAYS = (
    "Only references in the ledger or the statement were looked up: from the ledger to the service, from the statement "
    "to the service, and from the service to the statement. Payments missing from both cannot appear here."
)
"""The same, with a statement."""


@frozen
class Total:
    """
    Rows and their money.

    Attributes:
        rows: How many.
        ledger_amount: Sum of their amounts in the ledger; for carried rows, in the earlier ledger.
        service_amount: Sum of their amounts at the service, row by row, so a transaction that is
            on two rows counts twice; the tie-out counts it once.
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


@frozen(kw_only=True)
class Compared:
    """
    The number of comparisons by field.

    Attributes:
        fields: Rows in which each field was compared with an answer, for every field there is, the amount first.
        stated: The fields that the ledger has a column for.
        assumed_paid: Rows that were assumed paid, because the ledger has no status column.
        status_left_out: Rows whose status was not compared, because the ledger has none and none was assumed.
        not_paid: The rows of these that are not paid at the service.
        unused: The columns of the ledger that are neither used nor ignored by name, and that may say what a row means.
        unused_in_statement: The same of the statement.
    """

    fields: Mapping[str, int]
    stated: tuple[str, ...] = ()
    assumed_paid: int = 0
    status_left_out: int = 0
    not_paid: int = 0
    unused: tuple[UnusedColumn, ...] = ()
    unused_in_statement: tuple[UnusedColumn, ...] = ()

    @property
    def what(self) -> str:
        """The compared fields in words; empty if there are none."""
        most = max(self.fields.values(), default=0)
        found = {name: rows for name, rows in self.fields.items() if rows}
        names = [name if rows == most else f"{name} ({plural(rows, 'row')})" for name, rows in found.items()]
        if self.assumed_paid and not any(each.words for each in self.unused):  # one of them may be a status
            names.insert(1 if self.fields["amount"] else 0, "status (assumed paid)")
        return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)

    @property
    def are_amounts_left_out(self) -> bool:
        """Whether rows were compared, and no amount was: the ledger has no column that is used as the amount."""
        others = any(self.fields.values()) or self.assumed_paid or self.status_left_out
        return not self.fields["amount"] and bool(others)

    @property
    def unused_sentence(self) -> str:
        """The columns that are not used: the sums of numbers, and the counts of texts; empty if there are none."""
        found: dict[str, list[str]] = {}
        for of, columns in (("", self.unused), (" in the statement", self.unused_in_statement)):
            for each in columns:
                what = "not used" if each.amount is None else "not compared"
                found.setdefault(f"{what}{of}", []).append(each.sentence)
        for named in found.values():
            named[_MAX_UNUSED:] = [f"{len(named) - _MAX_UNUSED:,} more"] if named[_MAX_UNUSED:] else []
        return "; ".join(f"{what}: {'; '.join(named)}" for what, named in found.items())

    @property
    def unused_advice(self) -> str:
        """How to decide about the columns that are not used, with the options that ignore them all."""
        said = ["A column that is not used may say something else; use it with --column FIELD=NAME."]
        if self.unused:
            options = " ".join(as_option("ignore-column", each.name) for each in self.unused)
            said.append(f"If they say nothing about the payments: {options}")
        if self.unused_in_statement:
            names = ", ".join(quote(each.name) for each in self.unused_in_statement)
            said.append(
                f"If the statement's columns say nothing: ignore_columns = [{names}] in [statement] of the rules."
            )
        return " ".join(said)

    @property
    def remark(self) -> str:
        """The fields that were not compared, in one sentence; empty if there are none."""
        told = {"amount": self.are_amounts_left_out, "status": self.status_left_out or self.assumed_paid}
        names = [name for name, rows in self.fields.items() if not rows and not told.get(name)]
        why = {"the ledger does not have it": False, "no row with it was answered": True}
        said = [
            f"Not compared, because {reason}: {', '.join(found)}."
            for reason, is_stated in why.items()
            if (found := [name for name in names if (name in self.stated) is is_stated])
        ]
        if self.are_amounts_left_out:
            said.insert(0, "Amounts not compared: no column of the ledger is used as the amount.")
        if self.status_left_out:
            which = f"{self.not_paid:,} of {self.status_left_out:,} {'is' if self.not_paid == 1 else 'are'}"
            said.append(f"Status not compared; {which} not paid at the service.")
        return " ".join(said)


_MAX_UNUSED = 8
"""Columns of one kind that a sentence names."""


@frozen(kw_only=True)
class Leakage:
    """
    The leakage of one payment method.

    Attributes:
        method: The service's short code; empty if it has none.
        rows: Rows with such a finding that is not waived.
        short_received: Money of paid transactions that did not arrive.
        fee_off_schedule: Fees above their schedule; negative if below.
        possible: Money of paid transactions that may not have arrived: it is less than the amount, and no fee is known.
    """

    method: str
    rows: int = 0
    short_received: int = 0
    fee_off_schedule: int = 0
    possible: int = 0

    @property
    def sentence(self) -> str:
        """For people; safe to print."""
        return (
            f"{escape_unprintable(self.method) or 'no method'}: {plural(self.rows, 'row')}, "
            f"{self.short_received:,} not received, fees {self.fee_off_schedule:+,} against the schedule"
        ) + (f", up to {self.possible:,} more where no fee is known" if self.possible else "")


class AcceptanceState(StrEnum):
    """
    The state of an acceptance in one run; of several rows with its reference, the first of these counts.

    Attributes:
        CHANGED: The difference is no longer the one that was accepted, so it counts.
        ENDED: Its last day has passed, so the difference counts.
        ENDS_SOON: It holds, for at most seven more days.
        HOLDS: It holds.
        UNKNOWN: Its row could not be looked up.
        MET_NO_ROW: The ledger has no such row, or the row has no such difference any more.
    """

    CHANGED = "changed"
    ENDED = "ended"
    ENDS_SOON = "ends_soon"
    HOLDS = "holds"
    UNKNOWN = "unknown"
    MET_NO_ROW = "met_no_row"


REMARKS = {
    AcceptanceState.MET_NO_ROW: "matches no row; remove it",
    AcceptanceState.CHANGED: "does not fit the present difference; look at the row again",
    AcceptanceState.ENDED: "has ended; settle the difference, or accept it again",
    AcceptanceState.ENDS_SOON: "is about to end",
}


@frozen
class AcceptanceNotice:
    """An acceptance to review, with the reason."""

    accepted: Accepted
    state: AcceptanceState

    @property
    def sentence(self) -> str:
        """For people; safe to print."""
        which = f"{self.accepted.code} of {quote(self.accepted.reference)}"
        by = f"accepted by {self.accepted.owner} until {self.accepted.expires}"
        return escape_unprintable(f"{which}, {by}, {REMARKS[self.state]}", max_length=400)


AGES: Mapping[str, int | None] = MappingProxyType(
    {"up to 7 days": 7, "8 to 30 days": 30, "31 to 60 days": 60, "61 to 90 days": 90, "older": None}
)
"""The groups of age, each with its last day."""


@frozen(kw_only=True)
class OpenFindings:
    """The findings that make rows breaks, with the amounts at stake in them, and their roll-forward."""

    # A finding is counted once for its reference and code, whatever number of rows has it; its amount is the largest of
    # the rows, or its own if it is about all rows. It stays open until it is resolved, even while its state is not
    # known. A payment with several findings has its money at stake in each of them; `payments` counts it once, with its
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
    def sentence(self) -> str:
        """The roll-forward of the number of findings, and those with another amount or word."""
        unknown, changed = self.by_state[BreakState.NOT_KNOWN].count, self.changed
        return (
            f"open findings: {self.opening.count:,} + {self.new.count:,} new + {self.reopened.count:,} reopened - "
            f"{self.resolved.count:,} resolved = {self.closing.count:,}"
            + (f" ({unknown:,} not known)" if unknown else "")
            + (f", changed ({changed.count:,}): {changed.amount:+,} at stake" if changed.count else "")
        )

    @property
    def at_stake_sentence(self) -> str:
        """The open findings, the ones of more than 30 days, and the ones that count the same money twice."""
        old = f"; {self.old.count:,} of them for more than 30 days, with {self.old.amount:,}" if self.old.count else ""
        once = ""
        if self.payments != self.closing:
            payments = plural(self.payments.count, "payment")
            once = f"; {self.payments.amount:,} in {payments}, each counted once, by its largest finding"
        return f"{self.closing.count:,} open, with {self.closing.amount:,} at stake{old}{once}"

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
        codes: Rows and money by finding, for findings that occur; a row counts under each of its codes.
        breaks: Rows in the bucket `break`, by the severity of their primary finding.
        open_findings: The findings that make these rows breaks, and how they follow from the previous run.
        tolerated: Rows that matched within a tolerance, or because the difference was accepted.
        material: Breaks with as much at stake as the rules call material.
        changed_during_run: Rows whose two answers differ.
        lacking_probe: Unresolved rows whose answer is not trusted, because no other reference was found.
        first_observed_at: Time of the first answer; answers of earlier runs do not count.
        last_observed_at: Time of the last answer, second lookups included.
        tie_out: The bridge from the ledger's paid total to the service's.
        compared: The fields that were compared, and those that were not.
        leakage: Losses from short payouts and off-schedule fees, by payment method.
        still_there: Decisions of earlier runs that a break was corrected in the ledger, although it is still there.
        acceptances: Accepted differences to review: unmatched, changed, ended or about to end.
        patterns: Common features of many breaks, the ones with the most rows first.
        since: The changes since the previous run; None without one.
        shown: The service's behaviour in this run and earlier ones, by kind.
        first_seen: The part of it that no earlier run has shown; empty without a previous run.
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
    material: int = 0
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
    shown: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    first_seen: tuple[FirstSeen, ...] = ()
    settlement: Settlement | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions that hold, in their order; there is at least one."""
        return tuple(each for each in Condition if each.holds(self))

    @property
    def verdict(self) -> Verdict:
        """The result in one word."""
        return self.conditions[0].verdict

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What leads on, the best first: for the verdict, and for breaks in an incomplete run."""
        first = {each.verdict: each for each in reversed(self.conditions)}
        also = (first.get(Verdict.BREAKS),) if self.verdict is Verdict.INCOMPLETE else ()
        return tuple(remedy for each in (first[self.verdict], *also) if each for remedy in each.remedies)

    @property
    def missing_rows(self) -> int:
        """The rows that left the ledger although it covers their time, and the rules do not say that they may."""
        return 0 if self.since is None or self.since.ledger is None else self.since.ledger.missing.rows

    @property
    def completeness(self) -> str:
        """The limits of the report, in one sentence."""
        sentences = [COMPLETENESS if self.settlement is None else BOTH_WAYS]
        if self.since is not None:
            sentences += [self.since.ledger_sentence, self.since.reused_sentence]
        return " ".join(filter(None, sentences))

    @property
    def sentence(self) -> str:
        """The scope and the result, in one sentence."""
        if self.verdict is Verdict.EMPTY:
            return "Nothing was read, so nothing was compared."
        found = [self._counted(bucket, total.rows) for bucket, total in self.buckets.items() if total.rows]
        counts = ", ".join(found) or "none"
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
            counts += f"; {self.open_findings.sentence}" + (f"; {plural(reused, 'answer')} reused" if reused else "")
            counts += f"; {plural(self.missing_rows, 'row')} left the ledger" if self.missing_rows else ""
        unused = f"; {self.compared.unused_sentence}" if self.compared.unused_sentence else ""
        return f"{what}{plural(self.lines, 'ledger row')}{summed}{more}: {counts}{unused}."

    def _counted(self, bucket: Bucket, rows: int) -> str:
        if bucket is Bucket.BREAK:
            return plural(rows, "break")
        is_exact = bucket is not Bucket.MATCHED or not self.tolerated
        return f"{rows:,} {bucket}" + ("" if is_exact else f" ({self.tolerated:,} within tolerance or accepted)")

    def exit_status(self, fail_on: Severity | str = Severity.MEDIUM, *, only_news: bool = False) -> int:
        """
        Return the exit status of a command.

        Args:
            fail_on: The least severe break that matters, a severity or its word; or `partial`: as `medium`, and a
                verdict *partial* matters, too.
            only_news: Whether only breaks matter that are new, changed or reopened since the previous run.

        Returns:
            The first that applies: 3 when nothing was found, so the key or the environment may be wrong; 1 for breaks
            that matter, rejected rows, rows that left the ledger, a statement that does not tie, and rows not paid at
            the service whose status was not compared; 75 for unresolved rows; 0.
        """
        limits = FailOn.of(fail_on, only_news=only_news)
        found = {each.status for each in self.conditions if each.fails(self, limits)}
        return next((status for status in EXIT_STATUSES if status in found), 0)

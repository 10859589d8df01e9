"""The open findings of a run, how they follow from those of the run before, and the acceptances to review."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from math import inf
from types import MappingProxyType
from typing import Any

from attrs import define, field, frozen

from payclient._escape import escape_unprintable, plural, quote
from payclient.reconcile.nights import BreakChange
from payclient.reconcile.rules import Accepted, Rules
from payclient.reconcile.values import BreakState, Bucket, Code, FindingTotal, Row, Severity, TieOutError

_SOON_DAYS = 7


class AcceptanceState(StrEnum):
    """
    The state of an acceptance in one run.

    Attributes:
        MET_NO_ROW: The ledger has no such row, or the row has no such difference any more.
        CHANGED: The difference is no longer the one that was accepted, so it counts.
        ENDED: Its last day has passed, so the difference counts.
        ENDS_SOON: It holds, for at most seven more days.
        HOLDS: It holds.
        UNKNOWN: Its row could not be looked up.
    """

    MET_NO_ROW = "met_no_row"
    CHANGED = "changed"
    ENDED = "ended"
    ENDS_SOON = "ends_soon"
    HOLDS = "holds"
    UNKNOWN = "unknown"


_REMARKS = {
    AcceptanceState.MET_NO_ROW: "matches no row; remove it",
    AcceptanceState.CHANGED: "is not of the difference that is there now; look at the row again",
    AcceptanceState.ENDED: "has ended; settle the difference, or accept it again",
    AcceptanceState.ENDS_SOON: "is about to end",
}


@frozen
class AcceptanceNotice:
    """
    An acceptance to review.

    Attributes:
        accepted: The acceptance.
        state: Why it is listed.
    """

    accepted: Accepted
    state: AcceptanceState

    @property
    def sentence(self) -> str:
        """For people; safe to print."""
        which = f"{self.accepted.code} of {quote(self.accepted.reference)}"
        by = f"accepted by {self.accepted.owner} until {self.accepted.expires}"
        return escape_unprintable(f"{which}, {by}, {_REMARKS[self.state]}", max_length=400)


@define
class Acceptances:
    """Tracks the acceptances of the rules across rows; memory grows with the acceptances, not the rows."""

    _rules: Rules
    _decided: Collection[tuple[str, str]] = ()
    _by_reference: dict[str, list[Accepted]] = field(init=False, factory=dict)
    _states: dict[Accepted, AcceptanceState] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        for each in self._rules.accepted:
            self._by_reference.setdefault(each.reference, []).append(each)

    def add(self, row: Row) -> None:
        """Take one row."""
        for each in self._by_reference.get(row.reference or "", ()):
            # Of several rows with one reference, the one that needs a review counts.
            states = {self._states.get(each, AcceptanceState.MET_NO_ROW), self._state(each, row)}
            self._states[each] = next(state for state in _BY_URGENCY if state in states)

    def _state(self, accepted: Accepted, row: Row) -> AcceptanceState:
        at = row.confirmed_at or row.observed_at
        finding = next((each for each in row.findings if each.code is accepted.code), None)
        if row.bucket is Bucket.UNRESOLVED:
            return AcceptanceState.UNKNOWN
        if finding is None or at is None:
            return AcceptanceState.MET_NO_ROW
        days = accepted.days_left(at, self._rules.time_zone)
        if not finding.waived:
            return AcceptanceState.ENDED if days < 0 else AcceptanceState.CHANGED
        if finding.waived != accepted.waiver or days > _SOON_DAYS:
            return AcceptanceState.HOLDS
        return AcceptanceState.ENDS_SOON

    def notices(self) -> Iterator[AcceptanceNotice]:
        """Yield the acceptances to review, in the order of the rules."""
        for each in self._rules.accepted:
            state = self._states.get(each, AcceptanceState.MET_NO_ROW)
            is_settled = state is AcceptanceState.MET_NO_ROW and (each.reference, each.code.value) in self._decided
            if state in _REMARKS and not is_settled:  # a decision cannot be removed from the rules
                yield AcceptanceNotice(each, state)


_BY_URGENCY = (
    *(AcceptanceState.CHANGED, AcceptanceState.ENDED, AcceptanceState.ENDS_SOON),
    *(AcceptanceState.HOLDS, AcceptanceState.UNKNOWN, AcceptanceState.MET_NO_ROW),
)


AGES: Mapping[str, int | None] = MappingProxyType(
    {"up to 7 days": 7, "8 to 30 days": 30, "31 to 60 days": 60, "61 to 90 days": 90, "older": None}
)
"""The groups of age, each with its last day."""


@frozen(kw_only=True)
class OpenFindings:
    """The findings that make rows breaks, with the amounts at stake in them, and their roll-forward."""

    # A finding is counted once for its reference and code, whatever number of rows has it; its amount is the sum over
    # the rows, or of one about all rows the amount itself. It stays open until it is resolved, also while its state is
    # not known. A payment with several findings has its money at stake in each of them; `payments` counts it once, with
    # its largest. The closing count is `opening + new + reopened - resolved`, and its amount is that `+ changed`.

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
        """The open findings, those of more than 30 days, and those that count the same money twice."""
        old = f"; {self.old.count:,} of them for more than 30 days, with {self.old.amount:,}" if self.old.count else ""
        once = ""
        if self.payments != self.closing:
            payments = plural(self.payments.count, "payment")
            once = f"; {self.payments.amount:,} in {payments}, each counted once, by its largest finding"
        return f"{self.closing.count:,} open, with {self.closing.amount:,} at stake{old}{once}"

    @property
    def old(self) -> FindingTotal:
        """Those that have been open for more than 30 days."""
        totals = [total for age, total in self.by_age.items() if (AGES[age] or inf) > 30]
        return FindingTotal(sum(each.count for each in totals), sum(each.amount for each in totals))


@define
class OpenTally:
    """Counts findings in one table, of which each figure is a sum."""

    _cells: defaultdict[tuple[BreakState, Severity, Code, str], FindingTotal] = field(
        init=False, factory=lambda: defaultdict(FindingTotal)
    )
    _opening: FindingTotal = field(init=False, factory=FindingTotal)
    _changed: FindingTotal = field(init=False, factory=FindingTotal)
    _payments: FindingTotal = field(init=False, factory=FindingTotal)
    _reference: str = field(init=False, default="")
    _largest: int | None = field(init=False, default=None)

    def add(self, row: Row) -> None:
        """Count the findings that make *row* a break and are new."""
        if row.bucket is not Bucket.BREAK:
            return
        for each in row.findings:
            is_new = each.history is None or each.history.state is BreakState.NEW
            if each.is_decisive and is_new:
                is_first = each.code not in row.counted_before
                amount = each.at_stake if is_first or not each.code.is_of_ledger else 0
                self._cells[BreakState.NEW, each.severity, each.code, _age(0)] += FindingTotal(is_first, amount or 0)
        before = max(row.counted_before.values(), default=None)
        self._count_payment(max(row.at_stake_by_code.values(), default=0), before)

    def add_change(self, change: BreakChange) -> None:
        """Count a break, unless it was resolved before; those of one reference come one after the other."""
        if change.is_old:
            return
        was, now, history = change.was, change.now, change.history
        self._cells[history.state, now.severity, now.code, _age(history.age_days)] += FindingTotal(1, now.at_stake)
        if was is not None and not was.is_resolved:
            self._opening += FindingTotal(1, was.at_stake)
        if was is not None and history.state is BreakState.CHANGED:
            self._changed += FindingTotal(1, now.at_stake - was.at_stake)
        if change.reference != self._reference:
            self._reference, self._largest = change.reference, change.beside
        if history.state in _OPEN:
            self._count_payment(now.at_stake, self._largest)
            self._largest = max(now.at_stake, self._largest or 0)

    def _count_payment(self, amount: int, before: int | None) -> None:
        """Count the payment of a finding; it was counted with the amount *before*, or not at all."""
        self._payments += FindingTotal(before is None, max(amount - (before or 0), 0))

    def open_findings(self, before: FindingTotal | None = None) -> OpenFindings:
        """Return the totals; *before* is the closing total that the previous run states itself."""
        by_state, by_code, by_age = self._by(0, list(BreakState)), self._by(2, _OPEN), self._by(3, _OPEN)
        news = self._by(1, [state for state in BreakState if state.is_news])
        found = OpenFindings(
            opening=self._opening if before is None else before,
            new=by_state[BreakState.NEW],
            reopened=by_state[BreakState.REOPENED],
            resolved=by_state[BreakState.RESOLVED],
            changed=self._changed,
            closing=sum(by_code.values(), FindingTotal()),
            by_state=MappingProxyType({state: by_state[state] for state in BreakState}),
            by_code=MappingProxyType({code: by_code[code] for code in Code if code in by_code}),
            by_age=MappingProxyType({age: by_age[age] for age in AGES}),
            payments=self._payments,
            news=MappingProxyType({severity: news[severity].count for severity in reversed(Severity)}),
        )
        steps = found.opening + found.new + found.reopened - found.resolved + FindingTotal(0, found.changed.amount)
        if steps != found.closing:
            message = f"the roll-forward does not tie: it leads to {steps}, and {found.closing} is open"
            raise TieOutError(message)
        return found

    def _by(self, place: int, states: Collection[BreakState]) -> defaultdict[Any, FindingTotal]:
        """Return the sums of the findings in *states*, by what their keys have at *place*."""
        sums: defaultdict[Any, FindingTotal] = defaultdict(FindingTotal)
        for key, total in self._cells.items():
            if key[0] in states:
                sums[key[place]] += total
        return sums


_OPEN = frozenset(BreakState) - {BreakState.RESOLVED}


def _age(days: int) -> str:
    return next(age for age, last in AGES.items() if last is None or days <= last)

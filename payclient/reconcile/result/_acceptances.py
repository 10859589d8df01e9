"""Acceptances to review: those that match no row, have ended or will end soon."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum

from attrs import define, field, frozen

from payclient._escape import escape_unprintable, quote
from payclient.reconcile.rules import Accepted, Rules
from payclient.reconcile.values import Bucket, Row

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

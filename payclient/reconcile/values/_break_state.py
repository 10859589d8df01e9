"""State and age of a break."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import frozen


class BreakState(StrEnum):
    """
    What became of a break between two runs.

    Attributes:
        NEW: The earlier run did not have it.
        STILL_OPEN: Both runs have it, with the same values.
        CHANGED: Both runs have it, with another amount or word.
        REOPENED: It was resolved in a run before, and is back.
        RESOLVED: It is gone; `BreakChange.by` says why.
        NOT_KNOWN: The later run cannot tell: the row is unresolved or rejected now, or was not asked about.
    """

    NEW = "new"
    STILL_OPEN = "still_open"
    CHANGED = "changed"
    REOPENED = "reopened"
    RESOLVED = "resolved"
    NOT_KNOWN = "not_known"

    @property
    def label(self) -> str:
        """The state in words."""
        return self.value.replace("_", " ")

    @property
    def is_news(self) -> bool:
        """New, changed or reopened."""
        return self in (BreakState.NEW, BreakState.CHANGED, BreakState.REOPENED)


class ResolvedBy(StrEnum):
    """
    What made a break go away.

    Attributes:
        LEDGER: The ledger says something else now.
        SERVICE: The service says something else now.
        STATEMENT: The statement lists it otherwise now.
        BOTH: Both sides say something else now, and agree.
        RULE: Both say the same as before, and the rules judge it otherwise.
        ACCEPTANCE: The difference was accepted.
    """

    LEDGER = "ledger"
    SERVICE = "service"
    STATEMENT = "statement"
    BOTH = "both"
    RULE = "rule"
    ACCEPTANCE = "acceptance"

    @property
    def label(self) -> str:
        """Who or what it was, in words."""
        return _RESOLVERS[self]


_RESOLVERS = {
    ResolvedBy.LEDGER: "the ledger",
    ResolvedBy.SERVICE: "the service",
    ResolvedBy.STATEMENT: "the statement",
    ResolvedBy.BOTH: "both sides",
    ResolvedBy.RULE: "a rule",
    ResolvedBy.ACCEPTANCE: "an acceptance",
}


@frozen
class FindingTotal:
    """A number of findings, and the sum of the amounts at stake in them."""

    count: int = 0
    amount: int = 0

    def __add__(self, other: FindingTotal) -> FindingTotal:
        return FindingTotal(self.count + other.count, self.amount + other.amount)

    def __sub__(self, other: FindingTotal) -> FindingTotal:
        return FindingTotal(self.count - other.count, self.amount - other.amount)


@frozen(kw_only=True)
class History:
    """
    The age of a break.

    Attributes:
        state: What became of it since the previous run.
        first_seen: When the first run that had it looked it up, in UTC; None if no time is known.
        first_run: The name of that run: of its folder.
        age_days: Days from then to the answer of this run, as a calendar in UTC counts them.
    """

    state: BreakState
    first_seen: datetime | None
    first_run: str
    age_days: int

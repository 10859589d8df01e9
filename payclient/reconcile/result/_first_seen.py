"""Words, deviations, errors and transitions that the service shows in a run, and had not shown in the runs before."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from attrs import define, field, frozen

from payclient._shared.escape import escape_unprintable, plural, quote
from payclient.reconcile.values import Row

_MAX_LENGTH = 80
_MAX_KNOWN = 1_000
"""Limit of each kind; a service that shows more does not use words."""


class Sight(StrEnum):
    """
    Something that the service shows.

    Attributes:
        STATUS: A word of status.
        METHOD: A short code of a payment method.
        DEVIATION: A kind of deviation from the specification.
        ERROR: An error of a lookup that could not be repeated away.
        TRANSITION: A payment had one state in the previous run, and has another now.
    """

    STATUS = "status"
    METHOD = "method"
    DEVIATION = "deviation"
    ERROR = "error"
    TRANSITION = "transition"


@frozen(kw_only=True)
class FirstSeen:
    """Something that no run before has shown, with the payments that show it and their amount."""

    kind: Sight
    value: str
    rows: int
    amount: int

    @property
    def sentence(self) -> str:
        """For people; safe to print."""
        said = self.value if self.kind in (Sight.ERROR, Sight.TRANSITION) else quote(self.value)
        return escape_unprintable(f"{self.kind} {said}: {plural(self.rows, 'row')}, {self.amount:,}", max_length=300)


@define
class Shown:
    """Counts what the service shows in the rows of one run; memory does not grow with them."""

    _counts: dict[Sight, dict[str, list[int]]] = field(init=False, factory=lambda: {each: {} for each in Sight})

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

    def known(self, before: Mapping[str, tuple[str, ...]] | None) -> Mapping[str, tuple[str, ...]]:
        """Return all that this run and those *before* have shown, by kind, for the run after it."""
        earlier = before or {}
        return {
            kind.value: tuple(sorted({*earlier.get(kind.value, ()), *counts})[:_MAX_KNOWN])
            for kind, counts in self._counts.items()
        }

    def first(self, before: Mapping[str, tuple[str, ...]] | None) -> Iterator[FirstSeen]:
        """Yield what the runs *before* have not shown, the most rows first; nothing if that is not known."""
        for kind, counts in self._counts.items() if before is not None else ():
            known = () if before is None else before.get(kind.value, ())
            if len(known) < _MAX_KNOWN:
                new = ((value, count) for value, count in counts.items() if value not in known)
                for value, (rows, amount) in sorted(new, key=lambda each: (-each[1][0], each[0])):
                    yield FirstSeen(kind=kind, value=value, rows=rows, amount=amount)


def _sights(row: Row) -> Iterator[tuple[Sight, str]]:
    found = row.transaction
    if row.error:
        yield Sight.ERROR, row.error
    if found is None:
        return
    if found.status:
        yield Sight.STATUS, found.status
    if found.payment_method:
        yield Sight.METHOD, found.payment_method
    for deviation in dict.fromkeys(found.deviations):
        yield Sight.DEVIATION, deviation
    if row.state_before:
        yield Sight.TRANSITION, f"{row.state_before} → {row.state}"

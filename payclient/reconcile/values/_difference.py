"""The steps of a bridge between two totals: how many rows each has, and by how much they move the total."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, Self, TypeVar

from attrs import define, field, frozen


class BridgeStep(StrEnum):
    """A reason for a difference between two totals, with its meaning for reports."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        step = str.__new__(cls, name)
        step._value_, step.meaning = name, meaning
        return step

    @property
    def label(self) -> str:
        """The name in reports."""
        return self.value.replace("_", " ")


_Step = TypeVar("_Step", bound=BridgeStep)


@frozen(kw_only=True)
class Difference(Generic[_Step]):
    """
    One step of a bridge.

    Attributes:
        step: The reason.
        rows: Rows in it: of the ledger, or references and rejected lines of a statement.
        added: Sum over the rows that increase the total; 0 or more.
        taken_off: Sum over the rows that decrease it; 0 or less.
    """

    step: _Step
    rows: int
    added: int = 0
    taken_off: int = 0

    @property
    def amount(self) -> int:
        """The net change of the total."""
        return self.added + self.taken_off


@define
class Differences(Generic[_Step]):
    """Sums up the differences by step, in the order of *kinds*."""

    _kinds: type[_Step]
    _counts: dict[_Step, list[int]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._counts = {step: [0, 0, 0] for step in self._kinds}

    def add(self, step: _Step, amount: int, rows: int = 1) -> None:
        """Count *rows* that move the total by *amount* together."""
        counts = self._counts[step]
        counts[0] += rows
        counts[1 if amount > 0 else 2] += amount

    def steps(self) -> tuple[Difference[_Step], ...]:
        """Return every step, empty ones included."""
        return tuple(
            Difference(step=step, rows=rows, added=added, taken_off=taken_off)
            for step, (rows, added, taken_off) in self._counts.items()
        )

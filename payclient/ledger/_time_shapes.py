"""What the cells of a column of times have in common: the orders of day, month and year that fit all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache

from payclient.ledger._times import TimeFormat

_DAY = re.compile(r"(?:[0-9]{1,4}|[^\W\d_]+\.?)([-/. ]|, |\. )(?:[0-9]{1,2}|[^\W\d_]+\.?)([-/. ]|, )[0-9]{2,4}")
_CLOCKS = tuple(
    (re.compile(pattern), clock)
    for pattern, clock in (
        (r"", ""),
        (r"[ T][0-9]{1,2}:[0-9]{2}", "%H:%M"),
        (r"[ T][0-9]{1,2}:[0-9]{2}:[0-9]{2}", "%H:%M:%S"),
        (r"[ T][0-9]{1,2}\.[0-9]{2}", "%H.%M"),
        (r"[ T][0-9]{1,2}\.[0-9]{2}\.[0-9]{2}", "%H.%M.%S"),
        (r"[ T][0-9]{1,2}:[0-9]{2}:[0-9]{2}[.][0-9]{1,9}", "%H:%M:%S.%f"),
        (r" [0-9]{1,2}\.[0-9]{2}\.[0-9]{2} [AaPp]\.?[Mm]\.?", "%I.%M.%S %p"),
        (r" [0-9]{1,2}:[0-9]{2} [AaPp]\.?[Mm]\.?", "%I:%M %p"),
        (r" [0-9]{1,2}:[0-9]{2}:[0-9]{2} [AaPp]\.?[Mm]\.?", "%I:%M:%S %p"),
    )
)
_ORDERS = (
    *("%d{0}%m{1}%Y", "%m{0}%d{1}%Y", "%d{0}%m{1}%y", "%m{0}%d{1}%y", "%y{0}%m{1}%d", "%y{0}%d{1}%m"),
    *("%Y{0}%m{1}%d", "%Y{0}%d{1}%m", "%d{0}%b{1}%Y", "%d{0}%b{1}%y", "%b{0}%d{1}%Y", "%b{0}%d{1}%y"),
)
"""The orders in use."""
_MAX_CLOCKS = 4
_READ = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


class TimeShapes:
    """
    Remembers which orders of day, month and year fit every cell.

    Attributes:
        first: The first cell.
        can_tell: Whether an order may still fit every cell.
        example: A cell that the orders read differently; the first one if they never do.
    """

    def __init__(self) -> None:
        self.first = ""
        self.example = ""
        self._orders: tuple[str, ...] = ()
        self._clocks: list[str] = []
        self.can_tell = True

    def add(self, cell: str) -> None:
        """Take one more cell into account; an empty one says nothing."""
        if not cell or not self.can_tell:
            return
        if _READ.match(cell):  # without a declaration; with one for the others, it would be refused
            self.can_tell = False
            return
        marks, clock = _parts(cell)
        if clock is None:
            self.can_tell = False
            return
        if not self.first:
            self.first = self.example = cell
            self._orders = tuple(order.format(*marks) for order in _ORDERS)
        if clock not in self._clocks:
            self._clocks.append(clock)
        read = {order: _format(f"{order}{clock}").read(cell) for order in self._orders}
        self._orders = tuple(order for order, time in read.items() if time is not None)
        self.can_tell = bool(self._orders) and len(self._clocks) <= _MAX_CLOCKS
        if len({read[order] for order in self._orders}) > 1:
            self.example = cell

    def readings(self) -> Sequence[tuple[tuple[str, ...], str]]:
        """Return the formats of each order that fits, with what it makes of the example; none if it is not known."""
        if not self.can_tell or not self.first:
            return []
        cell = self.example if len(self._orders) > 1 else self.first
        found: dict[datetime | None, tuple[tuple[str, ...], str]] = {}
        for order in self._orders:
            time = _format(f"{order}{_parts(cell)[1]}").read(cell)
            found.setdefault(time, (tuple(f"{order}{clock}" for clock in self._clocks), str(time)))
        return list(found.values())


@cache
def _format(text: str) -> TimeFormat:
    return TimeFormat(text)


def _parts(cell: str) -> tuple[tuple[str, str], str | None]:
    """Return the two marks in the day, and the format of what follows the day; None if that is not known."""
    match = _DAY.match(cell)
    if match is None:
        return ("", ""), None
    rest = cell[match.end() :]
    found = (f"{rest[:1]}{clock}" for pattern, clock in _CLOCKS if pattern.fullmatch(rest))
    return (match[1], match[2]), next(found, None)

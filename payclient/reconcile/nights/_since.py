"""Changes since the previous run: of the ledger, of the rules, of the rows asked about, and of the service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any

from attrs import define, field, frozen

from payclient.reconcile.ledger import UnusedColumn
from payclient.reconcile.nights._records import PreviousRun
from payclient.reconcile.rules import RuleChange, in_zone
from payclient.reconcile.values import Bucket, Row

_MAX_MISSING = 20


@frozen
class RowTotal:
    """A number of ledger rows and the sum of their amounts."""

    rows: int = 0
    amount: int = 0

    def __add__(self, other: RowTotal) -> RowTotal:
        return RowTotal(self.rows + other.rows, self.amount + other.amount)

    def __sub__(self, other: RowTotal) -> RowTotal:
        return RowTotal(self.rows - other.rows, self.amount - other.amount)


@frozen(kw_only=True)
class LedgerChange:
    """The rows of the ledger next to the previous run: `before + new - left = now`, amounts with `changed`."""

    before: RowTotal = RowTotal()
    new: RowTotal = RowTotal()
    left: RowTotal = RowTotal()
    changed: int = 0  # rows in both, with other values
    now: RowTotal = RowTotal()
    missing: RowTotal = RowTotal()  # rows that left, matched before and within the time that the ledger still covers
    references: tuple[str, ...] = ()  # the first of these
    covers_from: datetime | None = None  # the first creation in the ledger. None if no row has one


def ledger_change(rows: Iterable[Sequence[Any]], covers_from: datetime | None, zone: tzinfo | None) -> LedgerChange:
    """Return the change from *rows* in order: reference, is_now, number, amount, creation, and whether it matched."""
    totals = {name: RowTotal() for name in ("before", "new", "left", "now", "missing")}
    changed, references = 0, list[str]()
    for reference, group in groupby(rows, key=itemgetter(0)):
        sides, is_missing = [RowTotal(), RowTotal()], True
        for _, is_now, number, amount, created, is_matched in group:
            sides[is_now] += RowTotal(number, int(amount or 0))
            is_missing = is_missing and not is_now and bool(is_matched) and is_covered(created, covers_from, zone)
        more = sides[1] - sides[0]
        totals["before"] += sides[0]
        totals["now"] += sides[1]
        if more.rows:
            totals["new" if more.rows > 0 else "left"] += more if more.rows > 0 else RowTotal() - more
        else:
            changed += more.amount
        if is_missing:
            totals["missing"] += sides[0]
            references += [reference][: _MAX_MISSING - len(references)]
    return LedgerChange(**totals, changed=changed, references=tuple(references), covers_from=covers_from)


def is_covered(created: str | None, covers_from: datetime | None, zone: tzinfo | None) -> bool:
    if created is None or covers_from is None:
        return True
    return in_zone(datetime.fromisoformat(created), zone) >= in_zone(covers_from, zone)


@frozen(kw_only=True)
class SincePrevious:
    """The changes since the previous run, apart from its breaks."""

    previous: PreviousRun
    carried: Mapping[Bucket, int]  # rows dropped from the ledger since, by current bucket
    changed_rules: tuple[str, ...] = ()
    rule_changes: tuple[RuleChange, ...] = ()
    changed_by: str = ""  # as in the rules
    reused: int = 0
    oldest_reused_at: datetime | None = None
    newest_reused_at: datetime | None = None
    ledger: LedgerChange | None = None  # None if the rows of the previous run are not known

    @property
    def carried_rows(self) -> int:
        return sum(self.carried.values())


# What the service shows first

_MAX_LENGTH = 80
_MAX_KNOWN = 1_000
"""Limit of each kind. A service that shows more does not use words."""
_MAX_WORDS = 20
"""Limit of each column that is not used. One with more has names, and a new name has no meaning."""
_OF_COLUMN = ": "


class Sight(StrEnum):
    """
    Something that the service shows.

    Attributes:
        STATUS: A word of status.
        METHOD: A short code of a payment method.
        DEVIATION: A kind of deviation from the specification.
        ERROR: An error of a lookup that remained after all retries.
        TRANSITION: A payment had one state in the previous run, and has another now.
        WORD: A word in a column of the ledger or the statement that is not used.
    """

    STATUS = "status"
    METHOD = "method"
    DEVIATION = "deviation"
    ERROR = "error"
    TRANSITION = "transition"
    WORD = "word"


@frozen(kw_only=True)
class FirstSeen:
    """Something that no earlier run has shown, with the payments that show it and their amount. A word has none."""

    kind: Sight
    value: str
    rows: int
    amount: int

    @property
    def column(self) -> str:
        """The column of a word."""
        return self.value.partition(_OF_COLUMN)[0]


@define
class Shown:
    """Counts what the service shows in the rows of one run. Memory does not grow with them."""

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

    def set_words(self, columns: Iterable[UnusedColumn]) -> None:
        """Set what the columns that are not used say. The column stands before each word."""
        few = [each for each in columns if len(each.words) <= _MAX_WORDS]
        self._counts[Sight.WORD] = {
            f"{each.name[:_MAX_LENGTH]}{_OF_COLUMN}{word[:_MAX_LENGTH]}": [rows, 0]
            for each in few
            for word, rows in each.words.items()
        }

    def known(self, before: Mapping[str, tuple[str, ...]] | None) -> Mapping[str, tuple[str, ...]]:
        """Return all that this run and those *before* have shown, by kind, for the run after it."""
        earlier = before or {}
        return {
            kind.value: tuple(sorted({*earlier.get(kind.value, ()), *counts})[:_MAX_KNOWN])
            for kind, counts in self._counts.items()
        }

    def first(self, before: Mapping[str, tuple[str, ...]] | None) -> Iterator[FirstSeen]:
        """Yield the parts that no earlier run has shown, the most rows first. Nothing if *before* is unknown."""
        for kind, counts in self._counts.items() if before is not None else ():
            known = None if before is None else before.get(kind.value)
            if known is not None and len(known) < _MAX_KNOWN:
                of_word = known if kind is Sight.WORD else ()
                of_column = Counter(value.partition(_OF_COLUMN)[0] for value in of_word)
                new = (
                    (value, count)
                    for value, count in counts.items()
                    if value not in known and of_column[value.partition(_OF_COLUMN)[0]] < _MAX_WORDS
                )
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

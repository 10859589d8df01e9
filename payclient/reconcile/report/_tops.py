"""The rows that people read: breaks that are new, the worst of the others, and the largest of each kind."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator
from heapq import nlargest
from typing import Generic, TypeAlias, TypeVar

from attrs import define, evolve, field, frozen

from payclient.reconcile import Bucket, Code, Finding, Row, Severity, Total
from payclient.reconcile.judgement.compare import reff_key
from payclient.reconcile.report._rows import ROWS
from payclient.reconcile.report._wording import CASE_ONLY, Wording

_Item = TypeVar("_Item")

MAX_NEWS, MAX_OTHERS = 10, 5
_MAX_KINDS = 5


@define
class Top(Generic[_Item]):
    """The highest-ranking items of any number. Equal ones in order of arrival."""

    _room: int
    _rank: Callable[[_Item], tuple[int, ...]]
    count: int = field(init=False, default=0)
    _items: list[_Item] = field(init=False, factory=list)

    def add(self, item: _Item) -> None:
        self.count += 1
        self._items.append(item)
        if len(self._items) > 2 * self._room:
            self._items = list(self.kept)

    @property
    def kept(self) -> tuple[_Item, ...]:
        return tuple(nlargest(self._room, self._items, key=self._rank))


@frozen(kw_only=True)
class BreakItem:
    """A finding about a reference, however many rows have it; of an invoice that was paid twice, all its payments."""

    row: Row
    finding: Finding
    references: tuple[str, ...]
    at_stake: int

    @classmethod
    def of(cls, row: Row, finding: Finding) -> "BreakItem":
        stake = row.at_stake if finding.at_stake is None else finding.at_stake
        return cls(row=row, finding=finding, references=(row.reference or "",), at_stake=stake)

    @property
    def key(self) -> Hashable:
        if self.finding.code is Code.PAID_TWICE and self.row.transaction is not None:
            return self.finding.code, reff_key(self.row.transaction.merchant_reff)
        return self.finding.code, self.references

    @property
    def rank(self) -> tuple[int, ...]:
        return self.row.is_material, self.finding.severity, self.at_stake

    def joined(self, other: "BreakItem") -> "BreakItem":
        """Return the item of both, which have the same key. Its row is the one with more at stake."""
        first = other if other.at_stake > self.at_stake else self
        return evolve(first, references=tuple(dict.fromkeys((*self.references, *other.references))))


@define
class _Items:
    """The highest-ranking items, each key once. Memory grows only with the room."""

    _room: int
    _kept: dict[Hashable, BreakItem] = field(init=False, factory=dict)

    def add(self, item: BreakItem) -> None:
        known = self._kept.get(item.key)
        self._kept[item.key] = item if known is None else known.joined(item)
        if len(self._kept) > 2 * self._room:
            self._kept = {each.key: each for each in self.kept}

    @property
    def kept(self) -> tuple[BreakItem, ...]:
        return tuple(nlargest(self._room, self._kept.values(), key=lambda each: each.rank))


@define
class Worst:
    """The breaks of a run that are shown first, totals by kind, and rejected rows."""

    _news: _Items = field(init=False, factory=lambda: _Items(MAX_NEWS))
    _others: _Items = field(init=False, factory=lambda: _Items(MAX_OTHERS))
    rejected: Top[Row] = field(init=False, factory=lambda: Top(MAX_OTHERS, lambda row: row.rank))
    other_rows: int = field(init=False, default=0)
    _kinds: dict[tuple[Severity, Code], Total] = field(init=False, factory=dict)

    def add(self, row: Row) -> None:
        if row.bucket is Bucket.REJECTED:
            self.rejected.add(row)
        if row.bucket is not Bucket.BREAK or row.primary is None:
            return
        self.other_rows += row.history is None or not row.history.state.is_news
        for finding in row.findings:
            if finding.is_decisive:
                is_news = finding.history is not None and finding.history.state.is_news
                (self._news if is_news else self._others).add(BreakItem.of(row, finding))
        kind = row.severity, row.primary.code
        self._kinds[kind] = self._kinds.get(kind, Total()) + Total.of(row)

    @property
    def news(self) -> tuple[BreakItem, ...]:
        """What is new, changed or reopened."""
        return self._news.kept

    @property
    def others(self) -> tuple[BreakItem, ...]:
        return self._others.kept

    @property
    def references(self) -> list[str]:
        return [each.row.reference for each in (*self.news, *self.others) if each.row.reference]

    def kinds(self) -> Iterator[tuple[str, Total]]:
        """Yield the rows and the money of each kind of break, the most severe first. Together they are all breaks."""
        kinds = sorted(self._kinds.items(), key=lambda kind: (-kind[0][0], -kind[1].rows))
        totals: dict[str, Total] = {}
        for place, ((_, code), total) in enumerate(kinds):
            label = code.value if place < _MAX_KINDS or len(kinds) == _MAX_KINDS + 1 else "other kinds"
            totals[label] = totals.get(label, Total()) + total
        yield from totals.items()


Kind: TypeAlias = tuple[Severity, Code] | Code | Bucket
"""Breaks by severity and leading finding. Other rows with findings by the leading one. Otherwise the bucket."""

ADVICE = {
    Bucket.UNRESOLVED: "Nothing is known about these yet, not even that they are missing. The next run asks again.",
    Bucket.REJECTED: "These lines of the ledger cannot be used. Correct them in the ledger, and run again.",
}
ALLOWED = "A rule allows the difference, or it may still be in time; each row says why."


@frozen(kw_only=True)
class Group:
    """One table of rows, and the file that has those that are not shown."""

    anchor: str
    title: str
    advice: str
    code: str = ""
    severity: str = ""
    total: Total
    rows: tuple[Row, ...]
    rest: str


@define
class RowGroups:
    """The rows that need a person's attention, by kind. Memory grows with *room*, not with the rows."""

    _room: int
    _tops: defaultdict[Kind, Top[Row]] = field(init=False)
    _totals: defaultdict[Kind, Total] = field(init=False, factory=lambda: defaultdict(Total))

    def __attrs_post_init__(self) -> None:
        self._tops = defaultdict(lambda: Top(self._room, lambda row: row.rank))

    def add(self, row: Row) -> None:
        """Add *row*, unless it matched or is open without a finding."""
        kind: Kind = row.bucket
        if row.primary is not None and row.bucket not in ADVICE:
            kind = (row.severity, row.primary.code) if row.bucket is Bucket.BREAK else row.primary.code
        if kind not in (Bucket.MATCHED, Bucket.OPEN):
            self._tops[kind].add(row)
            self._totals[kind] += Total.of(row)

    def breaks(self, files: Collection[str]) -> list[Group]:
        """Return the breaks, the most severe first. Each row is in one group."""
        kinds = ((severity, code) for severity in reversed(Severity) for code in Code)
        rest = _first(files, "breaks.csv", ROWS, "report.xlsx")
        return [self._of_code(code, rest, severity) for severity, code in kinds if (severity, code) in self._tops]

    def remarks(self, files: Collection[str]) -> list[Group]:
        """Return the rows that are not breaks, although there is something to say about them."""
        return [self._of_code(code, _first(files, ROWS)) for code in Code if code in self._tops]

    def of(self, bucket: Bucket, files: Collection[str]) -> Group:
        return Group(
            anchor=bucket.value,
            title=bucket.capitalize(),
            advice=ADVICE[bucket],
            total=self._totals[bucket],
            rows=self._tops[bucket].kept,
            rest=_first(files, ROWS, "report.xlsx"),
        )

    def _of_code(self, code: Code, rest: str, severity: Severity | None = None) -> Group:
        kind = code if severity is None else (severity, code)
        rows = self._tops[kind].kept
        is_case_only = code is Code.MERCHANT_REFF_DIFFERS and severity is Severity.MEDIUM
        wording = CASE_ONLY if is_case_only else Wording(code.label, code.advice)
        is_allowed = severity is None and not code.is_soft
        return Group(
            anchor=f"{code}-{severity.word}" if severity is not None else f"{code}-remark",
            title=wording.title,
            advice=ALLOWED if is_allowed else wording.advice,
            code=code.value,
            severity="" if severity is None else severity.word,
            total=self._totals[kind],
            rows=_together(rows) if code is Code.PAID_TWICE else rows,
            rest=rest,
        )


def _together(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return *rows* with the rows of one invoice side by side, the invoices in the order of their first row."""
    keys = [reff_key(row.transaction.merchant_reff) if row.transaction else None for row in rows]
    return tuple(row for _, row in sorted(zip(map(keys.index, keys), rows, strict=True), key=lambda each: each[0]))


def _first(files: Collection[str], *wanted: str) -> str:
    return next((name for name in wanted if name in files), "")

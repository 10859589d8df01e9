"""The breaks that a person reads first, on the page and in the mail: new ones, then the worst of the others."""

from collections.abc import Hashable, Iterator
from heapq import nlargest

from attrs import define, evolve, field, frozen

from payclient.reconcile import Bucket, Code, Finding, Row, Severity, Total
from payclient.reconcile.judgement import reff_key
from payclient.reconcile.report._rows import Top

MAX_NEWS, MAX_OTHERS = 10, 5
_MAX_KINDS = 5


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
    """The highest-ranking items, each key once. Memory grows with the room alone."""

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

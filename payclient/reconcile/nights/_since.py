"""Changes since the previous run: carried rows, reused answers, and the effect of other rules alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from attrs import define, field, frozen

from payclient._escape import plural
from payclient.reconcile.nights._recheck import Rechecked
from payclient.reconcile.nights._records import PreviousRun
from payclient.reconcile.rules import Rules, changed_rules
from payclient.reconcile.values import Bucket, Row


@frozen(kw_only=True)
class SincePrevious:
    """The changes since the previous run, apart from its breaks."""

    previous: PreviousRun
    carried: Mapping[Bucket, int]  # rows dropped from the ledger since, by current bucket
    changed_rules: tuple[str, ...] = ()
    removed_by_rules: int = 0  # rows that only the previous rules would flag
    added_by_rules: int = 0  # breaks that the previous rules would not flag
    reused: int = 0
    oldest_reused_at: datetime | None = None
    newest_reused_at: datetime | None = None
    rechecked: Rechecked | None = None  # None if none were to be looked up again

    @property
    def reused_sentence(self) -> str:
        """The number of rows that were not looked up, and the age of their answers; empty if all were."""
        if self.oldest_reused_at is None or self.newest_reused_at is None:
            return ""
        first, last = (f"{at:%Y-%m-%d %H:%M}" for at in (self.oldest_reused_at, self.newest_reused_at))
        when = f"of {first}" if first == last else f"from {first} to {last}"
        were, answers = ("was", "its answer is") if self.reused == 1 else ("were", "their answers are")
        rows = plural(self.reused, "row")
        return f"{rows} that matched before {were} not looked up again: {answers} {when} UTC."

    @property
    def recheck_sentence(self) -> str:
        """The rows that were looked up again, or that the previous run knew of and this one does not; else empty."""
        if self.rechecked is not None:
            return self.rechecked.sentence
        if not self.previous.recheck:
            return ""
        rows = plural(self.previous.matched, "row")
        return (
            f"Not looked up again: rows that matched in earlier runs. The previous run knew of {rows}, by "
            f"{self.previous.recheck}, which this run was not given; runs after this one do not know of them."
        )

    @property
    def carried_rows(self) -> int:
        """All rows that were carried over."""
        return sum(self.carried.values())

    @property
    def rules_remark(self) -> str:
        """The rules that changed, or a remark that none did."""
        return self.rules_sentence or f"the same as in the previous run, of {self.previous.label}"

    @property
    def rules_sentence(self) -> str:
        """The rules that changed, and their effect alone; empty if none did."""
        if not self.changed_rules:
            return ""
        effects = [
            f"{plural(self.removed_by_rules, 'difference')} no longer counted as a break" * bool(self.removed_by_rules),
            f"{plural(self.added_by_rules, 'break')} more" * bool(self.added_by_rules),
        ]
        effect = " and ".join(filter(None, effects)) or "no break more or less"
        return f"Rules that changed since the previous run: {', '.join(self.changed_rules)}. They alone made {effect}."


@define
class SinceTally:
    """Counts what changed, row by row."""

    _previous: PreviousRun
    _rules: Rules
    _carried: Counter[Bucket] = field(init=False, factory=Counter)
    _removed: int = field(init=False, default=0)
    _added: int = field(init=False, default=0)
    _reused: int = field(init=False, default=0)
    _oldest: datetime | None = field(init=False, default=None)
    _newest: datetime | None = field(init=False, default=None)
    _rechecked: Rechecked = field(init=False, factory=Rechecked)

    def add(self, row: Row) -> None:
        """Count *row*."""
        if row.is_rechecked:
            is_answered = row.bucket is not Bucket.UNRESOLVED
            self._rechecked.add(is_changed=row.bucket is Bucket.BREAK, is_answered=is_answered)
        elif row.carried_from:
            self._carried[row.bucket] += 1
        if row.reused_from and (at := row.observed_at) is not None:
            self._reused += 1
            self._oldest = at if self._oldest is None else min(self._oldest, at)
            self._newest = at if self._newest is None else max(self._newest, at)
        if row.earlier_bucket is None:
            return
        if row.bucket is Bucket.BREAK:
            self._added += 1
        elif row.earlier_bucket in (Bucket.BREAK, Bucket.UNRESOLVED) and row.bucket is not Bucket.UNRESOLVED:
            self._removed += 1

    def since(self, population: int | None) -> SincePrevious:
        """Return the counts; *population* is that of the rows that are looked up again, None if none are."""
        self._rechecked.population = population or 0
        return SincePrevious(
            previous=self._previous,
            carried=MappingProxyType({bucket: self._carried[bucket] for bucket in Bucket}),
            changed_rules=changed_rules(self._previous.rules, self._rules),
            removed_by_rules=self._removed,
            added_by_rules=self._added,
            reused=self._reused,
            oldest_reused_at=self._oldest,
            newest_reused_at=self._newest,
            rechecked=None if population is None else self._rechecked,
        )

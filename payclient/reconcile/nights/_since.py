"""Changes since the previous run: carried rows, reused answers, and the effect of other rules alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import frozen

from payclient._shared.escape import plural
from payclient.reconcile.nights._records import PreviousRun
from payclient.reconcile.values import Bucket

_OF_ROWS = ("ledger", "statement", "lines")
"""Rules that decide which rows there are; the rows by the rules before are gone."""


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
    def carried_rows(self) -> int:
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
        effect = " and ".join(filter(None, effects))
        unknown = " and ".join(name for name in self.changed_rules if name in _OF_ROWS)
        said = f"Rules that changed since the previous run: {', '.join(self.changed_rules)}."
        if unknown and not effect:
            return f"{said} The effect of {unknown} on the breaks is not known."
        apart = f", apart from the effect of {unknown}, which is not known" if unknown else ""
        return f"{said} They alone made {effect or 'no break more or less'}{apart}."

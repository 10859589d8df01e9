"""Changes since the previous run: carried rows, reused answers, the effect of other rules alone, and rechecked rows.

Rechecked rows matched in an earlier run and are looked up again. A report has them under `carried_from`, with
`matched`. Their money is in no total, unless a statement lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Context
from math import exp, fsum, lgamma, log, log1p

from attrs import frozen

from payclient._shared.escape import plural
from payclient.reconcile.nights._records import PreviousRun
from payclient.reconcile.rules import duration_text
from payclient.reconcile.values import Bucket

CONFIDENCE = 0.95


@frozen(kw_only=True)
class Recheck:
    """The choice of rows to look up again: their age in whole days, and the size and seed of a sample."""

    max_age: timedelta
    sample: int | None = None
    seed: int = 0

    @property
    def options(self) -> str:
        """The options of the command line that name it."""
        given = {
            "--recheck": duration_text(self.max_age).replace(" ", ""),
            "--sample": self.sample,
            "--seed": self.seed,
        }
        return " ".join(f"{option} {value}" for option, value in given.items() if value)


@frozen(kw_only=True)
class Rechecked:
    """The rows looked up again, of a population that the ledger does not list, and their proof."""

    population: int = 0
    rows: int = 0
    unanswered: int = 0
    changed: int = 0

    @property
    def looked_at(self) -> int:
        return self.rows - self.unanswered

    @property
    def at_most(self) -> float | None:
        """The largest share of all rows that may have changed; None if all were looked at, or none was."""
        if not self.looked_at or self.looked_at >= self.population:
            return None
        return upper_bound(self.changed, self.looked_at)

    @property
    def sentence(self) -> str:
        """The result, and the share of all rows that it proves, for people."""
        of = f"{self.looked_at:,} of {plural(self.population, 'row')} that matched in earlier runs looked up again: "
        said = f"{of}{self.changed:,} changed"
        if self.at_most is not None:
            said += f", so at most {_percent(self.at_most)} % of them have, with {CONFIDENCE * 100:.0f} % confidence"
        return f"{said}; {self.unanswered:,} without an answer." if self.unanswered else f"{said}."


def upper_bound(changed: int, looked_at: int, *, confidence: float = CONFIDENCE) -> float:
    """Return the largest share that is consistent with so few in a random sample, at that confidence."""
    # C. J. Clopper, E. S. Pearson, 1934, one-sided; for none it is the rule of three, about 3 / *looked_at*.
    # W. Hoeffding, 1956: a sample in proportion to strata shows few at most as often.
    low, high = changed / looked_at, 1.0
    if low == high:
        return high
    while (middle := (low + high) / 2) not in (low, high):
        if _at_most(changed, looked_at, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(changed: int, looked_at: int, share: float) -> float:
    """Return the probability of at most *changed* of *looked_at*, each with that probability."""
    yes, no = log(share), log1p(-share)
    whole = lgamma(looked_at + 1)
    return fsum(
        exp(whole - lgamma(k + 1) - lgamma(looked_at - k + 1) + k * yes + (looked_at - k) * no)
        for k in range(changed + 1)
    )


def _percent(share: float) -> str:
    """Return *share* in percent, rounded up to two digits."""
    rounded = Context(prec=2, rounding=ROUND_CEILING).create_decimal_from_float(share * 100)
    return f"{rounded.normalize():f}"


_OF_ROWS = ("ledger", "statement", "lines", "invoices")
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

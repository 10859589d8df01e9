"""
Rows that matched in an earlier run and are looked up again: what they were, and what the result proves.

A report has them under `carried_from`, with `matched`. Their money is in no total, unless a statement lists them.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import ROUND_CEILING, Context
from math import exp, fsum, lgamma, log, log1p

from attrs import define, field, frozen

from payclient._escape import plural
from payclient.reconcile.rules import duration_text

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


@define
class Rechecked:
    """The rows that were looked up again, of a population that the ledger does not list, and what they prove."""

    population: int = 0
    rows: int = field(init=False, default=0)
    unanswered: int = field(init=False, default=0)
    changed: int = field(init=False, default=0)

    def add(self, *, is_changed: bool, is_answered: bool) -> None:
        """Count a row."""
        self.rows += 1
        self.changed += is_changed
        self.unanswered += not is_answered

    @property
    def looked_at(self) -> int:
        """The number of rows with an answer."""
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
    """Return the largest share of which a random sample may show so few, with that confidence."""
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

"""The tables of rows on the page: which rows stand together, under which words, and where the others are."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from attrs import frozen

from payclient.reconcile import Bucket, Code, Row, Severity, Total
from payclient.report._piles import Pile, Piles
from payclient.report._wording import CASE_ONLY, CODES

_SOFT = frozenset({Code.SERVICE_ARITHMETIC, Code.TOLERATED_DEVIATION})
_HAS_BREAKS = ("breaks.csv", "rows.jsonl", "report.xlsx")
_HAS_ALL = ("rows.jsonl", "report.xlsx")

UNRESOLVED = "Nothing is known about these yet, not even that they are missing. The next run asks again."
REJECTED = "These lines of the ledger cannot be used. Correct them in the ledger, and run again."
ALLOWED = "A rule allows the difference, or it may still be in time; each row says why."


@frozen(kw_only=True)
class Group:
    """
    One table of rows.

    Attributes:
        anchor: By which the page links to it.
        title: What its rows have in common.
        advice: What that means, and what to do.
        code: Of the finding that they have in common; empty when there is none.
        severity: Of that finding, in a word; empty when it does not matter.
        total: Of all such rows.
        rows: Those that are shown.
        rest: The file that has all of them; empty when none was written.
    """

    anchor: str
    title: str
    advice: str
    code: str = ""
    severity: str = ""
    total: Total
    rows: tuple[Row, ...]
    rest: str


def breaks(piles: Piles, files: Collection[str]) -> Iterator[Group]:
    """Yield the breaks, the most severe first; each row is in one group."""
    for severity, code, pile in piles.breaks():
        yield _of_code(code, pile, _first(_HAS_BREAKS, files), severity)


def remarks(piles: Piles, files: Collection[str]) -> Iterator[Group]:
    """Yield the rows that are no breaks, although there is something to say about them."""
    for code, pile in piles.remarks():
        yield _of_code(code, pile, _first(_HAS_ALL, files))


def of_bucket(bucket: Bucket, piles: Piles, files: Collection[str]) -> Group:
    """Return the unresolved or the rejected rows."""
    pile = piles.of(bucket)
    return Group(
        anchor=bucket.value,
        title=bucket.capitalize(),
        advice=UNRESOLVED if bucket is Bucket.UNRESOLVED else REJECTED,
        total=pile.total,
        rows=pile.rows,
        rest=_first(_HAS_ALL, files),
    )


def _of_code(code: Code, pile: Pile, rest: str, severity: Severity | None = None) -> Group:
    is_case_only = code is Code.MERCHANT_REFF_DIFFERS and severity is Severity.MEDIUM
    wording = CASE_ONLY if is_case_only else CODES[code]
    is_allowed = severity is None and code not in _SOFT
    return Group(
        anchor=f"{code}-{severity.word}" if severity is not None else f"{code}-remark",
        title=wording.title,
        advice=ALLOWED if is_allowed else wording.advice,
        code=code.value,
        severity="" if severity is None else severity.word,
        total=pile.total,
        rows=pile.rows,
        rest=rest,
    )


def _first(wanted: tuple[str, ...], files: Collection[str]) -> str:
    return next((name for name in wanted if name in files), "")

"""The model of a report and the list of its outputs: what several of them show is made here, once for each run."""

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any

from attrs import Factory, define, field, frozen

from payclient.reconcile import Row, StateTotal, Summary
from payclient.reconcile._atomic import AtomicFiles
from payclient.reconcile.judgement.decisions import Decisions
from payclient.reconcile.judgement.records import BreakChange, ReferenceRecord
from payclient.reconcile.judgement.sides import Payout
from payclient.reconcile.report import _wording as words
from payclient.reconcile.report._about import About, Fact, facts, to_sign
from payclient.reconcile.report._wording import BridgeLine


def _made(value: Callable[[Summary], Any]) -> Any:
    return field(init=False, default=Factory(lambda self: value(self.summary), takes_self=True))


def _about(value: Callable[[Summary, About], Any]) -> Any:
    return field(init=False, default=Factory(lambda self: value(self.summary, self.about), takes_self=True))


@frozen
class Report:
    """A run in figures and words, apart from its rows. The bridge to the statement is empty without one."""

    summary: Summary
    about: About
    headline: str = _made(words.headline)
    says: str = _made(words.sentence)
    advice: str = _made(words.verdict_advice)
    completeness: str = _made(words.completeness)
    caution: str = _made(lambda summary: words.caution(summary.compared))
    remark: str = _made(lambda summary: words.remark(summary.compared))
    movement: str = _made(lambda summary: words.roll_forward_sentence(summary.open_findings))
    roll_forward: tuple[tuple[str, int | None, int], ...] = _made(
        lambda summary: tuple(words.roll_forward_lines(summary.open_findings))
    )
    bridge: tuple[BridgeLine, ...] = _made(lambda summary: tuple(words.bridge_lines(summary.tie_out)))
    statement_bridge: tuple[BridgeLine, ...] = _made(
        lambda summary: tuple(words.settlement_lines(summary.settlement)) if summary.settlement else ()
    )
    payouts: tuple[Payout, ...] = _made(
        lambda summary: tuple(words.payout_lines(summary.settlement)) if summary.settlement else ()
    )
    payout_sentence: str = _made(
        lambda summary: words.payout_sentence(summary.settlement) if summary.settlement else ""
    )
    states: Mapping[str, StateTotal] = _made(lambda summary: words.money_by_status(summary.tie_out))
    facts: tuple[Fact, ...] = _about(lambda summary, about: tuple(facts(summary, about)))
    to_sign: tuple[Fact, ...] = _about(lambda summary, about: tuple(to_sign(summary, about)))


@define(kw_only=True)
class Opening:
    """What an output is made of. Its `begin` adds the functions that it needs to be called, and closes at the end."""

    new: AtomicFiles
    names: Collection[str]  # files of this report, and others that stay next to them
    decisions: Decisions
    resources: ExitStack
    run: str = ""
    on_row: list[Callable[[Row], object]] = field(factory=list)
    on_gone: list[Callable[[BreakChange], object]] = field(factory=list)
    on_settled: list[Callable[[ReferenceRecord], object]] = field(factory=list)
    at_end: list[Callable[[Report], object]] = field(factory=list)


@frozen
class Output:
    """
    One file of a report.

    Attributes:
        name: Of the file.
        position: Among the files that the page lists, from 1. 0 for the page itself.
        holds: What it is for, on the page.
        module: Next to this one, with a function `begin(opening)`. Empty if `_files` writes it.
        extra: The extra that the module needs.
        needs: `previous` or `statement` for a file that is written only with it.
    """

    name: str
    position: int
    holds: str
    module: str = field(default="", kw_only=True)
    extra: str = field(default="", kw_only=True)
    needs: str = field(default="", kw_only=True)


HISTORY = "history.jsonl"
PAYOUTS = "payouts.csv"
OUTPUTS = (
    Output("summary.json", 7, "the figures of this page, for programs"),
    Output("rows.jsonl", 5, "every row, with both sides in full"),
    Output("rows.parquet", 6, "every row as a table, for a database or a notebook", module="_parquet", extra="parquet"),
    Output("breaks.csv", 2, "every break, with both sides"),
    Output(
        "report.xlsx", 1, "a work list with room for owner, resolution and comment", module="_workbook", extra="xlsx"
    ),
    Output("report.html", 0, "", module="_html", extra="report"),
    Output(HISTORY, 4, "breaks of earlier runs that are gone, or not known", needs="previous"),
    Output(PAYOUTS, 3, "the payments of each payout of the statement", needs="statement"),
)
"""In the order of replacing the files."""

FORMATS: tuple[str, ...] = tuple(each.name for each in OUTPUTS if not each.needs)
"""The files of every report, among which a caller may choose."""

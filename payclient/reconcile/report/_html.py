"""Write `report.html`: one page to read, print and sign, safe against text from the ledger and the service."""

import hashlib
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partial
from importlib.resources import files as resources
from operator import attrgetter
from typing import IO, Any
from unicodedata import combining

from attrs import fields
from jinja2 import Environment, FunctionLoader, StrictUndefined

from payclient._shared.escape import escape_unprintable, plural
from payclient.reconcile import Bucket, Row, moved_by
from payclient.reconcile.judgement.records import BreakChange
from payclient.reconcile.judgement.summary import OpenFindings
from payclient.reconcile.report._about import when
from payclient.reconcile.report._integrity import DECISIONS, MANIFEST
from payclient.reconcile.report._model import OUTPUTS, Opening, Report
from payclient.reconcile.report._tops import Group, RowGroups, Top, Worst
from payclient.reconcile.report._wording import (
    BridgeLine,
    in_words,
    news_count,
    open_ages,
    pattern_words,
    rules_sentences,
)

ROOM = 60
"""Rows shown of each kind."""

_MAX_LENGTH = 600
_MINUS = "\N{MINUS SIGN}"
_MAX_MARKS = 3  # the most that a writing system needs


FILES = {each.name: each.holds for each in sorted(OUTPUTS, key=attrgetter("position")) if each.holds} | {
    MANIFEST: "fingerprints of all files, to detect changes",
    "journal.sqlite": "every answer, to resume the run and to write this report again",
    DECISIONS: "the decisions about breaks",
}
"""The other files of a report, and what each is for."""


def begin(opening: Opening) -> None:
    page = HtmlReport()
    opening.on_row.append(page.add)
    opening.on_gone.append(page.add_gone)
    opening.at_end.append(lambda report: page.write(opening.new.text("report.html"), report, files=opening.names))


class HtmlReport:
    """The page of one run. *room* rows of each kind are shown, those with the largest amounts."""

    def __init__(self, *, room: int = ROOM) -> None:
        self._groups = RowGroups(room)
        self._worst = Worst()
        self._gone = Top[BreakChange](room, lambda change: (change.now.severity, change.now.at_stake))

    def add(self, row: Row) -> None:
        self._groups.add(row)
        self._worst.add(row)

    def add_gone(self, change: BreakChange) -> None:
        if not change.is_old:
            self._gone.add(change)

    def write(self, file: IO[str], report: Report, *, files: Collection[str] = FILES.keys()) -> None:
        """Write the page, with links to the *files* next to it that it knows."""
        summary, breaks = report.summary, self._groups.breaks(files)
        earlier = () if summary.since is None else summary.since.previous.trend_with_itself
        states = [(state, total) for state, total in report.states.items() if total.ledger_rows or total.service_rows]
        shown = {
            **{each.name: getattr(report, each.name) for each in fields(Report)},
            **_by_kind(breaks, summary.open_findings),
            "bridge_lines": _taken(report.bridge),
            "settlement_lines": _taken(report.statement_bridge),
            "states": states,
            "worst": self._worst,
            "more_news": news_count(summary.open_findings) - sum(len(each.references) for each in self._worst.news),
            "written": files,
            "since": summary.since,
            "settlement": summary.settlement,
            "trend": [*(count for _, count in earlier), summary.buckets[Bucket.BREAK].rows],
            "gone": self._gone,
            "breaks": breaks,
            "unresolved": self._groups.of(Bucket.UNRESOLVED, files),
            "rejected": self._groups.of(Bucket.REJECTED, files),
            "remarks": self._groups.remarks(files),
            "files": [(name, holds) for name, holds in FILES.items() if name in files],
        }
        file.writelines(_environment().get_template("report.html.j2").generate({**shown, **_assets()}))


def _by_kind(breaks: Iterable[Group], found: OpenFindings) -> dict[str, Any]:
    """Return the kinds of breaks with the money at stake. A code with two severities has it in the first."""
    stakes = {code.value: total.amount for code, total in found.by_code.items()}
    kinds = [(group, stakes.pop(group.code, None)) for group in breaks]
    also = [(code.label, stakes[code.value]) for code in found.by_code if code.value in stakes]
    return {"kinds": kinds, "also": also, "ages": [each for each in open_ages(found) if each[1]]}


def _taken(lines: Iterable[BridgeLine]) -> list[BridgeLine]:
    """Return the totals, and the steps that rows are in."""
    return [line for line in lines if line.step is None or line.step.rows]


# The template


@cache
def _assets() -> dict[str, str]:
    """Return style and script, with the hashes that the Content-Security-Policy requires."""
    css, js = _asset("report.css"), _asset("report.js")
    return {"css": css, "css_hash": _hash(css), "js": js, "js_hash": _hash(js)}


def _asset(name: str) -> str:
    return resources("payclient.reconcile.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., object]] = {
        "days": partial(plural, noun="day"),
        "difference": _difference,
        "in_words": in_words,
        "number": _number,
        "pattern_words": pattern_words,
        "references": partial(plural, noun="reference"),
        "rows": partial(plural, noun="row"),
        "signed": _signed,
        "rules_sentences": rules_sentences,
        "when": when,
    }
    environment.filters.update(filters)
    return environment


def _harmless(value: Any) -> Any:
    """Escape unprintable characters in every value, once for the whole template."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    shown = escape_unprintable(value, max_length=_MAX_LENGTH)
    return shown if shown.isascii() else "".join(_unstacked(shown))


def _unstacked(text: str) -> Iterator[str]:
    """Yield the characters of *text*. Marks that stack over their letter, and so over other lines, by number."""
    marks = 0
    for character in text:
        marks = marks + 1 if combining(character) else 0
        yield f"<U+{ord(character):04X}>" if marks > _MAX_MARKS else character


def _number(number: int) -> str:
    return f"{number:,}".replace("-", _MINUS)


def _signed(number: int) -> str:
    return _number(number) if number <= 0 else f"+{number:,}"


def _difference(row: Row) -> str:
    moved = moved_by(row)
    return _signed(moved) if moved else ""

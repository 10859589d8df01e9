"""Write `report.html`: one page that a person reads, prints and signs, and through which nobody else can act."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files as resources
from typing import IO, Any
from unicodedata import combining

from jinja2 import Environment, StrictUndefined, Template

from payclient._visible import visible
from payclient.reconcile import COMPLETENESS, Bucket, Finding, Row, Summary
from payclient.report import _groups as groups
from payclient.report._about import About
from payclient.report._chart import bridge_chart
from payclient.report._facts import facts, when
from payclient.report._grid import grid
from payclient.report._matrix import Matrix
from payclient.report._piles import Piles
from payclient.report._wording import BUCKETS, STEPS, VERDICTS

FILES = {
    "report.xlsx": "a work list with room for owner, resolution and comment, and every row",
    "breaks.csv": "every break, with both sides",
    "rows.jsonl": "every row, with both sides in full",
    "summary.json": "the figures of this page, for programs",
    "manifest.json": "fingerprints of all files, to see that none was changed",
}
"""What may lie beside the page, and what it is good for."""

_ROOM = 80
_LONGEST = 600
_MINUS = "\N{MINUS SIGN}"
_MOST_MARKS = 3  # as many as writing needs anywhere


class HtmlReport:
    """
    The page of one run.

    Args:
        room: Rows shown of each kind, those with the largest amounts; the page says how many there are.

    Shape:
        Give each row to `add`, in the order of the ledger, then call `write`. What is kept grows with *room*, not with
        the rows. The same rows give the same bytes.
    """

    def __init__(self, *, room: int = _ROOM) -> None:
        self._piles = Piles(room)

    def add(self, row: Row) -> None:
        """Take one row."""
        self._piles.add(row)

    def write(
        self, file: IO[str], summary: Summary, about: About, *, matrix: Matrix, files: Collection[str] = FILES.keys()
    ) -> None:
        """
        Write the page.

        Args:
            file: Open for text, in UTF-8 and without translation of line ends.
            summary: What all the rows come to.
            about: The run.
            matrix: The same rows, counted by status and method.
            files: Names of the files that are written beside the page; it links to those it knows.
        """
        shown = {**_figures(summary, about), **_rows(self._piles, files), **_assets()}
        shown["grid"] = grid(matrix, about.rules)
        file.writelines(_template().generate(shown))


def _figures(summary: Summary, about: About) -> dict[str, Any]:
    return {
        "summary": summary,
        "about": about,
        "completeness": COMPLETENESS,
        "ledger_name": about.ledger.name if about.ledger else "",
        "verdict": VERDICTS[summary.verdict],
        "tiles": [(bucket.value, BUCKETS[bucket], total) for bucket, total in summary.buckets.items()],
        "tie_out": summary.tie_out,
        "steps": [(STEPS[step.step], step) for step in summary.tie_out.steps if step.rows],
        "chart": bridge_chart(summary.tie_out),
        "facts": list(facts(summary, about)),
    }


def _rows(piles: Piles, files: Collection[str]) -> dict[str, Any]:
    return {
        "breaks": list(groups.breaks(piles, files)),
        "unresolved": groups.of_bucket(Bucket.UNRESOLVED, piles, files),
        "rejected": groups.of_bucket(Bucket.REJECTED, piles, files),
        "remarks": list(groups.remarks(piles, files)),
        "files": [(name, holds) for name, holds in FILES.items() if name in files],
    }


@cache
def _assets() -> dict[str, str]:
    """Return style and script, and the hashes without which a browser runs neither."""
    css, js = _asset("report.css"), _asset("report.js")
    return {"css": css, "css_hash": _hash(css), "js": js, "js_hash": _hash(js)}


def _asset(name: str) -> str:
    return resources("payclient.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash as a Content-Security-Policy writes it."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_harmless, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "difference": _difference,
        "number": _number,
        "rows": _count,
        "signed": _signed,
        "when": when,
    }
    return environment.from_string(_asset("report.html.j2"))


def _harmless(value: Any) -> Any:
    """Make every text of strangers visible; said here once, so that no place in the template can forget it."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    shown = visible(value, longest=_LONGEST)
    return shown if shown.isascii() else "".join(_unstacked(shown))


def _unstacked(text: str) -> Iterator[str]:
    """Yield the characters of *text*; marks that pile up over their letter, and so over other lines, by number."""
    marks = 0
    for character in text:
        marks = marks + 1 if combining(character) else 0
        yield f"<U+{ord(character):04X}>" if marks > _MOST_MARKS else character


def _number(number: int) -> str:
    return f"{number:,}".replace("-", _MINUS)


def _signed(number: int) -> str:
    return _number(number) if number <= 0 else f"+{number:,}"


def _count(rows: int) -> str:
    return f"{rows:,} row" if rows == 1 else f"{rows:,} rows"


def _difference(finding: Finding) -> str:
    """Return by how much the service is above the ledger; empty for what is no number."""
    ours, theirs = finding.ledger, finding.service
    return _signed(theirs - ours) if isinstance(ours, int) and isinstance(theirs, int) else ""

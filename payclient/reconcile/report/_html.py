"""Write `report.html`: one page to read, print and sign, safe against text from the ledger and the service."""

import hashlib
from base64 import b64encode
from collections.abc import Collection, Iterator, Sequence
from functools import cache, partial
from importlib.resources import files as resources
from itertools import product
from operator import attrgetter
from typing import IO, Any
from unicodedata import combining

from attrs import frozen
from jinja2 import Environment, FunctionLoader, StrictUndefined

from payclient._shared.escape import escape_unprintable, plural
from payclient.reconcile import Bucket, Code, Condition, Row, Severity, Total, moved_by
from payclient.reconcile.report import wording as words
from payclient.reconcile.report.integrity import DECISIONS, MANIFEST
from payclient.reconcile.report.model import OUTPUTS, Kind, Opening, Report, Worst, invoice_of
from payclient.reconcile.report.rows import ROWS

_MAX_LENGTH = 600  # of a value
_MAX_SENTENCE = 4_000  # made of shortened values
_MINUS = "\N{MINUS SIGN}"
_MAX_MARKS = 3  # the most that a writing system needs

FILES = {each.name: each.holds for each in sorted(OUTPUTS, key=attrgetter("position")) if each.holds} | {
    MANIFEST: "fingerprints of all files, to detect changes",
    "journal.sqlite": "every answer, to resume the run and to write this report again",
    DECISIONS: "the decisions about breaks",
}
"""The other files of a report, and what each is for."""

_ADVICE = {Bucket.UNRESOLVED: Condition.UNRESOLVED, Bucket.REJECTED: Condition.REJECTED}
ALLOWED = "A rule allows the difference, or it may still be in time. Each row has the reason."


def begin(opening: Opening) -> None:
    opening.at_end.append(lambda report: write(opening.new.text("report.html"), report, files=opening.names))


def write(file: IO[str], report: Report, *, files: Collection[str] = FILES.keys()) -> None:
    """Write the page, with links to the *files* next to it that it knows."""
    worst = report.worst
    shown = {
        "report": report,
        "words": words,
        "states": [each for each in report.states.items() if each[1].ledger_rows or each[1].service_rows],
        "groups": groups_of(worst, files),
        "unresolved": group_of(worst, Bucket.UNRESOLVED, files),
        "rejected": group_of(worst, Bucket.REJECTED, files),
        "written": files,
        "files": [(name, holds) for name, holds in FILES.items() if name in files],
    }
    file.writelines(_environment().get_template("report.html.j2").generate({**shown, **_assets()}))


@frozen(kw_only=True)
class Group:
    """One table of rows, and the file with the rows that are not shown."""

    anchor: str
    title: str
    advice: str
    code: str
    severity: str
    total: Total
    rows: Sequence[Row]
    rest: str


def groups_of(worst: Worst, files: Collection[str]) -> list[Group]:
    """Return a table of each kind: the breaks, the most severe first, then the rows that only have a remark."""
    kinds: tuple[Kind, ...] = (*product(reversed(Severity), Code), *Code)
    return [group_of(worst, kind, files) for kind in kinds if kind in worst.totals]


def group_of(worst: Worst, kind: Kind, files: Collection[str]) -> Group:
    """Return the rows of one kind."""
    severity, code = kind if isinstance(kind, tuple) else (None, kind)
    rows: Sequence[Row] = worst.rows[kind].kept
    wanted: tuple[str, ...] = (ROWS, "report.xlsx")
    if isinstance(code, Bucket):
        title, advice = code.capitalize(), words.ADVICE[_ADVICE[code]]
    elif severity is None:
        title, advice, wanted = code.label, code.advice if code.is_soft else ALLOWED, (ROWS,)
    else:
        title, advice, wanted = code.label, code.advice, ("breaks.csv", ROWS, "report.xlsx")
    if kind == (Severity.MEDIUM, Code.MERCHANT_REFF_DIFFERS):
        title, advice = words.CASE_ONLY
    if severity is not None and code is Code.PAID_TWICE:  # an invoice's side by side, in the order of its first row
        invoices = list(map(invoice_of, rows))
        rows = sorted(rows, key=lambda row: invoices.index(invoice_of(row)))
    word = "" if severity is None else severity.word
    return Group(
        anchor=code.value if isinstance(code, Bucket) else f"{code}-{word or 'remark'}",
        title=title,
        advice=advice,
        code="" if isinstance(code, Bucket) else code.value,
        severity=word,
        total=worst.totals[kind],
        rows=rows,
        rest=next((name for name in wanted if name in files), ""),
    )


# The template


@cache
def _assets() -> dict[str, str]:
    """Return style and script, with the hashes that the Content-Security-Policy requires."""
    assets = {"css": _asset("report.css"), "js": _asset("report.js")}
    digests = {f"{name}_hash": hashlib.sha256(text.encode()).digest() for name, text in assets.items()}
    return assets | {name: f"sha256-{b64encode(digest).decode()}" for name, digest in digests.items()}


def _asset(name: str) -> str:
    return resources("payclient.reconcile.report").joinpath(name).read_text(encoding="utf-8")


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
    whole = partial(_harmless, max_length=_MAX_SENTENCE)
    filters: dict[str, Any] = {"difference": _difference, "number": _number, "plural": plural, "signed": _signed}
    environment.filters.update(filters, whole=whole)
    return environment


def _harmless(value: Any, max_length: int = _MAX_LENGTH) -> Any:
    """Escape unprintable characters in every value, once for the whole template."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    shown = escape_unprintable(value, max_length=max_length)
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
    return _signed(moved) if (moved := moved_by(row)) else ""

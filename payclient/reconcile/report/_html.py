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

from jinja2 import Environment, FunctionLoader, StrictUndefined

from payclient._shared.escape import escape_unprintable, plural
from payclient.reconcile import Bucket, Code, Condition, Row, Severity, Total, moved_by
from payclient.reconcile.report import wording as words
from payclient.reconcile.report.integrity import DECISIONS, MANIFEST
from payclient.reconcile.report.model import OUTPUTS, Kind, Opening, Report, Worst, invoice_of

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

ALLOWED = "A rule allows the difference, or it may still be in time. Each row has the reason."


def begin(opening: Opening) -> None:
    opening.at_end.append(lambda report: write(opening.new.text("report.html"), report, files=opening.names))


def write(file: IO[str], report: Report, *, files: Collection[str] = FILES.keys()) -> None:
    """Write the page, with links to the *files* next to it that it knows."""
    shown = {
        "report": report,
        "words": words,
        "states": [each for each in report.states.items() if each[1].ledger_rows or each[1].service_rows],
        "groups": list(groups_of(report.worst)),
        "heading_of": heading_of,
        "written": files,
        "files": [(name, holds) for name, holds in FILES.items() if name in files],
    }
    file.writelines(_environment().get_template("report.html.j2").generate({**shown, **_assets()}))


def groups_of(worst: Worst) -> Iterator[tuple[Severity | None, Code | Bucket, Sequence[Row], Total]]:
    """Yield the rows of each kind: the breaks, the most severe first, then those with a remark, then the others."""
    kinds: tuple[Kind, ...] = tuple(product((*reversed(Severity), None), (*Code, Bucket.UNRESOLVED, Bucket.REJECTED)))
    for kind in kinds:
        if kind in worst.groups:
            group = worst.groups[kind]
            rows: Sequence[Row] = group.kept
            if kind[0] is not None and kind[1] is Code.PAID_TWICE:  # an invoice's side by side, by its first row
                invoices = list(map(invoice_of, rows))
                rows = sorted(rows, key=lambda row: invoices.index(invoice_of(row)))
            yield *kind, rows, group.total


def heading_of(severity: Severity | None, code: Code | Bucket) -> tuple[str, str]:
    """Return the title of the rows of one kind, and the advice."""
    if isinstance(code, Bucket):
        return code.capitalize(), words.ADVICE[Condition(code)]
    if (severity, code) == (Severity.MEDIUM, Code.MERCHANT_REFF_DIFFERS):
        return words.CASE_ONLY
    return code.label, ALLOWED if severity is None and not code.is_soft else code.advice


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

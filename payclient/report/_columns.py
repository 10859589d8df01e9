"""
The columns of a row, each declared once, and the files and sheets that have them.

The order of a file is a promise to its readers, so each file lists its columns; a column has the same name, kind and
value wherever it is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, auto
from typing import Any, TypeAlias

from attrs import evolve, frozen

from payclient.ledger import ABSENT, COMPARED
from payclient.reconcile import Bucket, Finding, History, Row, moved_by
from payclient.report._facts import when

Cell: TypeAlias = str | int | bool | datetime | list[str] | None


class Kind(Enum):
    """
    The kinds of values.

    Attributes:
        TEXT: Text as it is.
        WORD: Text in which a sheet shows `_` as a space.
        TEXTS: A list of texts without spaces.
        NUMBER: A whole number; a sheet shows thousands separators.
        LINE: A whole number without them.
        FLAG: True or false.
        AT: An aware time.
        LOCAL: A time without a zone.
    """

    TEXT = auto()
    WORD = auto()
    TEXTS = auto()
    NUMBER = auto()
    LINE = auto()
    FLAG = auto()
    AT = auto()
    LOCAL = auto()


@frozen(eq=False)
class RowColumn:
    """One column; title and width, in characters, are for a sheet."""

    name: str
    kind: Kind
    value: Callable[[Row], Cell]
    title: str = ""
    width: int = 0

    def in_csv(self, row: Row) -> str | int | None:
        """Return its cell in `breaks.csv`, before `spreadsheet_cell`."""
        value = self.value(row)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, datetime):
            return value.isoformat() if self.kind is Kind.AT else value.isoformat(sep=" ")
        return " ".join(value) if isinstance(value, list) else value

    def in_sheet(self, row: Row) -> str | int | None:
        """Return its cell in a sheet; times are in UTC, to the second."""
        value = self.value(row)
        if isinstance(value, datetime) and self.kind is Kind.AT:
            return when(value)
        if isinstance(value, bool):
            return "yes" if value else None
        return str(value).replace("_", " ") if self.kind is Kind.WORD and value is not None else self.in_csv(row)


def in_words(finding: Finding) -> str:
    """Return the sentence of *finding*, and why it does not count if it does not."""
    return f"{finding.sentence} ({finding.waived})" if finding.waived else finding.sentence


def _stated(side: object, name: str) -> Any:
    value = getattr(side, name, None)
    return None if value is ABSENT else value


def _of_side(side: str, name: str) -> RowColumn:
    kind = Kind.NUMBER if name in ("amount", "fee", "amount_received") else Kind.TEXT
    kind = Kind.LOCAL if name == "expdate" else kind
    return RowColumn(
        f"{side}_{name}",
        kind,
        lambda row: _stated(row.entry if side == "ledger" else row.transaction, name),
        f"{name}, {side}",
        18,
    )


def _of_first(name: str, kind: Kind, value: Callable[[Finding], Cell], title: str = "", width: int = 0) -> RowColumn:
    return RowColumn(name, kind, lambda row: value(row.findings[0]) if row.findings else None, title, width)


def _of_age(name: str, kind: Kind, value: Callable[[History], Cell], title: str = "", width: int = 0) -> RowColumn:
    return RowColumn(name, kind, lambda row: None if (age := row.history) is None else value(age), title, width)


_LINE = RowColumn("line", Kind.LINE, lambda row: row.line, "Line", 8)
_REFERENCE = RowColumn("reference", Kind.TEXT, lambda row: row.reference, "Reference", 22)
_BUCKET = RowColumn("bucket", Kind.TEXT, lambda row: row.bucket.value)
_CODE = _of_first("code", Kind.TEXT, lambda first: first.code.value, "Finding", 24)
_SEVERITY = _of_first("severity", Kind.TEXT, lambda first: first.severity.word, "Severity", 10)
_SENTENCE = _of_first("sentence", Kind.TEXT, lambda first: first.sentence)
_WAIVED = _of_first("waived", Kind.TEXT, lambda first: first.waived or None)
_WHAT = RowColumn("sentence", Kind.TEXT, lambda row: ". ".join(map(in_words, row.findings)), "What", 70)
_OTHERS = RowColumn(
    "other_codes", Kind.TEXTS, lambda row: [each.code.value for each in row.findings[1:]], "Other findings", 24
)
_REASON = RowColumn("reason", Kind.TEXT, lambda row: row.reason or None, "Why", 70)
_ERROR = RowColumn("error", Kind.TEXT, lambda row: row.error, "Error", 26)
_DIFFERENCE = RowColumn("difference", Kind.NUMBER, moved_by, "Difference", 16)
SIDES = tuple(_of_side(side, name) for name in COMPARED for side in ("ledger", "service"))
_MEANINGS = (
    RowColumn("ledger_meaning", Kind.TEXT, lambda row: row.ledger_status and row.ledger_status.value),
    RowColumn("service_meaning", Kind.TEXT, lambda row: row.service_status and row.service_status.value),
)
_CREATED = RowColumn("created_at", Kind.LOCAL, lambda row: _stated(row.entry, "created_at"))
_TIMES = (
    RowColumn("observed_at", Kind.AT, lambda row: row.observed_at, "Observed at (UTC)", 20),
    RowColumn("confirmed_at", Kind.AT, lambda row: row.confirmed_at, "Confirmed at (UTC)", 20),
    RowColumn("is_changed_during_run", Kind.FLAG, lambda row: row.is_changed_during_run, "Changed during run", 10),
)
_IS_REPEAT = RowColumn("is_repeat", Kind.FLAG, lambda row: row.is_repeat)
_LINES = RowColumn("lines", Kind.TEXTS, lambda row: list(map(str, row.lines)))
_STATE = _of_age("state", Kind.WORD, lambda age: age.state.value, "State", 12)
_FIRST_SEEN = _of_age("first_seen", Kind.AT, lambda age: age.first_seen, "First seen", 20)
_FIRST_RUN = _of_age("first_run", Kind.TEXT, lambda age: age.first_run or None)
_AGE_DAYS = _of_age("age_days", Kind.NUMBER, lambda age: age.age_days, "Age in days", 10)
_CARRIED = RowColumn("carried_from", Kind.TEXT, lambda row: row.carried_from or None)
_REUSED = RowColumn("reused_from", Kind.TEXT, lambda row: row.reused_from or None)
_LINE_OF = RowColumn("line_of", Kind.TEXT, lambda row: row.line_of, "Line of", 26)
_LEDGER_AMOUNT = RowColumn("amount", Kind.NUMBER, lambda row: row.ledger_amount, "Ledger amount", 18)

RUN = RowColumn("run", Kind.TEXT, lambda _: None)
"""The name of the run, which the writer of the file knows."""

WORK = (
    RowColumn("owner", Kind.TEXT, lambda _: None, "Owner", 16),
    RowColumn("resolution", Kind.TEXT, lambda _: None, "Resolution", 24),
    RowColumn("comment", Kind.TEXT, lambda _: None, "Comment", 32),
)
"""Decisions of a person, known to the writer of the workbook."""

CSV = (
    *(_LINE, _REFERENCE, _CODE, _SEVERITY, _WHAT, _OTHERS, _DIFFERENCE, *SIDES, *_TIMES, _LINES),
    *(_STATE, _FIRST_SEEN, _AGE_DAYS, _CARRIED, _LINE_OF),
)
"""Of `breaks.csv`."""

PARQUET = (
    *(RUN, _STATE, _FIRST_SEEN, _FIRST_RUN, _AGE_DAYS, _CARRIED, _REUSED, _LINE, _REFERENCE, _BUCKET),
    *(_CODE, _SEVERITY, _SENTENCE, _WAIVED, _OTHERS, _REASON, _ERROR, _DIFFERENCE, *SIDES, *_MEANINGS, _CREATED),
    *(*_TIMES, _IS_REPEAT, _LINE_OF),
)
"""Of `rows.parquet`."""

SHEETS: Mapping[str, tuple[Bucket, tuple[RowColumn, ...]]] = {
    "Breaks": (
        Bucket.BREAK,
        (
            *(_LINE, _REFERENCE, _SEVERITY, _CODE, _WHAT, _DIFFERENCE, *WORK, _OTHERS),
            *(_STATE, _FIRST_SEEN, _AGE_DAYS, _LINE_OF, *SIDES, *_TIMES),
        ),
    ),
    "Open": (Bucket.OPEN, (_LINE, _REFERENCE, evolve(_WHAT, title="Why"), *SIDES, *_TIMES)),
    "Unresolved": (Bucket.UNRESOLVED, (_LINE, _REFERENCE, _ERROR, _REASON, *WORK, *SIDES, *_TIMES)),
    "Rejected": (Bucket.REJECTED, (_LINE, _REFERENCE, evolve(_REASON, width=90), _LEDGER_AMOUNT)),
}
"""Of the sheets that have a row each, with the bucket of their rows."""

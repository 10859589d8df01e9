"""Outcomes of lookups as text: a table for people or JSON lines for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

from attrs import frozen
from rich.cells import cell_len
from rich.text import Text

from payclient import errors
from payclient._codec import transaction_as_json
from payclient._models import Found, Outcome, masked
from payclient._retry import judge
from payclient.cli._status import Exit, most_urgent, status_of_outcome
from payclient.cli._streams import Streams
from payclient.cli._table import aligned
from payclient.report import visible

_COLUMNS = (
    "reference",
    "status",
    "amount",
    "fee",
    "amount_received",
    "payment_method",
    "payment_code",
    "expdate",
    "merchant_reff",
    "note",
)
_MONEY = frozenset({"amount", "fee", "amount_received"})
_WORDS = (
    (errors.TransactionNotFoundError, "not found"),
    (errors.RejectedError, "declined"),
    (errors.InvalidReferenceError, "not a reference"),
)
_MOST_ROWS = 1000
"""Rows that are held back so that they can be aligned and put in order."""


@frozen
class _Line:
    """One line of text, and how rich paints it."""

    text: str
    style: str = ""


def record_of(outcome: Outcome) -> dict[str, Any]:
    """Return *outcome* as a flat JSON object; `error` is there only when there is no transaction."""
    if isinstance(outcome, Found):
        transaction = outcome.transaction
        return {**transaction_as_json(transaction), "deviations": list(transaction.deviations)}
    error = outcome.error
    return {
        "reference": outcome.reference,
        "error": type(error).__name__,
        "message": str(error),
        "is_retryable": judge(error).is_passing,
    }


class Outcomes:
    """
    Writes outcomes to standard output; a context manager, at whose end the last of them are written.

    Args:
        streams: Of the process.
        as_json: One line per outcome, as it comes, in ASCII: any terminal and any encoding can take
            that. Otherwise a table in the order of the references; beyond a thousand rows, several.
    """

    def __init__(self, streams: Streams, *, as_json: bool) -> None:
        self._streams = streams
        self._as_json = as_json
        self._waiting: list[Outcome] = []
        self.status = Exit.DONE
        """The exit status that the outcomes so far deserve."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write_table()

    def add(self, outcome: Outcome) -> None:
        """Take one outcome."""
        self.status = most_urgent((self.status, status_of_outcome(outcome)))
        if self._as_json:
            self._streams.write(json.dumps(record_of(outcome)))
            return
        self._waiting.append(outcome)
        if len(self._waiting) == _MOST_ROWS:
            self._write_table()

    def _write_table(self) -> None:
        rows = [_cells(outcome) for outcome in sorted(self._waiting, key=lambda outcome: outcome.index)]
        self._waiting.clear()
        lines = _table(rows) if rows else []
        if not self._streams.stdout.isatty():
            for line in lines:
                self._streams.write(line.text)
            return
        console = self._streams.console()
        if any(cell_len(line.text) > console.width for line in lines):
            lines = _blocks(rows)
        for line in lines:
            # As `Text`, because rich would otherwise obey square brackets in what the service says.
            console.print(Text(line.text, style=line.style), soft_wrap=True)


def _cells(outcome: Outcome) -> dict[str, str]:
    if isinstance(outcome, Found):
        fields = transaction_as_json(outcome.transaction)
        cells = {name: "" if value is None else visible(str(value)) for name, value in fields.items()}
        code = cells["payment_code"]
        return {
            **cells,
            "payment_code": masked(code),
            "note": visible("; ".join(outcome.transaction.deviations)),
        }
    error = outcome.error
    words = next((words for kind, words in _WORDS if isinstance(error, kind)), "no answer")
    return {"reference": visible(outcome.reference), "status": words, "note": visible(str(error))}


def _table(rows: Sequence[dict[str, str]]) -> list[_Line]:
    """Lay *rows* out side by side, without the columns that are empty in all of them."""
    columns = [name for name in _COLUMNS if any(row.get(name) for row in rows)]
    right = [place for place, name in enumerate(columns) if name in _MONEY]
    lines = aligned([columns, *([row.get(name, "") for name in columns] for row in rows)], right=right)
    return [_Line(line, style) for line, style in zip(lines, ("bold", *map(_style, rows)), strict=True)]


def _blocks(rows: Sequence[dict[str, str]]) -> list[_Line]:
    """Lay *rows* out one below the other, a line per field, for terminals that are narrower than the table."""
    width = max(len(name) for name in _COLUMNS)
    blocks = (
        [_Line(f"{name:{width}}  {row[name]}", _style(row)) for name in _COLUMNS if row.get(name)] for row in rows
    )
    return [line for block in blocks for line in (*block, _Line(""))][:-1]


def _style(row: dict[str, str]) -> str:
    return "" if "amount" in row else "yellow"

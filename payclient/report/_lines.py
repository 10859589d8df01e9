"""Write rows as lines of text: all of them as JSON, the breaks as CSV."""

from __future__ import annotations

import csv
import json
from typing import IO

from payclient.reconcile import Bucket, Row, Rules
from payclient.report._shape import BREAK_COLUMNS, break_cells, row_as_json
from payclient.report._spreadsheet import spreadsheet_cell

# ASCII only: the escapes of JSON keep every character, and none can act on a terminal.
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode


class RowLines:
    """
    Write `rows.jsonl`.

    Args:
        file: Open for text.
        rules: By which the rows were judged; they say what the words of the two sides mean.
    """

    def __init__(self, file: IO[str], rules: Rules) -> None:
        self._write = file.write
        self._rules = rules

    def add(self, row: Row) -> None:
        """Write *row*."""
        self._write(_encode(row_as_json(row, self._rules)) + "\n")


class BreakLines:
    """
    Write `breaks.csv`.

    Args:
        file: Open for text, without translation of line ends.
    """

    def __init__(self, file: IO[str]) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(BREAK_COLUMNS)

    def add(self, row: Row) -> None:
        """Write *row*, if it is a break."""
        if row.bucket is Bucket.BREAK:
            self._writer.writerow(map(spreadsheet_cell, break_cells(row)))

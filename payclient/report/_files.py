"""Write the files of a report: `rows.jsonl`, `breaks.csv` and `summary.json`."""

from __future__ import annotations

import csv
import json
import os
from datetime import tzinfo
from pathlib import Path
from types import TracebackType
from typing import Self

from payclient.ledger._csv import CsvLedger
from payclient.reconcile._row import Bucket, Row
from payclient.reconcile._summary import Summary, Tally
from payclient.report._replacement import Replacement
from payclient.report._shape import BREAK_COLUMNS, break_cells, row_as_json, summary_as_json
from payclient.report._spreadsheet import spreadsheet_cell

NAMES = ("rows.jsonl", "breaks.csv", "summary.json")


class ReportFiles:
    """
    The report of one run, written while its rows come.

    Args:
        folder: Where the files go; made if it is not there.

    Shape:
        Use it as a context manager: `add` each row in the order of the ledger, then `finish`. Each file appears
        whole or not at all; if the block is left without `finish`, an older report stays as it is. The same rows
        give the same bytes. Nothing is held in memory.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._replacement = Replacement(Path(folder), NAMES)
        self._tally = Tally()

    def __enter__(self) -> Self:
        files = self._replacement.__enter__().files
        self._rows = files["rows.jsonl"]
        self._summary = files["summary.json"]
        self._breaks = csv.writer(files["breaks.csv"], lineterminator="\n")
        self._breaks.writerow(BREAK_COLUMNS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._replacement.__exit__(kind, error, trace)

    def add(self, row: Row) -> None:
        """Write *row*."""
        self._tally.add(row)
        # ASCII only: the escapes of JSON keep every character, and none can act on a terminal.
        self._rows.write(json.dumps(row_as_json(row), ensure_ascii=True, separators=(",", ":")) + "\n")
        if row.bucket is Bucket.BREAK:
            self._breaks.writerow(map(spreadsheet_cell, break_cells(row)))

    def finish(self, *, time_zone: tzinfo | None = None, ledger: CsvLedger | None = None) -> Summary:
        """
        Put the files in their places.

        Args:
            time_zone: The one that was given to `reconcile`; the report says how expiry was judged.
            ledger: What was read; it is checked once more, and described in the summary.

        Raises:
            LedgerChangedError: When the ledger is no longer what was read; no file is changed then.
            TieOutError: When the sums do not tie, which is a bug of ours; no file is changed then.
            OSError: When a file cannot be written; no file is changed then.
        """
        summary = self._tally.summary()
        if ledger is not None:
            ledger.check_unchanged()
        json.dump(summary_as_json(summary, time_zone=time_zone, ledger=ledger), self._summary, indent=2)
        self._summary.write("\n")
        self._replacement.commit()
        return summary

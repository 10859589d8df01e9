"""The rows of a batch as entries of a ledger, and what becomes of each when it is answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from payclient._telemetry import logger
from payclient.engines._spec import ReconcileSpec, rules_of
from payclient.engines._window import Batch
from payclient.ledger import (
    Entry,
    RejectedEntry,
    RowReader,
    check_use,
    check_values,
    find_columns,
    known_columns,
    unused_columns,
)
from payclient.ledger._parquet import only_used
from payclient.reconcile import Case, Observation, Row, judge
from payclient.reconcile.judge import needs_confirmation


class BatchJudge:
    """Reads rows and judges them, by the rules of one specification."""

    def __init__(self, spec: ReconcileSpec, header: Sequence[str]) -> None:
        self._rules = rules_of(spec)
        chosen = dict(self._rules.columns)
        if spec.reference != "reference":
            chosen["reference"] = spec.reference
        dialect = self._rules.ledger
        columns = find_columns(header, chosen, dialect.columns, (*spec.ignore, *dialect.ignore_columns))
        ignored = (*spec.ignore, *known_columns(dialect, columns))
        check_use(columns, chosen={**dict.fromkeys(dialect.columns, ""), **chosen}, ignored=ignored, required=())
        self._columns = columns
        self._reader = RowReader(only_used(columns), dialect)
        self._line = 0
        self.places = tuple(columns.places.values())
        """Positions of the columns that are read, that of the reference first."""
        self.unused = unused_columns(columns, ignored)
        """The others, to which their values are to be added."""

    def check_cells(self) -> None:
        self._reader.check_cells()
        check_values(self._columns, self.unused)

    def read(self, cells: Sequence[Any]) -> Entry | RejectedEntry:
        """Return the entry that a row of the columns at `places` makes."""
        self._line += 1
        told = len(self._reader.warnings)
        entry = self._reader.read(self._line, cells)
        if entry is None:  # only a scope leaves rows out, and a batch has none
            message = "a row of a batch was left out"
            raise AssertionError(message)
        for warning in self._reader.warnings[told:]:  # they stay: later rows may count in one of them
            logger.warning("%s", warning)
        return entry

    def needs_confirmation(self, entry: Entry, first: Observation) -> bool:
        """Return whether *first* differs from *entry*, so that a second lookup must confirm it."""
        return needs_confirmation(entry, first, rules=self._rules)

    def judge(
        self, batch: Batch[Any], entry: Entry | RejectedEntry, *, other_found: int
    ) -> tuple[Row, Observation | None]:
        """Return the row that *entry* of *batch* makes, and the last answer; None where the service was not asked."""
        if isinstance(entry, RejectedEntry):
            return judge(Case(entry=entry), rules=self._rules), None
        first, second = batch.first[entry.reference], batch.second.get(entry.reference)
        case = Case(entry=entry, first=first, second=second, other_found=other_found)
        return judge(case, rules=self._rules), second or first


def by_reference(entries: Iterable[Entry | RejectedEntry]) -> Mapping[str, Sequence[Entry]]:
    """Return the entries that can be asked for, by their reference."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if isinstance(entry, Entry):
            found.setdefault(entry.reference, []).append(entry)
    return found

"""The rows of a batch as entries of a ledger, and what becomes of each when it is answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from payclient._telemetry import logger
from payclient.engines._spec import ReconcileSpec, rules_of
from payclient.engines._window import Batch, Result
from payclient.errors import InvalidReferenceError
from payclient.ledger import TYPED_READERS, Entry, RejectedEntry, RowReader, find_columns
from payclient.ledger._parquet import only_used
from payclient.protocol import Failed, Found
from payclient.reconcile import Answer, Case, Observation, Row, failure, judge, needs_confirmation

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of an observation that is none: the reference could not be asked for."""


class BatchJudge:
    """
    Reads rows and judges them, by the rules of one specification.

    Args:
        spec: Its rules, and what the ledger's columns are called.
        header: The names of the columns.

    Raises:
        LedgerError: When the columns cannot be understood.
    """

    def __init__(self, spec: ReconcileSpec, header: Sequence[str]) -> None:
        self._rules = rules_of(spec)
        chosen = dict(self._rules.columns)
        if spec.reference != "reference":
            chosen["reference"] = spec.reference
        columns = find_columns(header, chosen)
        self._warnings: list[str] = []
        self._reader = RowReader(only_used(columns), self._warnings, TYPED_READERS)
        self._line = 0
        self.places = tuple(columns.places.values())
        """Which columns are read, that of the reference first."""

    def read(self, cells: Sequence[Any]) -> Entry | RejectedEntry:
        """Return the entry that a row of the columns at `places` makes."""
        self._line += 1
        entry = self._reader.read(self._line, cells)
        while self._warnings:
            logger.warning("%s", self._warnings.pop())
        return entry

    def needs_confirmation(self, entry: Entry, first: Result) -> bool:
        """Say whether *first* differs from *entry*, so that it has to be seen twice."""
        return needs_confirmation(entry, _observation(first), rules=self._rules)

    def judge(self, batch: Batch[Any], entry: Entry | RejectedEntry, *, other_found: int) -> tuple[Row, Result]:
        """Return what becomes of *entry*, which is in *batch*, and the last result for it."""
        if isinstance(entry, RejectedEntry):
            refused = Failed(entry.reference or "", InvalidReferenceError(entry.reason))
            return judge(Case(entry=entry), rules=self._rules), Result(refused, None, 0, None)
        first: Result = batch.first[entry.reference]
        second: Result | None = batch.second.get(entry.reference)
        seen, again = _observation(first), None if second is None else _observation(second)
        case = Case(entry=entry, first=seen, second=again, other_found=other_found)
        return judge(case, rules=self._rules), second or first


def by_reference(entries: Iterable[Entry | RejectedEntry]) -> Mapping[str, Sequence[Entry]]:
    """Return the entries that can be asked for, by their reference."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if isinstance(entry, Entry):
            found.setdefault(entry.reference, []).append(entry)
    return found


def _observation(result: Result) -> Observation:
    at = result.observed_at or _LONG_AGO
    if isinstance(result.outcome, Found):
        return Observation(answer=Answer.FOUND, at=at, transaction=result.outcome.transaction)
    return failure(result.outcome.error, at=at)

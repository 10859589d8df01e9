"""What a run says about each reference, for the run after it: its breaks, what was paid, and what to ask again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

from payclient.ledger import Entry
from payclient.reconcile import (
    Answer,
    Bucket,
    Earlier,
    EarlierAnswers,
    Observation,
    Records,
    Status,
)
from payclient.report._past_run import PastRun, temporary_database
from payclient.report._row_reader import RowLine, row_from_json

_UNFINISHED = frozenset({Bucket.BREAK, Bucket.OPEN, Bucket.UNRESOLVED})
_UNFINISHED_WORDS = frozenset(bucket.value for bucket in _UNFINISHED)
_PAID = b'"service_meaning":"paid"'
_PAID_ALONE = b""
_SETTLED = b'"statement":{"is_settled":true'


def records_of(run: PastRun) -> Records:
    """
    Return what yields the records of *run*, for a run after it.

    Note:
        By reference. Rows are merged on the disk, so memory does not grow with them.
    """
    return partial(_records, run)


def _records(run: PastRun, is_listed: Callable[[str], bool]) -> Iterator[tuple[Earlier, Sequence[Entry]]]:
    with temporary_database("kept (reference TEXT, text BLOB)") as database:
        database.executemany("INSERT INTO kept VALUES (?, ?)", _kept(run, is_listed))
        stored = database.execute("SELECT reference, text FROM kept ORDER BY reference")
        for reference, group in groupby(stored, key=itemgetter(0)):
            texts = [text for _, text in group]
            if texts == [_PAID_ALONE]:
                yield Earlier(reference=reference, is_paid=True), ()
            else:
                yield _record(run, reference, texts, is_listed=is_listed(reference))


def answers_of(run: PastRun) -> EarlierAnswers:
    """Return what yields the answers of *run* that a run after it may reuse."""
    return partial(_answers, run)


def _answers(run: PastRun) -> Iterator[tuple[Sequence[Entry], Observation]]:
    for line in run.lines():
        if line.bucket != Bucket.MATCHED.value or line.is_listed_again:
            continue
        row = row_from_json(json.loads(line.text))
        at = row.confirmed_at or row.observed_at
        entries = [entry for entry in row.parts or (row.entry,) if isinstance(entry, Entry)]
        if row.transaction is not None and at is not None and entries and not row.carried_from:
            asked_by = row.reused_from or run.name
            yield entries, Observation(answer=Answer.FOUND, at=at, transaction=row.transaction, reused_from=asked_by)


def _kept(run: PastRun, is_listed: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for line in run.lines():
        if line.reference is None:
            continue
        if _is_needed(line):
            yield line.reference, line.text
        elif is_listed(line.reference) and (_SETTLED in line.text or _PAID in line.text):
            yield line.reference, line.text if _SETTLED in line.text else _PAID_ALONE
    yield from run.memory()


def _is_needed(line: RowLine) -> bool:
    return line.bucket in _UNFINISHED_WORDS or line.is_listed_again


def _record(run: PastRun, reference: str, texts: list[bytes], *, is_listed: bool) -> tuple[Earlier, Sequence[Entry]]:
    seen, rows = run.seen(reference, filter(None, texts))
    is_paid = _PAID_ALONE in texts or any(
        row.service_status is Status.PAID and row.bucket is not Bucket.UNRESOLVED for row in rows
    )
    is_carried = not is_listed and any(row.bucket in _UNFINISHED for row in rows)
    entries = [entry for row in rows for entry in row.parts or (row.entry,)] if is_carried else []
    sides = [row.other_side for row in rows if row.other_side is not None]
    earlier = Earlier(
        reference=reference,
        breaks=tuple(seen.breaks.values()),
        is_paid=is_paid,
        settled=next((side.settled for side in sides if side.settled is not None), None),
        is_in_ledger=all(side.is_in_ledger for side in sides),
    )
    return earlier, [entry for entry in entries if isinstance(entry, Entry)]

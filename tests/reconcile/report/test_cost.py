"""What a report takes for each row, in calls and in bytes; no time is measured."""

import sys
from collections import Counter
from contextlib import aclosing, contextmanager

import pytest

from payclient.reconcile import Journal, judge, reconcile, replay
from payclient.reconcile._journal.tables import entry_from, observation_from
from payclient.reconcile.ledger import open_ledger
from payclient.reconcile.report import About, ReportFiles
from payclient.reconcile.report.rows import row_as_json
from support.planted import both_sides
from support.reconciling import Clock, Service

ROWS = 1500
STEPS = {step.__code__: step.__name__ for step in (entry_from, observation_from, judge, row_as_json)}


@pytest.fixture
async def journal(tmp_path):
    """Give the path of the journal of a planted ledger."""
    _, file, answers = both_sides(ROWS)
    path = tmp_path / "journal.sqlite"
    with open_ledger(file) as ledger, Journal(path) as journal:
        async with aclosing(reconcile(ledger, Service(answers), clock=Clock(), concurrency=1, journal=journal)) as rows:
            await anext(rows)
    return path


@contextmanager
def calls():
    """Count the calls of the steps that each row takes."""
    counts, before = Counter(), sys.getprofile()

    def count(frame, event, _):
        if event == "call" and (name := STEPS.get(frame.f_code)):
            counts[name] += 1

    sys.setprofile(count)
    try:
        yield counts
    finally:
        sys.setprofile(before)


async def test_once(journal, tmp_path):
    """Each row is decoded, judged and encoded once for all files together, with room for two answers."""
    with Journal(journal, must_exist=True) as stored, ReportFiles(tmp_path / "report") as files:
        rejected = stored.count_rejected()
        with calls() as counts:
            for row in replay(stored):
                files.add(row)
            files.finish(About())
    answers = 2 * (ROWS - rejected)
    assert counts == {"entry_from": ROWS, "observation_from": answers, "judge": ROWS, "row_as_json": ROWS}


async def test_bytes(journal, tmp_path):
    """The journal takes less than 0.33 KB a row."""
    assert journal.stat().st_size < 330 * ROWS

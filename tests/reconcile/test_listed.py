"""The statement in a journal: it is stored, compared when a run is resumed, and protected like the ledger."""

import pytest

from payclient import Transaction
from payclient.reconcile import Journal, reconcile
from payclient.reconcile.ledger import Entry

LEDGER = [Entry(line=line, reference=f"T{line}", amount=5) for line in range(2, 12)]
STATEMENT = [Entry(line=line, reference=f"T{line}", amount=5) for line in range(5, 20)]


class Stop(Exception):  # noqa: N818  it is no error
    """What ends a run in the middle."""


class Lookup:
    def __init__(self, cut_at=None):
        self.asked, self._cut_at = [], cut_at

    async def __call__(self, reference):
        if self._cut_at is not None and len(self.asked) >= self._cut_at:
            raise Stop
        self.asked.append(reference)
        return Transaction(reference=reference, amount=5, status="Paid")


async def rows_of(path, lookup, statement=STATEMENT, ledger=LEDGER):
    with Journal(path) as journal:
        return [row async for row in reconcile(ledger, lookup, journal=journal, statement=statement, concurrency=1)]


async def test_resumed(tmp_path):
    """A run that was cut at any lookup is resumed where it stopped, and no reference is asked three times."""
    whole = await rows_of(tmp_path / "whole.sqlite", Lookup())
    for cut_at in range(0, 29, 7):
        path, first, second = tmp_path / f"{cut_at}.sqlite", Lookup(cut_at), Lookup()
        with pytest.raises(Stop):
            await rows_of(path, first)
        rows = await rows_of(path, second)
        assert [(row.reference, row.bucket, row.findings, row.origin) for row in rows] == [
            (row.reference, row.bucket, row.findings, row.origin) for row in whole
        ]
        # Without a second lookup for what agrees: T5 to T11.
        assert len(first.asked) + len(second.asked) == 18 + 11


async def test_not_read_to_its_end(tmp_path):
    """Of a statement that could not be read to its end nothing is kept, so a corrected one may follow."""

    def broken():
        yield from (Entry(line=line, reference=f"X{line}", amount=1) for line in range(2, 10_003))
        raise Stop

    path = tmp_path / "journal.sqlite"
    with pytest.raises(Stop):
        await rows_of(path, Lookup(), broken())
    rows = await rows_of(path, Lookup())
    assert [row.reference for row in rows] == [f"T{number}" for number in range(2, 20)]

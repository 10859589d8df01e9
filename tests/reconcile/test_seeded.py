"""The seeded dataset has every kind of finding, each with its result."""

import pytest

from payclient.reconcile import Bucket, Code
from payclient.testing import transaction
from support.planted import judged
from support.seeded import COLUMNS, MIN_ROWS, as_expected, generate

UNPLANTED = (Code.REVERSED, Code.UNUSABLE_ANSWER, Code.FEE_OFF_SCHEDULE)
"""They need a previous run, a service out of order, and a fee schedule."""


def test_dataset():
    """The ledger has as many rows as wanted, each with its result, and the service holds each reference once."""
    for rows in (MIN_ROWS, 1999, 2000):
        dataset = generate(rows, seed=1)
        assert (len(dataset.ledger), len(dataset.expected)) == (rows, rows)
        assert all(set(COLUMNS) <= row.keys() for row in dataset.ledger)
        references = [transaction(**fields)["reference"] for fields in dataset.transactions]
        assert len(set(references)) == len(references)
    assert (generate(200, seed=7) == generate(200, seed=7), generate(200, seed=7) == generate(200, seed=8)) == (1, 0)
    with pytest.raises(ValueError, match=f"rows must be at least {MIN_ROWS}, got {MIN_ROWS - 1}"):
        generate(MIN_ROWS - 1, seed=1)


def test_every_kind():
    """Every code is planted but those of other data, and every bucket but the one that needs a service out of order."""
    expected = generate(MIN_ROWS, seed=1).expected
    planted = {code for verdict in expected for code, _ in verdict.findings}
    assert planted == {code for code in Code if not (code.is_of_statement or code in UNPLANTED)}
    assert {verdict.bucket for verdict in expected} == set(Bucket) - {Bucket.UNRESOLVED}


async def test_found():
    """Exactly what was planted is found, with its severity."""
    rows, planted = await judged(200, seed=3), generate(200, seed=3)
    assert [as_expected(row) for row in rows] == list(planted.expected)

"""The seeded dataset has every kind of finding, and is the same for the same seed."""

from __future__ import annotations

import pytest

from payclient.cli._demo import COLUMNS, MIN_ROWS, generate
from payclient.reconcile import Bucket, Code
from payclient.testing import transaction


@pytest.mark.parametrize("rows", [MIN_ROWS, 100, 1999, 2000])
def test_size(rows):
    """The ledger has as many rows as were asked for, each with its verdict."""
    dataset = generate(rows, seed=1)
    assert (len(dataset.ledger), len(dataset.expected)) == (rows, rows)


def test_too_small():
    """A ledger without room for each kind is refused."""
    with pytest.raises(ValueError, match=f"rows must be at least {MIN_ROWS}, got {MIN_ROWS - 1}"):
        generate(MIN_ROWS - 1, seed=1)


def test_seed():
    """The same seed gives the same dataset, and another seed a different one."""
    dataset = generate(200, seed=7)
    assert (generate(200, seed=7) == dataset, generate(200, seed=8) == dataset) == (True, False)


def test_every_code():
    """Every code is planted, or says why it is not."""
    planted = {code for verdict in generate(MIN_ROWS, seed=1).expected for code, _ in verdict.findings}
    assert planted == {code for code in Code if not code.unplanted}


def test_every_bucket():
    """Every bucket is planted but the one that a service in order does not fill."""
    assert {verdict.bucket for verdict in generate(MIN_ROWS, seed=1).expected} == set(Bucket) - {Bucket.UNRESOLVED}


def test_both_sides():
    """Ledger rows have all columns, and the service can hold every transaction, one of each reference."""
    dataset = generate(500, seed=1)
    assert all(set(COLUMNS) <= row.keys() for row in dataset.ledger)
    references = [transaction(**fields)["reference"] for fields in dataset.transactions]
    assert len(set(references)) == len(references)

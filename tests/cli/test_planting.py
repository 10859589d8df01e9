"""What is planted is known: every kind of finding, in a ledger that is the same for the same seed."""

from __future__ import annotations

import pytest

from payclient.cli._planting import COLUMNS, FEWEST_ROWS, plant
from payclient.reconcile import Bucket, Code
from payclient.testing import transaction


@pytest.mark.parametrize("rows", [FEWEST_ROWS, 100, 1999, 2000])
def test_size(rows):
    """The ledger has as many rows as were asked for, each with its verdict."""
    planted = plant(rows, seed=1)
    assert (len(planted.ledger), len(planted.expected)) == (rows, rows)


def test_too_small():
    """A ledger without room for each kind is refused."""
    with pytest.raises(ValueError, match=f"rows must be at least {FEWEST_ROWS}, got {FEWEST_ROWS - 1}"):
        plant(FEWEST_ROWS - 1, seed=1)


def test_seed():
    """The same seed gives the same ledger, another one another."""
    assert (plant(200, seed=7) == plant(200, seed=7), plant(200, seed=7) == plant(200, seed=8)) == (True, False)


def test_every_code():
    """Every finding that needs no rules file is planted."""
    planted = {code for verdict in plant(FEWEST_ROWS, seed=1).expected for code, _ in verdict.findings}
    assert planted == set(Code)


def test_every_bucket():
    """Every bucket is planted but the one that a service in order does not fill."""
    assert {verdict.bucket for verdict in plant(FEWEST_ROWS, seed=1).expected} == set(Bucket) - {Bucket.UNRESOLVED}


def test_both_sides():
    """Ledger rows have all columns, and the service can hold every transaction, one of each reference."""
    planted = plant(500, seed=1)
    assert all(set(COLUMNS) <= row.keys() for row in planted.ledger)
    references = [transaction(**fields)["reference"] for fields in planted.transactions]
    assert len(set(references)) == len(references)

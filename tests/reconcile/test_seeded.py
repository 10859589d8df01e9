"""The seeded dataset has every kind of finding, each with its result."""

from payclient.reconcile import Bucket, Code
from support.planted import judged
from support.seeded import MIN_ROWS, as_expected, generate

UNPLANTED = (Code.REVERSED, Code.UNUSABLE_ANSWER, Code.LEFT_THE_LEDGER, Code.FEE_OFF_SCHEDULE)
"""They need a previous run, a service out of order, and a fee schedule."""


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

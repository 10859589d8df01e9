"""Several references with one merchant_reff: what is compared is the sum of what is paid."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction
from payclient.ledger import ABSENT, Entry
from payclient.reconcile import Bucket, Invoices, Journal, Lines, Rules, Tally, reconcile, replay
from support.chance import examples

SUM = Rules(invoices=Invoices(sum=True))
PART = Rules(invoices=Invoices(sum=True, amount="part"))
WHOLE = Rules(invoices=Invoices(sum=True, amount="whole"))


async def rows_of(service_of, clock_from, amounts, paid, rules=SUM, status="Paid"):
    """Return the rows of one invoice, with the ledger's amounts and the service's."""
    names = [f"T{number}" for number in range(len(amounts))]
    ledger = [Entry(line=n, reference=name, amount=amounts[n], merchant_reff="INV-1") for n, name in enumerate(names)]
    answers = {
        name: [Transaction(reference=name, amount=amount, status=status, merchant_reff="INV-1")]
        for name, amount in zip(names, paid, strict=True)
    }
    with Journal() as journal:
        rows = [
            row
            async for row in reconcile(ledger, service_of(answers), rules=rules, clock=clock_from(), journal=journal)
        ]
        assert list(replay(journal, rules=rules)) == rows
    return rows


def codes(rows):
    return [[each.code.value for each in row.findings if each.is_decisive] for row in rows]


@pytest.mark.parametrize(
    ("amounts", "paid", "rules"),
    [
        ((60, 40), (60, 40), SUM),
        ((60, 40), (60, 40), PART),
        ((60, 40), (50, 50), SUM),
        ((100, 100), (60, 40), SUM),
        ((100, 100), (60, 40), WHOLE),
        ((50, 50), (50, 50), PART),
    ],
)
async def test_paid_in_full(service_of, clock_from, amounts, paid, rules):
    """An invoice of which the payments come to its amount matches, whatever single rows state."""
    rows = await rows_of(service_of, clock_from, amounts, paid, rules)
    assert [row.bucket for row in rows] == [Bucket.MATCHED, Bucket.MATCHED]
    tally = Tally(rules)
    for row in rows:
        tally.add(row)
    assert tally.summary().tie_out.service_paid_total == 100


async def test_by_default(service_of, clock_from):
    """Without the rule, the invoice is paid twice."""
    rows = await rows_of(service_of, clock_from, (60, 40), (60, 40), Rules())
    assert codes(rows) == [["paid_twice"], ["paid_twice"]]


@pytest.mark.parametrize("rules", [SUM, WHOLE])
async def test_too_much(service_of, clock_from, rules):
    """An invoice that was really paid twice is found, with both sums and the rule that would allow it."""
    rows = await rows_of(service_of, clock_from, (100, 100), (100, 100), rules)
    assert codes(rows) == [["paid_twice"], ["paid_twice"]]
    assert rows[0].primary.sentence == (
        "merchant_reff 'INV-1' is paid under other references too: 'T1'; that is 200 in all for an invoice of 100; "
        'if each row states a part of it, amount = "part" under [invoices] says so'
    )


async def test_too_little(service_of, clock_from):
    """An invoice that is not paid in full is underpaid, and not paid twice."""
    assert codes(await rows_of(service_of, clock_from, (100, 100), (60, 30))) == [["underpaid"], ["underpaid"]]
    assert codes(await rows_of(service_of, clock_from, (60, 40), (60, 30))) == [[], ["underpaid"]]


@pytest.mark.parametrize(("amounts", "rules"), [((60, 40), WHOLE), ((60, ABSENT), SUM)])
async def test_unknown_amount(service_of, clock_from, amounts, rules):
    """Where the ledger does not tell the amount of the invoice, two payments of it are two."""
    rows = await rows_of(service_of, clock_from, amounts, (60, 40), rules)
    assert codes(rows) == [["paid_twice"], ["paid_twice"]]


async def test_with_lines(service_of, clock_from):
    """The lines of one of the payments are summed first."""
    ledger = [
        Entry(line=line, reference=reference, amount=amount, merchant_reff="INV-1")
        for line, (reference, amount) in enumerate([("A", 20), ("B", 50), ("A", 30)])
    ]
    answers = {
        name: [Transaction(reference=name, amount=amount, status="Paid", merchant_reff="INV-1")]
        for name, amount in (("A", 40), ("B", 60))
    }
    rules = attrs.evolve(PART, lines=Lines(of_one_reference="sum"))
    rows = [row async for row in reconcile(ledger, service_of(answers), rules=rules, clock=clock_from())]
    assert [(row.bucket, row.lines) for row in rows] == [(Bucket.MATCHED, (0, 2)), (Bucket.MATCHED, (1,))]


@examples(60)
@given(
    sides=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=4),
    rules=st.sampled_from([SUM, PART, WHOLE]),
)
async def test_ties(service_of, clock_from, sides, rules):
    """The residual is 0, and all rows match only if the payments come to what the ledger may mean by the invoice."""
    amounts, paid = zip(*sides, strict=True)
    rows = await rows_of(service_of, clock_from, amounts, paid, rules)
    tally = Tally(rules)
    for row in rows:
        tally.add(row)
    assert tally.summary().tie_out.residual == 0
    if all(row.bucket is Bucket.MATCHED for row in rows):
        assert sum(paid) in {sum(amounts), *({amounts[0]} if len({*amounts}) == 1 else ())}

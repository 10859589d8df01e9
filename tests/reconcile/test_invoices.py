"""Several references with one merchant_reff: what is compared is the sum of what is paid."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction
from payclient.reconcile import Bucket, Invoices, Journal, Lines, Rules, Tally, reconcile, replay
from payclient.reconcile.ledger import ABSENT, Entry
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


def total_of(rows, rules):
    tally = Tally(rules)
    for row in rows:
        tally.add(row)
    return tally.summary().tie_out


def codes(rows):
    return [[each.code.value for each in row.findings if each.is_decisive] for row in rows]


PAID_TWICE = ["paid_twice"]
INVOICES = (
    # When the payments come to the amount of the invoice, it matches, whatever single rows state.
    ((60, 40), (60, 40), SUM, [[], []]),
    ((60, 40), (60, 40), PART, [[], []]),
    ((60, 40), (50, 50), SUM, [[], []]),
    ((100, 100), (60, 40), SUM, [[], []]),
    ((100, 100), (60, 40), WHOLE, [[], []]),
    ((50, 50), (50, 50), PART, [[], []]),
    # Without the rule, or where more is paid than the ledger tells, it is paid twice; with less, underpaid.
    ((60, 40), (60, 40), Rules(), [PAID_TWICE, PAID_TWICE]),
    ((100, 100), (100, 100), SUM, [PAID_TWICE, PAID_TWICE]),
    ((100, 100), (100, 100), WHOLE, [PAID_TWICE, PAID_TWICE]),
    ((60, 40), (60, 40), WHOLE, [PAID_TWICE, PAID_TWICE]),
    ((60, ABSENT), (60, 40), SUM, [PAID_TWICE, PAID_TWICE]),
    ((100, 100), (60, 30), SUM, [["underpaid"], ["underpaid"]]),
    ((60, 40), (60, 30), SUM, [[], ["underpaid"]]),
)


async def test_invoices(service_of, clock_from):
    """An invoice is judged by the sum of what is paid for it, by the rules, and its money is in the bridge once."""
    for amounts, paid, rules, expected in INVOICES:
        rows = await rows_of(service_of, clock_from, amounts, paid, rules)
        assert codes(rows) == expected, (amounts, paid, rules.invoices)
        assert total_of(rows, rules).service_paid_total == sum(paid)
        if expected == [[], []]:
            assert {row.bucket for row in rows} == {Bucket.MATCHED}


async def test_too_much(service_of, clock_from):
    """An invoice that was really paid twice is found, with both sums and the rule that would allow it."""
    rows = await rows_of(service_of, clock_from, (100, 100), (100, 100))
    assert rows[0].primary.sentence == (
        "merchant_reff 'INV-1' is paid under other references too: 'T1'; that is 200 in all for an invoice of 100; "
        'if each row states a part of it, amount = "part" under [invoices] says so'
    )


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
    assert total_of(rows, rules).residual == 0
    if all(row.bucket is Bucket.MATCHED for row in rows):
        assert sum(paid) in {sum(amounts), *({amounts[0]} if len({*amounts}) == 1 else ())}

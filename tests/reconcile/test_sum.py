"""Several ledger rows of one payment: what is compared is their sum."""

from __future__ import annotations

from datetime import datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction
from payclient.ledger import ABSENT, Entry, RejectedEntry
from payclient.reconcile import Bucket, Journal, Kinds, Lines, Rules, Tally, reconcile, replay
from payclient.reconcile._sum import named_lines, payment_of, why_apart
from support.chance import examples

SUM = Rules(lines=Lines(of_one_reference="sum"))
KINDS = Kinds(column="Type", charge=["charge"], refund=["refund"], fee=["fee"], ignore=["payout"])
BY_KIND = Rules(lines=Lines(of_one_reference="sum", kind=KINDS))
OTHER = Transaction(reference="OTHER", amount=1, status="Paid")


def line(number, amount=ABSENT, kind=ABSENT, **fields):
    return Entry(line=number, amount=amount, kind=kind, **({"reference": "T"} | fields))


def paid(amount, **fields):
    return Transaction(**({"reference": "T", "amount": amount, "status": "Paid"} | fields))


async def rows_of(service_of, clock_from, ledger, answer, rules=SUM):
    answers = {"T": [answer], "OTHER": [OTHER]}
    return [
        row async for row in reconcile(ledger, service_of(answers), rules=rules, clock=clock_from(), canary="OTHER")
    ]


def figures(rows):
    tally = Tally()
    for row in rows:
        tally.add(row)
    return tally.summary()


async def test_summed(service_of, clock_from):
    """Lines of one reference are one row with their sum, which matches."""
    (row,) = await rows_of(service_of, clock_from, [line(2, 60), line(5, 30), line(7, 10)], paid(100))
    assert (row.bucket, row.entry.amount, row.lines, row.findings) == (Bucket.MATCHED, 100, (2, 5, 7), ())


async def test_names_all_lines(service_of, clock_from):
    """A finding names each line, and the bridge has their sum once."""
    (row,) = await rows_of(service_of, clock_from, [line(2, 60), line(5, 30), line(7, 20)], paid(100))
    assert row.primary.sentence == (
        "amount is 110 in the ledger and 100 at the service, which is 10 less; "
        "the ledger's side is the sum of lines 2, 5 and 7"
    )
    summary = figures([row])
    assert (summary.tie_out.ledger_paid_total, summary.tie_out.service_paid_total) == (110, 100)
    assert (summary.rows, summary.lines) == (1, 3)
    assert summary.sentence.endswith(": 1 break.")
    assert "3 ledger rows, summed to 1 payment" in summary.sentence


async def test_duplicates_by_default(service_of, clock_from):
    """Without the rule, each row is a break as before."""
    rows = await rows_of(service_of, clock_from, [line(2, 60), line(5, 40)], paid(100), rules=Rules())
    assert [row.bucket for row in rows] == [Bucket.BREAK, Bucket.BREAK]
    assert all("duplicate_reference" in {each.code for each in row.findings} for row in rows)


async def test_other_status(service_of, clock_from):
    """Paid and pending money have no sum: each row is for itself, and the finding says why."""
    ledger = [line(2, 60, status="Paid"), line(5, 40, status="Pending")]
    rows = await rows_of(service_of, clock_from, ledger, paid(100))
    assert [row.lines for row in rows] == [(2,), (5,)]
    said = "2 rows of the ledger have the reference 'T' and are not summed: "
    said += "status is 'Paid' on line 2 and 'Pending' on line 5"
    assert all(said in [each.sentence for each in row.findings] for row in rows)
    assert figures(rows).tie_out.ledger_paid_total == 60


async def test_same_status_in_other_words(service_of, clock_from):
    """Status words that mean the same are the same status."""
    rules = attrs.evolve(SUM, statuses={"lunas": "paid"})
    ledger = [line(2, 60, status="Paid"), line(5, 40, status="LUNAS")]
    (row,) = await rows_of(service_of, clock_from, ledger, paid(100), rules=rules)
    assert row.bucket is Bucket.MATCHED


async def test_unusable_line(service_of, clock_from):
    """With a line that cannot be used, the sum is not known, and the payment is rejected with that line."""
    ledger = [line(2, 60), RejectedEntry(line=3, reason="amount: 'x'", reference="T"), line(5, 40)]
    first, second = await rows_of(service_of, clock_from, ledger, paid(100))
    assert (first.bucket, second.bucket) == (Bucket.REJECTED, Bucket.REJECTED)
    assert first.lines == (2, 5)
    assert first.reason == "line 3 has the same reference and cannot be used, so the sum is not known"
    assert figures([first, second]).tie_out.residual == 0


@pytest.mark.parametrize(("refund", "status"), [(-40, "Refunded"), (40, "Paid")])
async def test_refund(service_of, clock_from, refund, status):
    """A refund is subtracted, whatever its sign and its status."""
    ledger = [line(2, 100, "charge", status="Paid"), line(5, refund, "refund", status=status)]
    (row,) = await rows_of(service_of, clock_from, ledger, paid(60), BY_KIND)
    assert (row.bucket, row.entry.amount, row.entry.status) == (Bucket.MATCHED, 60, "Paid")


async def test_full_refund(service_of, clock_from):
    """A payment that was paid back in full is refunded, with the numbers of the charge."""
    ledger = [
        line(2, 100, "charge", fee=3, amount_received=97),
        line(5, -70, "refund", fee=0, amount_received=-70),
        line(6, -30, "refund", fee=0, amount_received=-30),
    ]
    answer = paid(100, status="Refunded", fee=3, amount_received=97)
    (row,) = await rows_of(service_of, clock_from, ledger, answer, BY_KIND)
    assert (row.bucket, row.entry.status, row.entry.amount_received) == (Bucket.MATCHED, "refunded", 97)
    assert figures([row]).tie_out.ledger_paid_total == 0


async def test_fee_line(service_of, clock_from):
    """A fee on a line by itself is the payment's fee, and taken off what is received."""
    ledger = [line(2, 100, "charge", amount_received=100), line(5, -3, "fee", amount_received=None)]
    (row,) = await rows_of(service_of, clock_from, ledger, paid(100, fee=3, amount_received=97), BY_KIND)
    assert (row.bucket, row.entry.amount, row.entry.fee, row.entry.amount_received) == (Bucket.MATCHED, 100, 3, 97)


async def test_fee_alone(service_of, clock_from):
    """A fee without its charge states no amount, so that only the fee is compared."""
    (row,) = await rows_of(service_of, clock_from, [line(2, 3, "fee")], paid(100, fee=4), BY_KIND)
    assert (row.entry.amount, [each.code.value for each in row.findings]) == (ABSENT, ["fee_differs"])


async def test_unknown_kind(service_of, clock_from):
    """A kind that the rules do not list is never guessed."""
    (row,) = await rows_of(service_of, clock_from, [line(2, 100, "charge"), line(5, 1, "Reversal")], paid(100), BY_KIND)
    assert row.bucket is Bucket.REJECTED
    assert row.reason.startswith("kind: 'Reversal' on line 5 is not listed in the rules; add it to charge, refund, fee")


async def test_ignored_lines(service_of, clock_from):
    """Lines that are no part of a payment are left out, usable or not, and counted with their money."""
    payout = RejectedEntry(line=3, reason="reference: the cell is empty", amount=-97, kind="Payout")
    with Journal() as journal:
        rows = reconcile(
            [line(2, 100, "charge"), payout], service_of({"T": [paid(100)]}), rules=BY_KIND, journal=journal
        )
        assert [row.bucket async for row in rows] == [Bucket.MATCHED]
        assert [each.sentence for each in journal.ignored] == [
            "1 line of the kind 'payout' left out, as the rules say: -97"
        ]


def test_texts_that_differ():
    """Of texts that the lines state differently, the one that agrees counts, and else the first."""
    lines = [
        line(2, 1, merchant_reff="INV-1", payment_method="VA"),
        line(3, 1, merchant_reff="inv-2", payment_method=None),
    ]
    agreeing = payment_of(lines, SUM, paid(2, merchant_reff="INV-2", payment_method="QR"))
    assert (agreeing.merchant_reff, agreeing.payment_method) == ("inv-2", "VA")
    assert payment_of(lines, SUM, paid(2, merchant_reff="INV-3")).merchant_reff == "INV-1"


def test_age():
    """A payment is as old as its first line."""
    days = [datetime(2026, 11, day) for day in (21, 3, 9)]  # noqa: DTZ001  as a ledger states it
    lines = [line(number, 1, created_at=day) for number, day in enumerate(days)]
    assert payment_of(lines, SUM).created_at == days[1]


def test_empty_cells():
    """An empty cell adds nothing, and without a number the sum is as empty as the cells."""
    assert payment_of([line(2, 1, fee=None), line(3, 1, fee=4)], SUM).fee == 4
    assert payment_of([line(2, 1, fee=None), line(3, 1, fee=None)], SUM).fee is None
    assert payment_of([line(2, 1), line(3, 1)], SUM).fee is ABSENT


def test_named_lines():
    """Lines are named as people write them, and of very many the first twenty."""
    lines = [line(number) for number in range(2, 32)]
    assert named_lines(lines[:1]) == "line 2"
    assert named_lines(lines[:2]) == "lines 2 and 3"
    assert named_lines(lines).endswith("20, 21 and 10 more")


def test_only_charges_need_one_status():
    """The status of refunds does not matter beside a charge, and does without one."""
    refunds = [line(2, 1, "refund", status="Paid"), line(3, 1, "refund", status="Pending")]
    assert why_apart([line(1, 2, "charge", status="Paid"), *refunds], BY_KIND) == ""
    assert why_apart(refunds, BY_KIND) == "status is 'Paid' on line 2 and 'Pending' on line 3"


# Laws

NUMBERS = st.integers(-50, 50)
STATUSES = st.sampled_from(["Paid", "Pending", "Expired"])


def split(entry, cuts):
    """Return lines that sum to *entry*, one for each of *cuts* and one for the rest."""
    numbers = {name: getattr(entry, name) for name in ("amount", "fee", "amount_received")}
    rest = {name: value - sum(cuts) for name, value in numbers.items()}
    parts = [dict.fromkeys(numbers, cut) for cut in cuts] + [rest]
    return [attrs.evolve(entry, line=place, **part) for place, part in enumerate(parts, entry.line)]


def verdict(row):
    return row.bucket, [(each.code, each.severity, each.ledger, each.service) for each in row.findings]


@examples(60)
@given(
    amounts=st.tuples(NUMBERS, NUMBERS, NUMBERS),
    theirs=st.tuples(NUMBERS, NUMBERS, NUMBERS),
    status=STATUSES,
    cuts=st.lists(NUMBERS, max_size=4),
    order=st.randoms(use_true_random=False),
)
async def test_splitting(service_of, clock_from, amounts, theirs, status, cuts, order):
    """A payment has the same verdict and the same bridge on one line and on several, in any order."""
    names = ("amount", "fee", "amount_received")
    whole = line(2, status=status, **dict(zip(names, amounts, strict=True)))
    answer = paid(**dict(zip(names, theirs, strict=True)))
    lines = split(whole, cuts)
    order.shuffle(lines)
    (alone,) = await rows_of(service_of, clock_from, [whole], answer)
    (summed,) = await rows_of(service_of, clock_from, lines, answer)
    assert verdict(summed) == verdict(alone)
    assert len(summed.lines) == len(cuts) + 1
    assert figures([summed]).tie_out == figures([alone]).tie_out


WORDS = st.sampled_from(["charge", "charge", "refund", "fee", "odd", None])
LEDGERS = st.lists(
    st.builds(
        lambda reference, fields: Entry(line=0, reference=reference, **fields),
        st.sampled_from("ABC"),
        st.fixed_dictionaries(
            {"amount": NUMBERS, "kind": WORDS},
            optional={
                "status": st.none() | STATUSES,
                "fee": st.none() | NUMBERS,
                "amount_received": st.none() | NUMBERS,
            },
        ),
    )
    | st.builds(
        RejectedEntry,
        line=st.just(0),
        reason=st.just("x"),
        reference=st.none() | st.sampled_from("ABC"),
        amount=st.none() | NUMBERS,
    ),
    max_size=12,
).map(lambda rows: [attrs.evolve(row, line=number) for number, row in enumerate(rows, 2)])
ANSWERS = st.fixed_dictionaries(
    {
        reference: st.builds(paid, NUMBERS, reference=st.just(reference), status=STATUSES | st.just("Refunded")).map(
            lambda found: [found]
        )
        for reference in "ABC"
    }
)


@examples(120)
@given(ledger=LEDGERS, answers=ANSWERS, rules=st.sampled_from([SUM, BY_KIND]))
async def test_each_line_once(service_of, clock_from, ledger, answers, rules):
    """Each line of the ledger is in one row, each reference has its money once, and the residual is 0."""
    with Journal() as journal:
        rows = [
            row
            async for row in reconcile(ledger, service_of(answers), rules=rules, clock=clock_from(), journal=journal)
        ]
        assert list(replay(journal, rules=rules)) == rows
    assert sorted(number for row in rows for number in row.lines) == [entry.line for entry in ledger]
    assert [row.line for row in rows] == sorted(row.line for row in rows)
    summary = figures(rows)
    assert (summary.lines, summary.rows) == (len(ledger), len(rows))
    assert summary.tie_out.residual == 0
    asked = {row.reference for row in rows if row.transaction}
    theirs = [found.amount for (found,) in answers.values() if found.reference in asked and found.status == "Paid"]
    assert summary.tie_out.service_paid_total == sum(theirs)


async def test_ignored_too_late(service_of, clock_from):
    """Lines that only later rules leave out are in the journal, so that their payment is rejected."""
    with Journal() as journal:
        rows = reconcile([line(2, 100, "payout")], service_of({"T": [paid(100)]}), rules=SUM, journal=journal)
        assert [row.bucket async for row in rows] == [Bucket.MATCHED]
        (row,) = replay(journal, rules=BY_KIND)
    assert row.bucket is Bucket.REJECTED
    assert row.reason == "kind: 'payout' on line 2 is left out by rules that came after the ledger was read"

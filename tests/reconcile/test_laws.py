"""Laws of a reconciliation: for any ledger and any answers."""

from __future__ import annotations

from datetime import datetime, timedelta

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from payclient import Transaction, errors
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import Bucket, Tally, reconcile

EXPIRY = datetime.fromisoformat("2026-11-21 10:00:00")
NOT_FOUND = errors.TransactionNotFoundError("no such transaction: not found")
REFERENCES = "ABCDE"
WORDS = st.sampled_from(["paid", "Pending", "canceled", "expired", "refunded", "settled"])
AMOUNTS = st.integers(-5, 5)


def sometimes(**fields):
    return st.fixed_dictionaries({}, optional=fields)


def entries():
    optional = sometimes(
        amount=AMOUNTS,
        fee=st.none() | AMOUNTS,
        status=st.none() | WORDS,
        merchant_reff=st.none() | st.sampled_from("MN"),
        expdate=st.none() | st.just(EXPIRY),
    )
    usable = st.builds(
        lambda reference, fields: Entry(line=1, reference=reference, **fields), st.sampled_from(REFERENCES), optional
    )
    rejected = st.builds(RejectedEntry, line=st.just(1), reason=st.just("x"), amount=st.none() | AMOUNTS)
    return st.lists(usable | usable | usable | rejected, max_size=12).map(
        lambda rows: [attrs.evolve(row, line=line) for line, row in enumerate(rows, 2)]
    )


def answers():
    failures = st.sampled_from(
        [
            *(NOT_FOUND, NOT_FOUND, errors.RejectedError("no"), errors.InvalidReferenceError("bad")),
            errors.AuthenticationError("bad key"),
        ]
    )
    transactions = st.builds(
        lambda amount, status, fields: Transaction(reference="?", amount=amount, status=status, **fields),
        AMOUNTS,
        WORDS,
        sometimes(fee=AMOUNTS, amount_received=AMOUNTS, merchant_reff=st.sampled_from("MN"), expdate=st.just(EXPIRY)),
    )
    one = transactions | transactions | failures
    return st.fixed_dictionaries({reference: st.lists(one, min_size=1, max_size=2) for reference in REFERENCES})


async def rows_until_the_end(*args, **options):
    rows = []
    try:
        async for row in reconcile(*args, **options):
            rows.append(row)
    except errors.PayClientError:
        pass
    return rows


@settings(max_examples=150, deadline=None)
@given(ledger=entries(), answers=answers(), canary=st.none() | st.just("A"))
async def test_everything_ties(service_of, clock_from, ledger, answers, canary):
    """Each row comes out once, in order, in one bucket; buckets sum to the ledger, and the residual is 0."""
    rows = await rows_until_the_end(ledger, service_of(answers), clock=clock_from(), canary=canary, concurrency=2)
    tally = Tally()
    for row in rows:
        tally.add(row)
    summary = tally.summary()
    assert [row.entry for row in rows] == ledger
    assert sum(total.rows for total in summary.buckets.values()) == summary.rows == len(ledger)
    assert summary.tie_out.residual == 0
    assert summary.tie_out.ledger_total == sum(row.ledger_amount or 0 for row in rows)


@settings(max_examples=150, deadline=None)
@given(ledger=entries(), answers=answers())
async def test_only_evidence(service_of, clock_from, ledger, answers):
    """A break was answered twice or is a doubled row; "missing" was answered so; each row of an error is unresolved."""
    rows = await rows_until_the_end(ledger, service_of(answers), clock=clock_from(), concurrency=2)
    for row in rows:
        codes = {finding.code.value for finding in row.findings}
        if row.bucket is Bucket.BREAK:
            assert row.confirmed_at is not None or codes - {"service_arithmetic"} == {"duplicate_reference"}
        if "missing_at_service" in codes:
            assert NOT_FOUND in answers[row.reference]
        if row.error in ("RejectedError", "AuthenticationError"):
            assert row.bucket is Bucket.UNRESOLVED


def changed(**changes):
    return lambda transaction: attrs.evolve(transaction, **changes)


PLANTS = {
    (): lambda transaction: transaction,
    ("underpaid", "net_differs"): changed(amount=90, amount_received=89),
    ("overpaid", "net_differs"): changed(amount=110, amount_received=109),
    ("net_differs", "fee_differs"): changed(fee=2, amount_received=98),
    ("net_differs", "service_arithmetic"): changed(amount_received=98),
    ("method_differs",): changed(payment_method="QR"),
    ("payment_code_differs",): changed(payment_code="9"),
    ("merchant_reff_differs",): changed(merchant_reff="other"),
    ("recorded_not_paid",): changed(status="Canceled"),
    ("unknown_status",): changed(status="Settled"),
    ("expiry_differs",): changed(expdate=EXPIRY + timedelta(days=1)),
    ("tolerated_deviation",): changed(deviations=("odd",)),
    ("missing_at_service",): lambda _transaction: NOT_FOUND,
}


@settings(max_examples=60, deadline=None)
@given(plants=st.lists(st.sampled_from(list(PLANTS)), max_size=20), moved=st.sets(st.integers(0, 19)))
async def test_planted(service_of, clock_from, plants, moved):
    """Exactly the planted differences are found, but for those that were gone at the second look."""
    ledger, answers, expected = [], {"CANARY": [Transaction(reference="CANARY", amount=1, status="Paid")]}, []
    for n, codes in enumerate(plants):
        fields = {"merchant_reff": f"M{n}", "amount": 100, "fee": 1, "amount_received": 99, "status": "paid"}
        fields |= {"payment_method": "VA", "payment_code": "7", "expdate": EXPIRY, "reference": f"T{n}"}
        agreeing = Transaction(payment_name="Bank", **fields)
        planted = PLANTS[codes](agreeing)
        if planted is not NOT_FOUND and "merchant_reff_differs" in codes:
            planted = attrs.evolve(planted, merchant_reff=f"X{n}")
        is_doubted = codes not in ((), ("tolerated_deviation",))
        ledger.append(Entry(line=n, **fields))
        answers[f"T{n}"] = [planted, agreeing] if n in moved else [planted]
        expected.append(() if n in moved and is_doubted else codes)
    rows = await rows_until_the_end(ledger, service_of(answers), clock=clock_from(), canary="CANARY")
    assert [tuple(finding.code.value for finding in row.findings) for row in rows] == expected

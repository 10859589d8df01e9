"""Several ledger rows of one payment: what is compared is their sum."""

from datetime import datetime

import attrs
import pytest

from payclient import Transaction
from payclient.reconcile import Bucket, Journal, Kinds, Lines, Rules, Severity, reconcile, replay
from payclient.reconcile._judgement.judge import payment_of, why_not_summed
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry
from payclient.reconcile.report import Report
from payclient.reconcile.report.wording import in_words
from support.planted import summary_of
from support.reconciling import Clock, Service

SUM = Rules(lines=Lines(of_one_reference="sum"))
KINDS = Kinds(column="Type", charge=["charge"], refund=["refund"], fee=["fee"], ignore=["payout"])
BY_KIND = Rules(lines=Lines(of_one_reference="sum", kind=KINDS))
OTHER = Transaction(reference="OTHER", amount=1, status="Paid")


def line(number, amount=ABSENT, kind=ABSENT, **fields):
    return Entry(line=number, amount=amount, kind=kind, **({"reference": "T"} | fields))


def paid(amount, **fields):
    return Transaction(**({"reference": "T", "amount": amount, "status": "Paid"} | fields))


async def rows_of(ledger, answer, rules=SUM):
    answers = {"T": [answer], "OTHER": [OTHER]}
    return [row async for row in reconcile(ledger, Service(answers), rules=rules, clock=Clock(), canary="OTHER")]


async def test_summed():
    """Lines of one reference are one row; a finding names each of them, and the bridge has their sum once."""
    (row,) = await rows_of([line(2, 60), line(5, 30), line(7, 10)], paid(100))
    assert (row.bucket, row.entry.amount, row.lines, row.findings) == (Bucket.MATCHED, 100, (2, 5, 7), ())
    (row,) = await rows_of([line(2, 60), line(5, 30), line(7, 20)], paid(100))
    assert row.primary.sentence == (
        "amount is 110 in the ledger and 100 at the service, which is 10 less; "
        "the ledger's side is the sum of lines 2, 5 and 7"
    )
    summary = summary_of([row])
    assert (summary.tie_out.ledger_paid_total, summary.tie_out.service_paid_total) == (110, 100)
    assert (summary.rows, summary.lines) == (1, 3)
    assert Report(summary).says.endswith(": 1 break.")
    assert "3 ledger rows, summed to 1 payment" in Report(summary).says


async def test_order_of_lines():
    """Of lines that write a text in several ways, the one that agrees with the service counts, in any order."""
    for name, agrees, differs in (
        ("merchant_reff", "inv-1", "INV1"),
        ("payment_code", "88-08", "88_08"),
        ("payment_method", "bank_va", "bankva"),
    ):
        theirs = {name: agrees.upper().replace("_", " ")}
        ours = [line(2, 60, **{name: differs}), line(3, 40, **{name: agrees})]
        found = [await rows_of(each, paid(100, **theirs)) for each in (ours, ours[::-1])]
        codes = [[(each.code, each.severity) for each in row.findings] for (row,) in found]
        assert codes[0] == codes[1] == [("merchant_reff_differs", Severity.MEDIUM)][: name == "merchant_reff"], name


async def test_not_summed():
    """Without the rule each row is a break; so it is with paid and pending money, and the finding says why."""
    rows = await rows_of([line(2, 60), line(5, 40)], paid(100), rules=Rules())
    assert [row.bucket for row in rows] == [Bucket.BREAK, Bucket.BREAK]
    assert all("duplicate_reference" in {each.code for each in row.findings} for row in rows)
    ledger = [line(2, 60, status="Paid"), line(5, 40, status="Pending")]
    rows = await rows_of(ledger, paid(100))
    assert [row.lines for row in rows] == [(2,), (5,)]
    said = "2 rows of the ledger have the reference 'T' and are not summed: "
    said += "status is 'Paid' on line 2 and 'Pending' on line 5"
    assert all(said in [each.sentence for each in row.findings] for row in rows)
    assert summary_of(rows).tie_out.ledger_paid_total == 60


async def test_unusable_line():
    """With a line that cannot be used, the sum is not known, and the payment is rejected with that line."""
    ledger = [line(2, 60), RejectedEntry(line=3, reason="amount: 'x'", reference="T"), line(5, 40)]
    first, second = await rows_of(ledger, paid(100))
    assert (first.bucket, second.bucket) == (Bucket.REJECTED, Bucket.REJECTED)
    assert first.lines == (2, 5)
    assert first.reason == "line 3 has the same reference and cannot be used, so the sum is not known"
    assert summary_of([first, second]).tie_out.residual == 0


def unusable(count):
    bad = [RejectedEntry(line=count + number, reason="x", reference="T") for number in range(count)]
    return [line(number, 60) for number in range(count)] + bad, {"T": [paid(100)]}


def of_one_name(count):
    references = [f"T{number:03}" for number in range(count)]
    answers = {each: [paid(60, reference=each, merchant_reff="shop")] for each in references}
    return [line(number, 60, reference=each) for number, each in enumerate(references)], answers


@pytest.mark.parametrize("ledger_of", [unusable, of_one_name])
async def test_steps_of_the_database(ledger_of):
    """Twice as many lines take about twice as many steps: of one reference and unusable, or of one merchant_reff."""
    steps = []
    for count in (100, 200):
        ledger, answers = ledger_of(count)
        with Journal() as journal:
            rows = reconcile(ledger, Service(answers | {"OTHER": [OTHER]}), clock=Clock(), journal=journal)
            assert len([row async for row in rows]) == len(ledger)
            taken = []
            journal._database.connection.set_progress_handler(lambda taken=taken: taken.append(1), 100)
            assert sum(1 for _ in journal.cases(rules=SUM)) > count - 1
            steps.append(len(taken))
    assert steps[1] < 3 * steps[0]


async def test_refund():
    """A refund is subtracted, whatever its sign and its status; status words that mean the same are the same."""
    for refund, status in ((-40, "Refunded"), (40, "Paid")):
        ledger = [line(2, 100, "charge", status="Paid"), line(5, refund, "refund", status=status)]
        (row,) = await rows_of(ledger, paid(60), BY_KIND)
        assert (row.bucket, row.entry.amount, row.entry.status) == (Bucket.MATCHED, 60, "Paid")
    rules = attrs.evolve(SUM, statuses={"lunas": "paid"})
    ledger = [line(2, 60, status="Paid"), line(5, 40, status="LUNAS")]
    (row,) = await rows_of(ledger, paid(100), rules=rules)
    assert row.bucket is Bucket.MATCHED


KIND_CASES = (
    # A payment that was paid back in full is refunded, with the numbers of the charge.
    (
        [
            line(2, 100, "charge", fee=3, amount_received=97),
            line(5, -70, "refund", fee=0, amount_received=-70),
            line(6, -30, "refund", fee=0, amount_received=-30),
        ],
        paid(100, status="Refunded", fee=3, amount_received=97),
        ("matched", 100, 3, 97, 0),
    ),
    # A fee on a line by itself is the payment's fee, and taken off what is received.
    (
        [line(2, 100, "charge", amount_received=100), line(5, -3, "fee", amount_received=None)],
        *(paid(100, fee=3, amount_received=97), ("matched", 100, 3, 97, 100)),
    ),
    # A fee without its charge states no amount, so that only the fee is compared.
    ([line(2, 3, "fee")], paid(100, fee=4), ("break", ABSENT, 3, ABSENT, 0)),
)


async def test_kinds():
    """Charges, refunds and fees make the numbers of a payment."""
    for ledger, answer, expected in KIND_CASES:
        (row,) = await rows_of(ledger, answer, BY_KIND)
        entry = row.entry
        total = summary_of([row]).tie_out.ledger_paid_total
        assert (row.bucket.value, entry.amount, entry.fee, entry.amount_received, total) == expected
        assert [each.code.value for each in row.findings] == (["fee_differs"] if row.bucket is Bucket.BREAK else [])


async def test_other_kinds():
    """A kind that the rules do not list is never guessed; one that they leave out is counted with its money."""
    (row,) = await rows_of([line(2, 100, "charge"), line(5, 1, "Reversal")], paid(100), BY_KIND)
    assert row.bucket is Bucket.REJECTED
    assert row.reason.startswith("kind: 'Reversal' on line 5 is not listed in the rules: add it to charge, refund, fee")
    payout = RejectedEntry(line=3, reason="reference: the cell is empty", amount=-97, kind="Payout")
    fee = RejectedEntry(line=4, reason="reference: the cell is empty", amount_received=-3, kind="fee")
    with Journal() as journal:
        ledger, service = [line(2, 100, "charge"), payout, fee], Service({"T": [paid(100)]})
        rows = [row async for row in reconcile(ledger, service, rules=BY_KIND, journal=journal)]
        assert [row.bucket for row in rows] == [Bucket.MATCHED]
        left_out = [*map(in_words, journal.ignored)]
    words = (("fee", -3), ("payout", -97))  # a fee without a reference is of no payment
    assert left_out == [f"1 line of the kind '{word}' left out by the rules: {money}" for word, money in words]
    # A line of a run that rules of later leave out is no charge by them.
    before = attrs.evolve(
        BY_KIND, lines=attrs.evolve(BY_KIND.lines, kind=attrs.evolve(KINDS, fee=["payout"], ignore=[]))
    )
    with Journal() as journal:
        ledger, service = [line(2, 100, "charge"), line(3, 1, "payout")], Service({"T": [paid(100)]})
        assert len([row async for row in reconcile(ledger, service, rules=before, journal=journal)]) == 1
        (row,) = replay(journal, rules=BY_KIND)
    assert (row.bucket, row.reason.partition(" by ")[0]) == (Bucket.REJECTED, "kind: 'payout' on line 3 is left out")


def test_texts_that_differ():
    """Of texts that the lines state differently, the one that agrees counts, and else the first."""
    days = [datetime(2026, 11, day) for day in (21, 22)]  # noqa: DTZ001  as a ledger states it
    lines = [
        line(2, 1, merchant_reff="INV-1", payment_method="VA", payment_code="1", expdate=days[0]),
        line(3, 1, merchant_reff="inv-2", payment_method=None, payment_code="2", expdate=days[1]),
        line(4, 1, payment_method="Bank"),
    ]
    said = {"merchant_reff": "INV-2", "payment_name": "BANK", "payment_code": "2", "expdate": days[1]}
    agreeing = payment_of(lines, SUM, paid(3, payment_method="QR", **said))
    found = agreeing.merchant_reff, agreeing.payment_method, agreeing.payment_code, agreeing.expdate
    assert found == ("inv-2", "Bank", "2", days[1])
    other = payment_of(lines, SUM, paid(3, merchant_reff="INV-3"))
    assert (other.merchant_reff, other.payment_method, other.payment_code) == ("INV-1", "VA", "1")


def test_payment():
    """Empty cells add nothing; a payment is as old as its first line, and after a full refund as its charges say."""
    days = [datetime(2026, 11, day) for day in (21, 3, 9)]  # noqa: DTZ001  as a ledger states it
    assert payment_of([line(number, 1, created_at=day) for number, day in enumerate(days)], SUM).created_at == days[1]
    for fees, fee in (((None, 4), 4), ((None, None), None), ((ABSENT, ABSENT), ABSENT)):
        assert payment_of([line(number, 1, fee=each) for number, each in enumerate(fees)], SUM).fee == fee
    nothing = payment_of([line(2, 0, "charge", status="Paid"), line(3, 0, "refund", status="Paid")], BY_KIND)
    assert (nothing.status, nothing.amount) == ("Paid", 0)
    lines = [line(2, 9, "charge", fee=3, amount_received=6), line(3, 9, "refund", fee=1, amount_received=9)]
    back = payment_of(lines, BY_KIND)
    assert (back.status, back.amount, back.fee, back.amount_received) == ("refunded", 9, 3, 6)
    # Of one that is paid back in part, the fee and the money of the refund count, and those of a fee as it states them.
    lines[1] = line(3, 4, "refund", fee=1, amount_received=4)
    part = payment_of([*lines, line(4, 3, "fee", amount_received=-1)], BY_KIND)
    assert (part.amount, part.fee, part.amount_received) == (5, 7, 1)


def test_why_apart():
    """The status must be the same on all charges; without a charge, on all lines."""
    charge, canceled = line(2, 9, "charge", status="Paid"), line(3, 9, "refund", status="Canceled")
    refund = line(4, 9, "refund", status="Paid")
    assert why_not_summed([charge, canceled, refund], BY_KIND) == ""
    assert why_not_summed([canceled, refund], BY_KIND) == "status is 'Canceled' on line 3 and 'Paid' on line 4"

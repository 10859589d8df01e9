"""What breaks may share, and the words for it."""

from __future__ import annotations

from datetime import datetime, timedelta

from payclient import Transaction
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import STRICT, Bucket, Code, Finding, PatternKind, Row, Status, compare
from payclient.reconcile.result._patterns import are_alike, causes, described, places
from support.reconciling import NOON

HOUR = 3_600_000_000

MORNING = datetime(2026, 11, 20, 7, 30)  # noqa: DTZ001  as a ledger states it


def causes_of(ours, theirs):
    entry = Entry(line=2, reference="T1", **ours)
    found = Transaction(**({"reference": "T1", "amount": 100, "status": "Paid"} | theirs))
    findings = compare(entry, found, at=NOON)
    meaning = None if not isinstance(entry.status, str) else STRICT.read_status(entry.status)
    row = Row(
        entry=entry,
        bucket=Bucket.BREAK,
        findings=findings,
        transaction=found,
        ledger_status=meaning,
        service_status=STRICT.read_status(found.status),
    )
    return set(causes(row))


def test_causes(subtests):
    """Each difference gives what it may share with others, and an agreement gives nothing."""
    cases = (
        ({"amount": 1}, {}, {("difference", "amount", 99), ("factor", "amount", 100, 1)}),
        ({"amount": 0}, {}, {("difference", "amount", 100)}),
        ({"fee": 1}, {"fee": 3, "payment_method": "VA"}, {("fee", "ledger", "VA", 2)}),
        (
            {"amount_received": 90},
            {"amount_received": 99, "fee": 1},
            {("difference", "amount_received", 9), ("factor", "amount_received", 11, 10)},
        ),
        ({"status": "LUNAS"}, {}, {("status", "unknown_status", "lunas", "paid", None, Status.PAID)}),
        ({"payment_method": "Bank"}, {"payment_method": "VA"}, {("method", "Bank", "VA")}),
        ({"merchant_reff": "7"}, {"merchant_reff": "INV-7"}, {("text", "merchant_reff", "start", "service", "INV-")}),
        ({"merchant_reff": "7-B"}, {"merchant_reff": "7"}, {("text", "merchant_reff", "end", "ledger", "-B")}),
        ({"merchant_reff": "inv"}, {"merchant_reff": "INV"}, {("text", "merchant_reff", "case", "", "")}),
        ({"merchant_reff": "A"}, {"merchant_reff": "B"}, set()),
        ({"expdate": MORNING}, {"expdate": MORNING + timedelta(hours=7)}, {("expiry", 7 * HOUR)}),
        ({"amount": 100, "status": "Paid"}, {}, set()),
    )
    for ours, theirs, expected in cases:
        with subtests.test(ours=ours, theirs=theirs):
            assert causes_of({"status": "Paid", **ours}, theirs) == expected


def test_settled():
    """Amounts of a statement are compared with the service's, and the words name the statement."""
    finding = Finding(Code.SETTLED_DIFFERENTLY, "x", ledger=97, service=100)
    row = Row(entry=Entry(line=2, reference="T1"), bucket=Bucket.BREAK, findings=(finding,))
    difference, factor = causes(row)
    assert described(difference)[0] == "the statement's amount is 3 less than the service's"
    assert described((PatternKind.DIFFERENCE, "settled amount", -3))[0] == (
        "the statement's amount is 3 more than the service's"
    )
    assert described(factor)[0] == "the service's amount is 100/97 times the statement's"
    assert described((PatternKind.FACTOR, "settled amount", 1, 100))[0] == (
        "the statement's amount is 100 times the service's"
    )
    assert "--statement-column amount_received=NAME" in described(difference)[1]
    assert "[statement.reading]" in described(factor)[1]


def test_places():
    """A row is at the hour of its creation, at that hour of any day, and at the start of its reference."""
    row = Row(entry=Entry(line=2, reference="ABCDEF", created_at=MORNING), bucket=Bucket.MATCHED)
    times = [("time", "2026-11-20 07"), ("time", "07")]
    assert list(places(row)) == [*times, ("prefix", "AB"), ("prefix", "ABCD")]
    day = Row(entry=Entry(line=2, reference="A", created_at=datetime(2026, 11, 20)), bucket=Bucket.MATCHED)  # noqa: DTZ001
    assert list(places(day)) == [("time", "2026-11-20")]
    assert list(places(Row(entry=RejectedEntry(line=2, reason="x"), bucket=Bucket.REJECTED))) == []


def test_alike():
    """A longer prefix is the same place as its start, and an hour of a day as that hour."""
    prefix, time = PatternKind.PREFIX, PatternKind.TIME
    assert are_alike((prefix, "AB"), (prefix, "ABCD"))
    assert are_alike((time, "2026-11-20 07"), (time, "07"))
    assert not are_alike((prefix, "AB"), (prefix, "AC"))
    assert not are_alike((prefix, "07"), (time, "07"))


SENTENCES = (
    (
        ("factor", "amount", 100, 1),
        "the service's amount is 100 times the ledger's",
        "export both sides in the same unit",
    ),
    (("factor", "amount", 1, 1000), "the ledger's amount is 1,000 times the service's", "export both"),
    (
        ("factor", "amount", 111, 100),
        "the service's amount is 1.11 times the ledger's",
        "[tolerances.amount] above_percent = 11, if",
    ),
    (("factor", "amount", 1, 3), "the ledger's amount is 3 times the service's", "correct the export"),
    (("difference", "amount", -2500), "amount is 2,500 less at the service", "[tolerances.amount] below = 2500"),
    (("fee", "ledger", "VA", 500), "the fee of 'VA' is 500 more than the ledger states", "[tolerances.fee] above"),
    (("fee", "schedule", "Q R", -5), "the fee of 'Q R' is 5 less than the schedule expects", '[fees."Q R"] with'),
    (
        ("status", Code.UNKNOWN_STATUS, "lunas", "paid", None, Status.PAID),
        "unknown word 'lunas' of the ledger: status is 'lunas' in the ledger and 'paid' at the service",
        'to map it: [statuses] lunas = "paid"',
    ),
    (
        ("status", Code.UNKNOWN_STATUS, "paid", "in review", Status.PAID, None),
        "unknown word 'in review' of the service: status is 'paid' in the ledger and 'in review' at the service",
        'to map it: [statuses] "in review" = "paid"',
    ),
    (
        ("status", Code.UNKNOWN_STATUS, "aa", "bb", None, None),
        "unknown word 'aa' of the ledger: status is 'aa' in the ledger and 'bb' at the service",
        'to map it: [statuses] aa = "…"',
    ),
    (
        ("status", Code.PAID_NOT_RECORDED, "pending", "paid", Status.PENDING, Status.PAID),
        "status is 'pending' in the ledger and 'paid' at the service",
        'grace = "36h", if such rows settle by themselves',
    ),
    (("method", "Bank", ""), "payment_method is 'Bank' in the ledger and nothing at the service", "export the"),
    (("text", "merchant_reff", "start", "service", "INV-"), "merchant_reff has 'INV-' more at the start", "export"),
    (("expiry", -7 * HOUR), "expdate is 7h earlier at the service", "export the ledger's times"),
    (("time", "2026-11-20 07"), "created on 2026-11-20 between 07:00 and 07:59", "grace ="),
    (("time", "07"), "created on several days between 07:00 and 07:59", "grace ="),
    (("time", "2026-11-20"), "created on 2026-11-20", "grace ="),
    (("prefix", "TS"), "the reference begins with 'TS'", "ask with the key and --environment"),
)


def test_described(subtests):
    """A cause is said in a sentence with its values, and with what would treat it."""
    for cause, sentence, treatment in SENTENCES:
        with subtests.test(cause=cause, sentence=sentence):
            kind, *values = cause
            said, how = described((PatternKind(kind), *values))
            assert said.startswith(sentence)
            assert how.startswith(treatment)


def test_harmless():
    """A word of the ledger cannot act on a terminal."""
    said = described((PatternKind.STATUS, Code.UNKNOWN_STATUS, "\x1b[2J", "paid", None, Status.PAID))
    assert all(text.isprintable() for text in said)

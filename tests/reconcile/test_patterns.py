"""What many breaks have in common is found, and what they share by chance is not."""

from datetime import datetime
from random import Random

import attrs
import pytest

from payclient import Transaction
from payclient.reconcile import (
    STRICT,
    Answer,
    Bucket,
    Case,
    Code,
    FeeSchedule,
    Finding,
    Lines,
    Observation,
    PatternKind,
    Row,
    Rules,
    RulesError,
    Status,
    Tally,
    compare,
    judge,
)
from payclient.reconcile._judgement.causes import Pattern, causes
from payclient.reconcile._judgement.rules import UnknownWords, parse_rules
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry
from payclient.reconcile.report.wording import in_words, pattern_words
from support.misses import check_table
from support.reconciling import NOON

ROWS = 1000


def described(cause):
    kind, *values = cause
    return pattern_words(Pattern(kind=PatternKind(kind), values=tuple(values), rows=1, amount=0))


def pairs_of(seed=1, rows=ROWS):
    """Return entries and transactions that agree, all different."""
    random = Random(seed)
    for number in range(rows):
        amount = random.randrange(10_000, 9_000_000)
        common = {"reference": f"{random.randrange(10**12):012d}", "merchant_reff": f"INV{random.randrange(10**9)}"}
        common |= {
            "amount": amount,
            "fee": amount // 100,
            "status": "Paid",
            "payment_method": random.choice(["VA", "QR"]),
        }
        yield Entry(line=number + 2, **common), Transaction(**common)


def patterns_of(pairs):
    tally = Tally()
    for entry, found in pairs:
        seen = Observation(answer=Answer.FOUND if found else Answer.NOT_FOUND, at=NOON, transaction=found)
        tally.add(judge(Case(entry=entry, first=seen, second=seen, other_found=1)))
    return tally.summary().patterns


def planted(change, *, where=lambda number: number % 20 == 0, seed=1):
    """Return the patterns of a ledger in which some rows are changed."""
    pairs = [
        change(entry, found) if where(number) else (entry, found)
        for number, (entry, found) in enumerate(pairs_of(seed))
    ]
    return patterns_of(pairs)


def kinds(patterns):
    return [each.kind.value for each in patterns]


def ours(**changes):
    return lambda entry, found: (attrs.evolve(entry, **{n: change(entry) for n, change in changes.items()}), found)


PLANTS = [
    ("factor", ours(amount=lambda entry: entry.amount * 100)),
    ("difference", ours(amount=lambda entry: entry.amount + 2500)),
    ("fee", ours(fee=lambda entry: entry.fee + (500 if entry.payment_method == "QR" else entry.line))),
    ("status", ours(status=lambda _: "Lunas")),
]


def test_planted():
    """One planted cause is the only pattern, with each of its rows, its first lines and the money at stake."""
    for kind, change in PLANTS:
        (pattern,) = planted(change)
        assert pattern.kind.value == kind
        of_qr = [entry for entry, _ in list(pairs_of())[::20] if entry.payment_method == "QR"]
        assert pattern.rows == (len(of_qr) if kind == "fee" else ROWS // 20), kind
        assert len(pattern.lines) == 3, kind
        if kind == "difference":
            assert (pattern.amount, pattern.lines) == (2500 * ROWS // 20, (2, 22, 42))


def spoilt(random):
    return ours(amount=lambda entry: entry.amount + random.randrange(1, 10**6))


def test_no_pattern_by_chance():
    """Breaks at random rows with random differences have no pattern."""
    for seed, share in enumerate((0.04, 0.3, 0.9)):
        random = Random(seed)
        chosen = {number for number in range(ROWS) if random.random() < share}
        assert planted(spoilt(random), where=chosen.__contains__, seed=seed) == (), (seed, share)


def test_too_few():
    """Nineteen rows are no pattern, and neither is what explains less than a twentieth of the breaks."""
    plus = ours(amount=lambda entry: entry.amount + 2500)
    assert planted(plus, where=lambda number: number < 95 and number % 5 == 0) == ()
    assert kinds(planted(plus, where=lambda number: number < 100 and number % 5 == 0)) == ["difference"]
    random = Random(1)
    mixed = [spoilt(random)] * 24 + [plus]

    def change(entry, found):
        return mixed[entry.line % 25](entry, found)

    assert planted(change, where=lambda _: True) == ()


def test_waived():
    """What a rule allows is no break, and so no pattern."""
    tally = Tally()
    for entry, found in pairs_of():
        seen = Observation(answer=Answer.FOUND, at=NOON, transaction=attrs.evolve(found, status="Expired"))
        row = judge(Case(entry=entry, first=seen, second=seen, other_found=1))
        findings = tuple(attrs.evolve(each, waived="agreed") for each in row.findings)
        tally.add(attrs.evolve(row, bucket=Bucket.MATCHED, findings=findings))
    assert tally.summary().patterns == ()


def test_rare_values():
    """However many different values there are, a common one among them is counted in full."""
    random = Random(1)
    tally = Tally()
    for number in range(3_000):
        more = 5 if number % 10 == 0 else random.randrange(6, 10**12)
        entry = Entry(line=number, reference=f"{random.randrange(10**12)}", amount=10**6)
        finding = Finding(Code.OVERPAID, "more", ledger=10**6, service=10**6 + more)
        tally.add(Row(entry=entry, bucket=Bucket.BREAK, findings=(finding,)))
    found = [
        each.rows for each in tally.summary().patterns if pattern_words(each)[0] == "amount is 5 more at the service"
    ]
    assert found == [300]


def test_listed_twice():
    """What is at stake in a reference that is listed twice is in a pattern once, with its larger amount."""
    tally = Tally()
    for number in range(100):
        finding = Finding(Code.OVERPAID, "x", ledger=10, service=15, at_stake=5 + number % 2)
        entry = Entry(line=number, reference=f"T{number // 2}", amount=10)
        tally.add(Row(entry=entry, bucket=Bucket.BREAK, findings=(finding,), is_repeat=number % 2 == 1))
    assert {(each.rows, each.amount, each.lines) for each in tally.summary().patterns} == {(100, 300, (0, 1, 2))}


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


def test_causes():
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
        ({"merchant_reff": "A"}, {"merchant_reff": "B"}, {(PatternKind.WORDS, "merchant_reff", "A", "B")}),
        ({"amount": 100, "status": "Paid"}, {}, set()),
    )
    check_table(cases, lambda ours, theirs: causes_of({"status": "Paid", **ours}, theirs))


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
    (("fee", "ledger", "VA", 500), "the fee of 'VA' is 500 more than the ledger has", "[tolerances.fee] above"),
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
    (
        ("status", Code.UNKNOWN_STATUS, "", "paid", None, Status.PAID),
        "unknown word '' of the ledger: status is nothing in the ledger and 'paid' at the service",
        "a status in the export, or --assume-status",
    ),
    (
        ("status", Code.CLOSED_DIFFERENTLY, "canceled", "expired", Status.CANCELED, Status.EXPIRED),
        "status is 'canceled' in the ledger and 'expired' at the service",
        "correct the side that is wrong",
    ),
    (
        ("words", "payment_method", "Überweisung", "VA"),
        "payment_method is 'Überweisung' in the ledger and 'VA' at the service",
        'if they are the same: methods."Überweisung" = "VA"',
    ),
    (("words", "expdate", "9999-12-31 00:00:00", ""), "expdate is '9999-12-31 00:00:00' in", "correct the export"),
)


def test_pairs_of_words():
    """A pair of texts in any compared field is a pattern; for a method it has the line that maps it."""
    for name, ours in (
        ("payment_method", "Überweisung"),
        ("payment_code", "9999"),
        ("merchant_reff", "INV"),
        ("expdate", datetime(9999, 12, 31)),  # noqa: DTZ001  an expiry has no zone
    ):
        theirs = datetime(2026, 11, 21) if name == "expdate" else "VA"  # noqa: DTZ001

        def change(entry, found, *, name=name, ours=ours, theirs=theirs):
            return attrs.evolve(entry, **{name: ours}), attrs.evolve(found, **{name: theirs})

        (pattern,) = planted(change)
        assert (pattern.kind, pattern.rows) == (PatternKind.WORDS, 50)
        assert pattern_words(pattern)[0].startswith(f"{name} is ")
        if name == "payment_method":
            rules = parse_rules(pattern_words(pattern)[1].removeprefix("if they are the same: "))
            pairs = (change(*pair) for pair in pairs_of(rows=50))
            assert all(not compare(*pair, at=NOON, rules=rules) for pair in pairs)


def test_methods():
    """A word of the ledger that the rules map agrees with the service's code or name, and with nothing else."""
    rules = Rules(methods={"Überweisung": "VA", "Karte": "Credit Card"})
    card = {"payment_method": "CARD", "payment_name": "credit-card"}
    cases = (
        ("Überweisung", {"payment_method": "VA"}, []),
        ("überweisung ", {"payment_method": "va"}, []),
        ("Überweisung", {"payment_method": "QR"}, [Code.METHOD_DIFFERS]),
        ("Karte", card, []),
        ("Bar", card, [Code.METHOD_DIFFERS]),
    )
    for word, said, expected in cases:
        entry, found = next(iter(pairs_of(rows=1)))
        pair = attrs.evolve(entry, payment_method=word), attrs.evolve(found, **said)
        assert [each.code for each in compare(*pair, at=NOON, rules=rules)] == expected, word


def test_methods_of_lines():
    """Of the lines of one payment, the method counts that the rules map to the service's."""
    entry, found = next(iter(pairs_of(rows=1)))
    half = attrs.evolve(entry, amount=found.amount // 2, fee=ABSENT)
    other = attrs.evolve(half, amount=found.amount - half.amount, payment_method="Überweisung")
    rules = Rules(methods={"Überweisung": found.payment_method}, lines=Lines(of_one_reference="sum"))
    parts = (attrs.evolve(half, payment_method="Bar"), other)
    seen = Observation(answer=Answer.FOUND, at=NOON, transaction=found)
    assert judge(Case(entry=half, first=seen, other_found=1, parts=parts), rules=rules).findings == ()


def test_before_the_first_lookup():
    """Words that the rules do not know are named with the line that gives them a meaning; known ones are not."""
    rules = Rules(methods={"Bar": "CASH"}, fees={"E-Wallet": FeeSchedule(flat=1)}, statuses={"lunas": "paid"})
    words = UnknownWords(rules, ["Virtual Account"])
    methods = ["VA", "QR_CODE", "Bar", "cash", "e wallet", "virtual-account", "Überweisung", "Überweisung", "-", None]
    for place, method in enumerate(methods):
        status = ["Paid", "lunas", "-", None, "bezahlt"][place % 5]
        words.add(Entry(line=place, reference="T", status=status, payment_method=method))
    words.add(RejectedEntry(line=99, reason="x", status="odd"))
    first, second = map(in_words, words.found())
    assert first == (
        "status 'bezahlt' of 2 rows is unknown, so none of them can match. Write the status that it means: "
        'statuses.bezahlt = "?"'
    )
    assert second == (
        "payment_method 'Überweisung' of 2 rows is not in the rules. If the service calls it VA, for example: "
        'methods."Überweisung" = "VA"'
    )
    lines = "\n".join(each.rpartition(": ")[2] for each in (first, second))
    with pytest.raises(RulesError, match=r"statuses\.bezahlt"):
        parse_rules(lines)  # which nobody has decided about yet
    assert parse_rules(lines.replace('"?"', '"paid"')).methods == {"überweisung": "VA"}


def test_described():
    """A cause is said in a sentence with its values, and with what would treat it."""
    for (kind, *values), sentence, treatment in SENTENCES:
        said, how = described((PatternKind(kind), *values))
        assert said.startswith(sentence), how
        assert how.startswith(treatment), said
    # A word of the ledger cannot act on a terminal.
    said = described((PatternKind.STATUS, Code.UNKNOWN_STATUS, "\x1b[2J", "paid", None, Status.PAID))
    assert all(text.isprintable() for text in said)

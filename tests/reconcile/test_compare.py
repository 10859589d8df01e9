"""The table of all differences between a ledger entry and a transaction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import attrs
import pytest

from payclient import Transaction
from payclient.ledger import ABSENT, Entry
from payclient.reconcile import STRICT, Code, FeeSchedule, Rules, Severity, Tolerance, compare

EXPIRY = datetime.fromisoformat("2026-11-21 10:00:00")
BEFORE = EXPIRY.replace(tzinfo=UTC) - timedelta(hours=1)
AFTER = EXPIRY.replace(tzinfo=UTC) + timedelta(hours=1)
FIELDS = {
    "merchant_reff": "INV-1",
    "amount": 15000,
    "fee": 500,
    "amount_received": 14500,
    "status": "paid",
    "payment_method": "VA",
    "payment_code": "0077",
    "expdate": EXPIRY,
}
ENTRY = Entry(line=1, reference="T1", **FIELDS)
TRANSACTION = Transaction(reference="T1", payment_name="Bank", **FIELDS)


def codes(entry=None, transaction=None, *, at=BEFORE, time_zone=UTC):
    ours, theirs = attrs.evolve(ENTRY, **(entry or {})), attrs.evolve(TRANSACTION, **(transaction or {}))
    return [finding.code.value for finding in compare(ours, theirs, at=at, rules=Rules(time_zone=time_zone))]


def test_agreement():
    """Two sides that agree in everything give no finding."""
    assert codes() == []


def test_only_what_is_there():
    """A column that the ledger does not have is not compared."""
    other = Transaction(reference="T1", merchant_reff="X", amount=9, status="paid", expdate=EXPIRY, payment_code="1")
    assert compare(Entry(line=1, reference="T1"), other, at=AFTER) == ()


def test_empty_cell(subtests):
    """An empty cell says that there is nothing, and is compared with what the service has."""
    for name in [name for name in FIELDS if name != "amount"]:
        with subtests.test(name=name):
            assert len(codes({name: None})) == 1


def test_nothing_on_both_sides(subtests):
    """Nothing on both sides agrees."""
    cases = ("merchant_reff", "fee", "amount_received", "payment_method", "payment_code", "expdate")
    for name in cases:
        with subtests.test(name=name):
            net = {"amount_received": 15000} if name == "fee" else {}
            assert codes({**net, name: None}, {**net, name: None}) == []


def test_fields(subtests):
    """Each field that differs is a finding of its own, the most severe first."""
    cases = (
        ({"merchant_reff": "INV-2"}, ["merchant_reff_differs"]),
        ({"merchant_reff": "inv-1"}, ["merchant_reff_differs"]),
        ({"merchant_reff": None}, ["merchant_reff_differs"]),
        ({"payment_method": "QR"}, ["method_differs"]),
        ({"payment_code": "77"}, ["payment_code_differs"]),
        ({"amount": 14999, "amount_received": 14499}, ["underpaid", "net_differs"]),
        ({"amount": 15001, "fee": 501}, ["overpaid", "fee_differs"]),
        ({"amount": 15001}, ["overpaid", "short_received"]),
        ({"fee": 501}, ["fee_differs", "service_arithmetic"]),
        ({"fee": None}, ["fee_differs"]),
        ({"amount_received": 14501}, ["net_differs", "service_arithmetic"]),
        ({"expdate": EXPIRY + timedelta(seconds=1)}, ["expiry_differs"]),
        ({"deviations": ("amount: text",)}, ["tolerated_deviation"]),
    )
    for transaction, expected in cases:
        with subtests.test(transaction=transaction, expected=expected):
            assert codes(transaction=transaction) == expected


def test_no_difference(subtests):
    """The usual variants of a ledger's notation are not a difference."""
    cases = (
        ({"fee": None}, {"fee": 0, "amount_received": 15000}),
        ({"fee": 0}, {"fee": None, "amount_received": 15000}),
        ({"amount_received": None}, {"amount_received": None}),
        ({"amount_received": 0}, {"amount_received": None}),
        ({"payment_method": "va"}, {}),
        ({"payment_method": " V A"}, {"payment_method": "v_a"}),
        ({"payment_method": "Bank Mandiri"}, {"payment_name": "BANK  MANDIRI"}),
        ({"payment_method": "virtual-account"}, {"payment_method": None, "payment_name": "Virtual Account"}),
        ({"payment_code": "00 77"}, {}),
        ({"payment_code": "\uff18\uff18-\uff11"}, {"payment_code": "881"}),
        ({"payment_code": "-"}, {"payment_code": ""}),
        ({"merchant_reff": "INV-1"}, {"merchant_reff": "INV-1 "}),
        ({"merchant_reff": None}, {"merchant_reff": "-"}),
    )
    for entry, transaction in cases:
        with subtests.test(entry=entry, transaction=transaction):
            found = compare(Entry(line=1, reference="T1", **entry), attrs.evolve(TRANSACTION, **transaction), at=BEFORE)
            assert [finding.sentence for finding in found if finding.is_decisive] == []


def test_cell_that_states_nothing(subtests):
    """An empty cell, such as the lower part of a merged one, is a remark and no difference."""
    cases = ("merchant_reff", "amount_received", "payment_method", "payment_code", "expdate")
    for name, cell in product(cases, (None, "-", " ")):
        with subtests.test(name=name, cell=cell):
            value = None if name in ("amount_received", "expdate") else cell
            (finding,) = compare(attrs.evolve(ENTRY, **{name: value}), TRANSACTION, at=BEFORE)
            assert (finding.code, finding.is_decisive) == (Code.NOT_COMPARED, False)
            assert finding.sentence.startswith(f"{name} is empty in the ledger and ")


def test_other_text(subtests):
    """Other characters are another text, and of a merchant_reff spacing and case are told apart from them."""
    cases = (
        ({"merchant_reff": "inv-1"}, {}, "medium"),
        ({"merchant_reff": "INV-1"}, {"merchant_reff": "INV\u00a0-1"}, "critical"),
        ({"merchant_reff": "INV 1"}, {"merchant_reff": "INV\u00a0 1"}, "medium"),
        ({"merchant_reff": "\uff29\uff2e\uff36-\uff11"}, {}, "medium"),
        ({"merchant_reff": "INV-01"}, {}, "critical"),
        ({"merchant_reff": "INV-10"}, {}, "critical"),
        ({"merchant_reff": "INV-1"}, {"merchant_reff": ""}, "critical"),
        ({"payment_method": "QR"}, {}, "medium"),
        ({"payment_method": "Bank"}, {"payment_name": None}, "medium"),
        ({"payment_code": "77"}, {}, "medium"),
        ({"payment_code": "00770"}, {}, "medium"),
        ({"payment_code": "0077"}, {"payment_code": None}, "medium"),
    )
    for entry, transaction, expected in cases:
        with subtests.test(entry=entry, transaction=transaction):
            ours, theirs = attrs.evolve(ENTRY, **entry), attrs.evolve(TRANSACTION, **transaction)
            assert [finding.severity.word for finding in compare(ours, theirs, at=BEFORE)] == [expected]


def test_statuses(subtests):
    """Two states mean one thing together, and a word that is not known means nothing."""
    cases = (
        ("PAID", "Paid", []),
        ("cancelled", "Canceled", []),
        ("pending", "Paid", ["paid_not_recorded"]),
        ("failed", "Paid", ["paid_not_recorded"]),
        ("refunded", "Paid", ["refund_not_made"]),
        (None, "Paid", ["paid_not_recorded"]),
        ("expired", "Paid", ["late_payment"]),
        ("canceled", "Paid", ["late_payment"]),
        ("paid", "pending", ["recorded_not_paid"]),
        ("paid", "Canceled", ["recorded_not_paid"]),
        ("paid", "refunded", ["refund_not_recorded"]),
        ("expired", "Canceled", ["closed_differently"]),
        ("refunded", "failed", ["refund_not_made"]),
        ("canceled", "refunded", ["refund_not_recorded"]),
        ("pending", "expired", ["pending_on_one_side"]),
        ("canceled", "pending", ["pending_on_one_side"]),
        ("pending", "pending", []),
        ("settled", "Paid", ["unknown_status"]),
        ("paid", "Settled", ["unknown_status"]),
        ("settled", "settled", ["unknown_status"]),
        (None, "pending", ["unknown_status"]),
        ("1", "1", ["unknown_status"]),
    )
    for ours, theirs, expected in cases:
        with subtests.test(ours=ours, theirs=theirs):
            assert codes({"status": ours}, {"status": theirs}) == expected


@pytest.mark.parametrize(("at", "expected"), [(BEFORE, []), (AFTER, ["stale_pending"])])
def test_pending_on_both_sides(at, expected):
    """Pending on both sides is stale once the expiry has passed."""
    assert codes({"status": "pending"}, {"status": "pending"}, at=at) == expected


@pytest.mark.parametrize(("ours", "theirs"), [("pending", "Canceled"), ("expired", "Pending"), ("Failed", "pending")])
def test_pending_on_one_side(ours, theirs):
    """Pending against closed is stale only past the expiry; before it, or without one, it has its own code."""
    sides = {"status": ours}, {"status": theirs}
    assert codes(*sides, at=BEFORE) == ["pending_on_one_side"]
    assert codes(*sides, at=AFTER) == ["stale_pending"]
    assert codes({"status": ours, "expdate": None}, {"status": theirs, "expdate": None}) == ["pending_on_one_side"]


def test_pending_without_a_zone():
    """Without a time zone, an expiry of an hour ago is not said to have passed."""
    assert codes({"status": "pending"}, {"status": "pending"}, at=AFTER, time_zone=None) == []


def test_letter_case():
    """A merchant_reff in which only letter case differs is less severe, and says so."""
    (finding,) = compare(ENTRY, attrs.evolve(TRANSACTION, merchant_reff="inv-1"), at=BEFORE)
    assert (finding.severity, "only letter case or spacing differs" in finding.sentence) == (Severity.MEDIUM, True)


def test_sentence():
    """The sentence holds both sides and the difference; the sides stand apart, too."""
    (finding, _) = compare(ENTRY, attrs.evolve(TRANSACTION, amount=14000), at=BEFORE)
    assert finding.sentence == "amount is 15000 in the ledger and 14000 at the service, which is 1000 less"
    assert (finding.ledger, finding.service) == (15000, 14000)


def test_hostile_sentence():
    """What the service wrote cannot act on the terminal that shows the sentence."""
    (finding,) = compare(ENTRY, attrs.evolve(TRANSACTION, payment_method="\x1b[2J\u202eVA"), at=BEFORE)
    assert finding.sentence.isprintable()


def test_most_severe_first():
    """Findings are in order of severity, and in the order of the codes where that is equal."""
    found = codes(
        {"status": "pending", "merchant_reff": "x", "fee": 1, "payment_method": "y", "expdate": None, "amount": 1},
    )
    assert found == [
        *("paid_not_recorded", "merchant_reff_differs", "overpaid", "fee_differs", "method_differs", "not_compared"),
    ]


def waivers(entry=None, transaction=None, *, at=BEFORE, **rules):
    ours, theirs = attrs.evolve(ENTRY, **(entry or {})), attrs.evolve(TRANSACTION, **(transaction or {}))
    return [(finding.code.value, finding.waived) for finding in compare(ours, theirs, at=at, rules=Rules(**rules))]


@pytest.mark.parametrize(
    ("field", "value", "code", "other"),
    [
        ("amount", 14_990, "underpaid", "overpaid"),
        ("fee", 490, "fee_differs", "fee_differs"),
        ("amount_received", 14_490, "net_differs", "net_differs"),
    ],
)
def test_tolerance(field, value, code, other):
    """A difference within the tolerance of its own field and side is waived, and says so."""
    rules = {"tolerances": {field: Tolerance(below=10)}}
    within, beyond, above = ({field: value}, {field: value - 1}, {field: FIELDS[field] + 1})
    assert (code, "within the tolerance of 10 below") in waivers(transaction=within, **rules)
    assert (code, "") in waivers(transaction=beyond, **rules)
    assert (other, "") in waivers(transaction=above, **rules)
    for another in {"amount", "fee", "amount_received"} - {field}:
        assert (code, "") in waivers(transaction=within, tolerances={another: Tolerance(below=10)})


def test_nothing_is_not_near():
    """An amount received that the service does not state is within no tolerance."""
    rules = {"tolerances": {"amount_received": Tolerance(below=20_000)}}
    assert ("net_differs", "") in waivers({}, {"amount_received": None}, **rules)


@pytest.mark.parametrize(
    ("ours", "theirs", "sentence"),
    [
        (None, 5, "fee is 0 in the ledger and 5 at the service"),
        (5, None, "fee is 5 in the ledger and 0 at the service"),
    ],
)
def test_empty_fee(ours, theirs, sentence):
    """A fee that one side does not state is 0: in the sentence, in the values and for a tolerance."""
    entry, transaction = attrs.evolve(ENTRY, fee=ours), attrs.evolve(TRANSACTION, fee=theirs)
    for tolerances, waived in (({}, ""), ({"fee": Tolerance(above=9, below=9)}, True)):
        found = compare(entry, transaction, at=BEFORE, rules=Rules(tolerances=tolerances))
        (finding,) = [each for each in found if each.code == "fee_differs"]
        assert (finding.sentence, finding.ledger, finding.service) == (sentence, ours or 0, theirs or 0)
        assert bool(finding.waived) == bool(waived)


@pytest.mark.parametrize("ours", [ABSENT, None, 0])
def test_empty_fee_and_schedule(ours):
    """The service's empty fee is 0 where a schedule expects another, too."""
    entry, transaction = attrs.evolve(ENTRY, fee=ours), attrs.evolve(TRANSACTION, fee=None, amount_received=None)
    found = compare(entry, transaction, at=BEFORE, rules=Rules(**SCHEDULE))
    (finding,) = [each for each in found if each.code == "fee_off_schedule"]
    assert (finding.service, finding.sentence.partition(",")[0]) == (
        0,
        f"fee is 0 {'on both sides' if ours == 0 and ours is not None else 'at the service'}",
    )


def test_waived_come_last():
    """Waived findings come after the others, whatever their severity."""
    rules = {"tolerances": {"amount": Tolerance(below=10)}}
    found = waivers(transaction={"amount": 14_990, "expdate": None}, **rules)
    assert [code for code, _ in found] == ["expiry_differs", "service_arithmetic", "underpaid"]


def test_status_words(subtests):
    """Words of the rules are compared by what they mean, on both sides."""
    cases = (
        ("settled", "Paid", []),
        ("paid", "SETTLED", []),
        ("settled", "pending", ["recorded_not_paid"]),
        ("settled", "in-review", ["recorded_not_paid"]),
        ("in review", "Pending", []),
        ("other", "settled", ["unknown_status"]),
        (None, "settled", ["paid_not_recorded"]),
    )
    for ours, theirs, expected in cases:
        with subtests.test(ours=ours, theirs=theirs):
            rules = {"statuses": {"settled": "paid", "in review": "pending"}}
            assert [code for code, _ in waivers({"status": ours}, {"status": theirs}, **rules)] == expected


def test_stale_word():
    """A word of the rules that means pending can be stale."""
    rules = {"statuses": {"waiting": "pending"}, "time_zone": UTC}
    found = waivers({"status": "waiting"}, {"status": "waiting"}, at=AFTER, **rules)
    assert found == [("stale_pending", "")]


YOUNG = {"created_at": (BEFORE - timedelta(minutes=59)).replace(tzinfo=None)}
OLD = {"created_at": (BEFORE - timedelta(minutes=60)).replace(tzinfo=None)}
GRACE = {"grace": timedelta(hours=1), "time_zone": UTC}


def test_grace(subtests):
    """A young row may be pending on one side; everything else about its state counts."""
    cases = (
        ("pending", "Paid", True),
        ("paid", "pending", True),
        ("pending", "expired", True),
        ("canceled", "pending", True),
        ("expired", "Paid", False),
        ("paid", "refunded", False),
        ("expired", "Canceled", False),
        ("pending", "odd", False),
        ("odd", "pending", False),
        (None, "Paid", False),
    )
    for ours, theirs, is_waived in cases:
        with subtests.test(ours=ours, theirs=theirs):
            ((_, waived),) = waivers({"status": ours, **YOUNG}, {"status": theirs}, **GRACE)
            assert waived == ("the row is younger than the grace of 1h" if is_waived else "")
            ((_, waived),) = waivers({"status": ours, **OLD}, {"status": theirs}, **GRACE)
            assert waived == ""


def test_grace_and_expiry():
    """A young row that has expired while it was pending on both sides is stale all the same."""
    entry = {"status": "pending", "created_at": EXPIRY}
    assert waivers(entry, {"status": "pending"}, at=AFTER, grace=timedelta(days=1), time_zone=UTC) == [
        ("stale_pending", ""),
    ]


def test_grace_and_money():
    """A young row may not differ in money."""
    assert waivers(YOUNG, {"amount": 1}, **GRACE)[0] == ("underpaid", "")


SCHEDULE = {"fees": {"VA": FeeSchedule(flat=400, percent="1")}}


def test_off_schedule(subtests):
    """A fee that the ledger does not dispute is measured by the schedule, once it is due or stated."""
    cases = (
        ({"fee": 550}, []),
        ({"fee": 551}, [1]),
        ({"fee": 549}, [-1]),
        ({"fee": 551, "payment_method": "QR"}, []),
        ({"fee": None}, [-550]),
        ({"fee": 0}, [-550]),
        ({"fee": None, "status": "pending"}, []),
        ({"fee": 0, "status": "Canceled"}, []),
        ({"fee": 1, "status": "pending"}, [-549]),
        ({"fee": -550}, [-1100]),
    )
    for fee, (theirs, expected) in product((ABSENT, None, "the same"), cases):
        with subtests.test(fee=fee, theirs=theirs, expected=expected):
            entry = Entry(line=1, reference="T1", fee=theirs["fee"] if fee == "the same" else fee)
            found = compare(entry, attrs.evolve(TRANSACTION, **theirs), at=BEFORE, rules=Rules(**SCHEDULE))
            assert [each.leakage for each in found if each.code == "fee_off_schedule"] == expected


def test_stated_fee():
    """A fee that the ledger states otherwise is a difference between the two, and not off schedule."""
    found = waivers({"fee": 500}, {"fee": 551, "amount_received": None}, **SCHEDULE)
    assert [code for code, _ in found if code.startswith("fee")] == ["fee_differs"]


@pytest.mark.parametrize(
    ("ours", "side"),
    [(551, "on both sides"), (None, "at the service"), (ABSENT, "at the service")],
)
def test_scheduled_fee_tolerance(ours, side):
    """The tolerance of the fee holds for a scheduled one, too; the sentence says what was expected."""
    rules = Rules(**SCHEDULE, tolerances={"fee": Tolerance(above=1)})
    entry, transaction = attrs.evolve(ENTRY, fee=ours), attrs.evolve(TRANSACTION, fee=551, amount_received=None)
    found = compare(entry, transaction, at=BEFORE, rules=rules)
    finding = next(each for each in found if each.code == "fee_off_schedule")
    assert (finding.waived, finding.service) == ("within the tolerance of 1 above", 551)
    assert finding.sentence == (f"fee is 551 {side}, where the schedule of 'VA' expects 550 on an amount of 15000")


def test_short_received(subtests):
    """Of a paid transaction, less than amount less fee has not all arrived, whatever the ledger says of it."""
    cases = (
        ({"amount_received": 14_500}, ("", 0)),
        ({"amount_received": 14_499}, ("short_received", 1)),
        ({"amount_received": 0}, ("short_received", 14_500)),
        ({"amount_received": -1}, ("short_received", 14_501)),
        ({"amount_received": 14_501}, ("service_arithmetic", 0)),
        ({"amount_received": 15_500, "fee": -500}, ("", 0)),
        ({"amount_received": 14_500, "fee": -500}, ("short_received", 1_000)),
        ({"amount_received": 0, "fee": None}, ("short_received", 15_000)),
        ({"amount_received": 14_500, "fee": None}, ("service_arithmetic", 500)),
        ({"amount_received": 1, "fee": None}, ("service_arithmetic", 14_999)),
        ({"amount_received": None}, ("", 0)),
        ({"amount_received": 0, "status": "Canceled"}, ("service_arithmetic", 0)),
        ({"amount_received": 0, "status": "pending"}, ("service_arithmetic", 0)),
        ({"amount_received": 0, "fee": None, "status": "pending"}, ("", 0)),
        ({"amount_received": 0, "fee": 0, "amount": 0}, ("", 0)),
        ({"amount_received": -500, "amount": 0}, ("", 0)),
    )
    for transaction, expected in cases:
        with subtests.test(transaction=transaction, expected=expected):
            theirs = attrs.evolve(TRANSACTION, **transaction)
            agreed = {name: value for name, value in transaction.items() if name != "status"}
            for entry in (
                Entry(line=1, reference="T1", status=theirs.status),
                attrs.evolve(ENTRY, status=theirs.status, **agreed),
            ):
                found = [
                    (f.code.value, f.leakage) for f in compare(entry, theirs, at=BEFORE, rules=Rules(time_zone=UTC))
                ]
                assert (found or [("", 0)]) == [expected]


def test_short_received_without_a_fee():
    """Where the service states no fee, that of the ledger counts, or else the schedule's."""
    theirs = attrs.evolve(TRANSACTION, fee=None, amount=100_000, amount_received=1)
    for entry, fees in (({"fee": 2_000}, {}), ({}, {theirs.payment_method: FeeSchedule(flat=2_000)})):
        found = compare(Entry(line=1, reference="T1", **entry), theirs, at=BEFORE, rules=Rules(fees=fees))
        assert ("short_received", 97_999) in [(each.code.value, each.leakage) for each in found], entry


def test_short_received_tolerance():
    """The tolerance of the amount received is about the ledger's: it waives nothing that did not arrive."""
    found = waivers(
        {"amount_received": 14_490},
        {"amount_received": 14_490},
        tolerances={"amount_received": Tolerance(below=10)},
    )
    assert found == [("short_received", "")]


def test_acceptance_is_not_comparing():
    """Comparison does not depend on accepted differences."""
    assert waivers(transaction={"amount": 1})[0] == ("underpaid", "")


SENTENCES = {
    "merchant_reff_differs": ({"merchant_reff": "X"}, "merchant_reff is 'INV-1' in the ledger and 'X' at the service"),
    "method_differs": ({"payment_method": "QR"}, "payment_method is 'VA' in the ledger and 'QR' at the service"),
    "payment_code_differs": ({"payment_code": None}, "payment_code is '0077' in the ledger and nothing at the service"),
    "underpaid": ({"amount": 9}, "amount is 15000 in the ledger and 9 at the service, which is 14991 less"),
    "overpaid": ({"amount": 15001}, "amount is 15000 in the ledger and 15001 at the service, which is 1 more"),
    "fee_differs": ({"fee": 501}, "fee is 500 in the ledger and 501 at the service"),
    "net_differs": ({"amount_received": 1}, "amount_received is 14500 in the ledger and 1 at the service"),
    "service_arithmetic": (
        {"fee": 501},
        "the service's own numbers do not add up: amount 15000 less fee 501 is 14499, and amount_received is 14500",
    ),
    "expiry_differs": (
        {"expdate": EXPIRY + timedelta(days=1)},
        "expdate is '2026-11-21 10:00:00' in the ledger and '2026-11-22 10:00:00' at the service",
    ),
    "tolerated_deviation": ({"deviations": ("odd",)}, "the answer was not quite as documented: odd"),
    "recorded_not_paid": (
        {"status": "pending"},
        "status is 'paid' in the ledger and 'pending' at the service: not paid at the service",
    ),
    "unknown_status": (
        {"status": "2"},
        (
            "status is 'paid' in the ledger and '2' at the service: "
            "the service uses a word that is not known, so the two are not compared"
        ),
    ),
}


def test_sentences(subtests):
    """Each sentence is plain, and holds both sides in full."""
    for code, (changes, expected) in SENTENCES.items():
        with subtests.test(code=code):
            found = compare(ENTRY, attrs.evolve(TRANSACTION, **changes), at=BEFORE, rules=STRICT)
            assert [finding.sentence for finding in found if finding.code == code] == [expected]


def test_status_sentences(subtests):
    """The sentence of a state holds both words as they were written, and what they mean together."""
    cases = (
        ("pending", "Paid", BEFORE, "paid_not_recorded", "paid at the service, and the ledger records no payment"),
        ("expired", "Paid", BEFORE, "late_payment", "paid at the service, although the ledger has closed it"),
        ("failed", "Canceled", BEFORE, "closed_differently", "closed on both sides, for different reasons"),
        ("pending", "failed", BEFORE, "pending_on_one_side", "still pending in the ledger, and closed at the service"),
        (
            *("pending", "failed", AFTER, "stale_pending"),
            "still pending in the ledger, and closed at the service, and it expired at 2026-11-21 10:00:00",
        ),
        ("pending", "pending", AFTER, "stale_pending", "although it expired at 2026-11-21 10:00:00"),
    )
    for ours, theirs, at, code, remark in cases:
        with subtests.test(ours=ours, theirs=theirs):
            entry, transaction = attrs.evolve(ENTRY, status=ours), attrs.evolve(TRANSACTION, status=theirs)
            (finding,) = compare(entry, transaction, at=at, rules=Rules(time_zone=UTC))
            assert finding.code == code
            assert finding.sentence == f"status is '{ours}' in the ledger and '{theirs}' at the service: {remark}"

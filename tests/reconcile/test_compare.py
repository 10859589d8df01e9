"""The table of all differences between a ledger entry and a transaction."""

from datetime import UTC, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import attrs

from payclient import Transaction
from payclient.reconcile import Assumed, Code, FeeSchedule, Rules, Tolerance, compare, expiry_rule
from payclient.reconcile._judgement.compare import excuse, is_expired
from payclient.reconcile.ledger import ABSENT, Entry
from support.misses import check_table

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
BARE = Entry(line=1, reference="T1")
ENTRY = attrs.evolve(BARE, **FIELDS)
TRANSACTION = Transaction(reference="T1", payment_name="Bank", **FIELDS)


def findings(entry, transaction, base=ENTRY, at=BEFORE, **rules):
    ours, theirs = attrs.evolve(base, **entry), attrs.evolve(TRANSACTION, **transaction)
    return compare(ours, theirs, at=at, rules=Rules(**{"time_zone": UTC} | rules))


def codes(entry, transaction, **options):
    """Return the codes in one text, each with a severity that is not its own, its leakage and its waiver."""
    said = []
    for each in findings(entry, transaction, **options):
        severity = "" if each.severity is each.code.severity else f" {each.severity.word}"
        leakage = f" {each.leakage}" if each.leakage else ""
        said.append(f"{each.code}{severity}{leakage}" + (f" ~{each.waived}" if each.waived else ""))
    return ", ".join(said)


NO_FEE = {"fee": None, "amount_received": 15000}
DIFFERENCES = (
    ({}, {}, ""),
    # Each field that differs is a finding of its own, the most severe first, in the order of the codes.
    ({}, {"merchant_reff": "INV-2"}, "merchant_reff_differs"),
    ({}, {"merchant_reff": None}, "merchant_reff_differs"),
    ({}, {"payment_method": "QR"}, "method_differs"),
    ({}, {"payment_code": "77"}, "payment_code_differs"),
    ({}, {"amount": 14999, "amount_received": 14499}, "underpaid, net_differs"),
    ({}, {"amount": 15001, "fee": 501}, "overpaid, fee_differs"),
    ({}, {"amount": 15001}, "overpaid, short_received 1"),
    ({}, {"fee": 501}, "fee_differs, service_arithmetic"),
    ({}, {"fee": None}, "fee_differs"),
    ({}, {"amount_received": 14501}, "net_differs, service_arithmetic"),
    ({}, {"expdate": EXPIRY + timedelta(seconds=1)}, "expiry_differs"),
    ({}, {"deviations": ("amount: text",)}, "tolerated_deviation"),
    (
        {"status": "pending", "merchant_reff": "x", "fee": 1, "payment_method": "y", "expdate": None, "amount": 1},
        {},
        "paid_not_recorded, merchant_reff_differs, overpaid, fee_differs, method_differs, not_compared",
    ),
    # An empty cell is a remark and no difference, but for a status and a fee; nothing on both sides agrees.
    ({"status": None}, {}, "paid_not_recorded"),
    ({"fee": None}, {}, "fee_differs"),
    *(({name: None}, {}, "not_compared") for name in ("amount_received", "expdate")),
    *(
        ({name: cell}, {}, "not_compared")
        for name, cell in product(("merchant_reff", "payment_method", "payment_code"), (None, "-", " "))
    ),
    *(
        ({name: None}, {name: None}, "")
        for name in ("merchant_reff", "amount_received", "payment_method", "payment_code", "expdate")
    ),
    (NO_FEE, NO_FEE, ""),
    # Other characters are another text, and of a merchant_reff spacing, width and case are told apart from them.
    ({"merchant_reff": "inv-1"}, {}, "merchant_reff_differs medium"),
    ({"merchant_reff": "INV-1"}, {"merchant_reff": "INV\u00a0-1"}, "merchant_reff_differs"),
    ({"merchant_reff": "INV 1"}, {"merchant_reff": "INV\u00a0 1"}, "merchant_reff_differs medium"),
    ({"merchant_reff": "\uff29\uff2e\uff36-\uff11"}, {}, "merchant_reff_differs medium"),
    ({"merchant_reff": "INV-01"}, {}, "merchant_reff_differs"),
    ({"merchant_reff": "INV-10"}, {}, "merchant_reff_differs"),
    ({"merchant_reff": "INV-1"}, {"merchant_reff": ""}, "merchant_reff_differs"),
    ({"payment_method": "QR"}, {}, "method_differs"),
    ({"payment_method": "Bank"}, {"payment_name": None}, "method_differs"),
    ({"payment_code": "77"}, {}, "payment_code_differs"),
    ({"payment_code": "00770"}, {}, "payment_code_differs"),
    ({"payment_code": "0077"}, {"payment_code": None}, "payment_code_differs"),
)


def test_differences():
    """Each field that differs is a finding, and an empty cell is compared with what the service has."""
    check_table(DIFFERENCES, codes)


def test_no_difference():
    """The usual variants of a ledger's notation are no difference, and a column that it lacks is not compared."""
    other = {"merchant_reff": "X", "amount": 9, "payment_code": "1", "fee": None, "amount_received": None}
    cases = (
        ({}, other, ""),
        ({"fee": None}, {"fee": 0, "amount_received": 15000}, ""),
        ({"fee": 0}, NO_FEE, ""),
        ({"amount_received": None}, {"amount_received": None}, ""),
        ({"amount_received": 0}, {"amount_received": None}, ""),
        ({"payment_method": "va"}, {}, ""),
        ({"payment_method": " V A"}, {"payment_method": "v_a"}, ""),
        ({"payment_method": "Bank Mandiri"}, {"payment_name": "BANK  MANDIRI"}, ""),
        ({"payment_method": "virtual-account"}, {"payment_method": None, "payment_name": "Virtual Account"}, ""),
        ({"payment_code": "00 77"}, {}, ""),
        ({"payment_code": "\uff18\uff18-\uff11"}, {"payment_code": "881"}, ""),
        ({"payment_code": "-"}, {"payment_code": ""}, ""),
        ({"merchant_reff": "INV-1"}, {"merchant_reff": "INV-1 "}, ""),
        ({"merchant_reff": None}, {"merchant_reff": "-"}, ""),
    )
    check_table(cases, lambda entry, transaction: codes(entry, transaction, base=BARE))


PENDING = {"status": "pending"}
NO_EXPIRY = {"expdate": None}


def test_pending():
    """What is pending on a side is stale once its expiry has certainly passed, and before that only if both are."""
    one_side, stale = "pending_on_one_side", "stale_pending"
    check_table(
        (
            (PENDING, PENDING, BEFORE, UTC, ""),
            (PENDING, PENDING, AFTER, UTC, stale),
            (PENDING, PENDING, AFTER, None, ""),
            *(
                ({"status": ours} | dates, {"status": theirs} | dates, at, UTC, code)
                for ours, theirs in (("pending", "Canceled"), ("expired", "Pending"), ("Failed", "pending"))
                for dates, at, code in (({}, BEFORE, one_side), ({}, AFTER, stale), (NO_EXPIRY, AFTER, one_side))
            ),
        ),
        lambda entry, transaction, at, zone: codes(entry, transaction, at=at, time_zone=zone),
    )


MATRIX = """
Paid, (no column) | Paid | agrees
Paid, (no column) | Pending, Canceled, Expired, Failed | critical recorded_not_paid: not paid at the service
Paid, (no column) | Refunded | critical refund_not_recorded: refunded at the service, and the ledger records no refund
Pending | Pending | agrees
Pending, Failed | Paid | critical paid_not_recorded: paid at the service, and the ledger records no payment
Pending | Canceled, Expired, Failed | medium pending_on_one_side: still pending in the ledger, and closed at the service
Canceled, Expired | Paid | critical late_payment: paid at the service, although the ledger has closed it
Canceled, Expired, Failed | Pending | medium pending_on_one_side: closed in the ledger, and still pending at the service
Canceled | Canceled | agrees
Canceled | Expired, Failed | low closed_differently: closed on both sides, for different reasons
Expired | Expired | agrees
Expired | Canceled, Failed | low closed_differently: closed on both sides, for different reasons
Failed | Failed | agrees
Failed | Canceled, Expired | low closed_differently: closed on both sides, for different reasons
Refunded | Refunded | agrees
Refunded | Paid | critical refund_not_made: refunded in the ledger, and it is still paid at the service
Refunded | Pending, Canceled, Expired, Failed | critical refund_not_made: refunded in the ledger, and the service shows no refund
(empty) | Paid | critical paid_not_recorded: paid at the service, and the ledger records no status
(empty) | Pending, Canceled, Expired, Failed | medium unknown_status: the ledger records no status to compare
Pending, Canceled, Expired, Failed, (empty) | Refunded | critical refund_not_recorded: refunded at the service, and the ledger records neither payment nor refund
Odd | Paid, Pending, Canceled, Expired, Failed, Refunded | medium unknown_status: the ledger uses a word that is not known, so the two are not compared
(any) | Odd | medium unknown_status: the service uses a word that is not known, so the two are not compared
(any) | (empty) | medium unknown_status: the service gives no status, so the two are not compared
"""  # noqa: E501  a table: words of the ledger, words of the service, severity and finding


STATES = ("Paid", "Pending", "Canceled", "Expired", "Failed", "Refunded", "Odd", None, ABSENT)


def status_finding(ours, theirs, **rules):
    """Return the finding of two states alone; None where they agree or are not compared."""
    return next(iter(findings({"status": ours}, {"status": theirs or "", **BARE_SERVICE}, base=BARE, **rules)), None)


BARE_SERVICE = {"fee": None, "amount_received": None, "expdate": None}


def shown(ours, theirs):
    found = status_finding(ours, theirs)
    return f"{found.severity.word} {found.code}: {found.sentence.partition(': ')[2]}" if found else "agrees"


def test_matrix():
    """Every pair of states has a sentence that is true of it; this is the table to read by eye."""
    names, expected = {None: "(empty)", ABSENT: "(no column)"}, {}
    for line in MATRIX.strip().splitlines():
        ours, theirs, said = line.split(" | ")
        all_ours = [names.get(state, state) for state in STATES] if ours == "(any)" else ours.split(", ")
        expected |= dict.fromkeys(product(all_ours, theirs.split(", ")), said)
    pairs = product(STATES, STATES[:-1])
    assert {(names.get(a, a), names.get(b, b)): shown(a, b) for a, b in pairs} == expected


def test_dash():
    """A dash states no status, as an empty cell does not; any other sign is a word that is not known."""
    for dash in ("-", " \u2013 ", "--", "\u2014", ""):
        assert status_finding(dash, "Paid").code is Code.PAID_NOT_RECORDED
        assert status_finding(dash, "Refunded").code is Code.REFUND_NOT_RECORDED
        assert status_finding(dash, "Pending").sentence.endswith("the ledger records no status to compare")
        assert "the service gives no status" in status_finding("Paid", dash).sentence
    assert "the ledger uses a word that is not known" in status_finding("\u2713", "Paid").sentence


def test_assumed():
    """Without a status column a row is taken as paid, and the sentence says so; or its status is not compared."""
    finding = status_finding(ABSENT, "Canceled")
    assert (finding.code, finding.ledger, finding.service) == (Code.RECORDED_NOT_PAID, "paid", "Canceled")
    assert finding.sentence == (
        "status is assumed to be paid, because the ledger lacks a status column, and is 'Canceled' at the service: "
        "not paid at the service"
    )
    assert {status_finding(ABSENT, theirs, assume_status=Assumed.NONE) for theirs in STATES[:-1]} == {None}


YOUNG = {"created_at": (BEFORE - timedelta(minutes=59)).replace(tzinfo=None)}
OLD = {"created_at": (BEFORE - timedelta(minutes=60)).replace(tzinfo=None)}
GRACE = "~the row is younger than the grace of 1h"
SCHEDULE = {"VA": FeeSchedule(flat=400, percent="1")}
TEN_BELOW = {"tolerances": {"amount": Tolerance(below=10)}}
RULED = (
    # Words of the rules mean the same on both sides.
    *(
        ({"statuses": {"settled": "paid", "in review": "pending"}}, {"status": ours}, {"status": theirs}, expected)
        for ours, theirs, expected in (
            ("settled", "Paid", ""),
            ("paid", "SETTLED", ""),
            ("settled", "pending", "recorded_not_paid"),
            ("settled", "in-review", "recorded_not_paid"),
            ("in review", "Pending", ""),
            ("other", "settled", "unknown_status"),
            (None, "settled", "paid_not_recorded"),
        )
    ),
    ({"statuses": {"waiting": "pending"}, "at": AFTER}, {"status": "waiting"}, {"status": "waiting"}, "stale_pending"),
    # A young row may be pending on one side; everything else about it counts.
    *(
        ({"grace": "1h"}, {"status": ours} | age, {"status": theirs}, f"{code} {GRACE}" if age is YOUNG else code)
        for age in (YOUNG, OLD)
        for ours, theirs, code in (
            ("pending", "Paid", "paid_not_recorded"),
            ("paid", "pending", "recorded_not_paid"),
            ("pending", "expired", "pending_on_one_side"),
            ("canceled", "pending", "pending_on_one_side"),
        )
    ),
    *(
        ({"grace": "1h"}, {"status": ours, **YOUNG}, {"status": theirs}, code)
        for ours, theirs, code in (
            ("expired", "Paid", "late_payment"),
            ("paid", "refunded", "refund_not_recorded"),
            ("expired", "Canceled", "closed_differently"),
            ("pending", "odd", "unknown_status"),
            ("odd", "pending", "unknown_status"),
            (None, "Paid", "paid_not_recorded"),
        )
    ),
    ({"grace": "1d", "at": AFTER}, PENDING | {"created_at": EXPIRY}, PENDING, "stale_pending"),
    ({"grace": "1h"}, {"amount": 14_999, **YOUNG}, {}, "overpaid"),
    # Waived findings come last, whatever their severity.
    (
        TEN_BELOW,
        {},
        {"amount": 14_990, "expdate": None},
        "expiry_differs, service_arithmetic, underpaid ~within the tolerance of 10 below",
    ),
    # What the service does not state is within no tolerance, and one of the ledger waives nothing that did not arrive.
    ({"tolerances": {"amount_received": Tolerance(below=20_000)}}, {}, {"amount_received": None}, "net_differs"),
    (
        {"tolerances": {"amount_received": Tolerance(below=10)}},
        {"amount_received": 14_490},
        {"amount_received": 14_490},
        "short_received 10",
    ),
    # A fee that the ledger states otherwise is a difference between the two, and not off schedule.
    ({"fees": SCHEDULE}, {}, {"fee": 551, "amount_received": None}, "net_differs, fee_differs"),
    # A schedule is found by its method in any letter case.
    ({"fees": {"va": FeeSchedule(flat=9)}}, {}, {}, "fee_off_schedule 491"),
)


def test_rules():
    """Words, grace, tolerances and schedules of the rules decide about a difference, and a waiver says so."""
    check_table(RULED, lambda rules, entry, transaction: codes(entry, transaction, **rules))


def test_tolerance():
    """A difference within the tolerance of its own field and side is waived, and says so."""
    for field, code, other in (
        ("amount", "underpaid", "overpaid"),
        ("fee", "fee_differs", "fee_differs"),
        ("amount_received", "net_differs", "net_differs"),
    ):
        for tolerated, change, expected in (
            (field, -10, f"{code} ~within the tolerance of 10 below"),
            (field, -11, code),
            (field, 1, other),
            *((another, -10, code) for another in {"amount", "fee", "amount_received"} - {field}),
        ):
            tolerances = {tolerated: Tolerance(below=10)}
            found = codes({}, {field: FIELDS[field] + change}, tolerances=tolerances).split(", ")
            assert expected in found, (field, tolerated, change)


def test_empty_fee():
    """A fee that one side does not state is 0: in the sentence, in the values, for a tolerance and for a schedule."""
    for ours, theirs in ((None, 5), (5, None)):
        for tolerances in ({}, {"fee": Tolerance(above=9, below=9)}):
            found = findings({"fee": ours}, {"fee": theirs}, tolerances=tolerances)
            (finding,) = [each for each in found if each.code == "fee_differs"]
            assert finding.sentence == f"fee is {ours or 0} in the ledger and {theirs or 0} at the service"
            assert (finding.ledger, finding.service, bool(finding.waived)) == (ours or 0, theirs or 0, bool(tolerances))
    for ours, side in ((ABSENT, "at the service"), (None, "at the service"), (0, "on both sides")):
        found = findings({"fee": ours}, {"fee": None, "amount_received": None}, fees=SCHEDULE)
        (finding,) = [each for each in found if each.code == "fee_off_schedule"]
        assert (finding.service, finding.sentence.partition(";")[0]) == (0, f"fee is 0 {side}")


def test_off_schedule():
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

    def leakage(fee, theirs):
        entry = {"fee": theirs["fee"] if fee == "the same" else fee}
        return [
            each.leakage for each in findings(entry, theirs, BARE, fees=SCHEDULE) if each.code == "fee_off_schedule"
        ]

    check_table([(fee, *case) for fee, case in product((ABSENT, None, "the same"), cases)], leakage)


def test_scheduled_fee_tolerance():
    """The tolerance of the fee holds for a scheduled one, too; the sentence says what was expected."""
    for ours, side in ((551, "on both sides"), (None, "at the service"), (ABSENT, "at the service")):
        tolerances = {"fee": Tolerance(above=1)}
        found = findings({"fee": ours}, {"fee": 551, "amount_received": None}, fees=SCHEDULE, tolerances=tolerances)
        finding = next(each for each in found if each.code == "fee_off_schedule")
        assert (finding.waived, finding.service) == ("within the tolerance of 1 above", 551)
        assert finding.sentence == f"fee is 551 {side}; the schedule of 'VA' expects 550 on an amount of 15,000"


SHORT_RECEIVED = (
    ({"amount_received": 14_500}, ""),
    ({"amount_received": 14_499}, "short_received 1"),
    ({"amount_received": 0}, "short_received 14500"),
    ({"amount_received": -1}, "short_received 14501"),
    ({"amount_received": 14_501}, "service_arithmetic"),
    ({"amount_received": 15_500, "fee": -500}, ""),
    ({"amount_received": 14_500, "fee": -500}, "short_received 1000"),
    ({"amount_received": 0, "fee": None}, "short_received 15000"),
    ({"amount_received": 14_500, "fee": None}, "service_arithmetic 500"),
    ({"amount_received": 1, "fee": None}, "service_arithmetic 14999"),
    ({"amount_received": None}, ""),
    ({"amount_received": 0, "status": "Canceled"}, "service_arithmetic"),
    ({"amount_received": 0, "status": "pending"}, "service_arithmetic"),
    ({"amount_received": 0, "fee": None, "status": "pending"}, ""),
    ({"amount_received": 0, "fee": 0, "amount": 0}, ""),
    ({"amount_received": -500, "amount": 0}, ""),
)


def test_short_received():
    """Of a paid transaction, less than amount less fee has not all arrived, whatever the ledger says of it."""
    check_table(SHORT_RECEIVED, lambda theirs: codes({"status": theirs.get("status", "paid")}, theirs, base=BARE))
    check_table(SHORT_RECEIVED, lambda theirs: codes(theirs, theirs))
    # Where the service states no fee, that of the ledger counts, or else the schedule's.
    theirs = {"fee": None, "amount": 100_000, "amount_received": 1}
    for entry, fees in (({"fee": 2_000}, {}), ({}, {"VA": FeeSchedule(flat=2_000)})):
        assert "short_received 97999" in codes(entry, theirs, base=BARE, fees=fees), entry


SENTENCES = (
    (
        {"merchant_reff": "inv-1"},
        "merchant_reff is 'INV-1' in the ledger and 'inv-1' at the service: only letter case or spacing differs",
    ),
    ({"merchant_reff": "X"}, "merchant_reff is 'INV-1' in the ledger and 'X' at the service"),
    ({"payment_method": "QR"}, "payment_method is 'VA' in the ledger and 'QR' at the service"),
    ({"payment_code": None}, "payment_code is '0077' in the ledger and nothing at the service"),
    ({"amount": 9}, "amount is 15,000 in the ledger and 9 at the service, which is 14,991 less"),
    ({"amount": 15001}, "amount is 15,000 in the ledger and 15,001 at the service, which is 1 more"),
    ({"fee": 501}, "fee is 500 in the ledger and 501 at the service"),
    ({"amount_received": 1}, "amount_received is 14,500 in the ledger and 1 at the service"),
    (
        {"amount_received": 14501},
        "the service's own numbers do not add up: amount 15,000 less fee 500 is 14,500, and amount_received is 14,501",
    ),
    (
        {"expdate": EXPIRY + timedelta(days=1)},
        "expdate is '2026-11-21 10:00:00' in the ledger and '2026-11-22 10:00:00' at the service",
    ),
    ({"deviations": ("odd",)}, "the answer was not quite as documented: odd"),
    (
        {"status": "2"},
        (
            "status is 'paid' in the ledger and '2' at the service: "
            "the service uses a word that is not known, so the two are not compared"
        ),
    ),
)


def test_sentences():
    """Each sentence is plain, and holds both sides in full; they stand apart, too."""
    for changes, sentence in SENTENCES:
        assert sentence in [each.sentence for each in findings({}, changes)], changes
    (finding, _) = findings({}, {"amount": 14000})
    assert (finding.ledger, finding.service) == (15000, 14000)
    for theirs, remark in (
        ("failed", "still pending in the ledger, and closed at the service, and it expired at 2026-11-21 10:00:00"),
        ("pending", "although it expired at 2026-11-21 10:00:00"),
    ):
        (finding,) = findings(PENDING, {"status": theirs}, at=AFTER)
        assert finding.sentence == f"status is 'pending' in the ledger and '{theirs}' at the service: {remark}"


def test_hostile_sentence():
    """What the service wrote cannot act on the terminal that shows the sentence."""
    (finding,) = findings({}, {"payment_method": "\x1b[2J\u202eVA"})
    assert finding.sentence.isprintable()


TEN_UTC = EXPIRY.replace(tzinfo=UTC)
JAKARTA = ZoneInfo("Asia/Jakarta")
IN_JAKARTA = EXPIRY.replace(tzinfo=JAKARTA)


def test_excuse():
    """A row is excused until it is as old as the grace, by its zone, and one of the future only within it."""
    check_table(
        (
            *((EXPIRY, hours, UTC, True) for hours in (0, 1.999, -1.999)),
            *((EXPIRY, hours, UTC, False) for hours in (2, 3, -2)),
            # With a zone the instant decides: ten in Jakarta is three in UTC.
            (EXPIRY, -5.001, JAKARTA, True),
            (EXPIRY, -4.999, JAKARTA, False),
            # Without one, as if its clock had stood where the day begins first, so that it is young everywhere.
            (EXPIRY, -12.001, None, True),
            (EXPIRY, -11.999, None, False),
            (EXPIRY, 0, None, False),
            # A time that states its own zone is an instant, whatever zone the rules give.
            *((IN_JAKARTA, -5.001, zone, True) for zone in (None, UTC, JAKARTA)),
            *((IN_JAKARTA, -4.999, zone, False) for zone in (None, UTC, JAKARTA)),
            # A row without an age, and one of a year far away, are not excused.
            *(
                (created, 0, None, False)
                for created in (ABSENT, None, EXPIRY.replace(year=1), EXPIRY.replace(year=9999))
            ),
        ),
        lambda created, hours, zone: bool(
            excuse(
                attrs.evolve(BARE, created_at=created),
                (TEN_UTC + timedelta(hours=hours)).astimezone(ZoneInfo("Asia/Tokyo")),  # an instant in any zone
                Rules(grace="2h", time_zone=zone),
            )
        ),
    )
    young = attrs.evolve(BARE, created_at=EXPIRY)
    assert excuse(young, TEN_UTC, Rules(time_zone=UTC)) == ""
    long = Rules(grace=timedelta(days=1, hours=2), time_zone=UTC)
    assert excuse(young, TEN_UTC, long) == "the row is younger than the grace of 1d 2h"


def test_expiry():
    """An expiry has passed in its zone, or without one everywhere; the ledger's counts where the service has none."""
    early = EXPIRY - timedelta(days=9)
    check_table(
        (
            (ABSENT, EXPIRY, -7.001, JAKARTA, False),
            (ABSENT, EXPIRY, -6.999, JAKARTA, True),
            (ABSENT, EXPIRY, 0, None, False),
            (ABSENT, EXPIRY, 11.999, None, False),
            (ABSENT, EXPIRY, 12.001, None, True),
            (early, None, 0, UTC, True),
            (early, EXPIRY, 0, UTC, False),
            (ABSENT, None, 10**7, UTC, False),
            (None, None, 10**7, UTC, False),
        ),
        lambda ours, theirs, hours, zone: is_expired(
            attrs.evolve(BARE, expdate=ours),
            attrs.evolve(TRANSACTION, expdate=theirs),
            TEN_UTC + timedelta(hours=hours),
            zone,
        ),
    )
    assert "Asia/Jakarta" in expiry_rule(JAKARTA)
    assert "no time zone was given" in expiry_rule(None)

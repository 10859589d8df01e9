"""The bucket of a row follows from the entry and from what was answered, and from nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from payclient import Transaction, errors
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import Accepted, Answer, Bucket, Case, Code, Observation, Rules, Severity, Tolerance, judge
from payclient.reconcile.judge._judge import needs_confirmation
from payclient.reconcile.values._observation import observe

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
ENTRY = Entry(line=2, reference="T1", amount=100, status="paid", payment_code="77")


def found(at=NOON, **changes):
    fields = {"reference": "T1", "amount": 100, "status": "Paid", "payment_code": "77"} | changes
    return Observation(answer=Answer.FOUND, at=at, transaction=Transaction(**fields))


def failed(error, at=NOON):
    return observe(error, at=at)


NOT_FOUND = errors.TransactionNotFoundError("no such transaction: not found")
DOWN = errors.ServiceError("the service cannot answer now", status_code=503)


def bucket(**case):
    return judge(Case(entry=ENTRY, **case)).bucket


def test_matched():
    """What agrees is matched after one given."""
    row = judge(Case(entry=ENTRY, first=found()))
    assert (row.bucket, row.findings, row.observed_at, row.confirmed_at) == (Bucket.MATCHED, (), NOON, None)


def test_break():
    """What differs in two looks is a break, with the times of both."""
    row = judge(Case(entry=ENTRY, first=found(amount=90), second=found(LATER, amount=90)))
    assert (row.bucket, row.primary.code, row.is_changed_during_run) == (Bucket.BREAK, "underpaid", False)
    assert (row.observed_at, row.confirmed_at) == (NOON, LATER)


def test_seen_once():
    """A difference in a single lookup is unresolved, not a break."""
    row = judge(Case(entry=ENTRY, first=found(amount=90), ended_by=failed(DOWN)))
    assert (row.bucket, row.findings) == (Bucket.UNRESOLVED, ())
    assert "seen once and is not confirmed: the run ended early, because the service cannot" in row.reason


def test_moved_to_agreement():
    """What differed and agrees at the second lookup is matched, and marked."""
    row = judge(Case(entry=ENTRY, first=found(amount=90), second=found(LATER)))
    assert (row.bucket, row.is_changed_during_run, row.confirmed_at) == (Bucket.MATCHED, True, LATER)


def test_moved_to_another_difference():
    """What differs in another way at the second lookup is judged by that, and marked."""
    row = judge(Case(entry=ENTRY, first=found(amount=90), second=found(LATER, status="refunded")))
    assert ([f.code for f in row.findings], row.is_changed_during_run) == (["refund_not_recorded"], True)


def test_confirmation_failed():
    """What could not be asked again is unresolved, and shows what was seen."""
    row = judge(Case(entry=ENTRY, first=found(amount=90), second=failed(DOWN, LATER)))
    assert (row.bucket, row.error, row.service_amount) == (Bucket.UNRESOLVED, "ServiceError", 90)
    assert (row.confirmed_at, row.is_changed_during_run) == (None, False)


def test_missing():
    """Two answers "not found" are missing if another reference was found."""
    row = judge(Case(entry=ENTRY, first=failed(NOT_FOUND), second=failed(NOT_FOUND, LATER), other_found=1))
    assert (row.bucket, row.primary.code) == (Bucket.BREAK, "missing_at_service")
    assert "amount of 100" in row.primary.sentence


def test_missing_without_witness():
    """Two answers "not found" are unresolved if no reference was found."""
    row = judge(Case(entry=ENTRY, first=failed(NOT_FOUND), second=failed(NOT_FOUND, LATER), other_found=0))
    assert (row.bucket, row.error) == (Bucket.UNRESOLVED, "TransactionNotFoundError")
    assert ("wrong key or environment" in row.reason, row.lacks_probe) == (True, True)


def test_missing_once():
    """Not found in one lookup is unresolved, probe or not."""
    assert bucket(first=failed(NOT_FOUND), other_found=5) is Bucket.UNRESOLVED


def test_could_not_ask(subtests):
    """What could not be asked is unresolved, with the error's name and text: never missing."""
    cases = (
        DOWN,
        errors.RateLimitedError("slow down"),
        errors.AttemptTimeoutError("too slow"),
        errors.PermissionDeniedError("no"),
        errors.UnexpectedResponseError("a 404 that is not from the service", status_code=404),
        errors.UnexpectedResponseError("body: not JSON (a web page)", status_code=200),
        errors.ReferenceMismatchError("another", status_code=200),
        errors.AuthenticationError("bad key"),
    )
    for error in cases:
        with subtests.test(error=error):
            row = judge(Case(entry=ENTRY, first=failed(error), other_found=5))
            assert (row.bucket, row.error, row.reason) == (Bucket.UNRESOLVED, type(error).__name__, str(error))


MALFORMED = errors.UnexpectedResponseError(
    "the answer cannot be read: data.amount is a list", status_code=200, is_about_reference=True
)


@pytest.mark.parametrize(
    "error",
    [MALFORMED, errors.RejectedError("the service declined")],
)
def test_unusable_answer(error):
    """An answer that cannot be used is a break when it came twice, with the service's words and no transaction."""
    assert bucket(first=failed(error), other_found=1) is Bucket.UNRESOLVED
    assert needs_confirmation(ENTRY, failed(error)) is True
    row = judge(Case(entry=ENTRY, first=failed(error), second=failed(error, LATER), other_found=1))
    assert (row.bucket, row.primary.code, row.severity) == (Bucket.BREAK, "unusable_answer", Severity.HIGH)
    assert (str(error) in row.primary.sentence, row.transaction, row.confirmed_at) == (True, None, LATER)


def test_unusable_without_probe():
    """When no other reference was found, an unusable answer may come from a wrong key: the row is unresolved."""
    row = judge(Case(entry=ENTRY, first=failed(MALFORMED), second=failed(MALFORMED, LATER), other_found=0))
    assert (row.bucket, row.lacks_probe) == (Bucket.UNRESOLVED, True)


@pytest.mark.parametrize("second", [failed(NOT_FOUND, LATER), found(LATER, amount=90)], ids=["not found", "differs"])
def test_unusable_at_first(second):
    """A difference behind an unusable answer was seen once, so it is unresolved."""
    assert bucket(first=failed(MALFORMED), second=second, other_found=5) is Bucket.UNRESOLVED


def test_unusable_second():
    """A difference whose second answer cannot be used was seen once, so it is unresolved."""
    row = judge(Case(entry=ENTRY, first=found(amount=90), second=failed(MALFORMED, LATER), other_found=5))
    assert (row.bucket, "asking again failed" in row.reason, row.service_amount) == (Bucket.UNRESOLVED, True, 90)


def test_unusable_then_agreed():
    """A usable second answer that agrees is matched, as it would have been at first."""
    assert bucket(first=failed(MALFORMED), second=found(LATER), other_found=5) is Bucket.MATCHED


def test_not_asked():
    """What was never asked is unresolved, with the error that ended the run."""
    row = judge(Case(entry=ENTRY, ended_by=failed(errors.AuthenticationError("bad key"))))
    assert (row.bucket, row.error) == (Bucket.UNRESOLVED, "AuthenticationError")
    assert row.reason == "not looked up: the run ended early, because bad key"


def test_reference_cannot_be_asked():
    """A row with an invalid reference is rejected."""
    row = judge(Case(entry=ENTRY, first=failed(errors.InvalidReferenceError("reference is empty"))))
    assert (row.bucket, row.reason) == (Bucket.REJECTED, "reference is empty")


def test_rejected_entry():
    """A rejected entry stays rejected, with its reason."""
    row = judge(Case(entry=RejectedEntry(line=7, reason="amount: 'x'", amount=None)))
    assert (row.bucket, row.reason, row.line) == (Bucket.REJECTED, "amount: 'x'", 7)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [("pending", "Pending", Bucket.OPEN), ("paid", "paid", Bucket.MATCHED)],
)
def test_open(ours, theirs, expected):
    """A row that is pending on both sides, without other findings, is open."""
    entry = Entry(line=1, reference="T1", status=ours)
    assert judge(Case(entry=entry, first=found(status=theirs))).bucket is expected


@pytest.mark.parametrize(("assumed", "expected"), [("paid", Bucket.BREAK), ("none", Bucket.MATCHED)])
def test_pending_without_status_column(assumed, expected):
    """A ledger without states cannot be pending: its rows are taken as paid, or their state is not compared."""
    entry, seen = Entry(line=1, reference="T1"), found(status="pending")
    assert judge(Case(entry=entry, first=seen, second=seen), rules=Rules(assume_status=assumed)).bucket is expected


def test_pending_and_different():
    """Pending on both sides with another amount is a break, not open."""
    entry, seen = Entry(line=1, reference="T1", status="pending", amount=5), found(status="pending")
    assert judge(Case(entry=entry, first=seen, second=seen)).bucket is Bucket.BREAK


def test_soft_findings():
    """A remark about the service's answer alone leaves the row matched."""
    row = judge(Case(entry=ENTRY, first=found(fee=1, amount_received=10**6, deviations=("odd",))))
    assert (row.bucket, [f.code for f in row.findings]) == (
        Bucket.MATCHED,
        ["service_arithmetic", "tolerated_deviation"],
    )


@pytest.mark.parametrize(
    "case",
    [{"first": found()}, {"first": failed(DOWN)}, {}, {"first": failed(NOT_FOUND), "second": failed(NOT_FOUND)}],
)
def test_duplicate(case):
    """Each row of a repeated reference has the finding, in any bucket."""
    row = judge(Case(entry=ENTRY, rows=2, is_repeat=True, other_found=1, **case))
    assert ("duplicate_reference" in [f.code for f in row.findings], row.is_repeat) == (True, True)


def test_duplicate_is_a_break():
    """A doubled reference is a break by itself, and needs no second lookup."""
    assert bucket(first=found(), rows=2) is Bucket.BREAK


def test_paid_twice():
    """A merchant_reff that is paid under another reference too is a break that was seen twice."""
    seen = found(merchant_reff="INV")
    row = judge(Case(entry=ENTRY, first=seen, second=seen, paid_with=("T2", "T3")))
    assert (row.bucket, row.primary.code) == (Bucket.BREAK, "paid_twice")
    assert row.primary.sentence == "merchant_reff 'INV' is paid under other references too: 'T2', 'T3'"


def test_lost_zeros():
    """A code that is the service's without leading zeros was damaged by a spreadsheet: the row is rejected."""
    seen = found(payment_code="0077", amount=90)
    row = judge(Case(entry=ENTRY, first=seen, second=seen))
    assert (row.bucket, "leading zeros were lost in a spreadsheet" in row.reason) == (Bucket.REJECTED, True)
    assert [f.code for f in row.findings] == ["underpaid", "payment_code_differs"]


def test_lost_zeros_seen_once():
    """A code without its zeros is a difference like any other: seen once, it is unresolved."""
    row = judge(Case(entry=ENTRY, first=found(payment_code="0077")))
    assert (row.bucket, row.findings) == (Bucket.UNRESOLVED, ())


@pytest.mark.parametrize("code", ["770", "A77", "00770"])
def test_other_codes(code):
    """A code that differs in anything else is a break."""
    seen = found(payment_code=code)
    assert bucket(first=seen, second=seen) is Bucket.BREAK


def test_hostile_reason():
    """What the service wrote cannot act on the terminal that shows the reason."""
    row = judge(Case(entry=ENTRY, first=failed(errors.RejectedError("\x1b[2Jno\u202e" * 500))))
    assert (row.reason.isprintable(), len(row.reason) < 4000) == (True, True)


def test_needs_confirmation(subtests):
    """Only differences and "not found" get a second lookup."""
    cases = (
        (found(), False),
        (found(deviations=("odd",)), False),
        (found(amount=90), True),
        (failed(NOT_FOUND), True),
        (failed(DOWN), False),
        (failed(errors.InvalidReferenceError("empty")), False),
    )
    for first, expected in cases:
        with subtests.test(first=first, expected=expected):
            assert needs_confirmation(ENTRY, first) is expected


def rules_accepting(*codes, reference="T1", expires="2026-11-21", **rules):
    fields = {"reference": reference, "reason": "agreed", "owner": "Ana", "expires": expires}
    bounds = rules.pop("bounds", {"largest_difference": 100})
    return Rules(accepted=[Accepted(code=code, **fields, **bounds) for code in codes], time_zone=UTC, **rules)


def judged(entry, first, second=None, *, rules, **case):
    row = judge(Case(entry=entry, first=first, second=second, **{"other_found": 1} | case), rules=rules)
    return row.bucket.value, [(finding.code.value, finding.waived) for finding in row.findings]


TEN_BELOW = Rules(tolerances={"amount": Tolerance(below=10)})
WITHIN = "within the tolerance of 10 below"
ANA = "accepted by Ana until 2026-11-21: agreed"


def test_within_tolerance():
    """What is within tolerance is matched after one lookup, and says so."""
    assert judged(ENTRY, found(amount=90), rules=TEN_BELOW) == ("matched", [("underpaid", WITHIN)])
    assert not needs_confirmation(ENTRY, found(amount=90), rules=TEN_BELOW)


def test_within_tolerance_and_different():
    """A row that is within tolerance and differs elsewhere is a break, and the other difference leads."""
    seen = found(amount=90, payment_code="78")
    assert needs_confirmation(ENTRY, seen, rules=TEN_BELOW)
    assert judged(ENTRY, seen, seen, rules=TEN_BELOW) == (
        "break",
        [("payment_code_differs", ""), ("underpaid", WITHIN)],
    )


def test_within_tolerance_and_pending():
    """A row that is pending on both sides, and within tolerance, is open."""
    entry = attrs.evolve(ENTRY, status="pending")
    assert judged(entry, found(amount=90, status="pending"), rules=TEN_BELOW)[0] == "open"


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (found(amount=90), "underpaid"),
        (found(status="refunded"), "refund_not_recorded"),
        (found(status="odd"), "unknown_status"),
        (found(payment_code="78"), "payment_code_differs"),
        (failed(NOT_FOUND), "missing_at_service"),
    ],
)
def test_accepted(seen, code):
    """An accepted difference is matched if it was seen twice, and unresolved before."""
    rules = rules_accepting(code)
    assert needs_confirmation(ENTRY, seen, rules=rules)
    assert judged(ENTRY, seen, rules=rules) == ("unresolved", [])
    assert judged(ENTRY, seen, seen, rules=rules) == ("matched", [(code, ANA)])


@pytest.mark.parametrize(
    "rules",
    [
        rules_accepting("overpaid"),
        rules_accepting("underpaid", reference="T2"),
        rules_accepting("underpaid", expires="2026-11-20"),
    ],
    ids=["other code", "other reference", "over"],
)
def test_not_accepted(rules):
    """Another difference, another row, or a day that has passed: the break is one."""
    assert judged(ENTRY, found(amount=90), found(amount=90), rules=rules) == ("break", [("underpaid", "")])


@pytest.mark.parametrize(
    ("bounds", "ours", "theirs", "bucket"),
    [
        ({"ledger": 100, "service": 90}, 100, 90, "matched"),
        ({"ledger": 100, "service": 90}, 100, 1, "break"),
        ({"ledger": 100, "service": 90}, 99_999, 90, "break"),
        ({"largest_difference": 10}, 100, 95, "matched"),
        ({"largest_difference": 10}, 100, 89, "break"),
    ],
)
def test_acceptance_is_bounded(bounds, ours, theirs, bucket):
    """What was accepted ends when either side changes, or when more is lacking than was accepted."""
    entry, seen = attrs.evolve(ENTRY, amount=ours), found(amount=theirs)
    assert judged(entry, seen, seen, rules=rules_accepting("underpaid", bounds=bounds))[0] == bucket


@pytest.mark.parametrize(("amount", "bucket"), [(100, "matched"), (99_999, "break")])
def test_acceptance_of_missing(amount, bucket):
    """A row that may be missing may not become another amount."""
    entry, seen = attrs.evolve(ENTRY, amount=amount), failed(NOT_FOUND)
    for bounds in ({"ledger": 100, "service": ""}, {"largest_difference": 100}):
        rules = rules_accepting("missing_at_service", bounds=bounds)
        assert judged(entry, seen, seen, rules=rules)[0] == bucket


def test_last_answer_decides():
    """Whether an acceptance still holds is judged by the time of the last answer."""
    first, rules = found(amount=90), rules_accepting("underpaid")
    assert judged(ENTRY, first, found(NOON + timedelta(hours=11), amount=90), rules=rules)[0] == "matched"
    assert judged(ENTRY, first, found(NOON + timedelta(hours=12), amount=90), rules=rules)[0] == "break"


def test_accepted_in_part():
    """One accepted difference does not excuse another one of the same row."""
    seen = found(amount=90, payment_code="78")
    assert judged(ENTRY, seen, seen, rules=rules_accepting("underpaid")) == (
        "break",
        [("payment_code_differs", ""), ("underpaid", ANA)],
    )


def test_tolerance_before_acceptance():
    """A tolerated difference needs no acceptance."""
    rules = rules_accepting("underpaid", tolerances=TEN_BELOW.tolerances)
    assert judged(ENTRY, found(amount=90), rules=rules) == ("matched", [("underpaid", WITHIN)])


def test_accepted_duplicate():
    """A doubled reference can be accepted, and then its rows are what they are otherwise."""
    rules = rules_accepting("duplicate_reference")
    assert judged(ENTRY, found(), rules=rules, rows=2) == ("matched", [("duplicate_reference", ANA)])
    pending = attrs.evolve(ENTRY, status="pending")
    assert judged(pending, found(status="pending"), rules=rules, rows=2)[0] == "open"
    assert judged(ENTRY, found(amount=90), found(amount=90), rules=rules, rows=2)[0] == "break"
    assert judged(ENTRY, None, rules=rules, rows=2) == ("unresolved", [("duplicate_reference", "")])


def test_accepted_paid_twice():
    """A merchant_reff that is paid twice can be accepted."""
    rules = rules_accepting("paid_twice")
    assert judged(ENTRY, found(), found(), rules=rules, paid_with=("T2",)) == ("matched", [("paid_twice", ANA)])
    assert judged(ENTRY, found(), rules=rules, paid_with=("T2",))[0] == "unresolved"


def test_accepted_missing_without_witness():
    """Accepted or not, a row is missing only if another reference was found."""
    seen = failed(NOT_FOUND)
    assert judged(ENTRY, seen, seen, rules=rules_accepting("missing_at_service"), other_found=0)[0] == "unresolved"


def test_accepted_lost_zeros():
    """A code without its zeros can be accepted, and the row is not rejected then."""
    seen = found(payment_code="0077")
    assert judged(ENTRY, seen, seen, rules=rules_accepting("payment_code_differs"))[0] == "matched"


@pytest.mark.parametrize(("ours", "theirs"), [("canceled", "pending"), ("pending", "pending")])
def test_accepted_and_pending(ours, theirs):
    """A row whose state is accepted does not wait for anything: it is matched, also where it is pending."""
    entry = attrs.evolve(ENTRY, status=ours)
    seen = found(status=theirs, expdate=datetime(2026, 11, 20))  # noqa: DTZ001  the service shows no zone
    rules = rules_accepting("stale_pending")
    assert judged(entry, seen, seen, rules=Rules(time_zone=UTC))[0] == "break"
    assert judged(entry, seen, seen, rules=rules) == ("matched", [("stale_pending", ANA)])


YOUNG = attrs.evolve(ENTRY, created_at=(NOON - timedelta(minutes=58)).replace(tzinfo=None))
GRACE = Rules(grace=timedelta(hours=1), time_zone=UTC)
EXCUSE = "the row is younger than the grace of 1h"


@pytest.mark.parametrize(
    ("seen", "code"),
    [(found(status="pending"), "recorded_not_paid"), (failed(NOT_FOUND), "missing_at_service")],
)
def test_grace(seen, code):
    """A young row that is missing, or pending on one side, is open after one given."""
    assert not needs_confirmation(YOUNG, seen, rules=GRACE)
    assert judged(YOUNG, seen, rules=GRACE) == ("open", [(code, EXCUSE)])
    assert judged(YOUNG, seen, attrs.evolve(seen, at=LATER), rules=GRACE) == ("break", [(code, "")])


def test_grace_without_witness():
    """A young row is not called open when the key may be wrong."""
    assert judged(YOUNG, failed(NOT_FOUND), rules=GRACE, other_found=0)[0] == "unresolved"


def test_grace_and_different():
    """A young row that differs in anything else is a break."""
    seen = found(status="pending", amount=90)
    assert judged(YOUNG, seen, seen, rules=GRACE) == ("break", [("underpaid", ""), ("recorded_not_paid", EXCUSE)])


def test_grace_and_acceptance():
    """A young row that is accepted, too, still waits."""
    rules = attrs.evolve(rules_accepting("recorded_not_paid", "underpaid"), grace=GRACE.grace)
    seen = found(status="pending", amount=90)
    assert judged(YOUNG, seen, seen, rules=rules) == ("open", [("recorded_not_paid", EXCUSE), ("underpaid", ANA)])


def test_young_duplicate():
    """A young row whose reference is doubled is a break by that alone."""
    assert judged(YOUNG, failed(NOT_FOUND), rules=GRACE, rows=2) == (
        "break",
        [("duplicate_reference", ""), ("missing_at_service", EXCUSE)],
    )


def test_words_of_the_rules():
    """A word that means pending by the rules makes a row open."""
    entry, rules = attrs.evolve(ENTRY, status="pending"), Rules(statuses={"waiting": "pending"})
    assert judged(entry, found(status="Waiting"), rules=rules) == ("open", [])


def test_every_code_can_be_accepted():
    """Every code can be accepted."""
    assert [rules_accepting(code).acceptance(code, "T1").code for code in Code] == list(Code)


def test_sentences():
    """What a row says by itself names the reference, and how often or where else it is."""
    missing = judge(Case(entry=ENTRY, first=failed(NOT_FOUND), second=failed(NOT_FOUND), other_found=1, rows=2))
    assert [finding.sentence for finding in missing.findings] == [
        "the service knows no transaction 'T1'; the ledger has an amount of 100",
        "2 rows of the ledger have the reference 'T1'",
    ]

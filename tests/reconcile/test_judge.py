"""The bucket of a row follows from the entry and from what was answered, and from nothing else."""

from datetime import UTC, datetime, timedelta

import attrs

from payclient import Transaction, errors
from payclient.reconcile import STRICT, Accepted, Answer, Bucket, Case, Code, Observation, Rules, Tolerance, judge
from payclient.reconcile._judgement.judge import needs_confirmation
from payclient.reconcile._judgement.sides import observe
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry
from support.misses import check_table
from support.reconciling import DOWN, MALFORMED, NOON, NOT_FOUND

LATER = NOON + timedelta(minutes=5)
ENTRY = Entry(line=2, reference="T1", amount=100, status="paid", payment_code="77")
FIELDS = {"reference": "T1", "amount": 100, "status": "Paid", "payment_code": "77"}
DECLINED = errors.RejectedError("the service declined")
AGREES, LESS, CODE = {}, {"amount": 90}, {"payment_code": "78"}
PENDING, NO_ZEROS = {"status": "pending"}, {"payment_code": "0077"}
TWICE = "twice"
EARLY = "the run ended early, because the service cannot answer now"


def seen(answer, at=NOON):
    """Return the observation of an error, or of the transaction with these changes; None for no lookup."""
    if answer is None or isinstance(answer, Observation):
        return answer
    if isinstance(answer, Exception):
        return observe(answer, at=at)
    return Observation(answer=Answer.FOUND, at=at, transaction=Transaction(**(FIELDS | answer)))


def judged(first, second=None, entry=(), rules=STRICT, **case):
    ours = attrs.evolve(ENTRY, **dict(entry))
    observations = seen(first), seen(first if second is TWICE else second, LATER)
    return judge(
        Case(entry=ours, first=observations[0], second=observations[1], **{"other_found": 1} | case), rules=rules
    )


def said(first, second=None, **options):
    """Return the bucket and the findings in one text, each with its waiver."""
    row = judged(first, second, **options)
    found = [f"{each.code}{f' ~{each.waived}' if each.waived else ''}" for each in row.findings]
    return ": ".join([row.bucket.value, *([", ".join(found)] if found else [])])


def with_options(first, second, options):
    return said(first, second, **options)


LOOKUPS = (
    # What agrees is matched after one lookup, and a remark about the service's answer alone changes nothing.
    (AGREES, None, {}, "matched"),
    (
        {"fee": 1, "amount_received": 10**6, "deviations": ("odd",)},
        *(None, {}, "matched: service_arithmetic, tolerated_deviation"),
    ),
    # A difference must be seen twice; the second answer decides.
    (LESS, None, {}, "unresolved"),
    (LESS, TWICE, {}, "break: underpaid"),
    (LESS, AGREES, {}, "matched"),
    (LESS, {"status": "refunded"}, {}, "break: refund_not_recorded"),
    (LESS, DOWN, {}, "unresolved"),
    # "Not found" twice is missing, if another reference was found.
    (NOT_FOUND, None, {"other_found": 5}, "unresolved"),
    (NOT_FOUND, TWICE, {}, "break: missing_at_service"),
    (NOT_FOUND, TWICE, {"other_found": 0}, "unresolved"),
    # So is an answer that cannot be used; behind it, or before it, a difference is seen once.
    *((error, None, {}, "unresolved") for error in (MALFORMED, DECLINED)),
    *((error, TWICE, {}, "break: unusable_answer") for error in (MALFORMED, DECLINED)),
    (MALFORMED, TWICE, {"other_found": 0}, "unresolved"),
    (MALFORMED, NOT_FOUND, {}, "unresolved"),
    (MALFORMED, LESS, {}, "unresolved"),
    (LESS, MALFORMED, {}, "unresolved"),
    (MALFORMED, AGREES, {}, "matched"),
    # Pending on both sides is open; a ledger without states cannot be pending.
    (PENDING, None, {"entry": PENDING}, "open"),
    (PENDING | LESS, TWICE, {"entry": PENDING}, "break: underpaid"),
    (PENDING, TWICE, {"entry": {"status": ABSENT}}, "break: recorded_not_paid"),
    (PENDING, TWICE, {"entry": {"status": ABSENT}, "rules": Rules(assume_status="none")}, "matched"),
    ({"status": "Waiting"}, None, {"entry": PENDING, "rules": Rules(statuses={"waiting": "pending"})}, "open"),
    # A doubled reference is a finding in any bucket, and a break by itself, which needs no second lookup.
    (AGREES, None, {"rows": 2}, "break: duplicate_reference"),
    (DOWN, None, {"rows": 2}, "unresolved: duplicate_reference"),
    (None, None, {"rows": 2}, "unresolved: duplicate_reference"),
    (NOT_FOUND, TWICE, {"rows": 2}, "break: missing_at_service, duplicate_reference"),
    # So is a merchant_reff that is paid under another reference, when it was seen twice.
    (AGREES, None, {"paid_with": ("T2",)}, "unresolved"),
    (AGREES, TWICE, {"paid_with": ("T2",)}, "break: paid_twice"),
    # A code that is the service's without leading zeros was damaged by a spreadsheet; any other is a break.
    (NO_ZEROS, None, {}, "unresolved"),
    (NO_ZEROS | LESS, TWICE, {}, "rejected: underpaid, payment_code_differs"),
    *(({"payment_code": code}, TWICE, {}, "break: payment_code_differs") for code in ("770", "A77", "00770")),
)


def test_lookups():
    """What was answered decides the bucket: a difference counts when it was seen twice."""
    check_table(LOOKUPS, with_options)


def test_rows():
    """A row has the times of both answers, what was seen, and the reason why it is unresolved or rejected."""
    over = observe(DOWN, at=NOON)
    check_table(
        (
            (AGREES, None, {}, "observed_at, confirmed_at", (NOON, None)),
            (LESS, TWICE, {}, "observed_at, confirmed_at, is_changed_during_run", (NOON, LATER, False)),
            (LESS, AGREES, {}, "confirmed_at, is_changed_during_run", (LATER, True)),
            (LESS, {"status": "refunded"}, {}, "is_changed_during_run", (True,)),
            (LESS, DOWN, {}, "error, service_amount, confirmed_at", ("ServiceError", 90, None)),
            (LESS, MALFORMED, {}, "service_amount, is_changed_during_run", (90, False)),
            (MALFORMED, TWICE, {}, "transaction, confirmed_at", (None, LATER)),
            *((error, TWICE, {"other_found": 0}, "lacks_probe", (True,)) for error in (NOT_FOUND, MALFORMED)),
            (AGREES, None, {"is_repeat": True}, "is_repeat", (True,)),
            (
                *(LESS, None, {"ended_by": over}, "reason"),
                (f"a difference was seen once and is not confirmed: {EARLY}",),
            ),
            (*(None, None, {"ended_by": over}, "error, reason"), ("ServiceError", f"not looked up: {EARLY}")),
            (*(LESS, MALFORMED, {}, "reason"), (f"a difference was seen once, and asking again failed: {MALFORMED}",)),
            (errors.InvalidReferenceError("it is empty"), None, {}, "bucket, reason", (Bucket.REJECTED, "it is empty")),
            # What could not be asked is unresolved, with the error's name and text: never missing.
            *(
                (error, None, {}, "bucket, error, reason", (Bucket.UNRESOLVED, type(error).__name__, str(error)))
                for error in (
                    DOWN,
                    errors.RateLimitedError("slow down"),
                    errors.AttemptTimeoutError("too slow"),
                    errors.PermissionDeniedError("no"),
                    errors.UnexpectedResponseError("a 404 that is not from the service", status_code=404),
                    errors.UnexpectedResponseError("body: not JSON (a web page)", status_code=200),
                    errors.ReferenceMismatchError("another", status_code=200),
                    errors.AuthenticationError("bad key"),
                )
            ),
        ),
        lambda first, second, options, names: tuple(
            getattr(judged(first, second, **options), name) for name in names.split(", ")
        ),
    )
    assert "key or environment may be wrong" in judged(NOT_FOUND, TWICE, other_found=0).reason
    assert "leading zeros were lost in a spreadsheet" in judged(NO_ZEROS, TWICE).reason
    rejected = judge(Case(entry=RejectedEntry(line=7, reason="amount: 'x'", amount=None)))
    assert (rejected.bucket, rejected.reason, rejected.line) == (Bucket.REJECTED, "amount: 'x'", 7)


def test_sentences():
    """What a row says by itself names the reference, and how often or where else it is."""
    for row, sentences in (
        (
            judged(NOT_FOUND, TWICE, rows=2),
            [
                "the service knows no transaction 'T1', but the ledger has an amount of 100",
                "2 rows of the ledger have the reference 'T1'",
            ],
        ),
        (
            judged({"merchant_reff": "INV"}, TWICE, paid_with=("T2", "T3")),
            ["merchant_reff 'INV' is paid under other references too: 'T2', 'T3'"],
        ),
        (
            judged(DECLINED, TWICE),
            ["the service answered about 'T1', and the answer cannot be used: the service declined"],
        ),
    ):
        assert [each.sentence for each in row.findings] == sentences


def test_hostile_reason():
    """What the service wrote cannot act on the terminal that shows the reason."""
    row = judged(errors.RejectedError("\x1b[2Jno\u202e" * 500))
    assert (row.reason.isprintable(), len(row.reason) < 4000) == (True, True)


def accepting(*codes, reference="T1", expires="2026-11-21", bounds=(("largest_difference", 100),), **rules):
    fields = {"reference": reference, "reason": "agreed", "owner": "Ana", "expires": expires, **dict(bounds)}
    return Rules(accepted=[Accepted(code=code, **fields) for code in codes], time_zone=UTC, **rules)


TEN_BELOW = Rules(tolerances={"amount": Tolerance(below=10)})
WITHIN = "~within the tolerance of 10 below"
ANA = "~accepted by Ana until 2026-11-21: agreed"
HOURS = timedelta(hours=1)
YOUNG = {"created_at": (NOON - timedelta(minutes=58)).replace(tzinfo=None)}
GRACE = Rules(grace="1h", time_zone=UTC)
EXCUSE = "~the row is younger than the grace of 1h"
EXPIRED = {"status": "pending", "expdate": datetime(2026, 11, 20)}  # noqa: DTZ001  the service shows no zone
EXACT = {"ledger": 100, "service": 90}
RULED = (
    # Within tolerance, a row is matched after one lookup, or open; another difference is a break, and leads.
    (TEN_BELOW, LESS, None, {}, f"matched: underpaid {WITHIN}"),
    (TEN_BELOW, LESS | CODE, TWICE, {}, f"break: payment_code_differs, underpaid {WITHIN}"),
    (TEN_BELOW, LESS | PENDING, None, {"entry": PENDING}, f"open: underpaid {WITHIN}"),
    # An accepted difference is matched if it was seen twice, and unresolved before.
    *(
        (accepting(code), first, second, options, f"matched: {code} {ANA}" if second else "unresolved")
        for second in (TWICE, None)
        for first, code, options in (
            (LESS, "underpaid", {}),
            ({"status": "refunded"}, "refund_not_recorded", {}),
            (AGREES, "refund_not_made", {"entry": {"status": "refunded"}}),
            ({"status": "odd"}, "unknown_status", {}),
            (CODE, "payment_code_differs", {}),
            (NO_ZEROS, "payment_code_differs", {}),
            (NOT_FOUND, "missing_at_service", {}),
            (AGREES, "paid_twice", {"paid_with": ("T2",)}),
            (EXPIRED, "stale_pending", {"entry": PENDING}),
            (EXPIRED, "stale_pending", {"entry": {"status": "canceled"}}),
        )
    ),
    # Another code, another row, or a day that has passed: the break is one.
    (accepting("overpaid"), LESS, TWICE, {}, "break: underpaid"),
    (accepting("underpaid", reference="T2"), LESS, TWICE, {}, "break: underpaid"),
    (accepting("underpaid", expires="2026-11-20"), LESS, TWICE, {}, "break: underpaid"),
    # The last answer decides whether it holds.
    (accepting("underpaid"), LESS, seen(LESS, NOON + 11 * HOURS), {}, f"matched: underpaid {ANA}"),
    (accepting("underpaid"), LESS, seen(LESS, NOON + 12 * HOURS), {}, "break: underpaid"),
    # It ends when either side changes, or when more is lacking than was accepted.
    *(
        (accepting("underpaid", bounds=bounds), {"amount": theirs}, TWICE, {"entry": {"amount": ours}}, expected)
        for bounds, ours, theirs, expected in (
            (EXACT, 100, 90, f"matched: underpaid {ANA}"),
            (EXACT, 100, 1, "break: underpaid"),
            (EXACT, 99_999, 90, "break: underpaid"),
            ({"largest_difference": 10}, 100, 95, f"matched: underpaid {ANA}"),
            ({"largest_difference": 10}, 100, 89, "break: underpaid"),
        )
    ),
    *(
        (accepting("missing_at_service", bounds=bounds), NOT_FOUND, TWICE, {"entry": {"amount": ours}}, expected)
        for bounds in ({"ledger": 100, "service": ""}, {"largest_difference": 100})
        for ours, expected in ((100, f"matched: missing_at_service {ANA}"), (99_999, "break: missing_at_service"))
    ),
    (accepting("missing_at_service"), NOT_FOUND, TWICE, {"other_found": 0}, "unresolved"),
    # One accepted difference does not excuse another of the same row; a tolerated one needs none.
    (accepting("underpaid"), LESS | CODE, TWICE, {}, f"break: payment_code_differs, underpaid {ANA}"),
    (accepting("underpaid", tolerances=TEN_BELOW.tolerances), LESS, None, {}, f"matched: underpaid {WITHIN}"),
    # With an accepted duplicate, a row is what it is otherwise.
    *(
        (accepting("duplicate_reference"), first, second, {"rows": 2, "entry": entry}, expected)
        for first, second, entry, expected in (
            (AGREES, None, {}, f"matched: duplicate_reference {ANA}"),
            (PENDING, None, PENDING, f"open: duplicate_reference {ANA}"),
            (LESS, TWICE, {}, f"break: underpaid, duplicate_reference {ANA}"),
            (None, None, {}, "unresolved: duplicate_reference"),
        )
    ),
    # A young row that is missing, or pending on one side, is open after one lookup, and a break when it is older.
    *(
        (GRACE, first, second, {"entry": YOUNG}, expected)
        for first, code in ((PENDING, "recorded_not_paid"), (NOT_FOUND, "missing_at_service"))
        for second, expected in ((None, f"open: {code} {EXCUSE}"), (TWICE, f"break: {code}"))
    ),
    (GRACE, NOT_FOUND, None, {"entry": YOUNG, "other_found": 0}, "unresolved"),
    (
        *(GRACE, NOT_FOUND, None, {"entry": YOUNG, "rows": 2}),
        f"break: duplicate_reference, missing_at_service {EXCUSE}",
    ),
    # A young row that differs in anything else is a break, unless that is accepted: then it still waits.
    *(
        (rules, PENDING | LESS, seen(PENDING | LESS), {"entry": YOUNG}, expected)
        for rules, expected in (
            (GRACE, f"break: underpaid, recorded_not_paid {EXCUSE}"),
            (
                accepting("recorded_not_paid", "underpaid", grace=GRACE.grace),
                f"open: recorded_not_paid {EXCUSE}, underpaid {ANA}",
            ),
        )
    ),
)


def test_rules():
    """Tolerance, acceptance and grace waive a difference, each within its bounds, and say so."""
    check_table(RULED, lambda rules, first, second, options: said(first, second, rules=rules, **options))


def test_needs_confirmation():
    """Only what differs by more than is waived, is not found or cannot be used gets a second lookup."""
    check_table(
        (
            (AGREES, ENTRY, STRICT, False),
            ({"deviations": ("odd",)}, ENTRY, STRICT, False),
            (LESS, ENTRY, STRICT, True),
            (NOT_FOUND, ENTRY, STRICT, True),
            (MALFORMED, ENTRY, STRICT, True),
            (DECLINED, ENTRY, STRICT, True),
            (DOWN, ENTRY, STRICT, False),
            (errors.InvalidReferenceError("empty"), ENTRY, STRICT, False),
            (LESS, ENTRY, TEN_BELOW, False),
            (LESS | CODE, ENTRY, TEN_BELOW, True),
            (LESS, ENTRY, accepting("underpaid"), True),
            *((first, attrs.evolve(ENTRY, **YOUNG), GRACE, False) for first in (PENDING, NOT_FOUND)),
        ),
        lambda first, entry, rules: needs_confirmation(entry, seen(first), rules=rules),
    )


def test_every_code_can_be_accepted():
    """Every code can be accepted."""
    assert [accepting(code).acceptance(code, "T1").code for code in Code] == list(Code)

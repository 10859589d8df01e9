"""Laws of a reconciliation: for any ledger and any answers."""

from datetime import datetime, timedelta

import attrs
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction, errors
from payclient.reconcile import STRICT, Answer, Bucket, Case, Observation, Status, Tally, judge, reconcile
from payclient.reconcile._judgement.judge import needs_confirmation
from payclient.reconcile._judgement.sides import observe
from payclient.reconcile.ledger import Entry, RejectedEntry
from support.chance import examples
from support.reconciling import NOON, NOT_FOUND, Clock, Service
from support.ruling import DAYS, rules_of, sometimes

EXPIRY = datetime.fromisoformat("2026-11-21 10:00:00")
REFERENCES = "ABCDE"
WORDS = st.sampled_from(["paid", "Pending", "canceled", "expired", "refunded", "settled"])
AMOUNTS = st.integers(-5, 5)


def usable():
    """Any entry of a ledger."""
    optional = sometimes(
        amount=AMOUNTS,
        fee=st.none() | AMOUNTS,
        status=st.none() | WORDS,
        merchant_reff=st.none() | st.sampled_from("MN"),
        expdate=st.none() | st.just(EXPIRY),
    )
    created = st.none() | st.just(EXPIRY)  # a limit on the age of rows that have no such column is refused
    return st.builds(
        lambda reference, created_at, fields: Entry(line=2, reference=reference, created_at=created_at, **fields),
        st.sampled_from(REFERENCES),
        created,
        optional,
    )


def answers():
    """One or two answers to the lookups of a reference."""
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
        sometimes(
            fee=AMOUNTS,
            amount_received=AMOUNTS,
            merchant_reff=st.sampled_from("MN"),
            expdate=st.just(EXPIRY),
            payment_method=st.sampled_from(["VA", "QR"]),
        ),
    )
    return st.lists(transactions | transactions | failures, min_size=1, max_size=2)


REJECTED = st.builds(RejectedEntry, line=st.just(1), reason=st.just("x"), amount=st.none() | AMOUNTS)
USABLE, ANSWERS = usable(), answers()
LEDGERS = st.lists(USABLE | USABLE | USABLE | REJECTED, max_size=12).map(
    lambda rows: [attrs.evolve(row, line=line) for line, row in enumerate(rows, 2)]
)
SERVICES = st.fixed_dictionaries(dict.fromkeys(REFERENCES, ANSWERS))
RULES = rules_of(days=DAYS)


async def rows_until_the_end(*args, **options):
    rows = []
    try:
        async for row in reconcile(*args, **options):
            rows.append(row)
    except errors.PayClientError:
        pass
    return rows


@examples(150)
@given(ledger=LEDGERS, answers=SERVICES, canary=st.none() | st.just("A"), rules=st.just(STRICT) | RULES)
async def test_everything_ties(ledger, answers, canary, rules):
    """Each row comes out once, in order, in one bucket; buckets sum to the ledger, and the residual is 0."""
    options = {"clock": Clock(), "canary": canary, "concurrency": 2, "rules": rules}
    rows = await rows_until_the_end(ledger, Service(answers), **options)
    tally = Tally()
    for row in rows:
        tally.add(row)
    summary = tally.summary()
    assert [row.entry for row in rows] == ledger
    assert sum(total.rows for total in summary.buckets.values()) == summary.rows == len(ledger)
    assert summary.tie_out.residual == 0
    paid = (row.ledger_amount or 0 for row in rows if row.ledger_status is Status.PAID)
    assert summary.tie_out.ledger_paid_total == sum(paid)


@examples(150)
@given(ledger=LEDGERS, answers=SERVICES, rules=st.just(STRICT) | RULES)
async def test_only_evidence(ledger, answers, rules):
    """A break was answered twice or is a doubled row; "missing" was answered so; each row of an error is unresolved."""
    rows = await rows_until_the_end(ledger, Service(answers), clock=Clock(), concurrency=2, rules=rules)
    for row in rows:
        codes = {finding.code.value for finding in row.findings}
        decisive = {finding.code.value for finding in row.findings if finding.is_decisive}
        if row.bucket is Bucket.BREAK:
            assert row.primary.is_decisive or row.primary.code.is_soft
            assert row.confirmed_at is not None or decisive == {"duplicate_reference"}
        if row.bucket in (Bucket.MATCHED, Bucket.OPEN):
            assert decisive == set()
        if "missing_at_service" in codes:
            assert NOT_FOUND in answers[row.reference]
        if row.error == "AuthenticationError":
            assert row.bucket is Bucket.UNRESOLVED
        if row.error == "RejectedError":
            assert row.bucket is Bucket.UNRESOLVED or "unusable_answer" in codes


@st.composite
def cases(draw):
    """Any row that was asked once, or twice."""
    entry = draw(USABLE)
    looks = [
        observe(answer, at=at)
        if isinstance(answer, Exception)
        else Observation(answer=Answer.FOUND, at=at, transaction=attrs.evolve(answer, reference=entry.reference))
        for answer, at in zip(draw(ANSWERS), (NOON, NOON + timedelta(hours=1)), strict=False)
    ]
    is_repeat = draw(st.booleans())
    return Case(
        entry=entry,
        first=looks[0],
        second=looks[-1] if len(looks) > 1 else None,
        rows=2 if is_repeat else draw(st.integers(1, 2)),
        is_repeat=is_repeat,
        paid_with=draw(st.sampled_from([(), ("B",)])),
        other_found=draw(st.integers(0, 1)),
    )


@examples(200)
@given(case=cases(), rules=RULES)
def test_rules_only_excuse(case, rules):
    """Tolerances, grace and acceptance take a row out of its breaks, change no money, and never make a break."""
    tally, any_rules = Tally(), judge(case, rules=rules)
    tally.add(any_rules)
    assert tally.summary().tie_out.residual == 0
    waived = [bool(finding.waived) for finding in any_rules.findings]
    assert waived == sorted(waived)
    lenient = attrs.evolve(STRICT, tolerances=rules.tolerances, accepted=rules.accepted, grace=rules.grace)
    strictly, row = judge(case), judge(case, rules=lenient)
    assert {(finding.code, finding.sentence) for finding in row.findings} >= (
        {(finding.code, finding.sentence) for finding in strictly.findings}
    )
    if strictly.bucket in (Bucket.MATCHED, Bucket.OPEN):
        assert row == strictly
    if row.bucket is Bucket.BREAK:
        assert strictly.bucket in (Bucket.BREAK, Bucket.UNRESOLVED)


@examples(200)
@given(case=cases(), rules=RULES)
def test_second_lookup(case, rules):
    """A row that one lookup found agreeing or open needs no second, and no other row is judged by one."""
    once = attrs.evolve(case, second=None, rows=1, paid_with=(), other_found=1)
    row = judge(once, rules=rules)
    is_judged = row.bucket in (Bucket.MATCHED, Bucket.OPEN)
    if once.first.answer in (Answer.FOUND, Answer.NOT_FOUND):
        assert is_judged is not needs_confirmation(case.entry, once.first, rules=rules)

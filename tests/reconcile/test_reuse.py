"""A run that reuses answers of the run before: which, for how long, and with the same result."""

import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from payclient import errors
from payclient.protocol import Transaction
from payclient.reconcile import Bucket, Code, Kinds, Lines, Rules, Tolerance
from payclient.reconcile._journal.journal import Reuse
from payclient.reconcile.report import Report
from support.chance import examples
from support.nights import Nights, entry, paid
from support.reconciling import NOT_FOUND, Service
from support.ruling import accepted

ALWAYS = timedelta(days=1000)
CANARY = {"CANARY": [paid("CANARY")]}
ACCEPTED = accepted("A", ledger=9, service=5)
SUM = Rules(lines=Lines(of_one_reference="sum"))
KINDS = Rules(lines=Lines(of_one_reference="sum", kind=Kinds(column="Type", charge=["sale", "tip"])))


@pytest.fixture
def second(night):
    """Give what runs a night that reuses the answers of another, and returns it with the references it asked about."""

    async def second(ledger, answers, *, previous, max_age=ALWAYS, **options):
        service = Service({name: each if isinstance(each, list) else [each] for name, each in answers.items()} | CANARY)
        reuse = Reuse(max_age=max_age, answers=previous.run.answers)
        done = await night(ledger, {}, previous=previous, reuse=reuse, service=service, **options)
        return done, [each for each in service.asked if each != "CANARY"]

    return second


async def test_same_row(night, second):
    """A row that matched is not looked up; its answer keeps its time and names its run, and the report counts it."""
    ledger = [entry("A"), entry("B")]
    first = await night(ledger, {"A": paid("A"), "B": paid("B", 5)})
    done, asked = await second(ledger, {"B": paid("B")}, previous=first)
    assert asked == ["B"]
    assert (done["A"].reused_from, done["B"].reused_from) == ("night-1", "")
    assert (done["A"].observed_at, done["A"].transaction) == (first["A"].observed_at, first["A"].transaction)
    summary = done.summary
    assert (summary.since.reused.rows, summary.since.reused.oldest_at) == (1, first["A"].observed_at)
    assert summary.first_observed_at == done["B"].observed_at
    assert Report(summary).says == (
        "amount and status of 2 ledger rows: 2 matched; "
        "open findings: 1 + 0 new + 0 reopened - 1 resolved = 0; 1 answer reused."
    )
    assert Report(summary).completeness.endswith(
        " 1 row that matched before was not looked up again: its answer is of 2026-11-21 02:00 UTC."
    )


ONE = [entry("A")]
SETTLED = Rules(statuses={"settled": "paid"}, final_statuses=["canceled", "refunded", "paid"])
LOOSE = Rules(tolerances={"amount": Tolerance(below=1)})
TWICE = accepted("A", "duplicate_reference", ledger=2, service="")
FULL = paid("A", fee=0, amount_received=9, merchant_reff="m", payment_method="VA", payment_code="1")
FIELDS = {"amount": 8, "fee": 0, "amount_received": 9, "merchant_reff": "other", "status": "paid"}
FIELDS |= {"payment_method": "VA", "payment_code": "1"}
DAY, LEAST = timedelta(days=1), timedelta(microseconds=1)
PARTS, REVERSED = ([entry("A", amount, line=line) for line, amount in enumerate(each)] for each in ((0, 9), (9, 0)))
REFF = entry("A", merchant_reff="m")


def case(name, said=None, before=ONE, now=None, rules=None, today=None, **options):
    """Return a case of two nights in which the service says the same, and the ledger and the rules unless given."""
    rules = rules or Rules()
    return name, {"A": said or paid("A")}, before, now or before, rules, today or rules, options


def of_status(name, word, **options):
    return case(name, paid("A", status=word), [entry("A", status=word)], **options)


NEVER = (
    case("a break", before=[entry("A", 8)]),
    of_status("open", "Pending"),
    case("missing", NOT_FOUND),
    case("unusable", errors.RejectedError("no")),
    case("accepted", paid("A", 5), rules=Rules(accepted=[ACCEPTED])),
    of_status("not final", "Canceled"),
    case("a word that is not known", paid("A", status="Odd"), rules=Rules(assume_status="none")),
    case("not listed as final", rules=Rules(final_statuses=["refunded"])),
    case("older than the limit", max_age=DAY - LEAST),
    case("a break by the rules of today", paid("A", 8), rules=LOOSE, today=Rules()),
    *(case(name, FULL, [REFF], [evolve(REFF, **{name: value})]) for name, value in FIELDS.items()),
    case("another kind", before=[entry("A", kind="sale")], now=[entry("A", kind="tip")], rules=KINDS),
    case("parts that are not summed", before=PARTS, now=REVERSED, rules=SUM, today=Rules()),
    case("listed twice before", before=[entry("A"), entry("A", line=3)], now=ONE, rules=Rules(accepted=[TWICE])),
    case("a line more", now=[entry("A"), entry("A", 1, line=3)], rules=SUM),
    case("settled differently", statement=[entry("A", 8)]),
    case("not settled", statement=[]),
)
STANDS = (
    *(of_status(word, word, rules=SETTLED) for word in ("Canceled", "refunded", "Settled")),
    case("another line", now=[entry("A", line=700)]),
    case("as old as the limit", max_age=DAY),
    case("within a tolerance", paid("A", 8), rules=LOOSE),
    case("parts in another order", before=PARTS, now=REVERSED, rules=SUM),
    case("settled", statement=[entry("A", 9)]),
)


async def test_asked(tmp_path):
    """An answer stands only for the same ledger row that matched then and matches now, with a final status."""
    missed = []
    for place, (name, answers, before, now, rules, today, options) in enumerate((*NEVER, *STANDS)):
        run, service = Nights(tmp_path / str(place)), Service({"A": [answers["A"]]} | CANARY)
        first = await run(before, answers, rules=rules)
        reuse = Reuse(max_age=options.pop("max_age", ALWAYS), answers=first.run.answers)
        done = await run(now, {}, previous=first, reuse=reuse, service=service, rules=today, **options)
        is_reused = {row.reused_from for row in done.rows} == {"night-1"}
        if is_reused is not (place >= len(NEVER)) or is_reused is ("A" in service.asked):
            missed.append((name, service.asked))
    assert missed == []


async def test_age(night, second):
    """The age counts from the answer, also when it was reused before or is of the second lookup."""
    first = await night(ONE, {"A": [paid("A", 5), paid("A")]})
    assert (first["A"].bucket, first["A"].is_changed_during_run) == (Bucket.MATCHED, True)
    then, asked = await second(ONE, {}, previous=first, max_age=timedelta(hours=36))
    assert (asked, then["A"].observed_at, then["A"].confirmed_at) == ([], first["A"].confirmed_at, None)
    third, asked = await second(ONE, {}, previous=then, max_age=timedelta(hours=50))
    assert (asked, third["A"].reused_from, third["A"].observed_at) == ([], "night-1", then["A"].observed_at)
    fourth, asked = await second(ONE, {"A": paid("A")}, previous=third, max_age=timedelta(hours=36))
    assert (asked, fourth["A"].reused_from) == (["A"], "")


async def test_paid_twice(night, second):
    """A payment that today's ledger shows to be made twice is looked up twice today, on both sides."""
    first = await night(ONE, {"A": paid("A", merchant_reff="m")})
    other = paid("B", merchant_reff="m")
    for said in (other, [paid("B", status="Pending"), other]):  # or only the second lookup shows it
        answers = {"A": paid("A", merchant_reff="m"), "B": said}
        done, asked = await second([entry("A"), entry("B")], answers, previous=first)
        assert sorted(asked) == ["A", "A", "B", "B"]
        assert [(row.reused_from, row.primary.code, row.history.age_days) for row in done.rows] == [
            ("", Code.PAID_TWICE, 0),
            ("", Code.PAID_TWICE, 0),
        ]
        assert done["A"].observed_at < done["A"].confirmed_at


async def test_probe(night, second):
    """A reused answer does not make "not found" credible; one of them is looked up again, and does if it is found."""
    first = await night([entry("A"), entry("B")], {"A": paid("A"), "B": paid("B")})
    ledger = [entry("A"), entry("B"), entry("C")]
    done, asked = await second(ledger, {"A": paid("A")}, previous=first, canary=None)
    assert asked == ["C", "A", "C"]
    assert [row.bucket for row in done.rows] == [Bucket.MATCHED, Bucket.MATCHED, Bucket.BREAK]
    done, asked = await second(ledger, {}, previous=first, canary=None)
    assert asked == ["C", "A"]
    assert [row.bucket for row in done.rows] == [Bucket.UNRESOLVED, Bucket.MATCHED, Bucket.UNRESOLVED]
    assert done.summary.exit_status() == 3
    done, asked = await second(ledger[:2], {}, previous=first, canary=None)  # no probe is needed
    assert (asked, done.summary.verdict.value, done.summary.last_observed_at) == ([], "clean", None)


async def test_carried(night, second):
    """A row that was carried over is looked up when the ledger lists it again."""
    first = await night([entry("A"), entry("B")], {"A": paid("A", 5), "B": paid("B")})
    then = await night([entry("B")], {"A": paid("A"), "B": paid("B")}, previous=first)
    assert (then["A"].bucket, then["A"].carried_from) == (Bucket.MATCHED, "night-1")
    _, asked = await second([entry("A"), entry("B")], {"A": paid("A")}, previous=then)
    assert asked == ["A"]


async def test_answer_from_the_future(night, tmp_path):
    """An answer that is younger than this run is not reused: one of the two clocks is wrong."""
    await night([], {})
    first = await night(ONE, {"A": paid("A")})
    other = Nights(tmp_path / "earlier")
    service = Service({"A": [paid("A")]} | CANARY)
    reuse = Reuse(max_age=ALWAYS, answers=first.run.answers)
    done = await other(ONE, {}, previous=first, reuse=reuse, service=service)
    assert (service.asked, done["A"].reused_from) == (["CANARY", "A"], "")


async def test_left(night, second):
    """A row that left the ledger is looked up again, even if nothing else is listed tonight."""
    first = await night(ONE, {"A": paid("A")})
    done, asked = await second([], {"A": paid("A")}, previous=first)
    assert (asked, done["A"].reused_from, done["A"].bucket) == (["A"], "", Bucket.BREAK)


# Laws

WORDS = st.sampled_from(["Paid", "Paid", "Refunded", "Pending", "Canceled"])


def ledgers():
    return st.lists(st.builds(entry, st.sampled_from("ABCD"), st.integers(1, 2), WORDS), max_size=5)


def services():
    found = st.builds(
        lambda amount, word, reff: Transaction(reference="?", amount=amount, status=word, merchant_reff=reff),
        st.integers(1, 2),
        WORDS,
        st.sampled_from([None, "m", "n"]),
    )
    return st.fixed_dictionaries(dict.fromkeys("ABCD", found | found | found | st.just(NOT_FOUND)))


def judged(night):
    return [
        (row.entry, row.bucket, row.transaction, [(each.code, each.sentence) for each in row.findings])
        for row in night.rows
    ]


@pytest.mark.slow
@examples(40)
@given(
    before=ledgers(),
    ledger=ledgers(),
    answers=services(),
    rules=st.sampled_from([Rules(), SUM, Rules(final_statuses=["paid", "canceled"])]),
)
async def test_same_result(before, ledger, answers, rules):
    """
    When the service says the same, a run that reuses answers says what one without says.

    It looks up each reference that it does not reuse, and no other; what it reuses matched in both runs.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Nights(Path(folder), formats=("summary.json", "rows.jsonl"))
        first = await run(before, answers, rules=rules)
        service = Service({reference: [each] for reference, each in answers.items()} | CANARY)
        reuse = Reuse(max_age=ALWAYS, answers=first.run.answers)
        done = await run(ledger, {}, previous=first, rules=rules, reuse=reuse, service=service)
        plain = await run(ledger, answers, previous=first, rules=rules, name="plain")
        assert judged(done) == judged(plain)
        assert done.summary.verdict is plain.summary.verdict
        assert done.summary.tie_out == plain.summary.tie_out
        assert done.states == plain.states
        reused = {row.reference for row in done.rows if row.reused_from}
        assert set(service.asked) - {"CANARY"} == {row.reference for row in done.rows} - reused
        assert reused <= {row.reference for row in first.rows if row.bucket is Bucket.MATCHED}
        assert {row.bucket for row in done.rows if row.reused_from} <= {Bucket.MATCHED}
        assert done.summary.tie_out.residual == 0

"""A run that reuses answers of the run before: which, for how long, and with the same result."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from payclient import errors
from payclient.ledger import Entry
from payclient.protocol import Transaction
from payclient.reconcile import Accepted, Bucket, Code, Invoices, Lines, Rules, Tolerance
from payclient.reconcile.journal import Reuse
from support.chance import examples
from support.nights import Nights, paid
from support.reconciling import Service

NOT_FOUND = errors.TransactionNotFoundError("no such transaction: not found")
ALWAYS = timedelta(days=1000)
CANARY = {"CANARY": [paid("CANARY")]}
ACCEPTED = Accepted(
    code=Code.UNDERPAID, reference="A", ledger=9, service=5, reason="cash", owner="Ana", expires="2030-01-01"
)
SUM = Rules(lines=Lines(of_one_reference="sum"))


def entry(reference, amount=9, status="Paid", line=2, **fields):
    return Entry(line=line, reference=reference, amount=amount, status=status, **fields)


@pytest.fixture
def night(tmp_path):
    """Give what runs one night after the other."""
    return Nights(tmp_path)


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
    assert (summary.since.reused, summary.since.oldest_reused_at) == (1, first["A"].observed_at)
    assert summary.first_observed_at == done["B"].observed_at
    assert summary.sentence == (
        "amount and status of 2 ledger rows: 2 matched; "
        "open findings: 1 + 0 new + 0 reopened - 1 resolved = 0; 1 answer reused."
    )
    assert summary.completeness.endswith(
        " 1 row that matched before was not looked up again: its answer is of 2026-11-21 02:00 UTC."
    )


async def test_off(night):
    """Without the option every row is looked up, also with a previous run."""
    first = await night([entry("A")], {"A": paid("A")})
    service = Service({"A": [paid("A")]} | CANARY)
    done = await night([entry("A")], {}, previous=first, service=service)
    assert (service.asked, done["A"].reused_from) == (["CANARY", "A"], "")


@pytest.mark.parametrize(
    ("ours", "theirs", "rules"),
    [
        (entry("A", 8), paid("A"), Rules()),
        (entry("A", status="Pending"), paid("A", status="Pending"), Rules()),
        (entry("A"), NOT_FOUND, Rules()),
        (entry("A"), errors.RejectedError("no"), Rules()),
        (entry("A"), paid("A", 5), Rules(accepted=[ACCEPTED])),
        (entry("A", status="Canceled"), paid("A", status="Canceled"), Rules()),
        (entry("A"), paid("A", status="Odd"), Rules(assume_status="none")),
        (entry("A"), paid("A"), Rules(final_statuses=["refunded"])),
    ],
    ids=["break", "open", "missing", "unusable", "accepted", "canceled", "unknown word", "not listed"],
)
async def test_never(night, second, ours, theirs, rules):
    """What did not match, was accepted, or has a status that is not listed as final is looked up again."""
    first = await night([ours, entry("B")], {"A": theirs, "B": paid("B")}, rules=rules)
    done, asked = await second([ours, entry("B")], {"A": theirs, "B": paid("B")}, previous=first, rules=rules)
    assert ("A" in asked, done["A"].reused_from) == (True, "")


@pytest.mark.parametrize("word", ["Canceled", "refunded", "Settled"])
async def test_listed(night, second, word):
    """The rules say which states are final, by what a word means."""
    rules = Rules(statuses={"settled": "paid"}, final_statuses=["canceled", "refunded", "paid"])
    ours, theirs = [entry("A", status=word)], {"A": paid("A", status=word)}
    first = await night(ours, theirs, rules=rules)
    _, asked = await second(ours, theirs, previous=first, rules=rules)
    assert asked == []


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": 8},
        {"fee": 0},
        {"amount_received": 9},
        {"merchant_reff": "other"},
        {"status": "paid"},
        {"payment_method": "VA"},
        {"payment_code": "1"},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_other_ledger_row(night, second, changed):
    """A row of which the ledger says anything else than before is looked up, even if the answer would still do."""
    answers = {"A": paid("A", fee=0, amount_received=9, merchant_reff="m", payment_method="VA", payment_code="1")}
    first = await night([entry("A", merchant_reff="m")], answers)
    _, asked = await second([evolve(entry("A", merchant_reff="m"), **changed)], answers, previous=first)
    assert set(asked) == {"A"}


async def test_other_line(night, second):
    """The line in the ledger does not matter."""
    first = await night([entry("A")], {"A": paid("A")})
    _, asked = await second([entry("A", line=700)], {}, previous=first)
    assert asked == []


async def test_age(night, second):
    """The age counts from the answer, also when it was reused before, up to and with the limit."""
    ledger, answers = [entry("A")], {"A": paid("A")}
    first = await night(ledger, answers)
    then, asked = await second(ledger, answers, previous=first, max_age=timedelta(hours=36))
    assert (asked, then["A"].reused_from) == ([], "night-1")
    third, asked = await second(ledger, answers, previous=then, max_age=timedelta(hours=50))
    assert (asked, third["A"].reused_from) == ([], "night-1")
    assert third["A"].observed_at == first["A"].observed_at
    fourth, asked = await second(ledger, answers, previous=third, max_age=timedelta(hours=36))
    assert (asked, fourth["A"].reused_from) == (["A"], "")


@pytest.mark.parametrize(("less", "asked"), [(0, []), (1, ["A"])], ids=["at the limit", "older"])
async def test_limit(night, second, less, asked):
    """An answer that is as old as the limit is reused, and one that is older by a microsecond is not."""
    first = await night([entry("A")], {"A": paid("A")})
    max_age = timedelta(days=1) - timedelta(microseconds=less)
    assert (await second([entry("A")], {"A": paid("A")}, previous=first, max_age=max_age))[1] == asked


async def test_rules_changed(night, second):
    """An answer that differs by the rules of today is not reused, and its break is confirmed twice today."""
    first = await night([entry("A")], {"A": paid("A", 8)}, rules=Rules(tolerances={"amount": Tolerance(below=1)}))
    done, asked = await second([entry("A")], {"A": paid("A", 8)}, previous=first)
    assert (asked, done["A"].bucket, done["A"].findings[0].history.age_days) == (["A", "A"], Bucket.BREAK, 0)


async def test_within_tolerance(night, second):
    """A row within a tolerance matched, so its answer is reused."""
    rules = Rules(tolerances={"amount": Tolerance(below=1)})
    first = await night([entry("A")], {"A": paid("A", 8)}, rules=rules)
    done, asked = await second([entry("A")], {}, previous=first, rules=rules)
    assert (asked, done["A"].findings[0].waived) == ([], "within the tolerance of 1 below")


async def test_paid_twice(night, second):
    """A payment that today's ledger shows to be made twice is looked up twice today, on both sides."""
    first = await night([entry("A")], {"A": paid("A", merchant_reff="m")})
    answers = {"A": paid("A", merchant_reff="m"), "B": paid("B", merchant_reff="m")}
    done, asked = await second([entry("A"), entry("B")], answers, previous=first)
    assert sorted(asked) == ["A", "A", "B", "B"]
    assert [(row.reused_from, row.primary.code, row.history.age_days) for row in done.rows] == [
        ("", Code.PAID_TWICE, 0),
        ("", Code.PAID_TWICE, 0),
    ]
    assert all(row.observed_at < row.confirmed_at for row in done.rows)


async def test_paid_twice_in_the_end(night, second):
    """The same holds when only the second lookup of the other payment shows it."""
    first = await night([entry("A")], {"A": paid("A", merchant_reff="m")})
    other = [paid("B", status="Pending"), paid("B", merchant_reff="m")]
    answers = {"A": paid("A", merchant_reff="m"), "B": other}
    done, asked = await second([entry("A"), entry("B")], answers, previous=first)
    assert sorted(asked) == ["A", "A", "B", "B"]
    assert done["A"].observed_at < done["A"].confirmed_at
    assert {row.primary.code for row in done.rows} == {Code.PAID_TWICE}


async def test_invoice(night, second):
    """Payments of one invoice were looked up twice before, and are again, because together they might be too much."""
    rules = Rules(invoices=Invoices(sum=True, amount="part"))
    ledger = [entry("A", merchant_reff="m"), entry("B", merchant_reff="m")]
    answers = {name: paid(name, merchant_reff="m") for name in "AB"}
    first = await night(ledger, answers, rules=rules)
    done, asked = await second(ledger, answers, previous=first, rules=rules)
    assert (sorted(asked), done.summary.buckets[Bucket.MATCHED].rows) == (["A", "A", "B", "B"], 2)


async def test_probe(night, second):
    """A reused answer does not make "not found" credible; one of them is looked up in its place, and does."""
    first = await night([entry("A"), entry("B")], {"A": paid("A"), "B": paid("B")})
    ledger = [entry("A"), entry("B"), entry("C")]
    done, asked = await second(ledger, {"A": paid("A")}, previous=first, canary=None)
    assert asked == ["C", "A", "C"]
    assert [row.bucket for row in done.rows] == [Bucket.MATCHED, Bucket.MATCHED, Bucket.BREAK]


async def test_wrong_key(night, second):
    """When the probe is not found either, nothing that was not found is believed; not all answers are asked for."""
    first = await night([entry("A"), entry("B")], {"A": paid("A"), "B": paid("B")})
    done, asked = await second([entry("A"), entry("B"), entry("C")], {}, previous=first, canary=None)
    assert asked == ["C", "A"]
    assert [row.bucket for row in done.rows] == [Bucket.UNRESOLVED, Bucket.MATCHED, Bucket.UNRESOLVED]
    assert done.summary.exit_status() == 3


async def test_nothing_to_ask(night, second):
    """When every answer is reused, no request is sent, and no probe is needed."""
    first = await night([entry("A")], {"A": paid("A")})
    done, asked = await second([entry("A")], {}, previous=first, canary=None)
    assert (asked, done.summary.verdict.value, done.summary.last_observed_at) == ([], "clean", None)


@pytest.mark.parametrize(("rules", "asked"), [(SUM, set()), (Rules(), {"A"})], ids=["summed", "not summed"])
async def test_several_lines(night, second, rules, asked):
    """Lines that are summed are one payment, whatever their order; without the rule they are looked up."""
    answers = {"A": paid("A", 9)}
    first = await night([entry("A", 0), entry("A", 9, line=3)], answers, rules=SUM)
    _, sent = await second([entry("A", 9), entry("A", 0, line=3)], answers, previous=first, rules=rules)
    assert set(sent) == asked


async def test_listed_twice_before(night, second):
    """A row that matched because its second listing was accepted is looked up when it is listed once."""
    reason = {"reason": "both are due", "owner": "Ana", "expires": "2030-01-01"}
    twice = Accepted(code=Code.DUPLICATE_REFERENCE, reference="A", ledger=2, service="", **reason)
    rules = Rules(accepted=[twice])
    first = await night([entry("A"), entry("A", line=3)], {"A": paid("A")}, rules=rules)
    assert {row.bucket for row in first.rows} == {Bucket.MATCHED}
    _, asked = await second([entry("A")], {"A": paid("A")}, previous=first, rules=rules)
    assert asked == ["A"]


async def test_last_answer_counts(night, second):
    """Of a row that matched in its second lookup, the answer and the time of that one are reused."""
    first = await night([entry("A")], {"A": [paid("A", 5), paid("A")]})
    assert (first["A"].bucket, first["A"].is_changed_during_run) == (Bucket.MATCHED, True)
    done, asked = await second([entry("A")], {}, previous=first)
    assert (asked, done["A"].observed_at, done["A"].confirmed_at) == ([], first["A"].confirmed_at, None)


async def test_line_more(night, second):
    """A reference that has another line today is looked up."""
    first = await night([entry("A")], {"A": paid("A")}, rules=SUM)
    _, asked = await second([entry("A"), entry("A", 1, line=3)], {"A": paid("A", 10)}, previous=first, rules=SUM)
    assert asked == ["A"]


async def test_carried(night, second):
    """A row that was carried over is looked up when the ledger lists it again."""
    first = await night([entry("A"), entry("B")], {"A": paid("A", 5), "B": paid("B")})
    then = await night([entry("B")], {"A": paid("A"), "B": paid("B")}, previous=first)
    assert (then["A"].bucket, then["A"].carried_from) == (Bucket.MATCHED, "night-1")
    _, asked = await second([entry("A"), entry("B")], {"A": paid("A")}, previous=then)
    assert asked == ["A"]


@pytest.mark.parametrize(("settled", "asked"), [(9, []), (8, ["A", "A"]), (None, ["A", "A"])])
async def test_statement(night, second, settled, asked):
    """Where the statement says anything else, or does not list the payment, the row is looked up."""
    first = await night([entry("A")], {"A": paid("A")})
    statement = [entry("Z", 1)] + ([] if settled is None else [entry("A", settled)])
    ledger = [entry("A"), entry("Z", 1)]
    answers = {"A": paid("A"), "Z": paid("Z", 1)}
    _, sent = await second(ledger, answers, previous=first, statement=statement)
    assert [each for each in sent if each == "A"] == asked


async def test_answer_from_the_future(night, second, tmp_path):
    """An answer that is younger than this run is not reused: one of the two clocks is wrong."""
    await night([], {})
    first = await night([entry("A")], {"A": paid("A")})
    other = Nights(tmp_path / "earlier")
    service = Service({"A": [paid("A")]} | CANARY)
    reuse = Reuse(max_age=ALWAYS, answers=first.run.answers)
    done = await other([entry("A")], {}, previous=first, reuse=reuse, service=service)
    assert (service.asked, done["A"].reused_from) == (["CANARY", "A"], "")


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

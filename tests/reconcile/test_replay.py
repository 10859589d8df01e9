"""The answers of a journal are judged by other rules."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction, errors
from payclient.reconcile import STRICT, Bucket, Journal, JournalError, Rules, Tolerance, judge_again, reconcile, replay
from payclient.reconcile.folders import JOURNAL
from payclient.reconcile.ledger import Entry
from support.chance import examples
from support.nights import Nights, paid
from support.reconciling import NOON, Service
from support.ruling import DAYS, rules_of

REFERENCES = "ABCDE"
WORDS = ["paid", "Pending", "canceled", "settled"]
LOOSE = Rules(tolerances={"amount": Tolerance(above=10, below=10)})


def at_noon():
    return NOON


async def ran(journal, ledger, service, rules):
    """Run to the end, and return the rows."""
    try:
        return [row async for row in reconcile(ledger, service, journal=journal, rules=rules, clock=at_noon)]
    except errors.PayClientError:
        return list(replay(journal, rules=rules))


def entries():
    amounts = st.integers(-3, 3)
    one = st.builds(
        lambda reference, fields: Entry(line=1, reference=reference, **fields),
        st.sampled_from(REFERENCES),
        st.fixed_dictionaries(
            {"amount": amounts, "created_at": st.none()},  # a grace needs the column
            optional={"status": st.sampled_from(WORDS), "merchant_reff": st.sampled_from("MN"), "fee": amounts},
        ),
    )
    return st.lists(one, max_size=8).map(
        lambda rows: [attrs.evolve(row, line=line) for line, row in enumerate(rows, 2)]
    )


def answers():
    """Return one answer for each reference, which does not change while it is asked."""
    transactions = st.builds(
        lambda amount, status, reff: Transaction(reference="?", amount=amount, status=status, merchant_reff=reff),
        st.integers(-3, 3),
        st.sampled_from(WORDS),
        st.sampled_from(["M", "N", None]),
    )
    failures = st.sampled_from([errors.TransactionNotFoundError("no such transaction"), errors.RejectedError("no")])
    return st.fixed_dictionaries(
        {each: (transactions | transactions | failures).map(lambda a: [a]) for each in "ABCDE"}
    )


ANY_RULES = st.just(STRICT) | rules_of(most=3, days=DAYS)


@examples(100)
@given(ledger=entries(), answers=answers(), rules=ANY_RULES)
async def test_same_rules(ledger, answers, rules):
    """The rules of the run give its rows again."""
    with Journal() as journal:
        rows = await ran(journal, ledger, Service(answers), rules)
        judge_again(journal, rules=rules)
        assert list(replay(journal, rules=rules)) == rows


@pytest.mark.slow
@examples(150)
@given(ledger=entries(), answers=answers(), before=ANY_RULES, after=ANY_RULES)
async def test_other_rules(ledger, answers, before, after):
    """A second judgement says what a run with its rules says, or that it does not know; the lookups it lacks tell."""
    with Journal() as journal:
        wanted = await ran(journal, ledger, Service(answers), after)
    with Journal() as journal:
        await ran(journal, ledger, Service(answers), before)
        missing = judge_again(journal, rules=after)
        rows = [attrs.evolve(row, confirmed_at=None) for row in replay(journal, rules=after)]
        for row, fresh in zip(rows, wanted, strict=True):
            assert row.bucket is Bucket.UNRESOLVED or row == attrs.evolve(fresh, confirmed_at=None)
        is_unknown = any(row.bucket is Bucket.UNRESOLVED for row in rows)
        assert bool(missing) >= (is_unknown and not any(row.bucket is Bucket.UNRESOLVED for row in wanted))
        service = Service(answers)
        resumed = await ran(journal, ledger, service, after)
        assert [attrs.evolve(row, confirmed_at=None) for row in resumed] == [
            attrs.evolve(row, confirmed_at=None) for row in wanted
        ]
        assert len(service.asked) <= missing


async def test_reversal_by_new_words(tmp_path):
    """A payment of the previous run that is reversed by the words of the new rules needs a second lookup."""
    night = Nights(tmp_path)
    first = await night([Entry(line=2, reference="A", status="Paid")], {"A": paid("A")})
    ledger, before = [Entry(line=2, reference="A", status="Void")], Rules(statuses={"void": "paid"})
    second = await night(ledger, {"A": paid("A", status="Void")}, previous=first, rules=before)
    assert second["A"].bucket is Bucket.MATCHED
    rules = Rules(statuses={"void": "canceled"})
    with Journal(second.run.folder / JOURNAL) as journal:
        assert judge_again(journal, rules=rules) == 1
        (row,) = replay(journal, rules=rules)
    assert (row.bucket, row.reason) == (
        Bucket.UNRESOLVED,
        "a difference was seen once and is not confirmed: it was not looked up again",
    )


async def test_words_for_paid():
    """A word that means paid by the new rules makes a payment made twice, and one that no longer does unmakes it."""
    ledger = [Entry(line=line, reference=each, amount=1, status="settled") for line, each in enumerate("AB", 2)]
    answers = {each: [Transaction(reference=each, amount=1, status="settled", merchant_reff="INV-1")] for each in "AB"}
    rules = Rules(statuses={"settled": "paid"})
    with Journal() as journal:
        before = await ran(journal, ledger, Service(answers), STRICT)
        judge_again(journal, rules=rules)
        after = list(replay(journal, rules=rules))
        judge_again(journal, rules=STRICT)
        assert list(replay(journal, rules=STRICT)) == before
    codes = [[[finding.code.value for finding in row.findings] for row in rows] for rows in (before, after)]
    assert codes == [[["unknown_status"]] * 2, [["paid_twice"]] * 2]


async def test_identity(tmp_path):
    """The journal belongs to the new rules from then on, and to the same service."""
    path = tmp_path / "journal.sqlite"
    with Journal(path, identity={"service": "x", "rules": STRICT.judging}) as journal:
        await ran(journal, [Entry(line=2, reference="A")], Service({}), STRICT)
        judge_again(journal, rules=LOOSE)
    with pytest.raises(JournalError, match="its rules: tolerances"):
        Journal(path, identity={"service": "x", "rules": STRICT.judging})
    with Journal(path, identity={"service": "x", "rules": LOOSE.judging}):
        pass


def test_no_ledger():
    """A journal without its whole ledger is refused."""
    with Journal() as journal, pytest.raises(JournalError, match="hasn't read its whole ledger"):
        judge_again(journal, rules=STRICT)

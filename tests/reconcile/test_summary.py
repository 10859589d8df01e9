"""The verdict, the counts and the exit status of a whole reconciliation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from payclient import Transaction
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import (
    Answer,
    Bucket,
    Case,
    Code,
    Finding,
    Observation,
    Row,
    Rules,
    Severity,
    Status,
    Tally,
    Verdict,
    judge,
)
from payclient.reconcile.nights import PreviousRun

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def row(bucket, *codes, **fields):
    entry = Entry(line=2, reference="T1", amount=100, status="paid")
    entry = RejectedEntry(line=2, reason="x") if bucket is Bucket.REJECTED else entry
    transaction = Transaction(reference="T1", amount=90 if codes else 100, status="Paid")
    findings = tuple(Finding(code, "") for code in codes)
    states = {"ledger_status": Status.PAID, "service_status": Status.PAID}
    return Row(entry=entry, bucket=bucket, findings=findings, transaction=transaction, **states | fields)


MATCHED, OPEN = row(Bucket.MATCHED), row(Bucket.OPEN)
BREAK, LOW = row(Bucket.BREAK, Code.UNDERPAID, Code.FEE_DIFFERS), row(Bucket.BREAK, Code.EXPIRY_DIFFERS)
LACKS_PROBE = row(Bucket.UNRESOLVED, lacks_probe=True)
UNRESOLVED, REJECTED = row(Bucket.UNRESOLVED), row(Bucket.REJECTED)


def summary(*rows):
    tally = Tally()
    for each in rows:
        tally.add(each)
    return tally.summary()


def test_verdict(subtests):
    """Unresolved rows never hide a break that matters from the exit status."""
    cases = (
        ((), Verdict.EMPTY, 0),
        ((MATCHED, OPEN), Verdict.CLEAN, 0),
        ((MATCHED, BREAK), Verdict.BREAKS, 1),
        ((MATCHED, LOW), Verdict.BREAKS, 0),
        ((MATCHED, REJECTED), Verdict.BREAKS, 1),
        ((MATCHED, UNRESOLVED), Verdict.INCOMPLETE, 75),
        ((LOW, UNRESOLVED), Verdict.INCOMPLETE, 75),
        ((BREAK, UNRESOLVED), Verdict.INCOMPLETE, 1),
        ((REJECTED, UNRESOLVED), Verdict.INCOMPLETE, 1),
        ((BREAK, LACKS_PROBE), Verdict.INCOMPLETE, 3),
    )
    for rows, verdict, status in cases:
        with subtests.test(rows=rows, verdict=verdict):
            result = summary(*rows)
            assert (result.verdict, result.exit_status()) == (verdict, status)


@pytest.mark.parametrize(
    ("fail_on", "status"),
    [("low", 1), ("medium", 0), (Severity.LOW, 1), (Severity.INFO, 1), ("critical", 0)],
)
def test_fail_on(fail_on, status):
    """Breaks below the severity that was asked for do not fail the command."""
    assert summary(LOW).exit_status(fail_on) == status


def test_fail_on_unknown():
    """A severity that does not exist is not taken for another."""
    with pytest.raises(KeyError):
        summary(LOW).exit_status("severe")


def test_counts():
    """Rows and money are counted per bucket, per finding and per severity."""
    result = summary(MATCHED, BREAK, BREAK, LOW, UNRESOLVED)
    assert {bucket.value: total.rows for bucket, total in result.buckets.items()} == {
        "matched": 1,
        "open": 0,
        "break": 3,
        "unresolved": 1,
        "rejected": 0,
    }
    underpaid = result.codes[Code.UNDERPAID]
    assert (underpaid.rows, underpaid.ledger_amount, underpaid.service_amount) == (2, 200, 180)
    assert (result.breaks[Severity.HIGH], result.breaks[Severity.MEDIUM], result.breaks[Severity.LOW]) == (2, 0, 1)


def test_frozen():
    """A summary stays what it was when more rows come."""
    tally = Tally()
    tally.add(MATCHED)
    before = tally.summary()
    tally.add(BREAK)
    assert (before.rows, before.buckets[Bucket.BREAK].rows, before.codes, before.verdict) == (1, 0, {}, Verdict.CLEAN)


def test_sentence():
    """The sentence names every bucket that has rows."""
    result = summary(MATCHED, MATCHED, REJECTED)
    assert result.sentence == "amount and status of 3 ledger rows: 2 matched, 1 rejected."
    assert summary().sentence == "Nothing was read, so nothing was compared."


def assumed(word, assume="paid"):
    entry, found = Entry(line=2, reference="T1"), Transaction(reference="T1", amount=90, status=word)
    seen = Observation(answer=Answer.FOUND, at=NOON, transaction=found)
    return judge(Case(entry=entry, first=seen, second=seen), rules=Rules(assume_status=assume))


def test_assumed():
    """Where the ledger has no status column, the sentence says that its rows were taken as paid."""
    result = summary(assumed("Paid"), assumed("Paid"))
    assert (result.verdict, result.sentence) == (
        Verdict.PARTIAL,
        "amounts not compared; status (assumed paid) of 2 ledger rows: 2 matched.",
    )
    assert result.compared.remark.startswith(
        "Amounts not compared: no column of the ledger is used as the amount. "
        "Not compared, because the ledger does not state it: merchant_reff,",
    )
    assert (
        summary(*map(assumed, ("Canceled", "Refunded", "Failed", "Expired", "Pending"))).breaks[Severity.CRITICAL] == 5
    )


def test_dashes_are_not_compared():
    """A column of dashes is none that was compared."""
    entry = Entry(line=2, reference="T1", merchant_reff="-", status="Paid")
    seen = Observation(answer=Answer.FOUND, at=NOON, transaction=Transaction(reference="T1", amount=9, status="Paid"))
    assert summary(judge(Case(entry=entry, first=seen, second=seen))).compared.what == "status"


@pytest.mark.parametrize(("words", "not_paid", "status"), [(["Canceled", "Paid"], 1, 1), (["Paid", "Paid"], 0, 0)])
def test_not_compared(words, not_paid, status):
    """Where nothing is assumed, the verdict is never clean, and says how many rows are not paid."""
    result = summary(*(assumed(word, "none") for word in words))
    assert (result.verdict, result.exit_status()) == (Verdict.PARTIAL, status)
    assert result.compared.remark.endswith(
        f" Status not compared; {not_paid} of 2 {'is' if not_paid == 1 else 'are'} not paid at the service."
    )


def test_not_answered():
    """A field that the ledger states, and no answered row has, is not compared for that reason."""
    entry = Entry(line=2, reference="T1", amount=9, status="Paid", payment_code="7")
    result = summary(Row(entry=entry, bucket=Bucket.UNRESOLVED)).compared.remark
    assert "Not compared, because no row with it was answered: amount, status, payment_code." in result
    assert "because the ledger does not state it: merchant_reff, fee, amount_received," in result


def test_tolerated_without_amounts():
    """A ledger without an amount column says it, too."""
    waived = Finding(Code.METHOD_DIFFERS, "", waived="agreed")
    one = Row(entry=Entry(line=2, reference="T1", status="Paid"), bucket=Bucket.MATCHED, findings=(waived,))
    assert ": 1 matched (1 within tolerance or accepted)." in summary(one).sentence


def test_tolerated():
    """Tolerated and accepted rows are counted separately from equal ones."""
    waived = Finding(Code.UNDERPAID, "", waived="agreed")
    rows = MATCHED, attrs.evolve(row(Bucket.MATCHED, Code.UNDERPAID), findings=(waived,))
    assert summary(*rows).sentence.endswith(": 2 matched (1 within tolerance or accepted).")


def test_times():
    """The first and the last answer are found whatever the order, confirmations included."""
    early, late = row(Bucket.MATCHED, observed_at=NOON), NOON + timedelta(hours=3)
    middle = row(Bucket.BREAK, Code.UNDERPAID, observed_at=NOON + timedelta(hours=1), confirmed_at=late)
    result = summary(middle, early, REJECTED)
    assert (result.first_observed_at, result.last_observed_at) == (NOON, late)


def test_reused():
    """Only answers that were reused count as such, beside rows that other rules judge otherwise."""
    tally = Tally(previous=PreviousRun(run="20", folder="20", last_observed_at=None))
    tally.add(attrs.evolve(MATCHED, observed_at=NOON, reused_from="19"))
    tally.add(attrs.evolve(MATCHED, observed_at=NOON + timedelta(hours=1), earlier_bucket=Bucket.BREAK))
    since = tally.summary().since
    assert (since.reused, since.oldest_reused_at, since.newest_reused_at) == (1, NOON, NOON)
    assert (since.removed_by_rules, since.added_by_rules) == (1, 0)

"""The verdict, the counts and the exit status of a whole reconciliation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from payclient import Transaction
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import Bucket, Code, Finding, Row, Severity, Tally, TieOutError, Verdict

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def row(bucket, *codes, **fields):
    entry = (
        RejectedEntry(line=2, reason="x") if bucket is Bucket.REJECTED else Entry(line=2, reference="T1", amount=100)
    )
    transaction = Transaction(reference="T1", amount=90, status="Paid")
    findings = tuple(Finding(code, "") for code in codes)
    return Row(entry=entry, bucket=bucket, findings=findings, transaction=transaction, **fields)


MATCHED, OPEN = row(Bucket.MATCHED), row(Bucket.OPEN)
BREAK, LOW = row(Bucket.BREAK, Code.UNDERPAID, Code.FEE_DIFFERS), row(Bucket.BREAK, Code.EXPIRY_DIFFERS)
UNRESOLVED, REJECTED = row(Bucket.UNRESOLVED), row(Bucket.REJECTED)


def summary(*rows):
    tally = Tally()
    for each in rows:
        tally.add(each)
    return tally.summary()


@pytest.mark.parametrize(
    ("rows", "verdict", "status"),
    [
        ((), Verdict.EMPTY, 0),
        ((MATCHED, OPEN), Verdict.CLEAN, 0),
        ((MATCHED, BREAK), Verdict.BREAKS, 1),
        ((MATCHED, LOW), Verdict.BREAKS, 0),
        ((MATCHED, REJECTED), Verdict.BREAKS, 1),
        ((MATCHED, UNRESOLVED), Verdict.INCOMPLETE, 75),
        ((BREAK, REJECTED, UNRESOLVED), Verdict.INCOMPLETE, 75),
    ],
)
def test_verdict(rows, verdict, status):
    """Unresolved rows come before breaks, because the same command will resolve them."""
    result = summary(*rows)
    assert (result.verdict, result.exit_status()) == (verdict, status)


@pytest.mark.parametrize(
    ("fail_on", "status"), [("low", 1), ("medium", 0), (Severity.LOW, 1), (Severity.INFO, 1), ("critical", 0)]
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
    assert summary(MATCHED, MATCHED, REJECTED).sentence == "3 ledger rows: 2 matched, 1 rejected."
    assert summary().sentence == "Nothing was read, so nothing was compared."


def test_times():
    """The first and the last answer are found whatever the order, confirmations included."""
    early, late = row(Bucket.MATCHED, observed_at=NOON), NOON + timedelta(hours=3)
    middle = row(Bucket.BREAK, Code.UNDERPAID, observed_at=NOON + timedelta(hours=1), confirmed_at=late)
    result = summary(middle, early, REJECTED)
    assert (result.first_observed_at, result.last_observed_at) == (NOON, late)


def test_lost_row():
    """A row that is in no bucket is raised as our own bug."""
    tally = Tally()
    tally.add(MATCHED)
    tally._rows += 1
    with pytest.raises(TieOutError, match="2 rows were counted, and 1 are in the buckets"):
        tally.summary()

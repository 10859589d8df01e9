"""Leakage is added up by payment method, each reference once."""

from __future__ import annotations

import pytest

from payclient import Transaction
from payclient.ledger import Entry
from payclient.reconcile import Bucket, Code, Finding, Leakage, Row, Tally


def row(method, *findings, **more):
    return Row(
        entry=Entry(line=1, reference="T1"),
        bucket=Bucket.BREAK,
        findings=tuple(Finding(Code(code), "", leakage=leakage, waived=waived) for code, leakage, waived in findings),
        transaction=Transaction(reference="T1", amount=0, status="paid", payment_method=method),
        **more,
    )


def totals(*rows):
    tally = Tally()
    for each in rows:
        tally.add(each)
    return tally.summary().leakage


def test_totals():
    """Each method has its rows and its two sums; what is waived, or is there a second time, is not in them."""
    found = totals(
        row("VA", ("short_received", 40_000, ""), ("fee_off_schedule", 500, "")),
        row("VA", ("fee_off_schedule", -200, "")),
        row("VA", ("short_received", 7, "accepted")),
        row("VA", ("short_received", 9, ""), is_repeat=True),
        row(None, ("short_received", 1, "")),
        row("QR", ("underpaid", 0, "")),
    )
    assert found == (
        Leakage(method="", rows=1, short_received=1, fee_off_schedule=0),
        Leakage(method="VA", rows=2, short_received=40_000, fee_off_schedule=300),
    )


def test_many_methods():
    """Methods beyond the first thousand are one."""
    found = totals(*(row(f"M{number}", ("short_received", 1, "")) for number in range(1_500)))
    assert (len(found), found[0].method, sum(each.short_received for each in found)) == (1_001, "(other)", 1_500)


@pytest.mark.parametrize(
    ("method", "expected"),
    [("VA", "VA: 1 row, 40,000 not received, fees -200 against the schedule"), ("", "no method: 1 row, ")],
)
def test_sentence(method, expected):
    """Its sentence names the method, the rows and both sums."""
    leakage = Leakage(method=method, rows=1, short_received=40_000, fee_off_schedule=-200)
    assert leakage.sentence.startswith(expected)

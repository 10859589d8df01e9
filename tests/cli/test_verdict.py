"""The few breaks that are shown are the worst ones."""

from __future__ import annotations

import pytest
from attrs import evolve

from payclient.cli._verdict import Worst, aligned
from payclient.ledger import Entry
from payclient.reconcile import Bucket, Code, Finding, Row
from payclient.reconcile._settled import OtherSide


def row(line, code, bucket=Bucket.BREAK):
    return Row(entry=Entry(line=line, reference=f"T{line}"), bucket=bucket, findings=(Finding(code, "x"),))


def test_worst():
    """Of many breaks the five most severe are kept, in the order of the ledger where they are equal."""
    worst = Worst()
    for line in range(1, 100):
        worst.add(row(line, Code.UNDERPAID if line % 10 == 0 else Code.EXPIRY_DIFFERS))
    worst.add(row(100, Code.PAID_TWICE))
    assert [each.line for each in worst.rows()] == [100, 10, 20, 30, 40]


def test_breaks_only():
    """A row that is no break is not among the worst breaks, whatever was found."""
    worst = Worst()
    worst.add(row(1, Code.TOLERATED_DEVIATION, Bucket.MATCHED))
    assert worst.rows() == ()


@pytest.mark.parametrize(
    ("more", "place"),
    [
        pytest.param({}, "line 3", id="ledger"),
        pytest.param({"carried_from": "2026-11-20"}, "line 3 of the ledger of 2026-11-20", id="carried"),
        pytest.param(
            {"other_side": OtherSide(settled=None, is_in_ledger=False)}, "line 3 of the statement", id="statement"
        ),
    ],
)
def test_place(more, place):
    """A line number says of which file it is, unless that is the ledger."""
    assert evolve(row(3, Code.UNDERPAID), **more).place == place


def test_aligned():
    """Text begins at the same place, numbers end at the same place, and no line ends with blanks."""
    assert aligned([("a", "1", "x"), ("bcd", "200", "")], right=[1]) == ["a      1  x", "bcd  200"]


def test_wide_characters():
    """A character that takes two places counts twice."""
    assert aligned([("支付", "x"), ("a", "x")]) == ["支付  x", "a     x"]

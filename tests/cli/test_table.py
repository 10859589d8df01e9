"""Columns are as wide as what is in them looks."""

from __future__ import annotations

from payclient.cli._table import aligned


def test_aligned():
    """Text begins at the same place, numbers end at the same place, and no line ends with blanks."""
    assert aligned([("a", "1", "x"), ("bcd", "200", "")], right=[1]) == ["a      1  x", "bcd  200"]


def test_wide_characters():
    """A character that takes two places counts twice."""
    assert aligned([("支付", "x"), ("a", "x")]) == ["支付  x", "a     x"]

"""One cell of a ledger is read exactly, or refused."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from payclient.ledger._cells import CellProblem, read_code, read_word
from payclient.ledger._money import MoneyReader
from payclient.ledger._times import TimeReader

read_money, read_time, read_creation = MoneyReader().read, TimeReader().read, TimeReader().read_creation


def test_money(subtests):
    """Money is a whole number in digits; decimals of nothing but zeros change nothing."""
    for cell, amount in [
        ("15000", 15000),
        (" 15000 ", 15000),
        ("15000.00", 15000),
        ("15000.0", 15000),
        ("15000.000", 15000),
        ("-15000", -15000),
        ("+1", 1),
        ("0", 0),
        ("0.000", 0),
        ("007", 7),
        ("999999999999999999", 10**18 - 1),
        ("", None),
        ("   ", None),
    ]:
        with subtests.test(cell=cell):
            assert read_money(cell) == amount


@pytest.mark.parametrize(
    "cell",
    [
        *(
            "15000.5",
            "15000.01",
            "15,000",
            "15.000",
            "150.000",
            "-15.000",
            "15.000.000",
            "15000,00",
            "1 500",
            "Rp15000",
        ),
        *("1.23457E+15", "1e3", "nan", "inf", "0x10", "1_000", "१५", "true", "--1", "1-", "=1+1", "#REF!", "#####"),
        *("15\u00a0000", "\u202f15000", "1000000000000000000"),
    ],
)
def test_money_is_not_guessed(cell):
    """An ambiguous amount, or one that a spreadsheet has changed, is refused."""
    with pytest.raises(CellProblem):
        read_money(cell)


def test_ambiguous_point():
    """A point before three zeros is named as the ambiguity it is."""
    with pytest.raises(CellProblem, match="may mean 15 or 15000"):
        read_money("15.000")


def test_damaged_code(subtests):
    """An identifier that a spreadsheet has converted to a number is refused, and the reason says so."""
    for cell in [
        "1.23457E+15",
        "1,23457E+15",
        "1.23457E15",
        "1.5e-07",
        "9E+11",
        "1001.0",
        "1001.00",
        "#N/A",
        "#NAME?",
        "########",
        '="0012"',
        "'0012",
    ]:
        with subtests.test(cell=cell):
            with pytest.raises(CellProblem, match="damaged by a spreadsheet"):
                read_code(cell)


def test_code(subtests):
    """An identifier that only looks odd is kept as it is."""
    for cell in ["T0000000033KGJ0D", "12E5", "1.5", "v1.0", "0012", "A-1", "#1", "Ünï", "1 2", "'a'"]:
        with subtests.test(cell=cell):
            assert read_code(cell) == cell


def test_unseen(subtests):
    """An invisible space or mark is refused with its code point, even at the end of a cell."""
    for mark in ["\u00a0", "\u202f", "\u200b", "\ufeff", "\u00ad"]:
        with subtests.test(mark=mark):
            with pytest.raises(CellProblem, match=f"U\\+{ord(mark):04X}"):
                read_word(f"Paid{mark}")


def test_time(subtests):
    """A time is written as the service writes it, or nearly so."""
    for cell, time in [
        ("2026-11-21 10:00:05", datetime.fromisoformat("2026-11-21 10:00:05")),
        ("2026-11-21T10:00:05", datetime.fromisoformat("2026-11-21 10:00:05")),
        ("2026-11-21 10:00", datetime.fromisoformat("2026-11-21 10:00:00")),
        ("2026-11-21 10:00:05.000", datetime.fromisoformat("2026-11-21 10:00:05")),
        ("", None),
    ]:
        with subtests.test(cell=cell):
            assert read_time(cell) == time


def test_time_is_not_guessed(subtests):
    """Another order of day and month, a missing time of day, an impossible day and a zone are refused."""
    for cell in [
        "21/11/2026 10:00",
        "2026-11-21",
        "2026-02-31 10:00:00",
        "2026-11-21 10:00:05Z",
        "2026-11-21 10:00:05.5",
        "2026-11-21 10:00:05+07:00",
        "46347.41",
        "2026-11-21 10:00.0",
    ]:
        with subtests.test(cell=cell):
            with pytest.raises(CellProblem):
                read_time(cell)


def test_creation(subtests):
    """A time of creation may state its zone, leave the time of day out, or hold a fraction of a second."""
    for cell, time, offset in [
        ("2026-11-21 22:16:00", "2026-11-21 22:16:00", None),
        ("2026-11-21T22:16:00.123456789", "2026-11-21 22:16:00", None),
        ("2026-11-21", "2026-11-21 00:00:00", None),
        ("2026-11-21T22:16:00Z", "2026-11-21 22:16:00", 0),
        ("2026-11-21T22:16:00.5z", "2026-11-21 22:16:00", 0),
        ("2026-11-21 22:16:00 UTC", "2026-11-21 22:16:00", 0),
        ("2026-11-21T22:16:00+00:00", "2026-11-21 22:16:00", 0),
        ("2026-11-21T22:16+0700", "2026-11-21 22:16:00", 420),
        ("2026-11-21 22:16:00 -03", "2026-11-21 22:16:00", -180),
    ]:
        with subtests.test(cell=cell):
            found = read_creation(cell)
            assert found.replace(tzinfo=None) == datetime.fromisoformat(time)
            assert found.utcoffset() == (None if offset is None else timedelta(minutes=offset))


def test_creation_is_not_guessed(subtests):
    """Another order of day and month, an unknown zone and a bare number are refused."""
    for cell in [
        "21/11/2026",
        "11/21/2026 22:16",
        "2026-02-31",
        "2026-11-21 WIB",
        "2026-11-21Z",
        "1795299360",
        "20261121",
    ]:
        with subtests.test(cell=cell):
            with pytest.raises(CellProblem, match="is not a time such as"):
                read_creation(cell)

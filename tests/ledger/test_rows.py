"""A cell with a type of its own is read exactly, or refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from payclient.ledger._cells import CellProblem, Unreadable, read_code, read_word
from payclient.ledger._money import MoneyReader
from payclient.ledger._times import TimeReader

read_money, read_time, read_creation = MoneyReader().read, TimeReader().read, TimeReader().read_creation
TIME = datetime.fromisoformat("2026-11-21 10:00:05")


def test_money(subtests):
    """A number of any type that is exactly whole is money, and the result is an int."""
    for value, amount in [
        (15000, 15000),
        (15000.0, 15000),
        (-1.0, -1),
        (Decimal("15000.00"), 15000),
        (Decimal("1.5E+4"), 15000),
        (Decimal("-1E+3"), -1000),
        ("15000.00", 15000),
        (10**18 - 1, 10**18 - 1),
        (10.0**15 - 1, 10**15 - 1),
        (None, None),
        ("", None),
    ]:
        with subtests.test(value=value):
            assert (read_money(value), type(read_money(value))) == (amount, type(amount))


@pytest.mark.parametrize(
    "value",
    [
        *(1.5, float("nan"), float("inf"), 10.0**15, 10**18, -(10**18), 2**63),
        *(True, False, [], {}, b"1", TIME, Unreadable("broken")),
        *(
            Decimal("1.5"),
            Decimal("1.5E-1"),
            Decimal("1E+18"),
            Decimal("15.000"),
            Decimal("NaN"),
            Decimal("-Infinity"),
            "15.000",
        ),
    ],
    ids=repr,
)
def test_money_is_not_guessed(value):
    """A number that is not whole, or has more digits than its type keeps, is refused."""
    with pytest.raises(CellProblem):
        read_money(value)


def test_only_text(subtests):
    """A code or a word must be text, because a number may have lost leading zeros."""
    for read in [read_code, read_word]:
        for value in [12, 12.0, Decimal(12), True, [], {}, b"T1", TIME]:
            with subtests.test(read=read, value=value):
                with pytest.raises(CellProblem, match="store the column as text"):
                    read(value)


@pytest.mark.parametrize("read", [read_code, read_word, read_time, read_creation])
def test_empty(read):
    """None and empty text are an empty cell."""
    assert (read(None), read("")) == (None, None)


@pytest.mark.parametrize("read", [read_time, read_creation])
def test_time(read):
    """A time is a time, or text as in CSV."""
    assert (read(TIME), read("2026-11-21 10:00:05")) == (TIME, TIME)


def test_time_is_not_guessed(subtests):
    """A zone, a date alone and a number are refused."""
    for value, reason in [
        (TIME.replace(tzinfo=UTC), "has a time zone"),
        (date(2026, 11, 21), "a date without a time of day"),
        (46347.41, "46347.41 is not a time"),
        (True, "True is not a time"),
        ("21/11/2026", "not a time"),
        (Unreadable("broken"), "broken"),
    ]:
        with subtests.test(value=value):
            with pytest.raises(CellProblem, match=reason):
                read_time(value)


@pytest.mark.parametrize("value", [46347.41, True, "21/11/2026", Unreadable("broken")], ids=repr)
def test_creation_is_not_guessed(value):
    """A time of creation is neither a number nor in another order of day and month."""
    with pytest.raises(CellProblem):
        read_creation(value)


def test_creation():
    """A time of creation may have a zone, and a date alone is the start of its day."""
    aware = TIME.replace(tzinfo=UTC)
    assert read_creation(aware) == aware
    assert read_creation(date(2026, 11, 21)) == datetime.fromisoformat("2026-11-21 00:00:00")


def test_fraction_of_second():
    """A compared time has no fraction of a second; a time of creation may have one."""
    precise = TIME.replace(microsecond=5)
    with pytest.raises(CellProblem, match="fraction of a second"):
        read_time(precise)
    assert (read_creation(precise), read_creation("2026-11-21 10:00:05.000005")) == (precise, TIME)


@pytest.mark.parametrize("read", [read_code, read_word])
def test_half_a_surrogate_pair(read):
    """Text that UTF-8 cannot hold is refused, and the reason can be written."""
    with pytest.raises(CellProblem, match=r"U\+D800") as caught:
        read("a\ud800")
    str(caught.value).encode()

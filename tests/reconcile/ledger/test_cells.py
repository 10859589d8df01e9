"""One cell of a ledger, text or a value with a type, is read exactly, or refused."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial

from payclient.reconcile.ledger import FORMULA, Dialect, Entry, RejectedEntry, RowReader, find_columns
from support.ledgers import opened, read
from support.misses import check_each

TIME = datetime.fromisoformat("2026-11-21 10:00:05")


def cell(field, value):
    """Return what an entry has for a cell, and why it is refused."""
    reader = RowReader(find_columns(("reference", field)))
    row = reader.read(2, ("T1", value))
    reasons = [row.reason] if isinstance(row, RejectedEntry) else reader.warnings
    return (None if reasons else getattr(row, field)), "; ".join(reasons)


def value(field, given):
    """Return what an entry has for a cell that can be read."""
    found, reason = cell(field, given)
    return reason or found


def accepted(field, *values):
    """Return those of *values* that are read."""
    return [given for given in values if not cell(field, given)[1]]


def unlike(field, reason, *values):
    """Return those of *values* that are not refused for this reason."""
    return [given for given in values if reason not in cell(field, given)[1]]


def test_money():
    """Money is a whole number in digits, or a number of any type that is exactly whole; zeros behind change nothing."""
    texts = {
        "15000": 15000,
        " 15000 ": 15000,
        "15000.00": 15000,
        "15000.0": 15000,
        "15000.000": 15000,
        "-15000": -15000,
        "+1": 1,
        "0": 0,
        "0.000": 0,
        "007": 7,
        "999999999999999999": 10**18 - 1,
        "": None,
        "   ": None,
    }
    numbers = {
        15000: 15000,
        15001.0: 15001,
        -1.0: -1,
        Decimal("15002.00"): 15002,
        Decimal("1.5E+4"): 15000,
        Decimal("-1E+3"): -1000,
        10**18 - 1: 10**18 - 1,
        10.0**15 - 1: 10**15 - 1,
        None: None,
    }
    check_each(texts | numbers, partial(value, "fee"))
    assert {type(value("fee", given)) for given in numbers if given is not None} == {int}


def test_money_is_not_guessed():
    """An ambiguous amount, one that a spreadsheet has changed, and a number that is not whole are refused."""
    texts = (
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
    )
    numbers = (1.5, float("nan"), float("inf"), 10.0**15, 10**18, -(10**18), 2**63)
    decimals = map(Decimal, ("1.5", "1.5E-1", "1E+18", "15.000", "NaN", "-Infinity"))
    assert accepted("fee", *texts, *numbers, *decimals, True, False, [], {}, b"1", TIME, FORMULA) == []
    assert unlike("fee", "may mean 15 or 15000", "15.000") == []


def test_damaged_code():
    """An identifier that a spreadsheet has converted to a number is refused, and the reason says so."""
    numbers = ("1.23457E+15", "1,23457E+15", "1.23457E15", "1.5e-07", "9E+11", "1001.0", "1001.00")
    others = ("#N/A", "#NAME?", "########", '="0012"', "'0012")
    assert unlike("merchant_reff", "damaged by a spreadsheet", *numbers, *others) == []


def test_code():
    """An identifier that only looks odd is kept as it is."""
    codes = ["T0000000033KGJ0D", "12E5", "1.5", "v1.0", "0012", "A-1", "#1", "Ünï", "1 2", "'a'"]
    assert [value("merchant_reff", code) for code in codes] == codes


def test_unseen():
    """An invisible space or mark is refused with its code point, even at the end of a cell."""
    marks = "\u00a0\u202f\u200b\ufeff\u00ad"
    assert [mark for mark in marks if unlike("status", f"U+{ord(mark):04X}", f"Paid{mark}")] == []


def test_only_text():
    """A code or a word must be text, because a number may have lost leading zeros."""
    for field in ("merchant_reff", "status"):
        assert unlike(field, "store the column as text", 12, 12.0, Decimal(12), True, [], {}, b"T1", TIME) == []


def test_empty():
    """None and empty text are an empty cell."""
    fields = ("merchant_reff", "status", "fee", "expdate", "created_at")
    assert [cell(field, given) for field in fields for given in (None, "")] == [(None, "")] * 10


def test_time():
    """A time is a time, or text as the service writes it, or nearly so."""
    expected = {
        TIME: TIME,
        "2026-11-21 10:00:05": TIME,
        "2026-11-21T10:00:05": TIME,
        "2026-11-21 10:00": TIME.replace(second=0),
        "2026-11-21 10:00:05.000": TIME,
    }
    check_each(expected, partial(value, "expdate"))


def test_time_is_not_guessed():
    """Another order of day and month, a missing time of day, an impossible day, a zone and a number are refused."""
    texts = ("21/11/2026 10:00", "2026-11-21", "2026-02-31 10:00:00", "2026-11-21 10:00:05Z", "2026-11-21 10:00:05.5")
    others = ("2026-11-21 10:00:05+07:00", "46347.41", "2026-11-21 10:00.0")
    assert accepted("expdate", *texts, *others) == []
    reasons = {
        TIME.replace(tzinfo=UTC): "has a time zone",
        TIME.replace(microsecond=5): "has a fraction of a second",
        date(2026, 11, 21): "a date without a time of day",
        46347.41: "46347.41 is not a time",
        True: "True is not a time",
        "21/11/2026": "not a time",
        FORMULA: "is a formula",
    }
    assert [given for given, reason in reasons.items() if unlike("expdate", reason, given)] == []


def test_creation():
    """A time of creation may state its zone, leave the time of day out, or hold a fraction of a second."""
    at = datetime.fromisoformat("2026-11-21 22:16:00")
    day, precise = at.replace(hour=0, minute=0), TIME.replace(microsecond=5)
    expected = {
        "2026-11-21 22:16:00": at,
        "2026-11-21T22:16:00.123456789": at,
        "2026-11-21": day,
        "2026-11-21T22:16:00Z": at.replace(tzinfo=UTC),
        "2026-11-21T22:16:00.5z": at.replace(tzinfo=UTC),
        "2026-11-21 22:16:00 UTC": at.replace(tzinfo=UTC),
        "2026-11-21T22:16:00+00:00": at.replace(tzinfo=UTC),
        "2026-11-21T22:16+0700": at.replace(tzinfo=timezone(timedelta(hours=7))),
        "2026-11-21 22:16:00 -03": at.replace(tzinfo=timezone(timedelta(hours=-3))),
        TIME.replace(tzinfo=UTC): TIME.replace(tzinfo=UTC),
        date(2026, 11, 21): day,
        precise: precise,
    }
    check_each(expected, partial(value, "created_at"))
    zones = [value("created_at", text).utcoffset() for text in expected if isinstance(text, str)]
    assert zones == [expected[text].utcoffset() for text in expected if isinstance(text, str)]


def test_creation_is_not_guessed():
    """Another order of day and month, an unknown zone and a bare number are refused."""
    texts = ("21/11/2026", "11/21/2026 22:16", "2026-02-31", "2026-11-21 WIB", "2026-11-21Z", "1795299360", "20261121")
    assert unlike("created_at", "is not a time such as", *texts) == []
    assert accepted("created_at", 46347.41, True, FORMULA) == []
    never = ("0001-01-01T00:00:00Z", "1900-01-01", "1970-01-01 07:00:00+07:00", "9999-12-31", date(1899, 12, 30))
    assert unlike("created_at", "stands for an empty cell", *never) == []


def test_no_reference(subtests):
    """What programs write for nothing is no reference, and is never looked up; a rule allows one that is one."""
    for text in ["N/A", "nan", "None", "NULL", "undefined", "0", "000", "(blank)", "-", "\u2014", "<NA>", "?", "n.a."]:
        with subtests.test(text=text):
            (rejected,) = read(f"reference,amount\n{text},5\n")
            assert f"reference: {text!r} stands for an empty cell, and is not a reference; --allow-reference" in (
                rejected.reason
            )
            dialect = Dialect(allow_references=text)
            assert [entry.reference for entry in read(f"reference,amount\n{text},5\n", dialect=dialect)] == [text]
    assert [type(entry) for entry in read("reference,amount\nNA1,5\n0017,5\nnone-of-it,5\n")] == [Entry] * 3


def test_odd():
    """References that a spreadsheet has cut, and years of the Buddhist calendar, are said; others are not."""
    cut, whole = (f"12345678901234{{}}{last}" for last in ("000", "007"))
    for reference, year, said in ((cut, 2026, "have only 0 after these"), (cut, 2569, "2026 if it"), (whole, 2026, "")):
        text = "".join(f"{reference.format(number)},5,{year}-11-21 10:00:00\n" for number in range(6))
        with opened(f"reference,amount,created_at\n{text}") as ledger:
            list(ledger)
            assert said in "".join(ledger.warnings)
            assert bool(ledger.warnings) is bool(said)


def test_mistyped_year():
    """Times that are more than half a year from all others are named, as a mistyped year makes them."""
    said = "there are times of 2026-11 and of 2027-11 and none between: check the year"
    for times, warnings in ((("2026-11-21", "2027-11-21"), (said,)), (("2026-12-31", "2027-01-01"), ())):
        text = "reference,created_at\n" + "".join(f"T{time},{time}\n" for time in times)
        with opened(text) as ledger:
            assert (len(list(ledger)), ledger.warnings) == (2, warnings)

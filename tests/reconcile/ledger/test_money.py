"""An amount is read as it is declared to be written, or refused with the option that helps."""

import itertools
import re
from contextlib import suppress
from decimal import Decimal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.ledger import CellProblem, Dialect
from payclient.reconcile.ledger._notation import MoneyReader
from support.chance import examples
from support.misses import check_refused, check_table

GERMAN = {"decimal": ",", "thousands": "."}


def read(cell, **declared):
    return MoneyReader(Dialect(**declared)).read(cell)


def test_declared():
    """What is declared is read."""
    check_table(
        [
            ("15.000,00", GERMAN, 15000),
            ("15.000", GERMAN, 15000),
            ("15000,00", GERMAN, 15000),
            ("15,000", GERMAN, 15),
            ("1.250.000", {"thousands": "."}, 1250000),
            ("1,250,000.00", {"thousands": ","}, 1250000),
            ("15.000", {"decimal": "."}, 15),
            ("1 250 000", {"thousands": "space"}, 1250000),
            ("1\u00a0250\u00a0000,00", {"thousands": "space", "decimal": ","}, 1250000),
            ("1\u202f250\u202f000", {"thousands": "space"}, 1250000),
            ("1'250'000.00", {"thousands": "apostrophe"}, 1250000),
            ("1\u2019250\u2019000", {"thousands": "apostrophe"}, 1250000),
            ("Rp 15.000", GERMAN | {"currency_prefix": "Rp"}, 15000),
            ("Rp. 15.000,-", GERMAN | {"currency_prefix": "Rp."}, 15000),
            ("rp15.000", GERMAN | {"currency_prefix": "Rp"}, 15000),
            ("Rp\u00a015.000", GERMAN | {"currency_prefix": "Rp"}, 15000),
            ("-Rp 15.000", GERMAN | {"currency_prefix": "Rp"}, -15000),
            ("Rp -15.000", GERMAN | {"currency_prefix": "Rp"}, -15000),
            ("15000", GERMAN | {"currency_prefix": "Rp"}, 15000),
            ("15.000,00 €", GERMAN | {"currency_suffix": "€"}, 15000),
            ("15000-", {"negative": "trailing"}, -15000),
            ("-15000", {"negative": "trailing"}, -15000),
            ("(15.000)", GERMAN | {"negative": "parentheses"}, -15000),
            ("15,000.00 DB", {"thousands": ",", "negative": "debit"}, -15000),
            ("15,000.00 CR", {"thousands": ",", "negative": "debit"}, 15000),
            ("15.000,00 S", GERMAN | {"negative": "debit"}, -15000),
            ("15.000,00H", GERMAN | {"negative": "debit"}, 15000),
            ("15000", {"negative": "debit"}, 15000),
            ("Rp (15.000)", GERMAN | {"negative": "parentheses", "currency_prefix": "Rp"}, -15000),
            ("(Rp 15.000)", GERMAN | {"negative": "parentheses", "currency_prefix": "Rp"}, -15000),
            ("\u221215000", {}, -15000),
            ("15,50", {"decimal": ",", "minor_units": 2}, 1550),
            ("15", {"minor_units": 2}, 1500),
            ("15.5", {"minor_units": 2}, 1550),
            ("-0.05", {"minor_units": 2}, -5),
            ("", GERMAN, None),
            # Letters for credit and debit are read before an amount as behind it.
            ("CR 15000", {"negative": "debit"}, 15000),
            ("DB 15000", {"negative": "debit"}, -15000),
            ("db. 15000.00", {"negative": "debit"}, -15000),
            ("D15000", {"negative": "debit"}, -15000),
            ("H 15.000,50", GERMAN | {"negative": "debit", "minor_units": 2}, 1500050),
            ("Soll 15.000", GERMAN | {"negative": "debit"}, -15000),
            ("CR Rp 15.000", GERMAN | {"negative": "debit", "currency_prefix": "Rp"}, 15000),
            ("DB Rp15.000 ", GERMAN | {"negative": "debit", "currency_prefix": "Rp"}, -15000),
            ("DB 15.000 IDR", GERMAN | {"negative": "debit", "currency_suffix": "IDR"}, -15000),
            ("15000 DB", {"negative": "debit"}, -15000),
        ],
        lambda cell, declared: read(cell, **declared),
    )


def test_refused():
    """What is not declared is refused, and the reason names the option that would declare it."""
    rows = [
        ("15.000,00", {}, "declare how it is written"),
        ("1,250,000.00", {}, "declare how it is written"),
        ("15.000", {}, "--decimal . or --thousands ."),
        ("15.000", {"thousands": ","}, "--decimal . or --thousands ."),
        ("15.000,00", {"thousands": "."}, "declare how it is written"),
        ("15.00", {"thousands": "."}, "declare how it is written"),
        ("1.50.000", GERMAN, "',' for decimal and '.' for thousands"),
        ("12,34,567", {"thousands": ","}, "with ',' for thousands"),
        ("1.234'567", {"thousands": "."}, "with '.' for thousands"),
        ("1\u202f250", {}, "--thousands space"),
        ("Rp 15000", {}, "--currency-prefix Rp"),
        ("USD 15000", {"currency_prefix": "Rp"}, "declare how it is written"),  # Rp and USD are never one sum
        ("15000 €", {}, "--currency-suffix '€'"),
        ("(15000)", {}, "--negative parentheses"),
        ("15000-", {}, "--negative trailing"),
        ("15000 DB", {}, "--negative debit"),
        ("-15000 DB", {"negative": "debit"}, "two signs"),
        ("15000 XX", {"negative": "debit"}, "--currency-suffix XX"),
        ("15.50", {}, "--minor-units 2"),
        ("15.505", {"minor_units": 2, "decimal": "."}, "more than 2 decimal places"),
        ("NULL", {}, "--null NULL"),
        ("-(15)", {"negative": "parentheses"}, "two signs|not a whole number"),
        ("-5-", {"negative": "trailing"}, "two signs"),
        ("1.23457E+15", GERMAN, "damaged by a spreadsheet"),
        ("9" * 19, {}, "18 digits"),
        ("9" * 17, {"minor_units": 2}, "18 digits"),
        # Another mark than a currency, and what to do about it.
        ("CR 15000", {}, "--negative debit reads letters for credit and debit"),
        ("DB 15000", {}, "--negative debit reads letters for credit and debit"),
        ('="15000"', {}, "looks damaged by a spreadsheet: export the column as whole numbers"),
        ("=15000", {}, "looks damaged by a spreadsheet: export the column as whole numbers"),
        ("15000**", {}, "'**' may change the amount: export it in a column by itself"),
        ("15000 *", {}, "'*' may change the amount: export it in a column by itself"),
        ("#15000", {}, "'#' may change the amount: export it in a column by itself"),
    ]
    rows = [(*row, "|".join(map(re.escape, option.split("|")))) for *row, option in rows]
    check_refused(rows, CellProblem, lambda cell, declared: read(cell, **declared))


LONG = "9" * 4301
"""Digits that `int` refuses with a plain error."""


def test_any_number_of_digits():
    """A number of any length is read or refused as a finding, in each notation."""
    notations = [{}, GERMAN, {"minor_units": 2}, {"negative": "parentheses"}, {"thousands": ","}]
    cells = [LONG, f"-{LONG}", f"({LONG})", f"{LONG}.000", f"{LONG}.00", f"{LONG},00", f"1.{LONG}", f"1,{LONG}"]
    cells.append(f"1{',000' * 1500}")
    read_anyway = []
    for declared, cell in itertools.product(notations, cells):
        with suppress(CellProblem):
            read_anyway.append((declared, cell[:9], read(cell, **declared)))
    assert read_anyway == []
    assert [read(f"{'0' * 5000}15", **declared) for declared in notations] == [15, 15, 1500, 15, 15]
    assert read(f"15.{'0' * 5000}") == 15


def test_not_a_number():
    """Digits of other scripts, marks without digits, two signs and a point of doubtful meaning are refused."""
    odd = ("\u0661\u0665", "1_000", "0x10", "1e3", "1..000", ".", "1.000,0,", "1.000..", "-.")
    rows = [(cell, declared, "") for cell in odd for declared in ({}, GERMAN, {"decimal": ".", "thousands": ","})]
    sides = {"decimal": ".", "minor_units": 2, "negative": "debit"}
    rows += [(cell, sides, "") for cell in ("CR -5", "-DB 5", "CR 5 DB", "DB 5 DB", "DB.50", "DBX 5", "DB")]
    check_refused(rows, CellProblem, lambda cell, declared: read(cell, **declared))


def test_typed_numbers():
    """A number with a type is put in the service's unit as spreadsheets round it; more digits are refused."""
    reader = MoneyReader(Dialect(minor_units=2))
    assert (reader.read(15.5), reader.read(0.1 + 0.2), reader.read(Decimal("-15.50"))) == (1550, 30, -1550)
    assert (reader.read(1_234_567_890_123.45), reader.read(-0.07)) == (123_456_789_012_345, -7)
    with pytest.raises(CellProblem, match="more than 2 decimal places"):
        reader.read(15.505)


MARKS = {None: "", ",": ",", ".": ".", "space": "\u00a0", "apostrophe": "'"}


def dialects():
    """Draw any declaration that is about amounts."""
    marks = st.sampled_from([(d, t) for d in (None, ".", ",") for t in MARKS if d is None or d != t])
    return st.builds(
        lambda mark, **more: Dialect(decimal=mark[0], thousands=mark[1], **more),
        marks,
        negative=st.sampled_from(["leading", "trailing", "parentheses", "debit"]),
        minor_units=st.integers(0, 3),
        currency_prefix=st.sampled_from(["", "Rp", "$"]),
        currency_suffix=st.sampled_from(["", "€", "IDR"]),
    )


def written(number, dialect):
    """Write *number* as it is declared, by other means than the reader's; None if that cannot be read back."""
    places = dialect.minor_units
    digits = f"{abs(number):0{places + 1}}"
    whole, fraction = (digits[:-places], digits[-places:]) if places else (digits, "")
    tail, rest = whole[-3:], whole[:-3]
    groups = [tail]
    while rest:
        groups.insert(0, rest[-3:])
        rest = rest[:-3]
    text = MARKS[dialect.thousands].join(groups)
    point = dialect.decimal or ("." if dialect.thousands != "." else "")
    if fraction and not point:
        return None
    # Without a declared mark, a point before three digits has two readings, and is refused.
    text += f"{point}{fraction}" if fraction else f"{dialect.decimal}00" if dialect.decimal else ""
    if len(fraction) == 3 and dialect.decimal is None:
        return None
    text = f"{dialect.currency_prefix} {text} {dialect.currency_suffix}".strip()
    if dialect.negative == "debit":
        return f"{text} {'DB' if number < 0 else 'CR'}"
    if number >= 0:
        return text
    return {"leading": f"-{text}", "trailing": f"{text}-", "parentheses": f"({text})"}[dialect.negative]


@given(st.text("0123456789.,' -()\u202fRDBC", max_size=12), dialects())
@examples(400)
def test_nothing_else(cell, dialect):
    """Any text is read or refused; what is read has the digits of the text and no others."""
    try:
        found = MoneyReader(attrs.evolve(dialect, minor_units=0)).read(cell)
    except CellProblem:
        return
    digits = "".join(filter(str.isdigit, cell)).lstrip("0")
    assert digits.startswith(str(abs(found or 0)).replace("0", "", 1) if not found else str(abs(found)))


def test_nearly_whole():
    """What a formula of a spreadsheet nearly made whole is told with the whole number, and how to get it."""
    for value, whole in ((8.7 * 100, "870"), (-1234567.0000000002, "-1,234,567")):
        with pytest.raises(CellProblem, match=f"is nearly {whole}, but not quite. .* as with ROUND") as caught:
            MoneyReader().read(value)
        assert repr(value) in str(caught.value)
    with pytest.raises(CellProblem, match=r"'869\.99' is not a whole number"):
        MoneyReader().read(869.99)

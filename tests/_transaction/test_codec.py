"""The fields of a transaction: what is read, what is tolerated and named, what is refused."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from itertools import product

import pytest

from payclient._transaction import FieldProblem, read_transaction
from payclient.testing import transaction

ABSENT = object()
MONEY = ("amount", "fee", "amount_received")
OPTIONAL_TEXT = ("merchant_reff", "payment_method", "payment_name", "payment_code")


def changed(name, value):
    """Return the fields as documented, but for one."""
    data = transaction()
    if value is ABSENT:
        del data[name]
    else:
        data[name] = value
    return data


def read(name, value):
    """Return how *value* is read in the field *name*, and which deviations that is worth."""
    found = read_transaction(changed(name, value))
    return getattr(found, name), found.deviations


def refusal(name, value):
    with pytest.raises(FieldProblem) as caught:
        read_transaction(changed(name, value))
    return str(caught.value)


def test_documented():
    """An answer as documented is read field by field, and nothing in it is a deviation."""
    found = read_transaction(transaction(reference="R", amount=15000, fee=2500))
    actual = (found.reference, found.amount, found.fee, found.amount_received, found.status, found.deviations)
    assert actual == ("R", 15000, 2500, 12500, "Canceled", ())


def test_money_as_documented(subtests):
    """A whole number is money, and no deviation."""
    cases = {"usual": 15000, "zero": 0, "negative": -1, "largest": 10**18 - 1}
    for name, (case, value) in product(MONEY, cases.items()):
        with subtests.test(name=name, case=case):
            assert read(name, value) == (value, ())


def test_money_is_tolerated_where_exact(subtests):
    """A whole number that is written in another way is money, and a deviation."""
    cases = {
        "text": ("15000", 15000, "text '15000'"),
        "text-with-cents": ("15000.00", 15000, "text '15000.00'"),
        "text-negative": ("-15000", -15000, "text '-15000'"),
        "text-with-plus": ("+15000", 15000, "text '+15000'"),
        "text-with-zeros": ("007", 7, "text '007'"),
        "point": (Decimal("15000.0"), 15000, "number 15000.0"),
        "cents": (Decimal("15000.00"), 15000, "number 15000.00"),
        "exponent": (Decimal("1.5e4"), 15000, "number 1.5E+4"),
    }
    for name, (case, (value, number, shown)) in product(MONEY, cases.items()):
        with subtests.test(name=name, case=case):
            assert read(name, value) == (number, (f"{name}: {shown} read as integer",))


NOT_EXACT = {
    "separators": ("3.809.488", "text '3.809.488'"),
    "commas": ("3,809,488", "text '3,809,488'"),
    "space": ("15 000", "text '15 000'"),
    "space-after": ("15000 ", "text '15000 '"),
    "newline": ("15000\n", r"text '15000\n'"),
    "text-fraction": ("15000.50", "text '15000.50'"),
    "one-separator": ("15.000", "text '15.000'"),
    "separator-as-number": (Decimal("15.000"), "number 15.000"),
    "text-ends-in-point": ("15000.", "text '15000.'"),
    "text-exponent": ("1e3", "text '1e3'"),
    "text-hexadecimal": ("0x10", "text '0x10'"),
    "text-underscore": ("1_000", "text '1_000'"),
    "arabic-digits": ("\u0661\u0665", "text '\u0661\u0665'"),
    "full-width-digits": ("\uff11\uff15", "text '\uff11\uff15'"),
    "currency": ("Rp15000", "text 'Rp15000'"),
    "words": ("free", "text 'free'"),
    "5000-digits": ("9" * 5000, f"text '{'9' * 40}…'"),
    "fraction": (Decimal("15000.5"), "number 15000.5"),
    "too-large": (10**18, f"number {10**18}"),
    "too-small": (-(10**18), f"number {-(10**18)}"),
    "exponent-too-large": (Decimal("1e30"), "number 1E+30"),
    "true": (True, "true"),
    "false": (False, "false"),
    "list": ([15000], "a list"),
    "object": ({"value": 15000}, "an object"),
}


def test_money_is_refused_where_not_exact(subtests):
    """A value that is not exactly one whole number is refused as money, in every field."""
    for name, (case, (value, shown)) in product(MONEY, NOT_EXACT.items()):
        with subtests.test(name=name, case=case):
            assert refusal(name, value) == f"{name}: {shown} is not an exact whole number"


def test_optional_money_may_be_missing(subtests):
    """A fee that is not there is None, and not 0."""
    cases = {"null": (None, "null"), "empty": ("", "empty text"), "absent": (ABSENT, "absent")}
    for name, (case, (value, shown)) in product(("fee", "amount_received"), cases.items()):
        with subtests.test(name=name, case=case):
            assert read(name, value) == (None, (f"{name}: {shown} read as nothing",))


@pytest.mark.parametrize(("value", "shown"), [(None, "null"), ("", "empty text")], ids=["null", "empty"])
def test_amount_may_not_be_missing(value, shown):
    """There is no transaction without an amount."""
    assert refusal("amount", value) == f"amount: {shown} is not an exact whole number"


@pytest.mark.parametrize("name", ["reference", "amount", "status"])
def test_required(name):
    """A field that nothing works without is refused when it is absent."""
    assert refusal(name, ABSENT) == f"{name}: absent"


def test_required_text(subtests):
    """A required text field accepts text or a whole number only."""
    cases = {
        "null": (None, "null"),
        "empty": ("", "empty text"),
        "true": (True, "true"),
        "point": (Decimal("1.0"), "number 1.0"),
        "list": (["a"], "a list"),
        "object": ({}, "an object"),
    }
    for name, (case, (value, shown)) in product(("reference", "status"), cases.items()):
        with subtests.test(name=name, case=case):
            assert refusal(name, value) == f"{name}: {shown} where text is needed"


@pytest.mark.parametrize("name", ["reference", "status", "merchant_reff", "payment_method", "payment_name"])
def test_number_as_text(name):
    """A whole number where text is documented is read as its digits, and is a deviation."""
    assert read(name, 100) == ("100", (f"{name}: number 100 read as text",))


def test_optional_text_may_be_missing(subtests):
    """An optional text that is not there is None, and a deviation."""
    cases = {"null": (None, "null"), "absent": (ABSENT, "absent")}
    for name, (case, (value, shown)) in product(OPTIONAL_TEXT, cases.items()):
        with subtests.test(name=name, case=case):
            assert read(name, value) == (None, (f"{name}: {shown} read as nothing",))


@pytest.mark.parametrize("name", OPTIONAL_TEXT)
def test_optional_text_may_be_empty(name):
    """An empty text is kept, and is a deviation."""
    assert read(name, "") == ("", (f"{name}: empty text is empty",))


def test_odd_optional_text_costs_no_row(subtests):
    """An optional text of another kind is None and a deviation; the row is not lost over it."""
    cases = {"true": True, "point": Decimal("1.5"), "list": ["a"], "object": {"a": 1}}
    for name, (case, value) in product(OPTIONAL_TEXT, cases.items()):
        with subtests.test(name=name, case=case):
            found, deviations = read(name, value)
            assert (found, [text.endswith("read as nothing") for text in deviations]) == (None, [True])


@pytest.mark.parametrize(
    "value",
    [8800000000000001, Decimal("8800000000000001.5"), ["8800000000000001"]],
    ids=["number", "point", "list"],
)
def test_payment_code_is_not_shown(value):
    """A payment code of another type is a deviation that does not show it."""
    found = read_transaction(changed("payment_code", value))
    assert ("8800000000000001" in f"{found!r}{found.deviations}", len(found.deviations)) == (False, 1)


def test_payment_code_as_number():
    """A payment code that is a number is read as its digits."""
    expected = ("8800000000000001", ("payment_code: a value that is not text read as text",))
    assert read("payment_code", 8800000000000001) == expected


def test_expdate_as_documented():
    """The documented format gives a naive time, because the specification states no zone."""
    assert read("expdate", "2030-01-31 23:59:59") == (datetime(2030, 1, 31, 23, 59, 59), ())  # noqa: DTZ001


@pytest.mark.parametrize("value", ["2030-01-31T23:59:59", "2030-01-31 23:59:59.000000"], ids=["T", "fraction-of-0"])
def test_expdate_is_tolerated(value):
    """The same time in another notation is read, and is a deviation."""
    expected = (datetime(2030, 1, 31, 23, 59, 59), (f"expdate: text {value!r} read as time",))  # noqa: DTZ001
    assert read("expdate", value) == expected


def test_expdate_is_not_guessed(subtests):
    """A time that would lose its zone or its fraction, or is none, is None and a deviation."""
    cases = {
        "utc": ("2030-01-31T23:59:59Z", "text '2030-01-31T23:59:59Z'"),
        "zone": ("2030-01-31 23:59:59+07:00", "text '2030-01-31 23:59:59+07:00'"),
        "fraction": ("2030-01-31 23:59:59.5", "text '2030-01-31 23:59:59.5'"),
        "long-fraction": ("2030-01-31 23:59:59.0000000", "text '2030-01-31 23:59:59.0000000'"),
        "zeros": ("0000-00-00 00:00:00", "text '0000-00-00 00:00:00'"),
        "no-such-day": ("2030-02-30 00:00:00", "text '2030-02-30 00:00:00'"),
        "other-order": ("31/01/2030", "text '31/01/2030'"),
        "newline": ("2030-01-31 23:59:59\n", r"text '2030-01-31 23:59:59\n'"),
        "arabic-digit": ("\u0662030-01-31 23:59:59", "text '\u0662030-01-31 23:59:59'"),
        "empty": ("", "empty text"),
        "epoch": (1896134399, "number 1896134399"),
        "null": (None, "null"),
        "absent": (ABSENT, "absent"),
    }
    for case, (value, shown) in cases.items():
        with subtests.test(case):
            assert read("expdate", value) == (None, (f"expdate: {shown} read as nothing",))


def test_unknown_field():
    """An undocumented field is kept in `raw`, and is a deviation."""
    found = read_transaction({**transaction(), "settlement": "T+1"})
    assert (found.raw["settlement"], found.deviations) == ("T+1", ("unknown field 'settlement'",))


@pytest.mark.parametrize(
    ("count", "rest"),
    [(20, ()), (21, ("and 1 more",)), (25, ("and 5 more",))],
    ids=["just-fits", "one-more", "many"],
)
def test_deviations_are_bounded(count, rest):
    """An answer full of unknown fields names twenty of them and counts the rest."""
    found = read_transaction({**transaction(), **{f"x{i}": i for i in range(count)}})
    assert found.deviations == (*(f"unknown field 'x{i}'" for i in range(20)), *rest)


@pytest.mark.parametrize(("length", "shown"), [(40, "x" * 40), (41, "x" * 40 + "…")], ids=["just-fits", "shortened"])
def test_long_text_is_shortened(length, shown):
    """A deviation shows at most forty characters of a value."""
    assert read("expdate", "x" * length)[1] == (f"expdate: text '{shown}' read as nothing",)


def test_long_name_is_shortened():
    """A deviation shows no more than forty characters of an unknown field's name."""
    found = read_transaction({**transaction(), "x" * 41: 1})
    assert found.deviations == (f"unknown field '{'x' * 40}'",)


def test_every_deviation_is_named():
    """Deviations of several fields are all named, in the order of the specification, unknown fields last."""
    data = {"status": 1, "reference": "R", "amount": "5", "new": None}
    expected = (
        "merchant_reff: absent read as nothing",
        "payment_method: absent read as nothing",
        "payment_name: absent read as nothing",
        "amount: text '5' read as integer",
        "fee: absent read as nothing",
        "amount_received: absent read as nothing",
        "payment_code: absent read as nothing",
        "expdate: absent read as nothing",
        "status: number 1 read as text",
        "unknown field 'new'",
    )
    assert read_transaction(data).deviations == expected


def test_notes_come_first():
    """Notes passed to `read_transaction` precede the deviations of the fields."""
    found = read_transaction(changed("fee", None), notes=("body: began with a byte order mark",))
    assert found.deviations == ("body: began with a byte order mark", "fee: null read as nothing")


def test_raw_is_complete():
    """`raw` is the data as it arrived, in its order, deviations and all."""
    data = {"new": {"a": [1]}, **changed("amount", "15000.00")}
    assert list(read_transaction(data).raw.items()) == list(data.items())


def test_raw_cannot_be_changed():
    """`raw` is read-only."""
    with pytest.raises(TypeError):
        read_transaction(transaction()).raw["amount"] = 0


def test_names_that_are_ours():
    """A service that sends fields called like our own attributes cannot set those."""
    found = read_transaction({**transaction(), "raw": "x", "deviations": ["y"]})
    expected = ("x", ("unknown field 'raw'", "unknown field 'deviations'"))
    assert (found.raw["raw"], found.deviations) == expected


def test_as_json():
    """Written as JSON, a transaction is the ten documented fields as they arrived, and in their order."""
    data = transaction()
    assert json.dumps(read_transaction(data).as_json(with_payment_code=True)) == json.dumps(data)


def test_as_json_of_what_is_missing():
    """As JSON, an absent field is null, and unknown fields are left out."""
    found = read_transaction({"reference": "R", "amount": 1, "status": "Paid", "new": 1}).as_json()
    assert {name: value for name, value in found.items() if value is not None} == {
        "reference": "R",
        "amount": 1,
        "status": "Paid",
    }
    assert list(found) == list(transaction())

"""The fields of a transaction: what is read, what is tolerated and named, what is refused."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal

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


@pytest.mark.parametrize("name", MONEY)
@pytest.mark.parametrize("value", [15000, 0, -1, 10**18 - 1], ids=["usual", "zero", "negative", "largest"])
def test_money_as_documented(name, value):
    """A whole number is money, and no deviation."""
    assert read(name, value) == (value, ())


@pytest.mark.parametrize("name", MONEY)
@pytest.mark.parametrize(
    ("value", "number", "shown"),
    [
        pytest.param("15000", 15000, "text '15000'", id="text"),
        pytest.param("15000.00", 15000, "text '15000.00'", id="text-with-cents"),
        pytest.param("-15000", -15000, "text '-15000'", id="text-negative"),
        pytest.param("+15000", 15000, "text '+15000'", id="text-with-plus"),
        pytest.param("007", 7, "text '007'", id="text-with-zeros"),
        pytest.param(Decimal("15000.0"), 15000, "number 15000.0", id="point"),
        pytest.param(Decimal("15000.00"), 15000, "number 15000.00", id="cents"),
        pytest.param(Decimal("1.5e4"), 15000, "number 1.5E+4", id="exponent"),
    ],
)
def test_money_is_tolerated_where_exact(name, value, number, shown):
    """A whole number that is written in another way is money, and a deviation."""
    assert read(name, value) == (number, (f"{name}: {shown} read as integer",))


@pytest.mark.parametrize("name", MONEY)
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("3.809.488", "text '3.809.488'", id="separators"),
        pytest.param("3,809,488", "text '3,809,488'", id="commas"),
        pytest.param("15 000", "text '15 000'", id="space"),
        pytest.param("15000 ", "text '15000 '", id="space-after"),
        pytest.param("15000\n", r"text '15000\n'", id="newline"),
        pytest.param("15000.50", "text '15000.50'", id="text-fraction"),
        pytest.param("15.000", "text '15.000'", id="one-separator"),
        pytest.param(Decimal("15.000"), "number 15.000", id="separator-as-number"),
        pytest.param("15000.", "text '15000.'", id="text-ends-in-point"),
        pytest.param("1e3", "text '1e3'", id="text-exponent"),
        pytest.param("0x10", "text '0x10'", id="text-hexadecimal"),
        pytest.param("1_000", "text '1_000'", id="text-underscore"),
        pytest.param("\u0661\u0665", "text '\u0661\u0665'", id="arabic-digits"),
        pytest.param("\uff11\uff15", "text '\uff11\uff15'", id="full-width-digits"),
        pytest.param("Rp15000", "text 'Rp15000'", id="currency"),
        pytest.param("free", "text 'free'", id="words"),
        pytest.param("9" * 5000, f"text '{'9' * 40}…'", id="5000-digits"),
        pytest.param(Decimal("15000.5"), "number 15000.5", id="fraction"),
        pytest.param(10**18, f"number {10**18}", id="too-large"),
        pytest.param(-(10**18), f"number {-(10**18)}", id="too-small"),
        pytest.param(Decimal("1e30"), "number 1E+30", id="exponent-too-large"),
        pytest.param(True, "true", id="true"),
        pytest.param(False, "false", id="false"),
        pytest.param([15000], "a list", id="list"),
        pytest.param({"value": 15000}, "an object", id="object"),
    ],
)
def test_money_is_refused_where_not_exact(name, value, shown):
    """A value that is not exactly one whole number is refused as money, in every field."""
    assert refusal(name, value) == f"{name}: {shown} is not an exact whole number"


@pytest.mark.parametrize("name", ["fee", "amount_received"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(None, "null", id="null"),
        pytest.param("", "empty text", id="empty"),
        pytest.param(ABSENT, "absent", id="absent"),
    ],
)
def test_optional_money_may_be_missing(name, value, shown):
    """A fee that is not there is None, and not 0."""
    assert read(name, value) == (None, (f"{name}: {shown} read as nothing",))


@pytest.mark.parametrize(("value", "shown"), [(None, "null"), ("", "empty text")], ids=["null", "empty"])
def test_amount_may_not_be_missing(value, shown):
    """There is no transaction without an amount."""
    assert refusal("amount", value) == f"amount: {shown} is not an exact whole number"


@pytest.mark.parametrize("name", ["reference", "amount", "status"])
def test_required(name):
    """A field that nothing works without is refused when it is absent."""
    assert refusal(name, ABSENT) == f"{name}: absent"


@pytest.mark.parametrize("name", ["reference", "status"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(None, "null", id="null"),
        pytest.param("", "empty text", id="empty"),
        pytest.param(True, "true", id="true"),
        pytest.param(Decimal("1.0"), "number 1.0", id="point"),
        pytest.param(["a"], "a list", id="list"),
        pytest.param({}, "an object", id="object"),
    ],
)
def test_required_text(name, value, shown):
    """A required text field accepts text or a whole number only."""
    assert refusal(name, value) == f"{name}: {shown} where text is needed"


@pytest.mark.parametrize("name", ["reference", "status", "merchant_reff", "payment_method", "payment_name"])
def test_number_as_text(name):
    """A whole number where text is documented is read as its digits, and is a deviation."""
    assert read(name, 100) == ("100", (f"{name}: number 100 read as text",))


@pytest.mark.parametrize("name", OPTIONAL_TEXT)
@pytest.mark.parametrize(
    ("value", "shown"),
    [pytest.param(None, "null", id="null"), pytest.param(ABSENT, "absent", id="absent")],
)
def test_optional_text_may_be_missing(name, value, shown):
    """An optional text that is not there is None, and a deviation."""
    assert read(name, value) == (None, (f"{name}: {shown} read as nothing",))


@pytest.mark.parametrize("name", OPTIONAL_TEXT)
def test_optional_text_may_be_empty(name):
    """An empty text is kept, and is a deviation."""
    assert read(name, "") == ("", (f"{name}: empty text is empty",))


@pytest.mark.parametrize("name", OPTIONAL_TEXT)
@pytest.mark.parametrize("value", [True, Decimal("1.5"), ["a"], {"a": 1}], ids=["true", "point", "list", "object"])
def test_odd_optional_text_costs_no_row(name, value):
    """An optional text of another kind is None and a deviation; the row is not lost over it."""
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


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("2030-01-31T23:59:59Z", "text '2030-01-31T23:59:59Z'", id="utc"),
        pytest.param("2030-01-31 23:59:59+07:00", "text '2030-01-31 23:59:59+07:00'", id="zone"),
        pytest.param("2030-01-31 23:59:59.5", "text '2030-01-31 23:59:59.5'", id="fraction"),
        pytest.param("2030-01-31 23:59:59.0000000", "text '2030-01-31 23:59:59.0000000'", id="long-fraction"),
        pytest.param("0000-00-00 00:00:00", "text '0000-00-00 00:00:00'", id="zeros"),
        pytest.param("2030-02-30 00:00:00", "text '2030-02-30 00:00:00'", id="no-such-day"),
        pytest.param("31/01/2030", "text '31/01/2030'", id="other-order"),
        pytest.param("2030-01-31 23:59:59\n", r"text '2030-01-31 23:59:59\n'", id="newline"),
        pytest.param("\u0662030-01-31 23:59:59", "text '\u0662030-01-31 23:59:59'", id="arabic-digit"),
        pytest.param("", "empty text", id="empty"),
        pytest.param(1896134399, "number 1896134399", id="epoch"),
        pytest.param(None, "null", id="null"),
        pytest.param(ABSENT, "absent", id="absent"),
    ],
)
def test_expdate_is_not_guessed(value, shown):
    """A time that would lose its zone or its fraction, or is none, is None and a deviation."""
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

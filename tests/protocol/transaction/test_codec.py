"""The fields of a transaction: what is read, what is tolerated and named, what is refused."""

from datetime import datetime
from decimal import Decimal
from itertools import product

import pytest

from payclient.protocol import kind
from payclient.protocol.transaction import FieldProblem, read_transaction
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


TEXTS = ("reference", "status", "merchant_reff", "payment_method", "payment_name")
EXACT = (
    *("15000", "15000.00", "-15000", "+15000", "007"),
    *(Decimal("15000.0"), Decimal("15000.00"), Decimal("1.5e4")),
)
NOT_EXACT = (
    *("3.809.488", "3,809,488", "15 000", "15000 ", "15000\n", "15000.50", "15.000", "15000.", "1e3", "0x10", "1_000"),
    *("\u0661\u0665", "\uff11\uff15", "Rp15000", "free", "9" * 5000, Decimal("15.000"), Decimal("15000.5")),
    *(Decimal("1e30"), 10**18, -(10**18), True, False, [15000], {"value": 15000}),
)
NO_TIME = (
    *("2030-01-31T23:59:59Z", "2030-01-31 23:59:59+07:00", "2030-01-31 23:59:59.5", "2030-01-31 23:59:59.0000000"),
    *(
        "0000-00-00 00:00:00",
        "2030-02-30 00:00:00",
        "31/01/2030",
        "2030-01-31 23:59:59\n",
        1896134399,
        "",
        None,
        ABSENT,
    ),
    "\u0662030-01-31 23:59:59",
)


def shown(value):
    """Return the words for a value in a deviation."""
    if value is ABSENT:
        return "absent"
    if isinstance(value, str) and value:
        return f"text {value[:40] + '…' if len(value) > 40 else value!r}"
    if value is None or isinstance(value, (bool, str, list, dict)):
        return kind(value)
    return f"number {value}"


def check_read(names, values, read_as, words, subtests):
    """See that each value is read in each field as *read_as* gives it, with one deviation of these words, or none."""
    for name, value in product(names, values):
        with subtests.test(f"{name}: {value!r}"):
            expected = (f"{name}: {shown(value)} {words}",) if words else ()
            assert read(name, value) == (read_as(value), expected)


def check_refused(names, values, words, subtests):
    for name, value in product(names, values):
        with subtests.test(f"{name}: {value!r}"):
            assert refusal(name, value) == f"{name}: {shown(value)} {words}"


def test_money(subtests):
    """A whole number is money; in another notation it is money and a deviation; anything else is refused."""
    check_read(MONEY, (15000, 0, -1, 10**18 - 1), int, "", subtests)
    check_read(MONEY, EXACT, lambda value: int(Decimal(value)), "read as integer", subtests)
    check_refused(MONEY, NOT_EXACT, "is not an exact whole number", subtests)


def test_absent(subtests):
    """An optional field that is not there is None and a deviation, and no 0; a required one is refused."""
    check_read((*MONEY[1:], *OPTIONAL_TEXT), (None, ABSENT), lambda _: None, "read as nothing", subtests)
    check_read(MONEY[1:], ("",), lambda _: None, "read as nothing", subtests)
    check_refused(("amount",), (None, ""), "is not an exact whole number", subtests)
    for name in ("reference", "amount", "status"):
        assert refusal(name, ABSENT) == f"{name}: absent"


def test_text(subtests):
    """A whole number is read as its digits; an empty optional text is kept; no other kind of value costs the row."""
    odd = (True, Decimal("1.5"), ["a"], {"a": 1})
    check_read(TEXTS, (100,), str, "read as text", subtests)
    check_read(OPTIONAL_TEXT, ("",), str, "is empty", subtests)
    check_read(OPTIONAL_TEXT[:3], odd, lambda _: None, "read as nothing", subtests)
    check_refused(("reference", "status"), (None, "", *odd), "where text is needed", subtests)


def test_payment_code_is_not_shown():
    """A payment code of another type is a deviation that does not show it."""
    number = 8800000000000001
    assert read("payment_code", number)[0] == str(number)
    for value in (number, Decimal(f"{number}.5"), [str(number)], True):
        found = read_transaction(changed("payment_code", value))
        assert (str(number) in f"{found!r}{found.deviations}", len(found.deviations)) == (False, 1)
        assert found.deviations[0].startswith("payment_code: a value that is not text read as")


def test_expdate(subtests):
    """The documented format gives a naive time; one that would lose zone or fraction, or is none, is None."""
    time = datetime(2030, 1, 31, 23, 59, 59)  # noqa: DTZ001  the specification states no zone
    check_read(("expdate",), ("2030-01-31 23:59:59",), lambda _: time, "", subtests)
    other = ("2030-01-31T23:59:59", "2030-01-31 23:59:59.000000")
    check_read(("expdate",), other, lambda _: time, "read as time", subtests)
    check_read(("expdate",), NO_TIME, lambda _: None, "read as nothing", subtests)


@pytest.mark.parametrize(
    ("count", "rest"), [(20, ()), (21, ("and 1 more",)), (25, ("and 5 more",))], ids=["just-fits", "one-more", "many"]
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

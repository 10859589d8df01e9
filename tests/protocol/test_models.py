"""The frozen values that a lookup gives."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from zoneinfo import ZoneInfo

import attrs
import pytest

from payclient import Change, Environment, Failed, Found, Transaction
from payclient.errors import TransactionNotFoundError

RAW = {"reference": "R", "amount": 15000, "status": "Canceled", "rate": Decimal("0.7"), "tags": ["a"]}
TRANSACTION = Transaction(
    reference="R",
    amount=15000,
    status="Canceled",
    payment_code="8800000000000001",
    expdate=datetime(2030, 1, 31, 23, 59, 59),  # noqa: DTZ001  the service shows no zone
    raw=MappingProxyType(RAW),
    deviations=("amount: text '15000' read as integer",),
)

TEN_FIELDS = {
    "reference": "R",
    "merchant_reff": None,
    "payment_method": None,
    "payment_name": None,
    "amount": 15000,
    "fee": None,
    "amount_received": None,
    "payment_code": "8800000000000001",
    "expdate": "2030-01-31 23:59:59",
    "status": "Canceled",
}


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        pytest.param("8800000000000001", "'************0001'", id="account-number"),
        pytest.param("12345", "'*2345'", id="five"),
        pytest.param("1234", "'****'", id="four-would-be-all-of-it"),
        pytest.param("", "''", id="empty"),
        pytest.param(None, "None", id="none"),
    ],
)
def test_repr_masks_payment_code(code, shown):
    """`repr` shows the last four characters of a payment code, and none of one that has no more."""
    assert f"payment_code={shown}," in repr(attrs.evolve(TRANSACTION, payment_code=code))


def test_repr_leaves_raw_out():
    """`repr` does not hold the answer as it arrived, in which the payment code is not masked."""
    assert "raw" not in repr(TRANSACTION)


def test_transaction_is_frozen(subtests):
    """No attribute of a transaction can be set."""
    for name in [attribute.name for attribute in attrs.fields(Transaction)]:
        with subtests.test(name=name):
            with pytest.raises(attrs.exceptions.FrozenInstanceError):
                setattr(TRANSACTION, name, None)


def test_transaction_has_slots():
    """A misspelt attribute is an error and not a new attribute."""
    with pytest.raises(AttributeError):
        object.__setattr__(TRANSACTION, "amnt", 1)


def test_raw_is_read_only():
    """The data cannot be changed through the transaction."""
    with pytest.raises(TypeError):
        TRANSACTION.raw["amount"] = 1


@pytest.mark.parametrize("changes", [{"raw": {}}, {"deviations": ()}, {"request_id": "r"}], ids="".join)
def test_equality_is_about_the_fields(changes):
    """Transactions with the same ten fields are equal and have the same hash, whatever their JSON."""
    other = attrs.evolve(TRANSACTION, **changes)
    assert (other, hash(other)) == (TRANSACTION, hash(TRANSACTION))


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copy_is_whole(duplicate):
    """A copied or pickled transaction is equal, and keeps `raw` and `deviations`."""
    twin = duplicate(TRANSACTION)
    assert (twin, dict(twin.raw), twin.deviations) == (TRANSACTION, RAW, TRANSACTION.deviations)


def test_copied_raw_is_read_only():
    """`raw` stays read-only in an unpickled transaction."""
    twin = pickle.loads(pickle.dumps(TRANSACTION))
    assert type(twin.raw) is MappingProxyType


def test_expires_at():
    """`expires_at` keeps the clock time and adds the zone that the caller knows."""
    expires = TRANSACTION.expires_at(ZoneInfo("Asia/Jakarta"))
    assert expires.isoformat(sep=" ") == "2030-01-31 23:59:59+07:00"


def test_expires_at_nothing():
    """A transaction without expiry has none in any zone."""
    assert attrs.evolve(TRANSACTION, expdate=None).expires_at(ZoneInfo("UTC")) is None


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(Found("R", TRANSACTION, index=2), ("found", "R", "Canceled", 2), id="found"),
        pytest.param(Failed("R", TransactionNotFoundError("no"), index=3), ("failed", "R", "no", 3), id="failed"),
    ],
)
def test_outcome_can_be_matched(outcome, expected):
    """An outcome is taken apart by position, its index by name."""
    match outcome:
        case Found(reference, transaction, index=index):
            actual = ("found", reference, transaction.status, index)
        case Failed(reference, error, index=index):
            actual = ("failed", reference, error.message, index)
    assert actual == expected


@pytest.mark.parametrize(
    "result",
    [
        Found("R", TRANSACTION),
        Failed("R", TransactionNotFoundError("no")),
        Change("R", None, TRANSACTION, is_last=True),
    ],
    ids=lambda result: type(result).__name__,
)
def test_no_truth(result):
    """A result that may be a failure, or unpaid, is neither true nor false: a test of its truth is an error."""
    for test in (bool, lambda one: all([one]), lambda one: one or None, lambda one: not one):
        with pytest.raises(TypeError, match=rf"^{type(result).__name__} is neither true nor false: ask isinstance"):
            test(result)


def test_environments():
    """There are two environments, and their names are the words that options and variables take."""
    assert [str(environment) for environment in Environment] == ["live", "sandbox"]


def test_as_json_masks_payment_code():
    """JSON has the ten fields in the order of the specification, and the payment code masked unless asked for."""
    assert TRANSACTION.as_json() == {**TEN_FIELDS, "payment_code": "************0001"}
    assert list(TRANSACTION.as_json(with_payment_code=True).items()) == list(TEN_FIELDS.items())
    assert dict(TRANSACTION) == TRANSACTION.as_json()


@pytest.mark.parametrize("fields", [{}, {"payment_code": None, "expdate": None, "fee": None}, {"amount": -5}], ids=str)
def test_json_round_trip(fields):
    """A transaction can be made again from its JSON, without deviations of ours."""
    transaction = attrs.evolve(TRANSACTION, **fields)
    again = Transaction.from_json(json.loads(json.dumps(transaction.as_json(with_payment_code=True))))
    assert (again, again.deviations) == (transaction, ())


@pytest.mark.parametrize("data", [{}, {"reference": "T1", "amount": "1.5", "status": "Paid"}], ids=str)
def test_from_unusable_json(data):
    """JSON that is no transaction is a `ValueError`."""
    with pytest.raises(ValueError, match=r"reference: absent|amount: text '1.5' is not an exact whole number"):
        Transaction.from_json(data)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="copy.replace came with Python 3.13")
def test_copy_replace():
    """`copy.replace` gives another transaction, and leaves the first as it was."""
    assert copy.replace(TRANSACTION, status="Paid") == attrs.evolve(TRANSACTION, status="Paid")

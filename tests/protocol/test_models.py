"""The frozen values that a lookup gives."""

import copy
import json
import pickle
import sys
from base64 import b64decode
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from zoneinfo import ZoneInfo

import attrs
import pytest

from payclient import Failed, Found, Transaction
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


def test_repr_masks_payment_code():
    """`repr` shows the last four characters of a payment code, none of one that has no more, and no `raw`."""
    codes = {"8800000000000001": "'************0001'", "12345": "'*2345'", "1234": "'****'", "": "''", None: "None"}
    for code, shown in codes.items():
        text = repr(attrs.evolve(TRANSACTION, payment_code=code))
        assert (f"payment_code={shown}," in text, "raw" in text) == (True, False), code


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


@pytest.mark.parametrize("changes", [{"raw": {}}, {"deviations": ()}, {"request_id": "r"}], ids="".join)
def test_equality_is_about_the_fields(changes):
    """Transactions with the same ten fields are equal and have the same hash, whatever their JSON."""
    other = attrs.evolve(TRANSACTION, **changes)
    assert (other, hash(other)) == (TRANSACTION, hash(TRANSACTION))


def test_copy_is_whole():
    """A copied or pickled transaction is equal, and keeps `deviations` and `raw`, which stays read-only."""
    for duplicate in (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        twin = duplicate(TRANSACTION)
        assert (twin, dict(twin.raw), twin.deviations) == (TRANSACTION, RAW, TRANSACTION.deviations)
        assert type(twin.raw) is MappingProxyType


STORED = b64decode(
    "gASVTAEAAAAAAACMJXBheWNsaWVudC5wcm90b2NvbC50cmFuc2FjdGlvbi5fbW9kZWyUjAtUcmFuc2FjdGlvbpSTlCmBlH2UKIwJ"
    "cmVmZXJlbmNllIwCVDGUjA1tZXJjaGFudF9yZWZmlIwFSU5WIDGUjA5wYXltZW50X21ldGhvZJSMAlZBlIwMcGF5bWVudF9uYW1l"
    "lE6MBmFtb3VudJRNmDqMA2ZlZZRN9AGMD2Ftb3VudF9yZWNlaXZlZJRNpDiMDHBheW1lbnRfY29kZZSMCjg4MTIzNDU2NziUjAdl"
    "eHBkYXRllIwIZGF0ZXRpbWWUjAhkYXRldGltZZSTlEMKB+4BHxc7OwAAAJSFlFKUjAZzdGF0dXOUjARQYWlklIwDcmF3lH2UaAVo"
    "BnOMCmRldmlhdGlvbnOUjAFhlIWUjApyZXF1ZXN0X2lklIwDci0xlHViLg=="
)
"""The pickle of a transaction, stored before pickles had a version."""


def test_stored_pickle():
    """A pickle of an earlier version is read; what it lacks has its default, and what it has more is left out."""
    kept = Transaction(
        reference="T1",
        merchant_reff="INV 1",
        payment_method="VA",
        amount=15000,
        fee=500,
        amount_received=14500,
        payment_code="8812345678",
        expdate=datetime(2030, 1, 31, 23, 59, 59),  # noqa: DTZ001  the service gives no zone
        status="Paid",
    )
    stored = pickle.loads(STORED)
    assert (stored, dict(stored.raw), stored.deviations, stored.request_id) == (
        kept,
        {"reference": "T1"},
        ("a",),
        "r-1",
    )
    state = {name: value for name, value in kept.__getstate__().items() if name != "request_id"}
    other = Transaction.__new__(Transaction)
    other.__setstate__({**state, "channel": "web", "version": 99})
    assert (other, other.request_id) == (kept, None)


def test_expires_at():
    """`expires_at` keeps the clock time and adds the zone that the caller knows; without expiry it is None."""
    expires = TRANSACTION.expires_at(ZoneInfo("Asia/Jakarta"))
    assert expires.isoformat(sep=" ") == "2030-01-31 23:59:59+07:00"
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


def test_failed_has_no_transaction():
    """Whoever asks a failed outcome for its transaction gets its error."""
    failed = Failed("R", TransactionNotFoundError("no"))
    with pytest.raises(TransactionNotFoundError, match=r"^no$") as caught:
        _ = failed.transaction
    assert caught.value is failed.error


@pytest.mark.parametrize(
    "result",
    [Found("R", TRANSACTION), Failed("R", TransactionNotFoundError("no"))],
    ids=lambda result: type(result).__name__,
)
def test_no_truth(result):
    """A result that may be a failure, or unpaid, is neither true nor false: a test of its truth is an error."""
    for test in (bool, lambda one: all([one]), lambda one: one or None, lambda one: not one):
        with pytest.raises(TypeError, match=rf"^{type(result).__name__} is neither true nor false: ask isinstance"):
            test(result)


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


@pytest.mark.parametrize("name", ["amount", "fee", "amount_received"])
def test_money_is_int(name):
    """A transaction that is made by hand has whole numbers for money, as one of the service has."""
    for value in ("1", 1.0, True, Decimal(1)):
        with pytest.raises(TypeError, match="amount must be an int, and fee and amount_received an int or None, got "):
            Transaction(**{"reference": "R", "amount": 1, "status": "Paid", name: value})
    with pytest.raises(TypeError, match="got None"):
        Transaction(reference="R", amount=None, status="Paid")

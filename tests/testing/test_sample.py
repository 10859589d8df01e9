"""Made-up transactions have the ten fields and are consistent in themselves."""

import pytest

from payclient.protocol.transaction import read_transaction
from payclient.testing import envelope, transaction


def test_as_documented():
    """A made-up transaction has no deviation, the status of the specification's sample, and its arithmetic."""
    made = transaction(reference="T1", amount=9, fee=2)
    assert (read_transaction(made).deviations, made["status"], made["amount_received"]) == ((), "Canceled", 7)
    assert transaction(amount=9, amount_received=1)["amount_received"] == 1
    assert envelope(reference="T1", amount=9, fee=2) == {"success": True, "data": made}


@pytest.mark.parametrize(
    "fields", [{"amount": 1000}, {"amount": 0}, {"amount": 10, "fee": 11}, {"amount": -5}], ids=str
)
def test_nothing_negative(fields):
    """No default amount is negative, even for a small given amount."""
    for made in (transaction(**fields), envelope(**fields)["data"]):
        assert [name for name in ("fee", "amount_received") if made[name] < 0] == []


@pytest.mark.parametrize(
    "fields", [{"amount": "15000"}, {"fee": None}, {"settlement": "T+1"}, {"reference": 7}], ids=str
)
def test_odd_envelope(fields):
    """An envelope takes any value and any field."""
    data = envelope(**fields)["data"]
    assert {name: data[name] for name in fields} == fields


def test_unknown_field():
    """A transaction has no other field than the ten."""
    with pytest.raises(TypeError, match="unknown field of a transaction: total"):
        transaction(total=1)

"""An entry holds exact values, or is not made."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from payclient.ledger import ABSENT, Entry, RejectedEntry


def test_money_is_int(subtests):
    """Money is an int and nothing that only looks like one."""
    for value in [15000.0, "15000", Decimal(15000), True]:
        for name in ["amount", "fee", "amount_received"]:
            with subtests.test(value=value, name=name):
                with pytest.raises(TypeError, match=f"{name} must be an int"):
                    Entry(line=1, reference="T1", **{name: value})


def test_amount_is_not_empty():
    """An amount is there or the column is not: an empty one would leave a hole in the totals."""
    with pytest.raises(TypeError, match="amount must be an int"):
        Entry(line=1, reference="T1", amount=None)


@pytest.mark.parametrize("name", ["merchant_reff", "status", "payment_method", "payment_code"])
def test_text_is_str(name):
    """A code is text, also when it has digits only."""
    with pytest.raises(TypeError, match=f"{name} must be a str"):
        Entry(line=1, reference="T1", **{name: 77})


def test_reference():
    """The reference is text and not empty."""
    with pytest.raises(ValueError, match="reference must not be empty"):
        Entry(line=1, reference="")
    with pytest.raises(TypeError):
        Entry(line=1, reference=5)


def test_expiry_has_no_zone():
    """An expiry with a time zone cannot be compared with one without, so it is refused."""
    with pytest.raises(ValueError, match="expdate must be without a time zone"):
        Entry(line=1, reference="T1", expdate=datetime(2026, 1, 1, tzinfo=UTC))


def test_absent():
    """A field that is left out is absent, which is not the same as empty."""
    entry = Entry(line=1, reference="T1", fee=None)
    assert (entry.amount, entry.fee) == (ABSENT, None)


def test_text_can_be_written(subtests):
    """Half a surrogate pair, which UTF-8 cannot hold, is refused before a journal or report meets it."""
    for name in ["reference", "merchant_reff", "status", "payment_method", "payment_code"]:
        with subtests.test(name=name):
            with pytest.raises(ValueError, match=f"{name} holds half a surrogate pair"):
                Entry(line=1, **{"reference": "T1", name: "a\udfff"})


@pytest.mark.parametrize("name", ["reference", "reason"])
def test_rejected_text_can_be_written(name):
    """The kept parts of a rejected row can be encoded as UTF-8."""
    with pytest.raises(ValueError, match=f"{name} holds half a surrogate pair"):
        RejectedEntry(**{"line": 1, "reason": "unusable", name: "a\ud800"})


def test_rejected_amount():
    """The amount of a rejected row is an int or None."""
    with pytest.raises(TypeError, match="amount must be an int"):
        RejectedEntry(line=1, reason="unusable", amount=1.0)

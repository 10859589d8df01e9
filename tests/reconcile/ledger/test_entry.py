"""An entry holds exact values, or is not made."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry

MONEY = ("amount", "fee", "amount_received")
TEXTS = ("merchant_reff", "status", "payment_method", "payment_code")
REFUSED = [
    *({name: value} for name in MONEY for value in (15000.0, "15000", Decimal(15000), True)),
    {"amount": None},  # an amount is there or the column is not: an empty one would leave a hole in the totals
    *({name: 77} for name in ("reference", *TEXTS)),
    {"reference": ""},
    *({name: "a\udfff"} for name in ("reference", *TEXTS)),  # UTF-8 cannot hold it, nor a journal or a report
    {"expdate": datetime(2026, 1, 1, tzinfo=UTC)},
]
REASONS = {
    **dict.fromkeys(MONEY, "must be an int"),
    **dict.fromkeys(TEXTS, "must be a str|holds half a surrogate pair"),
    "reference": "must be a str|must not be empty|holds half a surrogate pair",
    "expdate": "must be without a time zone",
}


def test_refused(subtests):
    """Money is an int, a text can be written and may have digits only, and an expiry has no zone."""
    for values in REFUSED:
        with subtests.test(values=values):
            ((name, _),) = values.items()
            with pytest.raises((TypeError, ValueError), match=f"^{name} (?:{REASONS[name]})"):
                Entry(**{"line": 1, "reference": "T1", **values})


def test_absent():
    """A field that is left out is absent, which is not the same as empty."""
    entry = Entry(line=1, reference="T1", fee=None)
    assert (entry.amount, entry.fee) == (ABSENT, None)


def test_rejected(subtests):
    """The kept parts of a rejected row can be written, and its amount is an int or None."""
    for values in ({"reference": "a\ud800"}, {"reason": "a\ud800"}, {"amount": 1.0}):
        with subtests.test(values=values):
            with pytest.raises((TypeError, ValueError), match=f"^{next(iter(values))} "):
                RejectedEntry(**{"line": 1, "reason": "unusable", **values})

"""An entry holds exact values, or is not made."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from attrs import asdict
from hypothesis import example, given
from hypothesis import strategies as st

from payclient.reconcile._fields import checked_entry
from payclient.reconcile.ledger import ABSENT, FIELDS, Entry, RejectedEntry, RowReader, find_columns

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
    **dict.fromkeys(TEXTS, "must be a str|contains half a surrogate pair"),
    "reference": "must be a str|must not be empty|contains half a surrogate pair",
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


USUAL = dict.fromkeys(FIELDS) | {"reference": "T1", "amount": "15000", "direction": "credit"}
CELLS = st.none() | st.integers() | st.floats() | st.datetimes(timezones=st.none() | st.just(UTC)) | st.text()
CELLS |= st.text("0159.+-eE\\N\ud800\u200b '=#AZ", max_size=9) | st.sampled_from([True, "2026-01-01 10:00", "1" * 19])


@given(name=st.sampled_from(FIELDS), cell=CELLS)
@example(name="expdate", cell=datetime(2026, 1, 1, tzinfo=UTC))
@example(name="status", cell="a\udfff")
def test_read(name, cell):
    """A reader of cells makes no entry that the validators would refuse, though it does not call them."""
    columns = find_columns(FIELDS, dict(zip(FIELDS, FIELDS, strict=True)))
    row = RowReader(columns).read(2, list({**USUAL, name: cell}.values()))
    assert isinstance(row, RejectedEntry) or Entry(**asdict(row)) == row


def test_checked():
    """An entry that is made without its validators is the same, with the same fields left out."""
    values = {"line": 7, "reference": "T1", "amount": 15000, "fee": None, "payout": "P1"}
    entry = checked_entry(values)
    assert (entry, asdict(entry), hash(entry)) == (Entry(**values), asdict(Entry(**values)), hash(Entry(**values)))


def test_rejected(subtests):
    """The kept parts of a rejected row can be written, and its amount is an int or None."""
    for values in ({"reference": "a\ud800"}, {"reason": "a\ud800"}, {"amount": 1.0}):
        with subtests.test(values=values):
            with pytest.raises((TypeError, ValueError), match=f"^{next(iter(values))} "):
                RejectedEntry(**{"line": 1, "reason": "unusable", **values})

"""Each compared field is known wherever fields are read, stored, compared and written, because all read one table."""

from datetime import datetime

import attrs
import pytest

from payclient import Transaction
from payclient.reconcile import Bucket, Code, Lines, Row, Rules, Tally, compare
from payclient.reconcile._fields import COMPARED_FIELDS
from payclient.reconcile._journal.tables import entry_cells, entry_from
from payclient.reconcile._judgement.judge import payment_of
from payclient.reconcile.ledger import ABSENT, Entry, open_ledger
from payclient.reconcile.report.rows import CSV, PARQUET
from payclient.testing._service import Fields
from support.reconciling import NOON

FIELDS = {each.name: each for each in COMPARED_FIELDS}
DAYS = [datetime(2030, 1, day) for day in (30, 31)]  # noqa: DTZ001  as a ledger states it
OURS = {"amount": 100, "fee": 5, "amount_received": 95, "status": "Paid", "expdate": DAYS[0]}
OTHER = {"amount": 90, "fee": 4, "amount_received": 80, "status": "Refunded", "expdate": DAYS[1]}
IDENTITY = {"reference": "T1", "amount": 100, "fee": 5, "status": "Paid"}
SUMMED = Rules(lines=Lines(of_one_reference="sum"))


def value_of(name, values, default):
    return values.get(name, f"{default} {name}")


@pytest.mark.parametrize("name", FIELDS)
def test_read_and_written(name, tmp_path):
    """A column of the field is read, stored in the journal, and stands in each table of a report with both sides."""
    text = str(value_of(name, OURS, "our"))
    (tmp_path / "ledger.csv").write_text(f"reference,{name}\nT1,{text}\n", encoding="utf-8")
    with open_ledger(tmp_path / "ledger.csv") as ledger:
        (entry,) = ledger
    assert getattr(entry, name) == value_of(name, OURS, "our")
    assert entry_from(entry_cells(entry)) == entry
    assert name in Fields.__annotations__  # of a service in a test
    for columns in (CSV, PARQUET):
        assert {f"ledger_{name}", f"service_{name}"} <= {column.name for column in columns}


@pytest.mark.parametrize("name", FIELDS)
def test_compared(name):
    """Another value at the service is a finding about the field; its own value, or no column, is none."""
    entry = Entry(line=2, reference="T1", **{name: value_of(name, OURS, "our")})
    same = Transaction(**IDENTITY | {name: value_of(name, OURS, "our")})
    other = Transaction(**IDENTITY | {name: value_of(name, OTHER, "their")})
    assert [finding.code for finding in compare(entry, same, at=NOON)] == []
    assert any(name in finding.code.fields for finding in compare(entry, other, at=NOON))
    without = attrs.evolve(entry, **{name: ABSENT, "status": entry.status if name != "status" else "Refunded"})
    assert not any(finding.code is Code.NOT_COMPARED for finding in compare(without, other, at=NOON))


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - {"amount", "fee", "amount_received", "status"}))
def test_lines_that_differ(name):
    """But for money, which is summed, and the status, one line of a payment that agrees is enough."""
    values = value_of(name, OTHER, "other"), value_of(name, OURS, "our")
    lines = tuple(
        Entry(line=line, reference="T1", amount=50, status="Paid", **{name: value}) for line, value in enumerate(values)
    )
    found = Transaction(**IDENTITY | {name: value_of(name, OURS, "our")})
    assert compare(payment_of(lines, SUMMED, found), found, at=NOON) == ()


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - {"amount", "fee", "amount_received", "expdate"}))
def test_dash(name):
    """A dash in a field of text is not compared, so a verdict does not name the field."""
    tally = Tally()
    for text in ("-", f"our {name}"):
        entry = Entry(line=2, reference="T1", **{name: text})
        tally.add(Row(entry=entry, bucket=Bucket.MATCHED, transaction=Transaction(**IDENTITY)))
    assert tally.summary().compared.fields[name] == 1

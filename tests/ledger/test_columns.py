"""Columns are found by name, and never by guess."""

from __future__ import annotations

import pytest

from payclient.ledger import FIELDS, LedgerError, find_columns
from payclient.ledger._columns import SYNONYMS


def test_names():
    """The service's own names are found in any order, and the rest is ignored and listed."""
    columns = find_columns(["note", "amount", "reference"])
    assert (dict(columns.used), columns.ignored) == ({"reference": "reference", "amount": "amount"}, ("note",))


def test_synonyms(subtests):
    """Other usual column names are recognised, regardless of case, spaces and dashes."""
    for name in ["Reference", " REFERENCE ", "Transaction ID", "trx-ref", "Kode Referensi", "ref."]:
        with subtests.test(name=name):
            assert find_columns([name]).places["reference"] == 0


def test_synonyms_are_distinct():
    """No name is used for two fields."""
    names = [*FIELDS, *(name for others in SYNONYMS.values() for name in others)]
    assert len(names) == len(set(names))


def test_own_name_wins():
    """A column with the field's own name is taken, although another could mean it too."""
    assert find_columns(["transaction_id", "reference"]).places["reference"] == 1


def test_choice_wins():
    """A column that was chosen is taken for that field, and for no other."""
    columns = find_columns(["reference", "id", "amount"], {"reference": "id"})
    assert (columns.places["reference"], columns.ignored) == (1, ("reference",))


def test_chosen_column_is_not_taken_twice():
    """A column chosen for one field is not found for another by its name."""
    assert dict(find_columns(["reference", "total"], {"fee": "total"}).used) == {
        "reference": "reference",
        "fee": "total",
    }


@pytest.mark.parametrize("header", [["trx_id", "ref"], ["reference", "reference"], ["reference", "Amount", "amount"]])
def test_doubled(header):
    """Two columns that mean the same are refused with their places."""
    with pytest.raises(LedgerError, match=r"column \d .* and column \d .* both mean") as caught:
        find_columns(header)
    assert caught.value.line == 1


def test_no_reference():
    """A header without a reference, such as a first row of data, is refused and shown."""
    with pytest.raises(LedgerError, match="no column is called reference; the columns are 'T1', '15000'"):
        find_columns(["T1", "15000"])


def test_chosen_column_absent():
    """A chosen column that is not there is refused, and the columns that are there are named."""
    with pytest.raises(LedgerError, match="no column is called 'id', which was chosen for reference; there are 'a'"):
        find_columns(["a"], {"reference": "id"})


def test_chosen_field_unknown():
    """A field that does not exist is the caller's mistake."""
    with pytest.raises(ValueError, match="there is no field 'reff'"):
        find_columns(["a"], {"reff": "a"})

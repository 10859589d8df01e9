"""A ledger in JSON Lines is read strictly, lazily and without losing a line."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.ledger import Dialect, Entry, LedgerError, RejectedEntry
from support import ledgers
from support.ledgers import opened

FIRST = '{"reference": "T0", "amount": 1, "status": "Paid"}'


read = partial(ledgers.read, format="jsonl")


def after_first(line):
    """Return what becomes of *line* between two good ones."""
    before, row, after = read(f'{FIRST}\n{line}\n{{"reference": "T9", "amount": 9, "status": "Paid"}}\n')
    assert (before.reference, after.reference) == ("T0", "T9")
    return row


def test_missing_key():
    """A key that a later row leaves out is an empty cell there; one that it adds rejects it, with all that is read."""
    assert after_first('{"amount": 5, "reference": "T1"}') == Entry(line=2, reference="T1", amount=5, status=None)
    row = after_first('{"reference": "T1", "amount": 1, "status": "Paid", "fee": 5}')
    assert (type(row), row.reference, row.amount, row.status) == (RejectedEntry, "T1", 1, "Paid")


def test_line_numbers():
    """Lines are counted as an editor does, blank ones included; each kind of line end is one."""
    assert [
        row.line for row in read('\ufeff\n\r\n{"reference": "A"}\r\n \n{"reference": "B"}\r{"reference": "C"}')
    ] == [*(3, 5, 6)]


def test_encoding():
    """A declared encoding is read; without one, bytes that are not UTF-8 are refused with the offset and the remedy."""
    data = '{"reference": "T1", "status": "Payé"}'.encode("cp1252")
    assert [row.status for row in read(data, dialect=Dialect(encoding="cp1252"))] == ["Payé"]
    with pytest.raises(LedgerError, match=r"offset 34 .*--encoding cp1252"):
        opened(data)


def test_columns_chosen():
    """A chosen key is used, and another key for its field is ignored without a warning."""
    text = '{"id": "T1", "note": 1}\n{"id": "T2", "reference": "X"}'
    with opened(text, columns={"reference": "id"}) as ledger:
        assert [row.reference for row in ledger] == ["T1", "T2"]
        assert ledger.columns.ignored == ("note",)


def test_rejected(subtests):
    """A line that cannot be used is rejected with its number and why; the lines around it are read."""
    for line, reason in [
        ('{"reference": "T1", "amount": 1, "amount": 2}', "the key 'amount' is duplicated"),
        ('{"reference": "T1", "amount": NaN}', "NaN is not JSON"),
        ('{"reference": "T1", "amount": Infinity}', "Infinity is not JSON"),
        ('{"reference": "T1", "amount": 1, "x": ' + "[" * 5000 + "]" * 5000 + "}", "nested deeper than"),
        ('{"reference": "T1", "amount": ' + "9" * 5000 + "}", "a number of 5000 digits"),
        ('{"reference": "T1\\ud800", "amount": 1}', "half a surrogate pair"),
        ('["T1", 1]', "found a list where an object must be"),
        ('"T1"', "found text where an object must be"),
        ("null", "found null where an object must be"),
        ('{"reference": "T1", "amount": 1', "not JSON"),
        ('{"reference": "T1", "amount": 1}{"reference": "T2", "amount": 1}', "not JSON"),
        ("T1,1,Paid", "not JSON"),
        ("{}", "reference: the cell is empty; amount: the cell is empty"),
        ('{"reference": 12, "amount": 1}', "reference: 12 is a number, so leading zeros or digits may be lost"),
        ('{"reference": {"id": "T1"}, "amount": 1}', "reference: an object is not text"),
        ('{"reference": "T1", "amount": 15.000}', "amount: '15.000' may mean 15 or 15000"),
        ('{"reference": "T1", "amount": 1.5}', "amount: '1.5' is not a whole number"),
        ('{"reference": "T1", "amount": 1e30}', "amount: 1E+30 is not a whole number of at most 18 digits"),
        ('{"reference": "T1", "amount": 9223372036854775808}', "amount: 9223372036854775808 is not a whole number"),
        ('{"reference": "T1", "amount": 1, "fee": 5}', "has 'fee', which the first row does not have"),
    ]:
        with subtests.test(line=line):
            row = after_first(line)
            assert isinstance(row, RejectedEntry)
            assert (row.line, reason in row.reason) == (2, True), row.reason


@pytest.mark.parametrize("number", ["1.5e4", "15E3", "15000.0", "15000"])
def test_whole_number(number):
    """A JSON number that is exactly whole is accepted in any notation."""
    assert after_first(f'{{"reference": "T1", "amount": {number}}}').amount == 15000


def test_first_line(subtests):
    """A first line that is not a complete object refuses the file, with the line and the remedy."""
    for text in ["{", '["T1"]', "[]", "[{}]", '[\n{"reference": "T1"}\n]', "5", '{"a": 1, "a": 2}']:
        with subtests.test(text=text):
            with pytest.raises(LedgerError, match=r"line 2: .* jq -c") as caught:
                read(f"\n{text}\n")
            assert caught.value.line == 2


def test_unknown_keys():
    """Unknown keys are named as columns that are not used are, those after the first row as well."""
    text = '{"reference": "A", "x": 1}\n{"reference": "B", "y": 1}\n{"reference": "C", "z": 1, "created_at": null}\n'
    with opened(text) as ledger:
        assert [row.reference for row in ledger] == ["A", "B", "C"]
        assert [each.name for each in ledger.unused] == ["x", "y", "z"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda children: st.lists(children, max_size=2) | st.dictionaries(st.text(max_size=3), children, max_size=2),
    max_leaves=4,
)


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=8))
def test_no_row_is_lost(rows):
    """Each object gives one entry or one rejected entry."""
    lines = [json.dumps(dict(zip(("reference", "amount", "expdate"), row, strict=True))) for row in rows]
    text = "\n".join([FIRST.replace("status", "expdate").replace('"Paid"', "null"), *lines])
    assert [row.line for row in read(text)] == list(range(1, len(rows) + 2))

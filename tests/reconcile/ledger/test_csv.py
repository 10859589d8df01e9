"""A CSV ledger is read strictly, lazily and without losing a line."""

import csv
import io
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.ledger import Entry, LedgerError, open_ledger
from support.ledgers import opened, read


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(delimiter):
    """Comma, semicolon, tab and pipe are recognised from the header, also where all names are in quotes."""
    for text in ("reference|amount\nT1|1\n", '"reference"|"amount"\n"T1"|"1"\n'):
        with opened(text.replace("|", delimiter)) as ledger:
            assert (ledger.delimiter, list(ledger)) == (delimiter, [Entry(line=2, reference="T1", amount=1)])


def test_delimiter_inside_names():
    """A comma inside the names of a header does not outvote the semicolons between them."""
    (entry,) = read('reference;"note, long";amount;x\nT1;a;1;b\n')
    assert entry == Entry(line=2, reference="T1", amount=1)


def test_delimiter_chosen():
    """A delimiter that was chosen is not recognised against."""
    (entry,) = read("reference|a,b,c,d\nT1|x\n", delimiter="|")
    assert entry.reference == "T1"


def test_line_numbers():
    """Lines are counted as an editor does, blank ones and the header included."""
    assert [row.line for row in read("\n\nreference,amount\r\n\r\nT1,1\n,\n \nT2,2")] == [5, 8]


def test_rejected(subtests):
    """A row that cannot be used is rejected with its line and why; the rows around it are read."""
    for row, reason in [
        ("T1,1", "has 2 cells where the header has 3"),
        ("T1,1,Paid,x", "has 4 cells where the header has 3"),
    ]:
        with subtests.test(row=row):
            before, rejected, after = read(f"reference,amount,status\nT0,1,Paid\n{row}\nT9,9,Paid\n")
            assert (before.reference, after.reference) == ("T0", "T9")
            assert (rejected.line, reason in rejected.reason) == (3, True), rejected.reason


def test_stray_quote(subtests):
    """A quote that does not close on its own line is refused with that line; no row is swallowed."""
    for note in [
        '"stray',
        '"two\nlines"',
        '"a"b',
        'x\nT3,"stray\nT4,x",y',
        '"stray' + "\nT3,1,x" * 2000,
        '"stray' + "\nT3,1,x" * 20_000,
        '"stray\nT3,1,x"',
    ]:
        with subtests.test(note=note):
            with pytest.raises(LedgerError) as caught:
                read(f"reference,amount,note\nT1,1,fine\nT2,1,{note}\n")
            assert caught.value.line in (3, 4)
            assert f"line {caught.value.line}: " in str(caught.value)
            assert caught.value.line == (4 if note.startswith("x") else 3)


def test_quotes_that_pair():
    """Quotes around a cell, doubled inside it, and in the middle of a plain one are all right."""
    rows = read('reference,note\n"T1","a ""b"", c"\nT2,5" pipe\n')
    assert [row.reference for row in rows] == ["T1", "T2"]


def test_header_quotes():
    """A header whose quotes do not pair is refused with its line."""
    with pytest.raises(LedgerError, match="the quotes of the header do not pair"):
        read('"reference,amount\nT1,1\n')


def test_lazy():
    """Rows are read lazily, so a ledger may be larger than memory."""

    class Endless(io.RawIOBase):
        numbers = count()

        def read(self, _size=-1):
            n = next(self.numbers)
            return b"reference\n" if n == 0 else b"T%d\n" % n

    with open_ledger(Endless()) as ledger:
        assert [row.reference for row in islice(ledger, 3)] == ["T1", "T2", "T3"]


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=8)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=8), st.sampled_from([",", ";", "\t", "|"]))
def test_no_row_is_lost(rows, delimiter):
    """Each line of a CSV writer gives one entry or one rejected entry."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("reference", "status"), *rows])
    read_rows = read(text.getvalue())
    assert [row.line for row in read_rows] == [n for n, row in enumerate(rows, 2) if any(map(str.strip, row))]

"""The table of status and method: all rows, in a size for people."""

from __future__ import annotations

import pytest

from payclient import Transaction
from payclient.ledger import Entry
from payclient.reconcile import STRICT, Bucket, Row, Rules, Total
from payclient.report._grid import grid
from payclient.report._matrix import OTHER, Matrix


def grid_of(*rows, rules=STRICT):
    matrix = Matrix()
    for ours, theirs, method in rows:
        transaction = Transaction(reference="A", amount=7, status=theirs, payment_method=method)
        entry = Entry(line=2, reference="A", amount=10, status=ours)
        matrix.add(Row(entry=entry, bucket=Bucket.MATCHED, transaction=transaction))
    return grid(matrix, rules)


def test_lines():
    """Lines are pairs of words and columns are methods, each in the order of their rows; a gap is None."""
    found = grid_of(("Paid", "Paid", "QR"), ("Paid", "Paid", "QR"), ("Paid", "Lunas", "VA"), ("Paid", "Paid", "QR"))
    assert found.methods == ("QR", "VA")
    assert [(line.ledger, line.service, line.cells, line.total) for line in found.lines] == [
        ("Paid", "Paid", (Total(3, 30, 21), None), Total(3, 30, 21)),
        ("Paid", "Lunas", (None, Total(1, 10, 7)), Total(1, 10, 7)),
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "remark"),
    [
        ("paid", "PAID ", ""),
        ("Paid", "Expired", "not the same"),
        ("Paid", "Settled", "unknown word"),
        ("Odd", "Odd", "unknown word"),
        ("Paid", "Lunas", ""),
        (None, "Paid", ""),
    ],
)
def test_remark(ours, theirs, remark):
    """Words are compared by what they mean, by the rules of the user too; what is not known is never the same."""
    found = grid_of((ours, theirs, "QR"), rules=Rules(statuses={"lunas": "paid"}))
    assert [line.remark for line in found.lines] == [remark]


def test_many_words():
    """However many words there are, the table stays small, counts every row, and names what it added up."""
    found = grid_of(*((f"S{number}", "Paid", f"M{number}") for number in range(500)))
    assert (len(found.methods), len(found.lines), sum(line.total.rows for line in found.lines)) == (7, 25, 500)
    assert (found.methods[-1], found.lines[-1].ledger, found.lines[-1].service) == (OTHER, OTHER, OTHER)


def test_cells_add_up():
    """The cells of a line add up to its total."""
    found = grid_of(*(("Paid", "Paid", f"M{number % 20}") for number in range(100)))
    assert [sum(cell.rows for cell in line.cells if cell) for line in found.lines] == [100]


def test_no_rows():
    """Without rows there are no lines."""
    assert grid_of().lines == ()

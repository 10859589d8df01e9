"""Rows and money are counted by the words of both sides, in bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction
from payclient.reconcile import STRICT, Bucket, Row, Rules, Tally, Total
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.report import Cell, Matrix
from payclient.reconcile.report._matrix import REST, grid
from payclient.reconcile.result import OTHER


def row(ours="paid", theirs="Paid", method="VA", *, ledger_method="QR", amounts=(100, 90)):
    entry = Entry(line=1, reference="A", amount=amounts[0], status=ours, payment_method=ledger_method)
    transaction = Transaction(reference="A", amount=amounts[1], status=theirs or "", payment_method=method)
    return Row(entry=entry, bucket=Bucket.MATCHED, transaction=None if theirs is None else transaction)


def matrix_of(rows, **options):
    tally = Tally()
    for each in rows:
        tally.add(each)
    return Matrix.of(tally, **options)


def test_cells():
    """Rows with the same words and method are one cell; the ledger's method counts where the service says none."""
    rejected = Row(entry=RejectedEntry(line=1, reason="x", amount=7), bucket=Bucket.REJECTED)
    rows = [row(), row(amounts=(1, 2)), row(theirs="PAID"), row(method=None), row(ours=None, theirs=None), rejected]
    assert matrix_of([*rows, row(theirs="x" * 100_000)]).cells == {
        Cell("paid", "Paid", "VA"): Total(2, 101, 92),
        Cell("paid", "PAID", "VA"): Total(1, 100, 90),
        Cell("paid", "Paid", "QR"): Total(1, 100, 90),
        Cell(None, None, "QR"): Total(1, 100, 0),
        Cell(None, None, None): Total(1, 7, 0),
        Cell("paid", "x" * 79 + "…", "VA"): Total(1, 100, 90),
    }


def test_by():
    """Cells are added up by what they have in common, the most rows first."""
    matrix = matrix_of([row(method="QR"), row(), row(theirs="Open")])
    assert list(matrix.by(lambda cell: cell.method).items()) == [
        ("VA", Total(2, 200, 180)),
        ("QR", Total(1, 100, 90)),
    ]


def test_bounded():
    """With many words, the number of cells is limited, with one more for the rest; a known cell still counts."""
    numbers = (*range(10), 0)
    matrix = matrix_of((row(theirs=f"word {number}") for number in numbers), room=3)
    assert [(cell.service_status, total.rows) for cell, total in matrix.cells.items()] == [
        *(("word 0", 2), ("word 1", 1), ("word 2", 1), (REST.service_status, 7)),
    ]
    assert matrix.cells[REST] == Total(7, 700, 630)


@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", "c", None])] * 3), max_size=30), st.integers(0, 5))
def test_nothing_is_lost(words, room):
    """For any words and size, every row and all money is in one cell."""
    rows = [row(*each, amounts=(3, 2)) for each in words]
    totals = matrix_of(rows, room=room).cells.values()
    assert sum(total.rows for total in totals) == len(rows)
    assert sum(total.ledger_amount for total in totals) == 3 * len(rows)
    assert sum(total.service_amount for total in totals) == sum(2 for _, theirs, _ in words if theirs is not None)


def grid_of(*rows, rules=STRICT):
    found = []
    for ours, theirs, method in rows:
        transaction = Transaction(reference="A", amount=7, status=theirs, payment_method=method)
        entry = Entry(line=2, reference="A", amount=10, status=ours)
        found.append(Row(entry=entry, bucket=Bucket.MATCHED, transaction=transaction))
    return grid(matrix_of(found), rules)


def test_lines():
    """Lines are pairs of words and columns are methods, each in the order of their rows; a gap is None."""
    found = grid_of(("Paid", "Paid", "QR"), ("Paid", "Paid", "QR"), ("Paid", "Lunas", "VA"), ("Paid", "Paid", "QR"))
    assert found.methods == ("QR", "VA")
    assert [(line.ledger, line.service, line.cells, line.total) for line in found.lines] == [
        ("Paid", "Paid", (Total(3, 30, 21), None), Total(3, 30, 21)),
        ("Paid", "Lunas", (None, Total(1, 10, 7)), Total(1, 10, 7)),
    ]


def test_remark(subtests):
    """Words are compared by what they mean, by the rules of the user too; what is not known is never the same."""
    cases = (
        ("paid", "PAID ", ""),
        ("Paid", "Expired", "not the same"),
        ("Paid", "Settled", "unknown word"),
        ("Odd", "Odd", "unknown word"),
        ("Paid", "Lunas", ""),
        (None, "Paid", ""),
    )
    for ours, theirs, remark in cases:
        with subtests.test(ours=ours, theirs=theirs):
            found = grid_of((ours, theirs, "QR"), rules=Rules(statuses={"lunas": "paid"}))
            assert [line.remark for line in found.lines] == [remark]


def test_many_words():
    """However many words there are, the table stays small, counts every row, and names what it added up."""
    assert grid_of().lines == ()
    found = grid_of(*((f"S{number}", "Paid", f"M{number}") for number in range(500)))
    assert (len(found.methods), len(found.lines), sum(line.total.rows for line in found.lines)) == (7, 25, 500)
    assert (found.methods[-1], found.lines[-1].ledger, found.lines[-1].service) == (OTHER, OTHER, OTHER)
    assert all(sum(cell.rows for cell in line.cells if cell) == line.total.rows for line in found.lines)

"""Rows and money are counted by the words of both sides and by method, in bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction
from payclient.reconcile import Bucket, Row, Tally
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.result import OTHER
from support.chance import examples


def row(ours="paid", theirs="Paid", method="VA", *, amounts=(100, 90)):
    entry = Entry(line=1, reference="A", amount=amounts[0], status=ours, payment_method="QR")
    transaction = Transaction(reference="A", amount=amounts[1], status=theirs or "", payment_method=method)
    return Row(entry=entry, bucket=Bucket.MATCHED, transaction=None if theirs is None else transaction)


def figures(rows):
    """Return rows and both amounts by words and method."""
    tally = Tally()
    for each in rows:
        tally.add(each)
    found = tally.summary().statuses
    return {words: (total.rows, total.ledger_amount, total.service_amount) for words, total in found.items()}


def test_words():
    """Rows with the same words and method are together; the ledger's method counts where the service says none."""
    rejected = Row(entry=RejectedEntry(line=1, reason="x", amount=7), bucket=Bucket.REJECTED)
    rows = [row(theirs="PAID"), row(), row(amounts=(1, 2)), row(method=None), row(ours=None, theirs=None), rejected]
    assert list(figures([*rows, row(theirs="x" * 100_000)]).items()) == [
        (("paid", "Paid", "VA"), (2, 101, 92)),
        (("paid", "PAID", "VA"), (1, 100, 90)),
        (("paid", "Paid", "QR"), (1, 100, 90)),
        ((None, None, "QR"), (1, 100, 0)),
        ((None, None, None), (1, 7, 0)),
        (("paid", "x" * 79 + "…", "VA"), (1, 100, 90)),
    ]


def test_bounded():
    """With many words, their number is limited, with one more for the rest; a known one still counts."""
    found = figures(row(theirs=f"word {number}") for number in (*range(1_007), 0))
    assert (len(found), found[OTHER, OTHER, OTHER], found["paid", "word 0", "VA"][0]) == (1_001, (7, 700, 630), 2)


@examples(20)
@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", "c", None])] * 3), max_size=30))
def test_nothing_is_lost(words):
    """Of any words, every row and all money is counted once."""
    found = figures(row(*each, amounts=(3, 2)) for each in words)
    expected = len(words), 3 * len(words), sum(2 for _, theirs, _ in words if theirs is not None)
    assert tuple(sum(each[place] for each in found.values()) for place in range(3)) == expected

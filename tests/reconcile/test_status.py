"""States are compared through a small vocabulary, and nothing is guessed into it."""

from __future__ import annotations

from payclient.reconcile import Status, read_status


def test_known(subtests):
    """The six words are known in any case and with spaces, dashes and underscores around them."""
    cases = (
        ("Canceled", Status.CANCELED),
        ("cancelled", Status.CANCELED),
        ("Paid", Status.PAID),
        (" PAID ", Status.PAID),
        ("_paid-", Status.PAID),
        ("pending", Status.PENDING),
        ("EXPIRED", Status.EXPIRED),
        ("failed", Status.FAILED),
        ("Refunded", Status.REFUNDED),
    )
    for word, status in cases:
        with subtests.test(word=word, status=status):
            assert read_status(word) is status


def test_unknown(subtests):
    """Every other word, and every number, is unknown."""
    cases = ("success", "settled", "unpaid", "partially paid", "1", "00", "2", "", " ", "pa id", None)
    for word in cases:
        with subtests.test(word=word):
            assert read_status(word) is None


def test_more_words():
    """Other words can be known, too, and those that everybody knows keep their meaning."""
    more = {"in review": Status.PENDING, "paid": Status.FAILED}
    assert [read_status(word, more) for word in ("IN-REVIEW", "Paid", "other")] == [Status.PENDING, Status.PAID, None]

"""States are compared through a small vocabulary, and nothing is guessed into it."""

from __future__ import annotations

import pytest

from payclient.reconcile import Status, read_status


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("Canceled", Status.CANCELED),
        ("cancelled", Status.CANCELED),
        ("Paid", Status.PAID),
        (" PAID ", Status.PAID),
        ("_paid-", Status.PAID),
        ("pending", Status.PENDING),
        ("EXPIRED", Status.EXPIRED),
        ("failed", Status.FAILED),
        ("Refunded", Status.REFUNDED),
    ],
)
def test_known(word, status):
    """The six words are known in any case and with spaces, dashes and underscores around them."""
    assert read_status(word) is status


@pytest.mark.parametrize(
    "word",
    ["success", "settled", "unpaid", "partially paid", "1", "00", "2", "", " ", "pa id", None],
)
def test_unknown(word):
    """Every other word, and every number, is unknown."""
    assert read_status(word) is None


def test_more_words():
    """Other words can be known, too, and those that everybody knows keep their meaning."""
    more = {"in review": Status.PENDING, "paid": Status.FAILED}
    assert [read_status(word, more) for word in ("IN-REVIEW", "Paid", "other")] == [Status.PENDING, Status.PAID, None]

"""A word is in the clear if it is one, and known; everything else is its shape."""

from __future__ import annotations

import pytest

from payclient.reconcile.drift._profile import cleared, marked, pattern, phrase, shape


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Paid", "Paid"),
        ("Partially_Refunded", "Partially_Refunded"),
        ("application/problem+json", "application/problem+json"),
        ("081234567890", "<digits:12>"),
        ("VA1", "<mixed:3>"),
        ("Budi Santoso", "<mixed:12>"),
        ("a" * 32, "a" * 32),
        ("a" * 33, "<letters:33+>"),
        ("", "<empty>"),
    ],
)
def test_known_word(text, expected):
    """Letters only, at most 32 of them."""
    assert cleared(marked(text), {marked(text)}) == expected


def test_unknown_word():
    """A word that is not known has its shape; what is no word of the service's stays as it is."""
    assert cleared(marked("Paid"), ()) == shape("Paid") == "<letters:4>"
    assert cleared("integer", ()) == "integer"


def test_pattern():
    """The format of a time has no digit and no letter of it."""
    assert pattern("2026-11-21 10:00:00") == "9999-99-99 99:99:99"
    assert pattern("21/11/2026 Senin") == "99?99?9999 aaaaa"


def test_phrase():
    """A message is cut into at most twelve words."""
    assert phrase("Not found: T1.") == (marked("Not"), marked("found"), marked("T1"))
    assert len(phrase("a " * 20)) == 12

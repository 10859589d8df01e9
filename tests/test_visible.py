"""Nothing that a stranger wrote can act on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient._visible import quoted, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Ünïcode 100%", "plain Ünïcode 100%"),
        ("\x1b[31mred", "<U+001B>[31mred"),
        ("a\u202eb", "a<U+202E>b"),
        ("a\nb\tc\r", "a<U+000A>b<U+0009>c<U+000D>"),
        ("a\u00a0b", "a<U+00A0>b"),
        ("\x7f\x9b", "<U+007F><U+009B>"),
    ],
)
def test_visible(text, shown):
    """What does not print is written as its number; what prints stays."""
    assert visible(text) == shown


@given(st.text(st.characters()))
def test_always_prints(text):
    """Whatever comes, what is shown prints, on one line."""
    assert visible(text).isprintable()


def test_shortened():
    """Long text is cut to the length that was asked for, and says that it was."""
    assert visible("abcdef", longest=4) == "abc…"


@pytest.mark.parametrize(
    ("value", "shown"), [("a'b", "'a'b'"), (5, "5"), (None, "nothing"), ("x" * 99, f"'{'x' * 79}…'")]
)
def test_quoted(value, shown):
    """In a sentence, text stands in quotes, numbers are bare, and nothing is called nothing."""
    assert quoted(value) == shown

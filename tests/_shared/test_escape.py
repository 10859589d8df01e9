"""Nothing that a stranger wrote can act on a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient._shared.escape import escape_unprintable, plural, quote
from support.misses import check_table


def test_visible():
    """What does not print is written as its number; what prints stays."""
    cases = (
        ("plain Ünïcode 100%", "plain Ünïcode 100%"),
        ("\x1b[31mred", "<U+001B>[31mred"),
        ("a\u202eb", "a<U+202E>b"),
        ("a\nb\tc\r", "a<U+000A>b<U+0009>c<U+000D>"),
        ("a\u00a0b", "a<U+00A0>b"),
        ("\x7f\x9b", "<U+007F><U+009B>"),
    )
    check_table(cases, escape_unprintable)


@given(st.text(st.characters()))
def test_always_prints(text):
    """Any text is shown printable and on one line."""
    assert escape_unprintable(text).isprintable()


def test_shortened():
    """Long text is cut to the length that was asked for, and says that it was."""
    assert escape_unprintable("abcdef", max_length=4) == "abc…"


@pytest.mark.parametrize(
    ("value", "shown"), [("a'b", "'a'b'"), (5, "5"), (None, "nothing"), ("x" * 99, f"'{'x' * 79}…'")]
)
def test_quoted(value, shown):
    """In a sentence, text is quoted, numbers are bare, and None is "nothing"."""
    assert quote(value) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u0422001", "'\u0422001' (contains U+0422)"),
        ("INV\u20111", "'INV\u20111' (contains U+2011)"),
        ("T\uff11", "'T\uff11' (contains U+FF11)"),
        ("Zahlung für Müller", "'Zahlung für Müller'"),
        ("\u041e\u043f\u043b\u0430\u0447\u0435\u043d", "'\u041e\u043f\u043b\u0430\u0447\u0435\u043d'"),
    ],
    ids=["Cyrillic", "hyphen", "full width", "umlaut", "all Cyrillic"],
)
def test_look_alike(text, shown):
    """A character that looks like another is named by its number; accents and text in one script are not."""
    assert quote(text) == shown


@pytest.mark.parametrize(("count", "said"), [(0, "0 rows"), (1, "1 row"), (2000, "2,000 rows")])
def test_plural(count, said):
    """A count of one is singular."""
    assert plural(count, "row") == said

"""What a ledger's owner declares is checked, and kept as plain values."""

from __future__ import annotations

import io
import re

import pytest

from payclient.ledger import Dialect, Entry, dialect_as_json, open_ledger


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"decimal": ";"}, "decimal must be one of . and , got ';'"),
        ({"thousands": "_"}, "thousands must be one of ,, ., space, apostrophe, got '_'"),
        ({"decimal": ",", "thousands": ","}, "decimal and thousands must differ, got ',' for both"),
        ({"grouping": "indian"}, "grouping must be western without thousands, the mark that groups the digits"),
        ({"negative": "red"}, "negative must be one of leading, trailing, parentheses, debit, got 'red'"),
        ({"minor_units": 5}, "minor_units must be from 0 to 4, such as 2 for cents, got 5"),
        ({"header_row": 0}, "header_row must be the number of a row, from 1, got 0"),
        ({"header_row": True}, "header_row must be the number of a row, from 1, got True"),
        (
            {"currency_prefix": "-"},
            "currency_prefix must be the sign or the letters of a currency, such as Rp, got '-'",
        ),
        (
            {"currency_suffix": "DB"},
            "currency_suffix must be a currency, and 'DB' says credit or debit; try --negative debit",
        ),
        ({"date_format": 3}, "date_format must be text, or a list of texts, got 3"),
        ({"date_format": "%d/%m"}, "date_format must have day, month and year once each, as in %d/%m/%Y, got '%d/%m'"),
        ({"null": [""]}, "null must be text, or a list of texts, got ['']"),
        (
            {"encoding": "rot13"},
            "encoding must be one that ledgers have, such as cp1252, iso-8859-1 or utf-16, got 'rot13'",
        ),
        (
            {"encoding": "idna"},
            "encoding must be one that ledgers have, such as cp1252, iso-8859-1 or utf-16, got 'idna'",
        ),
    ],
)
def test_refused(declared, message):
    """A declaration that cannot be used is refused by its name."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Dialect(**declared)


def test_as_json():
    """Only what is declared is kept; of a profile everything, because the profile may change."""
    assert dialect_as_json(Dialect()) == {}
    assert dialect_as_json(Dialect(decimal=",", date_format="%d/%m/%Y")) == {
        "decimal": ",",
        "date_format": ["%d/%m/%Y"],
    }
    kept = dialect_as_json(Dialect.named("excel-de", decimal=".", thousands=","))
    assert (kept["profile"], kept["decimal"], kept["encoding"], kept["header_row"]) == ("excel-de", ".", "cp1252", None)
    assert Dialect(**kept) == Dialect.named("excel-de", decimal=".", thousands=",")


def test_null():
    r"""A text that is declared to be an empty cell is one, in every column; `\N` is never a value."""
    text = "reference,merchant_reff,amount,fee\nT1,\\N,15000,NULL\n"
    dialect = Dialect(null=["NULL", r"\N"])
    with open_ledger(io.StringIO(text), dialect=dialect) as ledger:
        assert list(ledger) == [Entry(line=2, reference="T1", merchant_reff=None, amount=15000, fee=None)]
    with open_ledger(io.StringIO(text)) as ledger:
        (row,) = ledger
    assert row.reason == (
        r"merchant_reff: '\N' is an empty cell to databases; --null '\N' reads it as one; "
        "fee: 'NULL' is not a number; if it stands for an empty cell, --null 'NULL' says so"
    )

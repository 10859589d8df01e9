"""What a ledger's owner declares is checked, and kept as plain values."""

import csv
import io
import re
from datetime import datetime

import attrs
from hypothesis import assume, given
from hypothesis import strategies as st

from payclient.reconcile import dialect_as_json
from payclient.reconcile.ledger import Dialect, Entry
from reconcile.ledger.test_money import dialects, written
from support.chance import examples
from support.ledgers import read
from support.misses import check_refused

ROWS = st.lists(
    st.tuples(
        st.integers(0, 10**6).map("T{:07}".format),
        st.integers(1 - 10**12, 10**12),
        st.none() | st.integers(0, 10**6),
        st.none() | st.datetimes(datetime(1971, 1, 1), datetime(2068, 12, 31)),  # noqa: DTZ001  as ledgers state it
        st.sampled_from(["Bezahlt", "Payé", "Lunas"]),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row[0],
)


FORMS = st.fixed_dictionaries(
    {
        "date_format": st.sampled_from(["%d.%m.%Y %H:%M:%S", "%m/%d/%y %I:%M:%S %p", "%Y%m%d%H%M%S"]),
        "encoding": st.sampled_from(["utf-8", "cp1252", "utf-16", "mac-roman"]),
        "header_row": st.sampled_from([None, 1, 3]),
        "null": st.sampled_from([(), ("NULL", "\\N")]),
    }
)


@given(ROWS, st.builds(lambda dialect, more: attrs.evolve(dialect, **more), dialects(), FORMS), st.sampled_from(";\t"))
@examples(300)
def test_any_table(rows, dialect, delimiter):
    """A table that is written in any declared format is read back as it was."""
    file = io.StringIO(newline="")
    file.write("Zahlungen\r\n\r\n" if dialect.header_row == 3 else "")
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(["Referenz", "Betrag", "Gebühr", "Datum", "Status"])
    (form,) = dialect.date_format
    empty = dialect.null[-1] if dialect.null else ""
    for reference, amount, fee, created, status in rows:
        money = [empty if number is None else written(number, dialect) for number in (amount, fee)]
        assume(None not in money)
        writer.writerow([reference, *money, empty if created is None else created.strftime(form), status])
    data = file.getvalue().encode(dialect.encoding)
    assert read(data, dialect=dialect, delimiter=delimiter) == [
        Entry(
            line=line,
            reference=reference,
            amount=amount,
            fee=fee,
            status=status,
            created_at=None if created is None else created.replace(microsecond=0),
        )
        for line, (reference, amount, fee, created, status) in enumerate(rows, (dialect.header_row or 1) + 1)
    ]


def test_refused():
    """A declaration that cannot be used is refused by its name."""
    rows = [
        ({"decimal": ";"}, "decimal must be a point or a comma, got ';'"),
        ({"thousands": "_"}, "thousands must be one of ,, ., space, apostrophe, got '_'"),
        ({"decimal": ",", "thousands": ","}, "decimal and thousands must differ, got ',' for both"),
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
            "currency_suffix must be a currency, but 'DB' means credit or debit: try debit for negative",
        ),
        ({"date_format": 3}, "date_format must be text, or a list of texts, got 3"),
        ({"date_format": "%d/%m"}, "date_format must have day, month and year once each, as in %d/%m/%Y, got '%d/%m'"),
        ({"null": [""]}, "null must be text, or a list of texts, got ['']"),
        ({"encoding": "rot13"}, "encoding must be one for ledgers, such as cp1252, iso-8859-1 or utf-16, got 'rot13'"),
        ({"encoding": "idna"}, "encoding must be one for ledgers, such as cp1252, iso-8859-1 or utf-16, got 'idna'"),
    ]
    rows = [(declared, f"^{re.escape(message)}$") for declared, message in rows]
    check_refused(rows, ValueError, lambda declared: Dialect(**declared))


def test_as_json():
    """Only what is declared is kept."""
    assert dialect_as_json(Dialect()) == {}
    assert dialect_as_json(Dialect(decimal=",", date_format="%d/%m/%Y")) == {
        "decimal": ",",
        "date_format": ["%d/%m/%Y"],
    }


def test_null():
    r"""A text that is declared to be an empty cell is one, in every column; `\N` is never a value."""
    text = "reference,merchant_reff,amount,fee\nT1,\\N,15000,NULL\n"
    dialect = Dialect(null=["NULL", r"\N"])
    known = Entry(line=2, reference="T1", merchant_reff=None, amount=15000, fee=None)
    assert read(text, dialect=dialect) == [known]
    (row,) = read(text)
    assert row.reason == (
        r"merchant_reff: '\N' is an empty cell to databases; --null '\N' reads it as one; "
        "fee: 'NULL' is not a number; --null NULL reads it as an empty cell"
    )

"""A column that nobody uses is named with its sum, or its texts and counts; it is never left out in silence."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.ledger import Dialect, LedgerError
from payclient.reconcile.ledger._notation import is_time, may_be_money
from payclient.reconcile.report.wording import in_words
from reconcile.ledger.test_suggestion import _cell
from support.chance import examples
from support.ledgers import opened, read


def named(text, **options):
    """Return the sentences about the columns that are not used."""
    with opened(text, **options) as ledger:
        list(ledger)
        return [*map(in_words, ledger.unused)]


def beside(name, *cells, **options):
    rows = "".join(f'T{number},15000,"{cell}"\n' for number, cell in enumerate(cells))
    return "; ".join(named(f"reference,amount,{name}\n{rows}", **options))


IDS = tuple(f"{n:08x}-{n:04x}" for n in range(1, 61))
DAYS = tuple(f"2026-{10 + n % 2}-{n % 28 + 1:02}" for n in range(40))

SAID = [
    ("Order Status", ("completed", "cancelled"), "Order Status: completed 1, cancelled 1"),
    ("Batal", ("Ya", "Tidak", "Tidak"), "Batal: Tidak 2, Ya 1"),
    ("BS", ("15", "01", "11"), "BS: 15 1, 01 1, 11 1"),
    ("is_refund", ("0", "1"), "is_refund: 0 1, 1 1"),
    ("Type", ("Sales credit note",) * 3, "Type: Sales credit note 3"),
    ("D", ("x", ""), "D: x 1, (empty) 1"),
    ("pengembalian", ("0", "75000", ""), "pengembalian 75,000"),
    ("Rückzahlung", ("-1500", "-75000"), "Rückzahlung -76,500"),
    ("x", ("Rp 15.000", "Rp 7.500"), "x: Rp 15.000 1, Rp 7.500 1"),
    *(
        (name, (never,) * 38 + ("2026-11-08",) * 2, f"{name}: {never} 38, 2026-11-08 2")
        for name, never in [
            *(("refunded_at", "0001-01-01T00:00:00Z"), ("cancelled_at", "1970-01-01"), ("deleted_at", "0000-00-00")),
            *(("valid_to", "9999-12-31"), ("Tgl Retur", "01/01/1900"), ("settled_at", "1900-01-01 00:00:00")),
        ]
    ),
    ("settled_at", (*DAYS, "1900-01-01", "1900-01-01"), "settled_at: 2026 40, 1900 2"),
    ("void", ("9999-12-31",) * 60 + DAYS, "void: 9999-12-31 60, (others) 40"),
    ("void", ("1970-01-01",) * 12 + tuple(f"{day} 10:00" for day in DAYS), "void: 2026 40, 1970 12"),
    ("Stornodatum", ("2026-11-08",) * 3, "Stornodatum: 2026-11-08 3"),
    ("Payout Date (UTC)", ("2026-11-08",) * 30 + ("2026-11-09",) * 10, ""),
    ("id", ("00000000-0000",) * 60 + IDS[:40], "id: 00000000-0000 60, (others) 40"),
    ("id", ("none",) * 30 + IDS, "id: (others) 60, none 30"),
    ("Trx Code", ("4001",) * 38 + ("4002",) * 2, "Trx Code: 4001 38, 4002 2"),
    ("Konto", ("1200", "8400", "120000") * 9, "Konto: 1200 9, 8400 9, 120000 9"),
    ("Konto", tuple(1200 + n % 20 for n in range(60)), "Konto: 1200 3, 1201 3, 1202 3, 1203 3, 1204 3 …"),
    ("Retur", ("0",) * 37 + ("20000", "20000", "21100"), "Retur 61,100"),
    ("Returned", tuple(range(1, 41)), "Returned 820"),
    ("x", tuple(f"{n}" for n in range(100, 160, 5)), "x 1,530"),
    ("cancelled at", ("2026-11-01 10:00:00", ""), "cancelled at: (filled) 1, (empty) 1"),
    ("text", tuple(f"{'Out' if n == 3 else 'Pay'} for A{n}B" for n in range(20)), "text: Pay for # 19, Out for # 1"),
    ("name", tuple(f"{n * 'x'}y" for n in range(1, 12)), ""),
    ("order", ("INV-1001", "INV-1002"), ""),
    ("order", tuple(f"INV-{n}" for n in range(1000, 1020)), ""),
    ("No", tuple(range(1, 20)), ""),
    ("phone", tuple(f"0812{n * n}" for n in range(20)), ""),
    ("day", ("20261101", "20261102"), ""),
    ("day", ("01.11.2026", "2 Nov 2026", "2026-11-21T10:00:00Z"), ""),
    ("note", ("", " "), ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "cells", "sentence"), SAID)
def test_named(name, cells, sentence):
    """What a column may say is named in any language; what only tells one row from another is not."""
    assert beside(name, *cells) == sentence
    assert beside(name, *cells, ignore=[name]) == ""


def test_declared_notation():
    """A sum is read as the amounts of the ledger are."""
    text = "reference;Betrag;Rabatt\nT1;15.000,00;1.500,00\nT2;15.000,00;\n"
    assert named(text, dialect=Dialect(decimal=",", thousands=".")) == ["Rabatt 1,500"]


def test_formats():
    """The cells of JSON Lines, also under keys that only a later row has, and of Parquet are looked at as well."""
    rows = [{"reference": "T1", "amount": 5}, {"reference": "T2", "amount": 5, "refunded": True, "tags": ["a"]}]
    text = "\n".join(map(json.dumps, rows))
    assert named(text, format="jsonl") == ["refunded: True 1, (empty) 1", "tags: ['a'] 1, (empty) 1"]
    assert named(text, format="jsonl", ignore=["tags"]) == ["refunded: True 1, (empty) 1"]
    states = [True] * 38 + [False] * 2, [{}] * 60 + [{"refund": n} for n in range(40)], [0.5] * 8 + [1.5] * 2
    for cells, said in zip(states, ["True 38, False 2", "{} 60, (others) 40", "0.5 8, 1.5 2"], strict=True):
        lines = [json.dumps({"reference": f"T{n}", "amount": 5, "x": cell}) for n, cell in enumerate(cells)]
        assert named("\n".join(lines), format="jsonl") == [f"x: {said}"]
    file = io.BytesIO()
    pq.write_table(pa.table({"reference": ["T1", "T2"], "amount": [5, 5], "x": [9000, None], "y": ["a", "b"]}), file)
    assert named(file.getvalue()) == ["x 9,000", "y: a 1, b 1"]


def test_many_cells():
    """What is kept of a column does not grow with it, and counts every row."""
    rows = "".join(f"T{n},5,{n * 7},{n % 3}x\n" for n in range(10_000))
    found = named(f"reference,amount,sum,few\n{rows}")
    assert found == ["sum 349,965,000", "few: 0x 3,334, 1x 3,333, 2x 3,333"]
    days = [f"{first + n}-01-01" for first in (1000, 5000) for n in range(3000)]
    late = "".join(f"T{n},5,{day}\n" for n, day in enumerate([*days, *["0001-01-01"] * 9000]))
    assert named(f"reference,amount,void\n{late}") == ["void: 0001-01-01 9,000, (others) 6,000"]


def test_ignored():
    """A column that is ignored by name keeps its words and counts; one of debits is in use."""
    text = "reference,Type,amount,Debit\nT1,charge,5,\nT2,refund,,5\n"
    with opened(text, ignore=["Type"], dialect=Dialect(debit_columns={"amount": "Debit"})) as ledger:
        list(ledger)
        assert ([*map(in_words, ledger.ignored)], ledger.unused) == (["Type: charge 1, refund 1"], ())


DISGUISED = [
    *("15000 CR", "15000,-", "15000.", "15000,", "IDR15.000.-", "150000.00", "US$ 15,000.00", "R$ 15.000,00"),
    *("A$15,000", "(15.000)", "15.000-", "15.000 IDR DB", "1'500.--", "Rp 15.000,00", "15 000 €"),
    *("15000 Euro", "CR 15000", "DB 15.000,00", "15000**", "*15.000", "15000.00 (CR)", "15.000 Rupiah", '="15000"'),
]


def test_no_amount():
    """Without an amount column, a column that may be one refuses the ledger; the others stay last."""
    for cell in DISGUISED:
        quoted = cell.replace('"', '""')
        with pytest.raises(
            LedgerError, match=r"'wert' looks like money .*amount=wert chooses it, or --ignore-column NAME"
        ):
            read("reference,status,wert\nT1,paid,n/a\nT2,paid,\n" + f'T3,paid,"{quoted}"\n' * 2)
        assert may_be_money(cell)
    with pytest.raises(LedgerError, match=r"'A' looks like money .*so is 'B'.*--column amount=A or --column amount=B"):
        read("reference,A,B\nT1,5000,7000\n")
    for cell in ["INV-15000", "T 15000", "2026-11-21", "A1", "15000 items", "12:30", "po_17", "1.2.3", "n/a", "C15000"]:
        assert not may_be_money(cell)


PAIR = "credit", "debit"


def test_sides():
    """A pair of columns for credit and debit is suggested if the first rows can be read so."""
    text = "reference,debit,credit\nT1,,15000\nT2,7000,0\n"
    bank, own = (f"--column amount={came} --debit-column amount={went}" for came, went in (PAIR, PAIR[::-1]))
    with pytest.raises(LedgerError, match=f"{bank} reads both as a bank .* or {own} reads both as your own books have"):
        read(text)
    with pytest.raises(LedgerError, match="--column amount=credit or"):
        read(f"{text}T3,7000,8000\n")


def test_directions():
    """A column whose texts are known to say credit and debit refuses the ledger until it is used or ignored."""
    for credit, debit in [("C", "D"), ("CREDIT TRANSFER", "Debit Transfer"), ("Uang Masuk", "Uang Keluar")]:
        text = f"reference,amount,x\nT1,5,{credit}\nT2,5,{debit}\n"
        with pytest.raises(
            LedgerError, match=r"'x' has words for credit and debit .* direction=x chooses it, or --ignore-column NAME"
        ):
            read(text)
        assert named(text, columns={"kind": "x"}) == []


@given(st.integers(1, 10**9), st.sampled_from(["", ".", ",", "'", " "]), st.sampled_from([None, ".", ","]))
@examples(200)
def test_one_source(number, mark, decimal):
    """An amount in any notation that can be declared is known to be one, and is not a time."""
    if mark != decimal:
        cell = _cell(number, mark, decimal)
        assert may_be_money(cell)
        assert not is_time(cell) or len(cell) == len("20261121")


@pytest.mark.parametrize(
    ("header", "field"), [("reference,status,state", "status"), ("reference,amount,total", "amount")]
)
def test_two_candidates(header, field):
    """Of two columns that could be one field, none is taken by guess."""
    with pytest.raises(LedgerError, match=f"could also be {field} and is not used"):
        read(f"{header}\nT1,5,5\n")
    assert len(read(f"{header}\nT1,5,5\n", ignore=[header.rpartition(",")[2]])) == 1


@pytest.mark.parametrize("field", ["amount", "status"])
def test_require(field):
    """A required field without a column refuses the ledger, and the message says how to choose one."""
    with pytest.raises(LedgerError, match=f"no column was found for {field}, which is required.*--column {field}=x"):
        read("reference,x\nT1,y\n", require=["amount", "status"] if field == "amount" else ["status"])
    assert len(read("reference,amount,status\nT1,5,paid\n", require=["amount", "status"])) == 1


def test_mistakes():
    """A required field that does not exist, and a column to ignore that is not there, are refused."""
    with pytest.raises(ValueError, match="require: unknown field 'betrag'"):
        read("reference\nT1\n", require=["betrag"])
    with pytest.raises(LedgerError, match="no column is called 'x', which was to be ignored; there are 'reference'"):
        read("reference\nT1\n", ignore=["x"])


def test_ignored_by_name():
    """A column that is ignored by name is left out although it is recognised, and a chosen one is not."""
    text = "reference,status,amount\nT1,Paid,5\n"
    with opened(text, ignore=["amount"]) as ledger:
        assert (dict(ledger.columns.used), len(list(ledger))) == ({"reference": "reference", "status": "status"}, 1)
    assert [row.amount for row in read(text, ignore=["amount"], columns={"amount": "amount"})] == [5]


@pytest.mark.parametrize(
    ("text", "message"), [("", "the file is empty"), ("reference\n", "the file has a header and no rows")]
)
def test_empty(text, message):
    """A ledger without a row is refused where that is not allowed, in every format."""
    with pytest.raises(LedgerError, match=f"{message}; --allow-empty accepts that"):
        read(text, allow_empty=False)
    assert read(text) == []

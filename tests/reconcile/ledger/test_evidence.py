"""What the reader can read is known to be money, and a word that decides what a row means is not left unread."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.ledger import LedgerError, open_ledger
from payclient.reconcile.ledger._unused import may_be_money
from reconcile.ledger.test_suggestion import _cell
from support.chance import examples


def refusal(text, **options):
    """Return why a ledger is refused; empty if it is read."""
    try:
        with open_ledger(io.StringIO(text), **options) as ledger:
            list(ledger)
    except LedgerError as error:
        return str(error)
    return ""


DISGUISED = [
    *("15000 CR", "15000,-", "15000.", "15000,", "IDR15.000.-", "150000.00", "US$ 15,000.00", "R$ 15.000,00"),
    *("A$15,000", "(15.000)", "15.000-", "15.000 IDR DB", "1'500.--", "Rp 15.000,00", "12,34,567", "-7", "15 000 €"),
    *("15000 Euro", "CR 15000", "DB 15.000,00", "15000**", "*15.000", "15000.00 (CR)", "15.000 Rupiah"),
]


def test_money_in_any_cell():
    """Without an amount column, one cell that any notation reads refuses the ledger, on whatever row it is."""
    rows = f"T1,paid,.00\nT2,paid,\nT3,paid,{'x' * 50}\n" + "T4,paid,n/a\n" * 300
    missed = [
        cell
        for cell in DISGUISED
        if "'wert' holds what looks like money and is not used"
        not in refusal(f'reference,status,wert\n{rows}T5,paid,"{cell}"\nT6,paid,po_17\n')
    ]
    assert missed == []


@given(st.integers(1, 10**9), st.sampled_from(["", ".", ",", "'", " "]), st.sampled_from([None, ".", ","]))
@examples(200)
def test_one_source(number, mark, decimal):
    """An amount in any notation that can be declared is known to be one."""
    if mark != decimal:
        assert may_be_money(_cell(number, mark, decimal))


def test_not_money(subtests):
    """A code, a day and a count with a word are not amounts."""
    for cell in [
        "INV-15000",
        "T 15000",
        "2026-11-21",
        "21.11.2026",
        "A1",
        "15000 items",
        "12:30",
        "po_17",
        "1.2.3",
        "n/a",
    ]:
        with subtests.test(cell=cell):
            assert not may_be_money(cell)


FLOWS = (
    "debit",
    "credit",
    "Kredit",
    "Mutasi Debet",
    "Gutschrift",
    "Lastschrift",
    "Soll",
    "payout",
    "Settlement",
    "Débit",
    *("Chargeback", "Entrada", "Salida", "Depósito", "Retiro", "Dépôt", "Money in", "Money out", "Terima", "Zahlung"),
    *("Erlös", "Pajak", "saída", "Belastung"),
)


def test_formula():
    """A number in a formula, which spreadsheets keep as a text, is a number."""
    assert may_be_money('="15000"')
    assert may_be_money("=15.000,00")
    assert not may_be_money("C15000")


def test_flows():
    """A column called as banks call money that came or went is refused beside an amount if it holds numbers."""
    wrong = []
    for name in FLOWS:
        text = f'reference,amount,{name}\nT1,5,\nT2,5,"{{}}"\n'
        for cell, is_money in (
            ("15000,-", True),
            ("C15000", True),
            ("D15000,00", True),
            (".00", False),
            ("7", True),
            ("po_123", False),
            ("n/a", False),
        ):
            found = refusal(text.format(cell))
            if ("holds what looks like money and is not used" in found) != is_money or (found and not is_money):
                wrong.append((name, cell, found))
    assert wrong == []


DIRECTED = [
    *(("type", pair) for pair in (("CREDIT TRANSFER", "DEBIT TRANSFER"), ("CR TRANSFER", "DR TRANSFER"))),
    *(("Umsatzart", pair) for pair in (("Eingang", "Ausgang"), ("Zugang", "Abgang"), ("Gutschrift", "Belastung"))),
    *(("Tipo", pair) for pair in (("Entrada", "Salida"), ("entrada", "saída"), ("entrante", "saliente"))),
    *(("flow", pair) for pair in (("inflow", "outflow"), ("inbound", "outbound"), ("incoming", "outgoing"))),
    *(("x", pair) for pair in (("Paid in", "Paid out"), ("money in", "money out now"), ("Entrée", "Sortie"))),
    *(("x", pair) for pair in (("P", "N"), ("Received", "Sent"), ("Terima", "Keluar"), ("Positif", "Negatif"))),
    *(("x", pair) for pair in (("Deposit", "Outgoing bank transfer"), ("Card", "SEPA debit order"))),
]
"""Names of columns with a credit and a debit."""

DECISIVE = [
    ("type", ("payment", "refund"), "'refund', which decides what a line is"),
    ("type", ("payment", "payout"), "'payout', which decides what a line is"),
    ("Vorgang", ("Zahlung", "Rückerstattung"), "'Rückerstattung', which decides what a line is"),
    ("Jenis", ("Pembayaran", "Pengembalian Dana"), "'Pengembalian Dana', which decides what a line is"),
    ("state of booking", ("booked", "pending"), "'pending', which decides whether a line is booked"),
    ("Info", ("Umsatz gebucht", "Umsatz vorgemerkt"), "'Umsatz vorgemerkt', which decides whether a line is booked"),
    ("Tipo", ("Ingreso", "Egreso"), "'Egreso', which decides the sign of amounts"),
    ("type", ("TRANSFER_IN", "TRANSFER_OUT"), "'TRANSFER_OUT', which decides the sign of amounts"),
    ("Jenis", ("Uang Masuk", "Uang Keluar"), "'Uang Keluar', which decides the sign of amounts"),
    ("indicator", ("1", "-1"), "'-1', which decides the sign of amounts"),
    ("is_refund", ("false", "true"), "'true', which decides what a line is"),
    ("booked", ("yes", "no"), "'no', which decides whether a line is booked"),
    ("Stand", ("gebucht", "nicht gebucht"), "'nicht gebucht', which decides whether a line is booked"),
    ("x", ("BOOK", "PDNG"), "'PDNG', which decides whether a line is booked"),
    ("RvslInd", ("false", "true"), "'true', which decides what a line is"),
    ("reversal indicator", ("N", "Y"), "'Y', which decides what a line is"),
    *((name, pair, f"'{pair[1]}', which decides the sign of amounts") for name, pair in DIRECTED),
    *(
        (name, pair, f"'{pair[1]}', which decides the sign of amounts")
        for name in ("debit", "is_debit", "Debit flag", "DR")
        for pair in (("N", "Y"), ("0", "1"), ("false", "true"), ("no", "yes"))
    ),
    ("Credit", ("Y", "N"), "'N', which decides the sign of amounts"),
]


def test_decisive_words():
    """A column that says what a line is, or whether it is booked, is used or ignored by name."""
    missed = []
    for name, cells, reason in DECISIVE:
        text = f"reference,amount,{name}\nT1,5,{cells[0]}\nT2,5,{{}}\n"
        if reason not in refusal(text.format(cells[1])) or refusal(text.format(cells[0])):
            missed.append(name)
        for options in ({"ignore": [name]}, {"columns": {"kind": name}}):
            missed += [name] if refusal(text.format(cells[1]), **options) else []
    assert missed == []


def test_free_text():
    """Texts that people write decide nothing: they are long, or all different."""
    assert refusal("reference,amount,note\nT1,5,please refund this one soon\nT2,5,refund for INV-7\n") == ""
    many = "".join(f"T{n},5,note {'x' * n}\n" for n in range(1, 60))
    assert refusal(f"reference,amount,note\n{many}T60,5,refund\n") == ""


def test_both_sides():
    """Words that are as often states decide the sign only next to their opposite."""
    text = "reference,amount,x\nT1,5,{}\nT2,5,{}\n"
    pairs = [("Deposit", "Withdrawal"), ("Depósito", "Retiro"), ("Diterima", "Dikirim"), ("Reçu", "Envoyé")]
    assert [pair for pair in pairs if "decides the sign of amounts" not in refusal(text.format(*pair))] == []
    harmless = [
        ("Sent", "sent"),
        ("N", "N"),
        ("N", "Y"),
        ("sent", "opened"),
        ("Walk in", "Dr Smith"),
        ("M", "F"),
        ("C", "C"),
        ("CR", ""),
    ]
    assert [pair for pair in harmless if refusal(text.format(*pair))] == []
    assert refusal("reference,amount,opt_in\nT1,5,Y\nT2,5,N\n") == ""


SEVERAL = [
    ("FEE IN", "FEE OUT", "kind", "'FEE OUT', which decides the sign of amounts"),
    ("Gebühr Eingang", "Gebühr Belastung", "kind", "'Gebühr Belastung', which decides the sign of amounts"),
    ("biaya masuk", "biaya keluar", "kind", "'biaya keluar', which decides the sign of amounts"),
    ("x", "Withdrawal", "kind", "'Withdrawal', which decides the sign of amounts"),
    ("x", "Withdrawal", "direction", "'Withdrawal', which decides what a line is"),
    ("x", "pending refund", "status", "'pending refund', which decides what a line is"),
    ("x", "fee out pending", "direction", "'fee out pending', which decides what a line is"),
    ("x", "refund not booked", "status", "'refund not booked', which decides what a line is"),
    ("x", "payment not out", "kind", "'payment not out', which decides the sign of amounts"),
]
"""Two cells of a column, the field that is used beside it, and why the ledger is refused all the same."""


def test_several_meanings():
    """A text that decides two things is refused until both are said elsewhere."""
    values = {"direction": "C", "kind": "Zahlung", "status": "paid"}
    missed = []
    for first, second, field, reason in SEVERAL:
        text = f"reference,amount,used,x\nT1,5,{values[field]},{first}\nT2,5,{values[field]},{second}\n"
        if reason not in refusal(text, columns={field: "used"}):
            missed.append((first, second, field))
        missed += [second] if refusal(text, columns={field: "used"}, ignore=["x"]) else []
    assert missed == []


OPPOSITES = " ".join(
    (
        "E/S I/E A/C H/D D/R D/S R/E I/G R/D E/A Z/A G/L G/B E/B M/K T/K S/T S/P D/W I/O R/P R/S P/N C/D H/S K/D",
        "Zu/Ab Ein/Aus Af/Bij Ent/Sal Ing/Egr Abo/Car Setor/Tarik Deb/Cred Cdt/Dbt Dep/Wdl receita/despesa In/Uit",
        "+/- +/\u2013 \uff0b/\uff0d (+)/(-) 1/-1 +1/-1 40/50 Dep./Ret.",
    )
).split()
"""What banks write for credit and debit in columns with any name, in either order."""


def test_short_opposites():
    """A column of just two values that may be credit and debit refuses the ledger until it is named or ignored."""
    text = "reference,amount,x\nT1,5,{}\nT2,5,{}\nT3,5,\n"
    missed = []
    for pair in OPPOSITES:
        one, other = pair.split("/")
        for cells in ((one, other), (other.casefold(), one.upper())):
            found = refusal(text.format(*cells))
            if "which decides the sign of amounts" not in found or "--ignore-column x" not in found:
                missed.append((cells, found))
        missed += [pair] if refusal(text.format(one, other), ignore=["x"]) else []
        missed += [pair] if refusal(text.format(one, other), columns={"kind": "x"}) else []
    assert missed == []


def test_other_letters():
    """Two letters that no bank uses as opposites, and a third value beside them, decide nothing."""
    text = "reference,amount,x\nT1,5,{}\nT2,5,{}\nT3,5,{}\n"
    cells = ["YN ", "MF ", "SM ", "ME ", "AB ", "TF ", "XL ", "ESX", "ACB", "12 ", "EE "]
    assert [each for each in cells if refusal(text.format(*each))] == []


def test_dash_or_nothing():
    """A column of dashes and empty cells may be one of signs; a dash in every row stands for nothing."""
    text = "reference,amount,x\nT1,5,-\nT2,5,{}\n"
    assert "'-', which decides the sign of amounts" in refusal(text.format(""))
    assert [cell for cell in ("-", "n/a", "x") if refusal(text.format(cell))] == []


def test_other_formats():
    """The values of JSON Lines are looked at as those of CSV are."""
    assert "'wert' holds what looks like money" in refusal(
        json.dumps({"reference": "T1", "wert": 15000}), format="jsonl"
    )
    lines = [{"reference": "T1", "amount": 5, "type": "CREDIT"}, {"reference": "T2", "amount": 5, "type": "DEBIT"}]
    assert "decides the sign of amounts" in refusal("\n".join(map(json.dumps, lines)), format="jsonl")


def parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    file.seek(0)
    return file


PARQUETS = [
    ({"wert": ["x", "15.000,00"]}, "'wert' holds what looks like money"),
    ({"wert": [1500, 7]}, "'wert' holds what looks like money"),
    ({"wert": [Decimal("5.00"), None]}, "'wert' holds what looks like money"),
    ({"amount": [5, 5], "type": ["CREDIT", "DEBIT"]}, "decides the sign of amounts"),
    ({"amount": [5, 5], "type": ["payment", "refund"]}, "decides what a line is"),
    ({"amount": [5, 5], "note": ["x", "15.000,00"], "tags": [["refund"], []]}, ""),
]


def test_parquet():
    """The values of columns that are not used are read from Parquet as well, but for lists."""
    missed = []
    for columns, reason in PARQUETS:
        try:
            with open_ledger(parquet(reference=["T1", "T2"], **columns)) as ledger:
                list(ledger)
            found = ""
        except LedgerError as error:
            found = str(error)
        if reason not in found or bool(found) != bool(reason):
            missed.append((columns, found))
    assert missed == []


def test_ignored_by_name():
    """A column that is ignored by name is left out although it is recognised, and a chosen one is not."""
    text = "reference,status,amount\nT1,Paid,5\n"
    with open_ledger(io.StringIO(text), ignore=["amount"]) as ledger:
        assert (dict(ledger.columns.used), len(list(ledger))) == ({"reference": "reference", "status": "status"}, 1)
    with open_ledger(io.StringIO(text), ignore=["amount"], columns={"amount": "amount"}) as ledger:
        assert [row.amount for row in ledger] == [5]

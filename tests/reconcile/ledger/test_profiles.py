"""Each profile that comes with the package reads a file of its kind."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest

from payclient.reconcile.ledger import FIELDS, Dialect, Entry, open_ledger, profiles

NAIVE = datetime.fromisoformat
STRIPE = (
    b"balance_transaction_id,created_utc,available_on_utc,currency,gross,fee,net,reporting_category,source_id,"
    b"description,customer_facing_amount,payment_method_type\n"
    b"txn_1,2026-09-14 10:02:11,2026-09-16 00:00:00,eur,600.00,8.70,591.30,charge,ch_1,Order 1041,600.00,card\n"
    b"txn_2,2026-09-15 10:02:11,2026-09-16 00:00:00,eur,-12.50,0.00,-12.50,refund,re_1,,-12.50,card\n"
)
ADYEN = (
    b"Company Account,Merchant Account,Psp Reference,Merchant Reference,Payment Method,Creation Date,TimeZone,"
    b"Type,Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Exchange Rate,Net Currency,"
    b"Net Debit (NC),Net Credit (NC),Commission (NC),Markup (NC),Scheme Fees (NC),Interchange (NC)\n"
    b"Co,Shop,8535114881010001,ORDER-1,visa,2026-06-03 11:26:49,CET,Settled,8535114881010002,"
    b"EUR,,5.00,1,EUR,,4.88,,0.04,0.01,0.07\n"
    b"Co,Shop,8535114881010003,ORDER-2,visa,2026-06-04 22:37:26,CET,Refunded,8535114881010004,"
    b"EUR,349.99,,1,EUR,357.49,,7.5,,,\n"
)
XENDIT = (
    b"Status,Type,Channel,Channel Name,Account Number,Currency,Amount,Total Fee,Total VAT,Net Amount,Reference,"
    b"Product ID,Created Date ISO\n"
    b"SUCCESS,PAYMENT,VIRTUAL_ACCOUNT,BNI,8808123400001,IDR,150000,4000,440,145560,INV-7,va_1,"
    b"2026-11-20T03:04:05.000Z\n"
)
CAMT = (
    "Auftragskonto;Buchungstag;Valutadatum;Buchungstext;Verwendungszweck;Glaeubiger ID;"
    "Kundenreferenz (End-to-End);Lastschrift Ursprungsbetrag;Zahlungspflichtiger;Betrag;Waehrung;Info\n"
    "DE00;20.11.26;20.11.26;GUTSCHRIFT;Auszahlung;;PO-17;;Käufer GmbH;12.345,67;EUR;Umsatz gebucht\n"
).encode("cp1252")
GERMAN = "Referenz;Betrag;Gebühren;Datum\nT1;15.000,00 €;2.500,00;20.11.2026 14:05\nT2;7.000;0;01.02.2026\n"
FRENCH = "Référence;Montant;Date de création\nT1;15\u00a0000,00 €;20/11/2026\n"
INDONESIAN = b"Kode Referensi;Jumlah;Tanggal\nT1;Rp15.000,00;20/11/2026 14.05\n"
PAID = ("reference", "amount", "fee", "amount_received", "kind", "payment_method", "created_at")
NAMED = ("reference", "merchant_reff", "amount", "amount_received", "kind", "payment_method", "created_at")
FULL = ("reference", "merchant_reff", "amount", "fee", "amount_received", "kind", "status", "payment_method")
FILES = {
    "excel-de": (
        GERMAN.encode("cp1252"),
        ("reference", "amount", "fee", "created_at"),
        [("T1", 15000, 2500, NAIVE("2026-11-20 14:05")), ("T2", 7000, 0, NAIVE("2026-02-01"))],
    ),
    "excel-fr": (
        FRENCH.encode("cp1252"),
        ("reference", "amount", "created_at"),
        [("T1", 15000, NAIVE("2026-11-20"))],
    ),
    "excel-id": (INDONESIAN, ("reference", "amount", "created_at"), [("T1", 15000, NAIVE("2026-11-20 14:05"))]),
    "stripe-balance": (
        STRIPE,
        PAID,
        [
            ("ch_1", 60000, 870, 59130, "charge", "card", NAIVE("2026-09-14 10:02:11")),
            ("re_1", -1250, 0, -1250, "refund", "card", NAIVE("2026-09-15 10:02:11")),
        ],
    ),
    "adyen-settlement": (
        ADYEN,
        NAMED,
        [
            ("8535114881010001", "ORDER-1", 500, 488, "Settled", "visa", NAIVE("2026-06-03 11:26:49")),
            ("8535114881010003", "ORDER-2", -34999, -35749, "Refunded", "visa", NAIVE("2026-06-04 22:37:26")),
        ],
    ),
    "xendit": (
        XENDIT,
        (*FULL, "payment_code", "created_at"),
        [
            (
                *("va_1", "INV-7", 150000, 4000, 145560, "PAYMENT", "SUCCESS", "BNI", "8808123400001"),
                datetime(2026, 11, 20, 3, 4, 5, tzinfo=UTC),
            ),
        ],
    ),
    "bank-de-camt": (
        CAMT,
        ("reference", "amount", "created_at", "kind"),
        [("PO-17", 1234567, NAIVE("2026-11-20"), "Umsatz gebucht")],
    ),
}
"""A file of each profile, the fields that it has, and their values."""


@pytest.mark.parametrize("name", profiles())
def test_profile(name):
    """The file is read as it is meant, without a warning; the profile declares fields that there are."""
    data, fields, rows = FILES[name]
    entries = [Entry(line=line, **dict(zip(fields, row, strict=True))) for line, row in enumerate(rows, 2)]
    with open_ledger(io.BytesIO(data), dialect=Dialect.named(name)) as ledger:
        assert (list(ledger), ledger.warnings) == (entries, ())
    assert Dialect.named(name).profile == name
    assert set(profiles()[name].columns) <= set(FIELDS)


def test_byte_order_mark():
    """A byte order mark says that the file is UTF-8, so a profile reads what the program saves as UTF-8 too."""
    data = "\ufeffReferenz;Gebühren\nT1;2.500,00\n".encode()
    with open_ledger(io.BytesIO(data), dialect=Dialect.named("excel-de")) as ledger:
        assert [row.fee for row in ledger] == [2500]


DEBITS = "reference,credit,debit\nT1,15,\nT2,,7\nT3,15,0\nT4,1,2\nT5,,\nT6,,x\n"


def test_debits():
    """A debit counts as below zero; a row with both, neither, or a debit that cannot be read is rejected."""
    dialect = Dialect(debit_columns={"amount": "debit"})
    with open_ledger(io.StringIO(DEBITS), columns={"amount": "credit"}, dialect=dialect) as ledger:
        rows = list(ledger)
    assert ledger.columns.ignored == ()
    assert [row.amount for row in rows[:3]] == [15, -7, 15]
    assert [row.reason.partition(";")[0] for row in rows[3:]] == [
        "amount: there is an amount here and in 'debit' too",
        "amount: the cell is empty",
        "amount: 'x' is not a number",
    ]


@pytest.mark.parametrize(
    ("debits", "message"),
    [
        ({"amount": "soll"}, "no column is called 'soll', which was chosen for the debits of amount"),
        ({"status": "debit"}, "debit_columns must be a table with a column for amount, fee, amount_received"),
        ("amount", "debit_columns must be a table with a column for amount, fee, amount_received"),
        (["amount"], "debit_columns must be a table with a column for amount, fee, amount_received"),
    ],
)
def test_unusable_debits(debits, message):
    """A column of debits that is not there, or for a field that is not money, is refused."""
    with pytest.raises(ValueError, match=message):
        open_ledger(io.StringIO(DEBITS), columns={"amount": "credit"}, dialect=Dialect(debit_columns=debits))


def test_unknown_profile():
    """A profile that does not exist is refused, and those that do are named."""
    with pytest.raises(ValueError, match="profile must be one of excel-de, "):
        Dialect.named("excel-xx")

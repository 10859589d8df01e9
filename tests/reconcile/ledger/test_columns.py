"""Columns are found by name, and never by guess."""

import pytest

from payclient.reconcile.ledger import FIELDS, LedgerError, find_columns
from payclient.reconcile.ledger._columns import SYNONYMS
from support.misses import check_each, check_refused, check_table

ACCENTS = {"Montant reçu": "amount_received", "Gebühr": "fee", "Método de pago": "payment_method"}


def used(header, chosen):
    return dict(find_columns(header, chosen).used)


def test_found():
    """A name is known whatever its case, accents, spaces and dashes; the field's own and a chosen one have priority."""
    alone = ("Reference", " REFERENCE ", "Transaction ID", "trx-ref", "Txn ID", "Kode Referensi", "ref.", "Référence")
    rows = [
        (["note", "amount", "reference"], {}, {"reference": "reference", "amount": "amount"}),
        (["transaction_id", "reference"], {}, {"reference": "reference"}),
        (["reference", "id", "amount"], {"reference": "id"}, {"reference": "id", "amount": "amount"}),
        (["reference", "total"], {"fee": "total"}, {"reference": "reference", "fee": "total"}),
        *(([name], {}, {"reference": name.strip()}) for name in alone),
        *((["reference", name], {}, {"reference": "reference", field: name}) for name, field in ACCENTS.items()),
    ]
    check_table(rows, used)
    assert find_columns(["reference", "id", "amount"], {"reference": "id"}).ignored == ("reference",)


def test_synonyms_are_distinct():
    """No name is used for two fields."""
    names = [*FIELDS, *(name for others in SYNONYMS.values() for name in others)]
    assert len(names) == len(set(names))


def test_refused():
    """Two columns for a field, none for the reference and a choice that is not there refuse the header."""
    rows = [
        (["trx_id", "ref"], {}, r"column 1 .* and column 2 .* both mean"),
        (["reference", "reference"], {}, r"column 1 .* and column 2 .* both mean"),
        (["reference", "Amount", "amount"], {}, r"column 2 .* and column 3 .* both mean"),
        (["T1", "15000"], {}, "reference: the columns are 'T1', '15000'; if this row is data, add a row"),
        (["T1", "15000"], {"reference": "T1"}, "names of the columns are missing: '15000' is a value, and no known"),
        (["a"], {"reference": "id"}, "no column is called 'id', which was chosen for reference; there are 'a'"),
    ]
    check_refused(rows, LedgerError, find_columns)
    for header, chosen, reason in rows:
        with pytest.raises(LedgerError) as caught:
            find_columns(header, chosen)
        is_told = len({*header}) > 1 and "both mean" in reason
        assert (caught.value.line, "--column" in str(caught.value)) == (1, is_told)


def test_digits(subtests):
    """A name may hold a year, a date after a word, and any number of digits next to a name that is known."""
    for header in (["Nummer 2026", "Wert 2026"], ["Ref 20261128", "Sum 2026-11-28"], ["Trx100200", "amount"]):
        with subtests.test(header=header):
            assert find_columns(header, {"reference": header[0]}).places["reference"] == 0


def test_chosen_field_unknown():
    """A field that does not exist is the caller's mistake."""
    with pytest.raises(ValueError, match="unknown field 'reff'"):
        find_columns(["a"], {"reff": "a"})


def test_numbers():
    """The `No.` and `Nr.` of a name are part of it, with or without their dot."""
    for name in ("Ref. No.", "Referenz-Nr.", "Transaktions-Nr", "Transaction No.", "No. Transaksi"):
        assert find_columns([name, "amount"]).used["reference"] == name
    assert find_columns(["reference", "Rechnungs-Nr."]).used["merchant_reff"] == "Rechnungs-Nr."


def test_like_a_reference():
    """Names with a word for a reference are proposed, and numbers of orders. Only a long word counts inside another."""

    def proposed(header):
        with pytest.raises(LedgerError) as caught:
            find_columns(header.split(","))
        return [way.value for remedy in caught.value.remedies for way in remedy.ways]

    expected = {
        "Created,Amount,Amount Refunded,order_ref (metadata)": ["order_ref (metadata)"],
        "Date & Time,Order ID,Transaction type,Amount": ["Order ID"],
        "Invoice,Amount": ["Invoice"],
        "Psp Reference,Merchant Reference,Amount": ["Psp Reference", "Merchant Reference"],
        "Beleg,Betrag": ["Beleg"],
        "T1,100": [],  # would lose this row
        "Buchung,Zahlungsreferenz,Betrag brutto,Auszahlung": ["Zahlungsreferenz"],
    }
    check_each(expected, proposed)

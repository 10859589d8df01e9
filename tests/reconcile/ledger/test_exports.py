"""
Exports as shops, marketplaces and banks write them: read right, refused with the option that helps, or *partial*.

The service agrees here with whatever was read, and has paid it. So nothing but the reading of the ledger can object,
and a ledger that is read wrong is clean unless the reading says so.
"""

import io
import json
from contextlib import closing

import pytest

from payclient import Transaction
from payclient.reconcile import RulesError, Tally, parse_rules, reconcile
from payclient.reconcile.folders import ledger_about
from payclient.reconcile.ledger import ABSENT, Entry, LedgerError, open_ledger
from payclient.reconcile.report import About, Report
from support.workbooks import by_xlsxwriter


async def outcome(file, rules=""):
    """Return the verdict, the ledger's paid total, and the sentences about both; `refused` has no total."""
    rules, known = parse_rules(rules), {}

    async def agree(reference):
        fields = {"merchant_reff", "fee", "amount_received", "payment_method", "payment_code", "expdate"}
        found = known[reference]
        said = {name: value for name in fields if (value := getattr(found[0], name)) is not ABSENT}
        status = "Paid" if found[0].status is ABSENT else found[0].status
        return Transaction(reference=reference, amount=sum(abs(each.amount) for each in found), status=status, **said)

    kinds = {} if rules.lines.kind is None else {"kind": rules.lines.kind.column}
    options = {"columns": {**kinds, **rules.columns}, "dialect": rules.ledger, "ignore": rules.ignore_columns}
    try:
        file = io.BytesIO(file) if isinstance(file, bytes) else io.StringIO(file)
        with open_ledger(file, **options) as ledger, closing(Tally()) as tally:
            rules.check_columns(ledger.columns.used)
            entries = list(ledger)
            for each in entries:
                if isinstance(each, Entry) and isinstance(each.amount, int):
                    known.setdefault(each.reference, []).append(each)
            async for row in reconcile(entries, agree, rules=rules):
                tally.add(row)
            summary = tally.summary(About(ledger=ledger_about(ledger)))
    except (LedgerError, RulesError) as error:
        return "refused", None, str(error)
    reasons = [each.reason for each in entries if not isinstance(each, Entry)]
    return str(summary.verdict), summary.tie_out.ledger_paid_total, "; ".join([Report(summary).says, *reasons])


def rows(text):
    """Return a file of the lines that are parted by bars."""
    return text.replace("|", "\n") + "\n"


def numbered(cell, count=24):
    """Return a ledger with a column `doc` of one *cell* for each number; 1,000 a row."""
    return "reference,amount,doc\n" + "".join(f"T{number},1000,{cell(number)}\n" for number in range(1, count + 1))


def name(number):
    return "abcdefghijklmnopqrstuvwxyz"[number] * 4


def json_lines(*given):
    return "\n".join(map(json.dumps, given))


def beside(header, *cells, delimiter=","):
    """Return a ledger of 15,000 and 75,000 with one more column, in which these are the cells."""
    lines = zip(("T1", "T2"), ("15000", "75000"), cells, strict=True)
    return "".join(f"{delimiter.join(each)}\n" for each in [("reference", "amount", header), *lines])


GERMAN, DOTS = 'ledger.decimal = ","\nledger.thousands = "."', 'ledger.thousands = "."'
SIDES = 'columns.amount = "credit"\nledger.debit_columns.amount = "debit"'
KIND = """
lines.of_one_reference = "sum"
lines.kind.column = "Type"
lines.kind.charge = ["pay"]
lines.kind.refund = ["refund"]
"""
TYPES = "capture refund void fee payout topup hold release reversal chargeback adjustment correction authorisation"
UNDER_ZERO = "1 matched, 1 break"
"""A refund without a kind is no receipt."""

RIGHT = [
    ("plain", rows("reference,amount|T1,15000|T2,75000.00"), "", 90000),
    ("cents", rows("reference,amount|T1,150.25|T2,750.50"), "ledger.minor_units = 2", 90075),
    ("swiss", rows("Referenz;Betrag|T1;15'000.00|T2;75'000.00"), 'ledger.thousands = "apostrophe"', 90000),
    ("german", rows("Referenz;Betrag|T1;15.000,00|T2;75.000,-"), GERMAN, 90000),
    ("french", rows("référence;montant|T1;15 000,00|T2;75 000"), GERMAN.replace('"."', '"space"'), 90000),
    ("rupiah", rows("referensi,jumlah|T1,Rp15.000|T2,Rp 75.000"), f'{DOTS}\nledger.currency_prefix = "Rp"', 90000),
    ("status", rows("trx id,amt,status|T1,15000,paid|T2,75000,Paid"), "", 90000),
    ("canceled", rows("Transaction ID,status,amt|T1,paid,15000|T2,cancelled,75000"), "", 15000),
    ("sep", rows("sep=;|reference;amount|T1;15000"), "", 15000),
    ("title", rows("Payments||reference,amount|T1,15000"), "ledger.header_row = 3", 15000),
    ("totals", rows("reference,amount|T1,15000|T2,75000|TOTAL,90000"), "ledger.skip_totals = true", 90000),
    ("currency", rows("reference,amount,ccy|T1,15000,IDR|T2,75,USD"), 'ledger.only_currency = "IDR"', 15000),
    ("json lines", json_lines({"reference": "T1", "amount": 15000}, {"reference": "T2", "amount": "75000"}), "", 90000),
    ("labels", numbered("INV-{:05}".format), "", 24000),
    ("codes", numbered(lambda number: f"{number * 829371729437:x}-ab"), "", 24000),
    ("people", numbered(lambda number: f"{name(number)} Wijaya"), "", 24000),
    ("initials", numbered(lambda number: f"{name(number)} {name(number)[0]}."), "", 24000),
    ("phones", numbered(lambda number: f"0812{number * number:06}"), "", 24000),
    ("days", numbered("{} Nov 2026".format).replace("doc", "Tanggal bayar"), "", 24000),
    ("years", numbered("{}.11.26".format).replace("doc", "paid at"), "", 24000),
    (
        "UUIDs",
        numbered(lambda number: f"{number:08x}-{'fadd' if number == 7 else 1000 + number}-4a1b-8abc-{number:012x}"),
        "",
        24000,
    ),
    ("running", numbered(str), "", 24000),
    ("ignored", beside("Customer", "Andi", "Budi"), 'ignore_columns = ["Customer"]', 90000),
]
"""Files that are read right, with their paid total."""

DIFFERENT = [
    ("minus behind", rows("Referenz;Betrag|T1;15000|T2;75000-"), 'ledger.negative = "trailing"', UNDER_ZERO),
    ("CR and DB", rows("Ref,Jumlah|T1,15000 CR|T2,75000 DB"), 'ledger.negative = "debit"', UNDER_ZERO),
    ("S and H", rows("Betrag;Soll/Haben;Referenz|15000,00;H;T1|75000,00;S;T2"), GERMAN, UNDER_ZERO),
    ("af bij", rows("Ref;Bedrag;Af Bij|T1;15000;Bij|T2;75000;Af"), 'columns.amount = "Bedrag"', UNDER_ZERO),
    ("sign twice", rows("reference,debit,credit|T1,,15000|T2,-75000,"), SIDES, UNDER_ZERO),
    (
        "parentheses",
        rows("reference,debit,credit|T1,,15000|T2,(75000),"),
        f'{SIDES}\nledger.negative="parentheses"',
        "",
    ),
    ("direction, minus", rows("reference,amount,D/C|T1,15000,C|T2,-75000,D"), "", UNDER_ZERO),
    ("kind", rows("reference,amount,Type|T1,15000,pay|T2,75000,pay|T2,-75000,refund"), KIND, "summed to 2 payments"),
    ("Storniert", rows("Referenz;Status;Betrag|T1;paid;15000|T2;Storniert;75000"), "", "1 break"),
    ("twice", rows("reference,amount|T1,15000|T1,15000"), "", "2 breaks"),
    ("net", rows("reference,amount,net|T1,15000,15000|T2,75000,-75000"), "", "1 break"),
]
"""Files with rows of which no payment can be the other side."""

PARTIAL = [
    ("types", numbered(lambda number: TYPES.split()[number % 13], 39), "", "doc: refund 3, "),
    ("labels", numbered(lambda number: f"{'REFUND' if number == 7 else 'PAY'}-{number}"), "", "PAY-# 23, REFUND-# 1"),
    ("labels, short", numbered(lambda number: f"{'CN' if number == 7 else 'INV'}{number:06}"), "", "INV# 23, CN# 1"),
    ("labels, end", numbered(lambda number: f"{number:06}{'R' if number == 7 else 'P'}"), "", "#P 23, #R 1"),
    ("labels, two", beside("doc", "PAY1001", "REF1002"), "", "doc: PAY# 1, REF# 1"),
    ("sentences", numbered(lambda number: f"{'Refund' if number == 7 else 'Sale'} {name(number)}"), "", "Refund 1"),
    ("words in texts", numbered(lambda n: f"{name(n)} {'STORNO ' if n == 7 else ''}{name(n - 1)}"), "", "… storno 1"),
    ("accents", numbered(lambda n: f"{name(n)} {'Annulé ' * (n == 7)}{name(n - 1)}"), "", "… annule 1"),
    ("a word inside", numbered(lambda n: f"payment{'Refunded' if n == 7 else ''}{name(n)}"), "", "… refund 1"),
    ("Japanese", numbered(lambda n: f"{name(n)}{'返金' if n == 7 else '入金'}"), "", "… 返金 1"),
    ("no currency", rows("reference,amount,currency|T1,15000,IDR|T2,75000,"), "", "currency: IDR 1, (empty) 1"),
    ("a letter behind", numbered(lambda n: f"Order {name(n)}{' (R)' if n == 7 else ''}"), "", "… R 1"),
    ("a digit behind", numbered(lambda n: f"08{n * n:09}{int(n == 7)}"), "", "… 0 23, … 1 1"),
    ("times", numbered(lambda number: f"2026-11-{number:02}T10:00:{number:02}Z"), "", "doc: (filled) 24"),
    ("two digits", numbered(lambda n: f"{n:02}-NOV-{0 if n == 7 else 26:02}").replace("doc", "paid at"), "", "2000 1"),
    ("numbers", numbered(lambda number: 75000 if number == 7 else 0), "", "not compared: doc 75,000"),
    (
        "object",
        json_lines(*({"reference": f"T{paid}", "amount": 5, "back": {"idr": paid}} for paid in (0, 5))),
        "",
        "back",
    ),
    (
        "objects",
        json_lines(*({"reference": f"T{n}", "amount": 5, "x": {"idr": n}} for n in range(1, 60))),
        "",
        "x: (filled) 59",
    ),
    ("flag", json_lines(*({"reference": f"T{n}", "amount": 5, "refunded": n > 1} for n in (1, 2))), "", "True 1"),
    ("late key", json_lines({"reference": "T1", "amount": 5}, {"reference": "T2", "amount": 5, "void": 1}), "", "void"),
    ("Retur", by_xlsxwriter(["reference", "amount", "Retur"], ["T1", 15000, "Ya"], ["T2", 75000, "Tidak"]), "", "Ya 1"),
    ("Batal", by_xlsxwriter(["reference", "amount", "x"], ["T1", 15000, 0], ["T2", 75000, 75000]), "", "x 75,000"),
]
"""Files that are read, and of which the verdict says what was not looked at."""


def expected(kind, table):
    return [pytest.param(file, rules, each, id=f"{kind}-{what}") for what, file, rules, each in table]


@pytest.mark.parametrize(("file", "rules", "total"), expected("right", RIGHT))
async def test_right(file, rules, total):
    """A file whose notation is known or declared is clean, with its own paid total."""
    assert (await outcome(file, rules))[:2] == ("clean", total)


@pytest.mark.parametrize(("verdict", "table"), [("breaks", DIFFERENT), ("partial", PARTIAL)])
async def test_not_clean(subtests, verdict, table):
    """A file that may mean something else is never clean, and the text says which option, sum or words matter."""
    for what, file, rules, said in table:
        with subtests.test(what):
            found, _, sentence = await outcome(file, rules)
            assert (found, said in sentence or sentence) == (verdict, True)

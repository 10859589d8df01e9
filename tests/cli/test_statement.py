"""`payclient reconcile --statement`: both sides of a payment, and the money that came to the bank."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

LEDGER = "reference,amount,status\nT1,15000,Paid\nT2,7000,Canceled\n"
WRITTEN = ("summary.json", "rows.jsonl", "breaks.csv", "report.html", "report.xlsx", "manifest.json")


@pytest.fixture
def reconcile(configured, tmp_path):
    """Reconcile a ledger with a statement of these lines."""

    def reconcile(*arguments, lines, header="reference,amount"):
        (tmp_path / "ledger.csv").write_text(LEDGER)
        statement = tmp_path / "settlement.csv"
        statement.write_text("".join(f"{line}\n" for line in (header, *lines)))
        command = ("reconcile", str(tmp_path / "ledger.csv"), "--out", str(tmp_path / "report"))
        return configured(*command, "--statement", str(statement), *arguments)

    return reconcile


def test_tied(reconcile, tmp_path):
    """Two sides that agree are clean, and the payout is the statement's total."""
    result = reconcile("--payout", "15,000", lines=["T1,15000"])
    assert (result.status, result.out.splitlines()[0]) == (0, "CLEAN: amount and status of 2 ledger rows: 2 matched.")
    assert "The payout of 15,000 is the statement's total." in result.out.splitlines()
    assert "Only references in the ledger or the statement were looked up" in result.out
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert (summary["settlement"]["residual"], summary["settlement"]["payout_difference"]) == (0, 0)
    manifest = json.loads((tmp_path / "report" / "manifest.json").read_text())
    assert manifest["statement"]["name"] == "settlement.csv"


def test_explained(reconcile, command, tmp_path):
    """A reference is explained with what the statement has of it, and a message about the run has its total."""
    header, lines = "reference,amount,net", ["T1,15000,12500", "T9,5,5"]
    assert reconcile("--payout", "12,505", header=header, lines=lines).status == 1
    folder = str(tmp_path / "report")
    settled = "  settled: on line 2 of the statement, amount 15000, amount_received 12500"
    assert settled in command("explain", folder, "T1").out.splitlines()
    assert "  settled: no" in command("explain", folder, "T2").out.splitlines()
    message = command("show", folder, "--markdown").out.splitlines()
    assert "- Statement: 12,505, payout 12,505; residual 0" in message


def test_explained_later(reconcile, configured, command, tmp_path):
    """What only the statement of the run before had is not said to be of the ledger."""
    assert reconcile(lines=["T1,15000", "T9,5"]).status == 1
    (tmp_path / "next.csv").write_text("reference,amount\nT1,15000\n")
    night = ("reconcile", str(tmp_path / "ledger.csv"), "--out", str(tmp_path / "21"), "--previous")
    assert configured(*night, str(tmp_path / "report"), "--statement", str(tmp_path / "next.csv")).status == 1
    explained = command("explain", str(tmp_path / "21"), "T9").out
    assert ": only the statement of that run listed it\n" in explained
    assert "  settled: on the statement of an earlier run, amount 5\n" in explained


def test_not_tied(reconcile, tmp_path):
    """A payout of another sum has status 1, although no row differs."""
    result = reconcile("--payout", "14000", lines=["T1,15000"])
    assert result.status == 1
    assert "The payout of 14,000 is 1,000 less than the statement's total of 15,000." in result.out.splitlines()
    page = (tmp_path / "report" / "report.html").read_text()
    assert "No row differs, but the statement does not tie" in page


def test_written_again(reconcile, configured, tmp_path):
    """The same command changes nothing, and the report is written again from its journal with the same bytes."""
    lines, folder = ["T2,7000", "T3,5"], tmp_path / "report"
    assert reconcile("--payout", "7005", lines=lines).status == 1
    first = {name: (folder / name).read_bytes() for name in WRITTEN}
    assert reconcile("--payout", "7005", lines=lines).status == 1
    assert {name: (folder / name).read_bytes() for name in WRITTEN} == first
    (tmp_path / "settlement.csv").unlink()
    assert configured("report", str(folder), "--quiet").status == 1
    assert {name: (folder / name).read_bytes() for name in WRITTEN} == first
    assert configured("verify", str(folder)).status == 0
    codes = [line.split(",")[1:3] for line in (folder / "breaks.csv").read_text().splitlines()[1:]]
    assert codes == [["T1", "not_settled"], ["T2", "settled_not_paid"], ["T3", "settled_not_paid"]]


def test_another_run(reconcile, configured, tmp_path):
    """A folder that began with a statement is refused without it, and with another one."""
    assert reconcile(lines=["T1,15000"]).status == 0
    result = reconcile(lines=["T1,15001"])
    assert (result.status, "began with another statement" in result.err) == (2, True)
    command = ("reconcile", str(tmp_path / "ledger.csv"), "--out", str(tmp_path / "report"))
    result = configured(*command)
    assert (result.status, "statement was one, and is none now" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--payout", "1.5"),
            "--payout must be a whole number in the unit of the service, such as 12,345,000, got '1.5'",
        ),
        (("--payout", "1,50"), "--payout must be a whole number"),
        (("--payout", "9" * 4301), "--payout: "),
        (
            ("--settles-within", "soon"),
            "--settles-within must be a duration such as '36h' or '3d', or '2 business days', got 'soon'",
        ),
        (("--settles-within", "2 business days"), "business days need time_zone"),
        (
            ("--settles-within", "2 business days", "--time-zone", "Asia/Jakarta", "--holidays", "none.txt"),
            "the holidays none.txt cannot be read: No such file",
        ),
        (("--settles-within", "3d"), "settles_within needs the age of each row"),
        (("--statement-column", "amount"), "--statement-column must be like amount=Betrag"),
        (("--statement-column", "amount=Betrag"), "the statement settlement.csv: no column is called 'Betrag'"),
    ],
)
def test_usage(reconcile, arguments, message):
    """An option that cannot be used is refused before anything is asked, with what helps."""
    result = reconcile(*arguments, lines=["T1,15000"])
    assert (result.status, message in result.err) == (2, True)


@pytest.mark.parametrize("option", ["--payout=5", "--settles-within=3d", "--statement-column=amount=x"])
def test_needs_statement(configured, tmp_path, option):
    """An option about the statement needs one."""
    (tmp_path / "ledger.csv").write_text(LEDGER)
    result = configured("reconcile", str(tmp_path / "ledger.csv"), "--out", str(tmp_path / "report"), option)
    assert result.status == 2
    assert f"{option.partition('=')[0]} needs --statement, the list that it is about" in result.err


def test_told(reconcile):
    """How the statement is read is told: its columns, what would read it, and its warnings, each with its options."""
    result = reconcile(header="Trx;amount", lines=["T1;15.000,00"])
    assert result.status == 2
    assert "--statement-column reference=" in result.err
    result = reconcile("--statement-column", "reference=Trx", header="Trx;amount", lines=["T1;15.000,00"])
    assert "columns of the statement: reference = 'Trx', amount" in result.err.splitlines()
    suggestion = "payclient: the statement: 1 row has amounts that cannot be read; all can be read with --decimal , "
    assert suggestion in result.err
    assert "for a statement, such options are keys of [statement.reading] in the rules file" in result.err


def test_payout_of_ids(reconcile):
    """A column called payout that holds ids is no amount; with numbers, it is refused until it is named or ignored."""
    result = reconcile(header="reference,amount,net,payout", lines=["T1,15000,12500,12500"])
    assert (result.status, "'payout' holds what looks like money and is not used" in result.err) == (2, True)
    result = reconcile("--payout", "12,500", header="reference,amount,net,payout", lines=["T1,15000,12500,po_1"])
    assert (result.status, "The payout of 12,500 is the statement's total." in result.out) == (0, True), result.err


def test_direction(reconcile):
    """A debit of the statement takes money back; what decides that is refused with the statement's own option."""
    result = reconcile(header="reference,amount,Type", lines=["T1,15000,payment", "T1,15000,refund"])
    assert (result.status, "in the table [statement.kind] of the rules file" in result.err) == (2, True)
    statement = {"header": "reference,amount,Art", "lines": ["T1,15000,CREDIT", "T2,7000,DEBIT"]}
    result = reconcile(**statement)
    assert (result.status, "--statement-column direction=Art" in result.err) == (2, True)
    result = reconcile("--statement-column", "direction=Art", "--payout", "8,000", **statement)
    assert "The payout of 8,000 is the statement's total." in result.out, result.err


def test_told_what_is_left_out(reconcile, tmp_path):
    """Lines that the rules leave out of the statement are told with their number and sum."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[statement.kind]\ncolumn = "type"\ncharge = ["payment"]\nignore = ["payout"]\n')
    lines = ["payment,T1,15000,", "payout,,,-9000", "payout,X,5,"]
    result = reconcile("--rules", str(rules), header="type,reference,amount,net", lines=lines)
    assert result.status == 0
    assert "payclient: 2 lines of the statement left out, as the rules say: -8,995" in result.err.splitlines()


def test_without_rows(reconcile, configured, tmp_path):
    """A statement without rows is refused unless that is allowed; a ledger without rows still has the whole report."""
    result = reconcile(lines=[])
    assert (result.status, result.err.splitlines()[-1]) == (
        2,
        "payclient: the statement settlement.csv: it has a header and no rows; --allow-empty accepts that",
    )
    result = reconcile("--allow-empty", lines=[])
    assert (result.status, "T1: high, not_settled" in result.out) == (1, True)
    (tmp_path / "empty.csv").write_text("reference,amount\n")
    (tmp_path / "settlement.csv").write_text("reference,amount\nT1,15000\n")
    command = ("reconcile", str(tmp_path / "empty.csv"), "--out", str(tmp_path / "other"), "--allow-empty")
    result = configured(*command, "--statement", str(tmp_path / "settlement.csv"))
    assert (result.status, "T1: critical, not_in_ledger" in result.out) == (1, True)


def test_dry_run(reconcile, tmp_path):
    """A dry run shows how both sides are read, with the options of each, and makes no folder."""
    result = reconcile("--dry-run", header="reference;amount", lines=["T1;15.000,00"])
    ledger, _, statement = result.out.partition("\nthe statement:\n")
    assert (result.status, (tmp_path / "report").exists()) == (0, False)
    assert "rows: 2, with 2 different references" in ledger
    assert "rejected: 1 row" in statement
    assert "such options are keys of [statement.reading]" in statement


def test_profile(reconcile):
    """A profile reads the statement, and an unknown one is refused with those that there are."""
    result = reconcile("--statement-profile", "excel-de", header="Referenz;Betrag", lines=["T1;15.000,00"])
    assert (result.status, result.out.partition(":")[0]) == (0, "CLEAN")
    result = reconcile("--statement-profile", "excel-xx", lines=[])
    assert (result.status, "--statement-profile must be one of excel-de" in result.err) == (2, True)


def test_currencies(configured, tmp_path):
    """A statement in another currency than the ledger is refused; so is one in several, and both can be corrected."""
    ledger, statement, rules = tmp_path / "ledger.csv", tmp_path / "settlement.csv", tmp_path / "rules.toml"
    ledger.write_text("reference,amount,currency\nT1,15000,IDR\n")
    rules.write_text('[statement.reading]\nonly_currency = "IDR"\n')
    command = ("reconcile", str(ledger), "--out", str(tmp_path / "report"), "--statement", str(statement))
    statement.write_text("reference,amount,currency\nT1,15000,USD\n")
    result = configured(*command)
    assert result.status == 2
    assert "has amounts in USD, and the ledger in IDR, which are never compared" in result.err
    statement.write_text("reference,amount,currency\nT1,15000,IDR\nT9,5,USD\n")
    result = configured(*command)
    assert (result.status, "the statement settlement.csv: it has amounts in 'IDR'" in result.err) == (2, True)
    result = configured(*command, "--rules", str(rules))
    assert (result.status, result.out.partition(":")[0]) == (0, "CLEAN")


def test_rows_left_out(configured, tmp_path):
    """What the ledger has outside of the span of the run is not missing in it, and is compared with the statement."""
    ledger, statement = tmp_path / "ledger.csv", tmp_path / "settlement.csv"
    ledger.write_text("reference,amount,created_at\nT1,15000,2026-11-01\nT5,9000,2026-10-31\n")
    command = ("reconcile", str(ledger), "--from", "2026-11-01", "--statement", str(statement), "--out")
    for amount, verdict in ((15000, "CLEAN"), (1, "BREAKS")):
        statement.write_text(f"reference,amount\nT1,{amount}\n")
        assert configured(*command, str(tmp_path / verdict)).out.startswith(verdict)
    ledger.write_text("reference,amount,created_at\nT9,15000,2026-11-01\nT1,15000,2026-10-31\n")
    result = configured(*command, str(tmp_path / "other"))
    codes = [line.split(",")[1:3] for line in (tmp_path / "other" / "breaks.csv").read_text().splitlines()[1:]]
    assert codes == [["T9", "missing_at_service"], ["T1", "settled_differently"]]
    assert result.status == 1


def test_rejudged(reconcile, command, tmp_path):
    """A run is judged again with its statement, which is read as before, and by another time to settle."""
    rules, folder, again = tmp_path / "rules.toml", tmp_path / "report", tmp_path / "again"
    rules.write_text('[statement.kind]\ncolumn = "type"\ncharge = ["payment"]\nrefund = ["refund"]\n')
    lines = ["payment,T1,15000", "refund,T1,1"]
    assert reconcile("--rules", str(rules), header="type,reference,amount", lines=lines).status == 1
    (tmp_path / "settlement.csv").unlink()
    rules.write_text('grace = "1h"\n')
    result = command("rejudge", str(folder), "--rules", str(rules), "--out", str(again))
    assert (result.status, "Not changed: statement, because reading" in result.out) == (1, True)
    settlements = [json.loads((each / "summary.json").read_text())["settlement"] for each in (folder, again)]
    assert settlements[0] == settlements[1]
    assert settlements[0]["statement_total"] == 14999
    result = command("rejudge", str(folder), "--settles-within", "soon", "--out", str(again))
    assert (result.status, "--settles-within must be a duration" in result.err) == (2, True)


def test_rejudged_later(configured, command, tmp_path):
    """A payment that is late by the new rules alone waits for a second lookup, which the same run then takes."""
    ledger, statement, again = (tmp_path / name for name in ("ledger.csv", "settlement.csv", "again"))
    ledger.write_text("reference,amount,created_at\nT1,15000,2020-01-01\n")
    statement.write_text("reference,amount\n")
    given = ("reconcile", str(ledger), "--statement", str(statement), "--allow-empty", "--out")
    assert configured(*given, str(tmp_path / "report"), "--settles-within", "36500d").status == 0
    result = command("rejudge", str(tmp_path / "report"), "--settles-within", "0s", "--out", str(again))
    assert (result.status, "1 reference needs a second lookup" in result.out) == (75, True)
    result = configured(*given, str(again))
    assert (result.status, "T1: high, not_settled" in result.out) == (1, True)


ADYEN = """\
Psp Reference,Type,Gross Currency,Gross Debit (GC),Gross Credit (GC),Net Currency,Net Debit (NC),Net Credit (NC)
T1,Settled,IDR,,150.00,IDR,,125.00
T2,Settled,IDR,,70.00,IDR,,70.00
T2,Chargeback,IDR,70.00,,IDR,77.50,
,Fee,,,,IDR,12.50,
,InvoiceDeduction,,,,IDR,,2.50
,MerchantPayout,,,,IDR,107.50,
"""


def test_report_of_provider(configured, tmp_path):
    """A provider's report needs no rules as the statement: its profile knows the kinds of its lines."""
    (tmp_path / "ledger.csv").write_text(LEDGER)
    (tmp_path / "settlement.csv").write_text(ADYEN)
    command = ("reconcile", str(tmp_path / "ledger.csv"), "--out", str(tmp_path / "report"), "--payout", "10750")
    result = configured(
        *command, "--statement", str(tmp_path / "settlement.csv"), "--statement-profile", "adyen-settlement"
    )
    assert (result.status, result.out.partition(":")[0]) == (0, "CLEAN")
    assert "The payout of 10,750 is the statement's total." in result.out.splitlines()
    settlement = json.loads((tmp_path / "report" / "summary.json").read_text())["settlement"]
    assert {each["step"]: each["amount"] for each in settlement["steps"] if each["rows"]} == {
        "settled": 0,
        "fees": -3500,
        "refunded": -750,
    }


def test_report_of_provider_as_ledger(configured, tmp_path):
    """The same as the ledger: lines are summed by kind, and a fee of no payment is left out with its sum."""
    (tmp_path / "settlement.csv").write_text(ADYEN)
    command = ("reconcile", str(tmp_path / "settlement.csv"), "--out", str(tmp_path / "report"))
    result = configured(*command, "--profile", "adyen-settlement")
    assert "3 ledger rows, summed to 2 payments: 1 matched, 1 break" in result.out.splitlines()[0]
    assert "payclient: 1 line of the kind 'fee' left out, as the rules say: -1,250" in result.err
    again = configured("rejudge", str(tmp_path / "report"), "--out", str(tmp_path / "again"))
    assert again.out.splitlines()[0] == result.out.splitlines()[0]


def test_business_days(configured, command, tmp_path):
    """A run is judged again by business days, whose zone and holidays are options; the report says which they are."""
    ledger, statement, holidays = (tmp_path / name for name in ("ledger.csv", "settlement.csv", "holidays.txt"))
    ledger.write_text(f"reference,amount,created_at\nT1,15000,{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}+00:00\n")
    statement.write_text("reference,amount\n")
    holidays.write_text("2026-12-25\n")
    folder, again = str(tmp_path / "report"), str(tmp_path / "again")
    given = ("reconcile", str(ledger), "--statement", str(statement), "--allow-empty", "--out", folder)
    assert "1 break" in configured(*given).out.splitlines()[0]
    by_days = ("rejudge", folder, "--settles-within", "2 business days", "--out", again)
    assert "business days need time_zone, the zone in which they begin" in command(*by_days).err
    result = command(*by_days, "--time-zone", "UTC", "--holidays", str(holidays), "--cut-off", "17:00")
    assert (result.status, "1 open" in result.out.splitlines()[0]) == (0, True)
    said = "without 1 listed holiday; a row of 17:00 or later counts as of the next one; in the time zone UTC"
    assert said in (tmp_path / "again" / "report.html").read_text()

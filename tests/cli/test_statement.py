"""`payclient reconcile --statement`: both sides of a payment, and the money that came to the bank."""

import re
from datetime import UTC, datetime

import openpyxl
import pytest

from support.misses import check_each
from support.pages import Page
from support.reports import contents, summary_of

LINES = ("T1,15000,Paid", "T2,7000,Canceled")
LEDGER = ("reference,amount,status", *LINES)


@pytest.fixture
def reconcile(night, tmp_path):
    """Reconcile a ledger with a statement of these lines."""

    def reconcile(*arguments, lines, header="reference,amount", out="report", ledger=LEDGER):
        (tmp_path / "settlement.csv").write_text("".join(f"{line}\n" for line in (header, *lines)))
        return night(out, "--statement", "settlement.csv", *arguments, header=ledger[0], lines=ledger[1:])

    return reconcile


def breaks_of(folder):
    """Return reference and code of each break."""
    return [line.split(",")[1:3] for line in (folder / "breaks.csv").read_text().splitlines()[1:]]


def test_payout(reconcile, tmp_path):
    """Two sides that agree are clean, if the payout is the statement's total; another sum has status 1."""
    result = reconcile("--payout", "15,000", lines=["T1,15000"])
    assert (result.status, result.out.splitlines()[0]) == (0, "CLEAN: amount and status of 2 ledger rows: 2 matched.")
    assert "The payout of 15,000 is the statement's total." in result.out.splitlines()
    assert "Only references in the ledger or the statement were looked up" in result.out
    settlement = summary_of(tmp_path / "report")["settlement"]
    assert (settlement["residual"], settlement["payout_difference"]) == (0, 0)
    assert summary_of(tmp_path / "report", "manifest.json")["statement"]["name"] == "settlement.csv"
    for payout, word in (("14,000", "less"), ("16,000", "more")):
        result = reconcile("--payout", payout, lines=["T1,15000"], out=word)
        said = f"The payout of {payout} is 1,000 {word} than the statement's total of 15,000."
        page = Page((tmp_path / word / "report.html").read_text()).text
        cells = list(openpyxl.load_workbook(tmp_path / word / "report.xlsx")["Tie-out"].values)[-1]
        assert (result.status, said in result.out.splitlines(), said in page, said in cells) == (1, *[True] * 3)
    for told in ("No row differs, but the statement does not tie", "settlement.csv: 1 line, "):
        assert told in page


def test_changed(reconcile, server, tmp_path):
    """A ledger or a statement that changes while it is reconciled gets no report."""
    for name in ("ledger.csv", "settlement.csv"):
        server.on_request = lambda path=tmp_path / name: path.write_text("reference\n")
        result = reconcile(lines=["T1,15000"], out=f"of {name}")
        told = f"{name} changed while it was reconciled" in result.err
        assert (result.status, told, (tmp_path / f"of {name}" / "summary.json").exists()) == (2, True, False)


def test_explained(reconcile, command, tmp_path):
    """A reference is explained with what the statement has of it, also when only that of the run before had it."""
    header, lines = "reference,amount,net", ["T1,15000,12500", "T9,5,5"]
    assert reconcile("--payout", "12,505", header=header, lines=lines).status == 1
    settled = "  settled: on line 2 of the statement, amount 15,000, amount_received 12,500"
    assert settled in command("explain", "report", "T1").out.splitlines()
    assert "  settled: no" in command("explain", "report", "T2").out.splitlines()
    meanings = [row[1] for row in openpyxl.load_workbook(tmp_path / "report" / "report.xlsx")["Tie-out"].values]
    assert "sum of what was paid out, over all its lines" in meanings
    message = command("show", "report").out.splitlines()
    assert "- Statement: 12,505, payout 12,505; residual 0" in message
    assert reconcile("--previous", "report", lines=["T1,15000"], out="21").status == 1
    explained = command("explain", "21", "T9").out
    assert ": only the statement of that run listed it\n" in explained
    assert "  settled: on the statement of an earlier run, amount 5, amount_received 5\n" in explained


def test_again(reconcile, night, command, tmp_path):
    """The same command and `report` change nothing; without its statement, or with another, the folder is refused."""
    lines, folder = ["T2,7000", "T3,5"], tmp_path / "report"
    assert reconcile("--payout", "7005", lines=lines).status == 1
    first = contents(folder)
    assert (reconcile("--payout", "7005", lines=lines).status, contents(folder) == first) == (1, True)
    result = reconcile(lines=["T2,7001"])
    assert (result.status, "began with another statement" in result.err) == (2, True)
    result = night("report", lines=LINES)
    assert (result.status, "statement was one, and is none now" in result.err) == (2, True)
    (tmp_path / "settlement.csv").unlink()
    assert (command("report", "report", "--quiet").status, contents(folder) == first) == (1, True)
    assert command("verify", "report").status == 0
    assert breaks_of(folder) == [["T1", "not_settled"], ["T2", "settled_not_paid"], ["T3", "settled_not_paid"]]


USAGE = {
    "--payout 1.5": "--payout must be a whole number in the unit of the service, such as 12,345,000, got '1.5'",
    "--payout 1,50": "--payout must be a whole number",
    f"--payout {'9' * 4301}": "--payout must be a whole number",
    "--settles-within soon": "must be a duration such as '90m', '12h' or '1d 12h', or '2 business days', got 'soon'",
    "--settles-within 2_business_days": "business days need time_zone",
    "--settles-within 3d": "--settles-within needs the age of each row",
    "--statement-column amount": "--statement-column must be like amount=Betrag",
    "--statement-column amount=Betrag": "the statement settlement.csv: no column is called 'Betrag'",
}


def test_usage(reconcile, night):
    """An option that cannot be used is refused before anything is asked, with what helps, and so is one without it."""

    def refused(options):
        arguments = [each.replace("_", " ") for each in options.split()]
        result = reconcile(*arguments, lines=["T1,15000"])
        return result.status, USAGE[options] in result.err

    check_each(dict.fromkeys(USAGE, (2, True)), refused)
    for option in ("--payout=5", "--settles-within=3d", "--statement-column=amount=x"):
        told = f"{option.partition('=')[0]} needs --statement, the list that it is about"
        assert told in night("report", option, lines=LINES).err


def test_told(reconcile, tmp_path):
    """Columns of the statement, what would read it, and lines that are left out are told, each with its options."""
    statement = {"header": "Trx;amount", "lines": ["T1;15.000,00"]}
    result = reconcile(**statement)
    assert (result.status, result.following[0][-2:]) == (2, ["--statement-column", "reference=Trx"])
    result = reconcile("--statement-column", "reference=Trx", **statement)
    assert "columns of the statement: reference = 'Trx', amount" in result.err.splitlines()
    suggestion = "payclient: the statement: 1 row has amounts that cannot be read: all can be read with decimal = "
    assert suggestion in result.err
    assert 'decimal = "," under [statement.reading] and thousands = "." under [statement.reading]' in result.err
    assert "payclient: the statement settlement.csv: none of 1 line can be used\n" in result.err
    assert result.lines[0].startswith('write decimal = "," under [statement.reading] and thousands = "." under')
    header = {"header": "reference,Debit,Credit", "lines": ["T1,,15000", "T2,7000,"]}
    columns = 'amount = "Credit" under [statement.columns] and debit_columns = { amount = "Debit" } under'
    assert columns in reconcile(**header).lines[0]
    result = reconcile(header="reference,amount,status", lines=["T1,15000,Lunas"])
    assert result.lines[0].startswith("write the meaning of each status under [statuses] into rules.toml, then: ")
    assert (result.status, result.out) == (2, "")
    statement["lines"].append("T1;15000")
    result = reconcile("--statement-column", "reference=Trx", **statement, out="with-another")
    assert "cannot be used, in the statement: line 2: " in result.out


def test_columns(reconcile, tmp_path):
    """A column that decides a sign is refused with the statement's option until it is named, and others are named."""
    header = "reference,amount,net,payout"
    result = reconcile(header=header, lines=["T1,15000,12500,12500"])
    assert result.out.startswith("PARTIAL: ")
    assert "; not compared in the statement: payout 12,500." in result.out.splitlines()[0]
    result = reconcile("--payout", "12,500", header=header, lines=["T1,15000,12500,po_1"], out="tied")
    assert (result.status, "The payout of 12,500 is the statement's total." in result.out) == (0, True), result.err
    columns = '[statement]\nignore_columns = ["payout"]\n[statement.columns]\nreference = "Trx"\n'
    (tmp_path / "rules.toml").write_text(columns)
    options = ("--rules", "rules.toml", "--statement-column", "amount=Brutto")
    result = reconcile(*options, header="Trx,Brutto,net,payout", lines=["T1,15000,12500,12500"], out="rules")
    assert result.status == 0, result.err
    result = reconcile(header="reference,amount,Type", lines=["T1,15000,payment", "T1,15000,refund"], out="type")
    assert "; not used in the statement: Type: payment 1, refund 1." in result.out.splitlines()[0]
    debits = {"header": "reference,amount,Art", "lines": ["T1,15000,CREDIT", "T2,7000,DEBIT"]}
    result = reconcile(out="art", **debits)
    assert (result.status, "--statement-column direction=Art" in result.err) == (2, True), result.err
    result = reconcile("--statement-column", "direction=Art", "--payout", "8,000", out="other", **debits)
    assert "The payout of 8,000 is the statement's total." in result.out, result.err


def test_rows_left_out(reconcile, tmp_path):
    """A payment that the ledger has in another currency is not in it; lines that the rules leave out are told."""
    ledger = ["reference,amount,currency", "T1,15000,IDR", "T5,9000,USD"]
    (tmp_path / "idr.toml").write_text('[ledger]\nonly_currency = "IDR"\n')
    for amount, verdict in ((15000, "CLEAN"), (1, "BREAKS")):
        result = reconcile("--rules", "idr.toml", ledger=ledger, lines=[f"T1,{amount}"], out=verdict)
        assert result.out.startswith(verdict)
    ledger[1:] = ["T9,15000,IDR", "T1,15000,USD"]
    assert reconcile("--rules", "idr.toml", ledger=ledger, lines=["T1,1"]).status == 1
    assert breaks_of(tmp_path / "report") == [["T9", "missing_at_service"], ["T1", "not_in_ledger"]]
    (tmp_path / "rules.toml").write_text(
        '[statement.kind]\ncolumn = "type"\ncharge = ["payment"]\nignore = ["payout"]\n'
    )
    lines = ["payment,T1,15000,", "payout,,,-9000", "payout,X,5,"]
    result = reconcile("--rules", "rules.toml", header="type,reference,amount,net", lines=lines, out="other")
    assert result.status == 0
    assert "payclient: 2 lines of the statement left out by the rules: -8,995" in result.err.splitlines()


def test_rejudged(reconcile, command, tmp_path):
    """A run is judged again with its statement, which is read as before, and by another time to settle."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[statement.kind]\ncolumn = "type"\ncharge = ["payment"]\nrefund = ["refund"]\n')
    lines = ["payment,T1,15000", "refund,T1,1"]
    assert reconcile("--rules", "rules.toml", header="type,reference,amount", lines=lines).status == 1
    (tmp_path / "settlement.csv").unlink()
    rules.write_text('grace = "1h"\n')
    result = command("rejudge", "report", "--rules", "rules.toml", "--out", "again")
    assert (result.status, "Not changed: statement, because reading" in result.out) == (1, True)
    settlements = [summary_of(tmp_path / name)["settlement"] for name in ("report", "again")]
    assert (settlements[0], settlements[0]["statement_total"]) == (settlements[1], 14999)
    result = command("rejudge", "report", "--settles-within", "soon", "--out", "again")
    assert (result.status, "--settles-within must be a duration" in result.err) == (2, True)


def test_business_days(reconcile, command, tmp_path):
    """A run is judged again by business days; the report says which they are."""
    row = f"T1,15000,{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}+00:00"
    (tmp_path / "calendar.toml").write_text("[calendar]\nholidays = [2026-12-25]\n")
    result = reconcile(ledger=["reference,amount,created_at", row], lines=[])
    assert "1 break" in result.out.splitlines()[0]
    by_days = ("rejudge", "report", "--settles-within", "2 business days", "--out", "again")
    assert "business days need time_zone, the zone of their beginning" in command(*by_days).err
    result = command(*by_days, "--time-zone", "UTC", "--rules", "calendar.toml")
    assert (result.status, "1 open" in result.out.splitlines()[0]) == (0, True)
    assert "without 1 listed holiday; in the time zone UTC" in (tmp_path / "again" / "report.html").read_text()


def test_payouts(reconcile, service, command, tmp_path):
    """What each payout consists of is in the terminal, the page, the summary and a file, which is written again."""
    service.add(reference="T2", amount=7000, amount_received=6500, fee=500, status="Paid")
    rows = ["T1,15000,12500,PO-7,2026-11-02", "T2,7000,6500,PO-8,2026-11-03", ",,-500,PO-8,"]
    header = "reference,amount,amount_received,Payout,date"
    ledger = ["reference,amount,status", "T1,15000,Paid", "T2,7000,Paid"]
    result = reconcile("--statement-column", "payout=Payout", lines=rows, header=header, ledger=ledger)
    folder = tmp_path / "report"
    assert "2 payouts: gross 22,000, refunds 0, fees -3,000, net 18,500" in result.out, result
    assert (folder / "payouts.csv").read_text() == (
        "payout,date,lines,gross,refunds,fees,refund_fees,unusable,net,residual\n"
        "PO-7,2026-11-02,1,15000,0,-2500,0,0,12500,0\n"
        "PO-8,2026-11-03,2,7000,0,-500,0,-500,6000,0\n"
    )
    assert [each["net"] for each in summary_of(folder)["settlement"]["payouts"]] == [12500, 6000]
    page = (folder / "report.html").read_text()
    assert ("PO-8 <small>2026-11-03</small>" in page, 'href="payouts.csv"' in page) == (True, True)
    before = contents(folder)
    assert command("report", "report", "--quiet").status == result.status
    assert contents(folder) == before


def test_listed_sentences(reconcile, tmp_path):
    """A night without lines says so of the statement, earlier ones settle its rows, and the page names each file."""
    reconcile(lines=["T1,15000"], out="20")
    result = reconcile("--previous", "20", lines=[])
    assert "payclient: the statement: no row was read: the file has a header and no rows" in result.err.splitlines()
    folder = tmp_path / "report"
    summary, page = summary_of(folder), (folder / "report.html").read_text()
    assert (summary["settlement"]["lines"], "in this statement or an earlier one" in page) == (0, True)
    assert "the ledger has a header and no rows" not in page
    linked = {*re.findall(r'<li><a href="([^"]+)">', page.partition('id="files"')[2])}
    assert linked | {"report.html"} == {path.name for path in folder.iterdir()}


def test_lost_night(night, service, tmp_path):
    """A night without a report is named in the next one; run again, its statement settles what it lists."""
    service.add(reference="T2", amount=7000, status="Paid")
    ledger, header = ["T1,15000,Paid", "T2,7000,Paid"], "reference,amount\n"
    for name, lines in (("20", "T1,15000\n"), ("21", "T2,7000\n"), ("22", "")):
        (tmp_path / f"{name}.csv").write_text(header + lines)
    assert night("20", "--statement", "20.csv", lines=ledger).status == 1
    lost = ("21", "--statement", "21.csv", "--previous", "20")
    night(*lost, lines=ledger)
    for file in (tmp_path / "21").iterdir():
        if file.name != "journal.sqlite":
            file.unlink()
    alone = night("22", "--statement", "22.csv", "--previous", "20", lines=ledger)
    assert f"the run in '{tmp_path / '21'}' did not write its report, so nothing of it is known" in alone.err
    assert (alone.status, "not_settled" in alone.out) == (1, True)
    assert night(*lost, lines=ledger).status == 0
    both = night("23", "--statement", "22.csv", "--previous", "21", lines=ledger)
    assert (both.status, "has no report" in both.err) == (0, False)


def test_night_without_a_statement(night, service, tmp_path):
    """After a night without a statement, its breaks are followed: those that it alone had at once, others later."""
    service.add(reference="T2", amount=7000, status="Paid")
    (tmp_path / "rules.toml").write_text("may_leave = true\n")
    for name, lines in (("20", "T2,7000\n"), ("22", ""), ("23", "T1,15000\n")):
        (tmp_path / f"{name}.csv").write_text(f"reference,amount\n{lines}")
    both = [["T1", "not_settled"], ["T2", "not_in_ledger"]]
    for name, statement, lines, breaks in (
        ("20", True, ["T1,15000,Paid"], both),
        ("21", False, ["T3,15000,Paid"], both[1:]),
        ("22", True, ["T3,15000,Paid"], both),
        ("23", True, ["T2,7000,Paid"], []),
    ):
        more = ["--statement", f"{name}.csv"] if statement else []
        before = [] if name == "20" else ["--previous", str(int(name) - 1)]
        night(name, "--rules", "rules.toml", *more, *before, lines=lines)
        found = [each for each in sorted(breaks_of(tmp_path / name)) if each[0] != "T3"]
        assert found == breaks, name

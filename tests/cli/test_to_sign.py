"""What a person should know before signing stands in one place: on the page, in the workbook and in `summary.json`."""

import json

import openpyxl

from support.pages import Page

LEDGER = """reference,amount,status,created_at,currency,note
T1,15000,Paid,2026-11-02 10:00:00,IDR,
T2,9000,Canceled,2026-11-01 08:00:00,IDR,
T3,5,Paid,2026-11-02 11:00:00,USD,other money
TOTAL,24000,,,IDR,
"""
STATEMENT = "reference,amount,kind,memo\nT1,15000,booked,\nT2,1,announced,\n"
RULES = (
    '[ledger]\nonly_currency = "IDR"\nskip_totals = true\n'
    '[statement.kind]\ncolumn = "kind"\ncharge = ["booked"]\nignore = ["announced"]\n'
)
OPTIONS = "--previous 20 --statement bank.csv --rules rules.toml"
LEFT_OUT = {
    "ledger": [
        "the column 'note', which is not used",
        "skipped 1 row in USD: line 4; amount 5",
        "skipped 1 row of totals: line 5; amount 24,000",
    ],
    "statement": ["the column 'memo', which is not used", "1 line of the statement left out by the rules: 1"],
}
PERIOD = "2026-11-01 08:00:00 to 2026-11-02 10:00:00, by the creation of 2 rows"
RULES_CHANGED = "Rules that changed since the previous run: "
OPEN = "1 open, with 2,000 at stake"


def test_everywhere(configured, command, tmp_path, monkeypatch):
    """The period, what was left out and why, the rules and what is open are the same everywhere, also when written
    again, with room for two people to sign."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("ledger.csv", LEDGER), ("bank.csv", STATEMENT), ("rules.toml", RULES)):
        (tmp_path / name).write_text(text)
    (tmp_path / "first.csv").write_text("reference,amount,status\nT2,9000,Canceled\n")
    assert configured("reconcile", "first.csv", "--out", "20").status == 1
    assert configured("reconcile", "ledger.csv", "--out", "21", *OPTIONS.split()).status == 1
    page = tmp_path / "21" / "report.html"
    before = page.read_bytes()
    assert command("report", "21", "--quiet").status == 1
    assert page.read_bytes() == before
    summary = json.loads((tmp_path / "21" / "summary.json").read_text())
    assert (summary["left_out"], summary["period"]) == (
        LEFT_OUT,
        {"first": "2026-11-01T08:00:00", "last": "2026-11-02T10:00:00", "lines": 2, "without": 0},
    )
    sheet = list(openpyxl.load_workbook(tmp_path / "21" / "report.xlsx")["To sign"].values)
    said = [value for _, value in sheet[1:] if value]
    told = [PERIOD, *LEFT_OUT["ledger"], *LEFT_OUT["statement"], OPEN]
    assert [each for each in told if each not in said] == []
    assert [each for each in said if each not in Page(page.read_text()).all("dd")] == []
    assert [each for each in said if each.startswith(RULES_CHANGED)] == [f"{RULES_CHANGED}ledger, statement."]
    assert [term for term, value in sheet if term and not value] == ["Prepared by", "Reviewed by", "Date", "Signature"]
    first = json.loads((tmp_path / "20" / "summary.json").read_text())
    assert (first["left_out"], first["period"]["first"]) == ({"ledger": []}, None)
    assert "no previous run to compare them with" in Page((tmp_path / "20" / "report.html").read_text()).all("dd")

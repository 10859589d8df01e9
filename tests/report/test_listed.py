"""What a person has to look at again is listed in every report."""

from __future__ import annotations

import io
import json
from datetime import date

from openpyxl import load_workbook

from payclient import Transaction
from payclient.cli._output import Worst, verdict_lines
from payclient.ledger import Entry
from payclient.reconcile import Accepted, Answer, Case, FeeSchedule, Observation, Rules, judge
from payclient.report import About, ReportFiles
from support.reconciling import NOON

RULES = Rules(
    fees={"VA": FeeSchedule(flat=400)},
    accepted=[
        Accepted(
            code="underpaid",
            reference="T9",
            largest_difference=500,
            reason="agreed",
            owner="Ana",
            expires=date(2026, 12, 31),
        ),
    ],
)
ACCEPTANCE = "underpaid of 'T9', accepted by Ana until 2026-12-31, matches no row; remove it"
LEAKAGE = "VA: 1 row, 40,000 not received, fees +100 against the schedule"


def test_every_report(tmp_path):
    """An acceptance that matches no row, and leakage by method, stand in page, workbook, summary and terminal."""
    transaction = Transaction(
        reference="T1",
        amount=100_000,
        fee=500,
        amount_received=59_500,
        status="Paid",
        payment_method="VA",
    )
    seen = Observation(answer=Answer.FOUND, at=NOON, transaction=transaction)
    entry = Entry(line=2, reference="T1", amount=100_000, fee=500, status="Paid")
    with ReportFiles(tmp_path, rules=RULES) as files:
        files.add(judge(Case(entry=entry, first=seen, second=seen, other_found=1), rules=RULES))
        summary = files.finish(About(rules=RULES))
    page = (tmp_path / "report.html").read_text("utf-8").replace("&#39;", "'")
    book = load_workbook(io.BytesIO((tmp_path / "report.xlsx").read_bytes()))
    cells = " ".join(str(cell) for sheet in book for row in sheet.values for cell in row)
    terminal = " ".join(verdict_lines(summary, Worst(), rules=RULES))
    told = json.loads((tmp_path / "summary.json").read_text())
    for text in (page, cells, terminal):
        assert (ACCEPTANCE in text, LEAKAGE in text) == (True, True)
    assert told["leakage"] == [
        {"method": "VA", "rows": 1, "short_received": 40_000, "fee_off_schedule": 100, "possible": 0}
    ]
    assert [(each["state"], each["sentence"]) for each in told["acceptances"]] == [("met_no_row", ACCEPTANCE)]

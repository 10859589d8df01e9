"""A month of nights through the command line, with a kill and decisions, against the oracle of `support.month`."""

import csv
import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from cli.test_decisions import write
from support.month import MONTHLY_FEE, NEVER, Controller, shop
from support.reports import rows_of, summary_of

NIGHTS, PAYMENTS = 22, 70
LOST, DECIDED, TOLERANT, ROLLED, KILLED = 9, 13, 11, 15, 17
RULES = """time_zone = "UTC"
[statement]
new_lines_only = true
[statement.kind]
column = "Type"
charge = ["sale"]
refund = ["refund", "chargeback"]
fee = ["fee"]
"""


def write_csv(name, *rows):
    with Path(name).open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def write_files(payments, night, start, stated):
    """Write the ledger, which begins with a day, and the statement with a monthly fee."""
    days = [(each, date(2020, 1, 1) + timedelta(days=each.created)) for each in payments]
    listed = [(each.reference, *row, day) for each, day in days for row in each.rows(night, start)]
    write_csv("ledger.csv", ("reference", "amount", "status", "created_at"), *listed)
    lines = [(name, *line) for name, found in stated.items() for line in found]
    write_csv("bank.csv", ("reference", "Type", "amount", "amount_received"), *lines, ("", "fee", MONTHLY_FEE, ""))


def decide(controller, folder, command):
    """Accept up to four findings that are alone in their row, in the work list of the last report."""
    alone = {name: [*known.stake] for name, known in controller.noted.items() if len(known.stake) == 1}
    chosen = [name for name, (code,) in sorted(alone.items()) if code in ("left_the_ledger", "underpaid")][:4]
    write(f"{folder}/report.xlsx", **dict.fromkeys(chosen, "accepted until 2999-12-31"))
    assert command("decisions", f"{folder}/report.xlsx", "--by", "Ana").status == 0
    controller.accepted |= {(name, alone[name][0]): NEVER for name in chosen}
    return chosen


def kill(call, server):
    """Run a command in a process that is killed at its tenth request."""
    left = iter(range(10))
    with subprocess.Popen([sys.executable, "-m", "payclient", *call], env=os.environ) as process:
        server.on_request = lambda: None if next(left, None) is not None else process.kill()
    assert process.returncode != 0
    server.on_request = lambda: None


@pytest.mark.slow
def test_month(configured, server, service, tmp_path, monkeypatch):
    """Each night, exit status, rows, both bridges and the roll-forward in the report are what the oracle expects."""
    monkeypatch.chdir(tmp_path)
    payments = list(shop(11, NIGHTS, PAYMENTS))
    controller, waiting, before = Controller(payments), {}, None
    (tmp_path / "rules.toml").write_text(RULES)
    for night in range(1, NIGHTS + 1):
        for each in payments:
            waiting.setdefault(each.reference, []).extend(each.lines(night))
        if night == LOST:
            continue
        if night == DECIDED:
            assert decide(controller, before, configured)
        if night == TOLERANT:
            (tmp_path / "rules.toml").write_text(f"tolerances.amount.below = 500\n{RULES}")
            controller.tolerance = 500
        stated, waiting = {name: found for name, found in waiting.items() if found}, {}
        start = 4 if night >= ROLLED else 1
        for each in payments:
            money = {"amount": each.amount, "fee": each.fee, "amount_received": each.amount - each.fee}
            service.add(reference=each.reference, status=each.status(night), **money)
        write_files(payments, night, start, stated)
        call = ["reconcile", "ledger.csv", "--statement", "bank.csv", "--rules", "rules.toml", "--out", f"{night:02}"]
        call += ["--quiet"] if before is None else ["--quiet", "--previous", before]
        if night == KILLED:
            kill(call, server)
        expected = controller.night(night, start, stated)
        assert configured(*call).status == expected.status()
        check(tmp_path / f"{night:02}", expected, before is None)
        before = f"{night:02}"


def check(folder, expected, is_first):
    """Compare a report with what the oracle expects; ages are left to the same month in Python, which has a clock."""
    rows, summary = {}, summary_of(folder)
    for row in rows_of(folder):
        codes = {each["code"] for each in row["findings"] if not each["waived"] and each["severity"] != "info"}
        buckets, known = rows.setdefault(row["reference"], (set(), set()))
        buckets.add(row["bucket"])
        known |= codes
    rows.pop(None, None)  # the monthly fee
    assert rows == {name: ({each[0][0]}, {*each[0][1]}) for name, each in expected.rows.items()}
    bridge, settlement, found = summary["tie_out"], summary["settlement"], summary["open_findings"]

    totals = bridge["ledger_paid_total"], bridge["service_paid_total"], settlement["statement_total"]
    assert totals == (expected.ledger_paid, expected.service_paid, expected.statement)
    for steps, wanted in ((bridge["steps"], expected.tie_steps), (settlement["steps"], expected.steps)):
        assert {each["step"]: each["amount"] for each in steps if each["amount"]} == wanted
    assert {code: each["amount"] for code, each in found["by_code"].items()} == dict(expected.closing)
    if not is_first:
        states = ("new", "reopened", "resolved", "changed")
        assert [found[each]["count"] for each in states] == [expected.counts[each] for each in states]
        assert found["opening"]["amount"] == sum(expected.opening.values())

"""Reports of rows that were never looked up, for what compares two reports."""

import json
from datetime import timedelta

from payclient.protocol import Transaction
from payclient.reconcile import Bucket, Finding, Row, Rules
from payclient.reconcile.folders import open_past_run
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import About, ReportFiles
from support.nights import FIRST


def row(reference, *findings, ledger=9, service=9, bucket=Bucket.MATCHED, night=0, line=1, **fields):
    """Return a row with these amounts; with findings, it is a break."""
    transaction = None if service is None else Transaction(reference=reference, amount=service, status="Paid")
    return Row(
        entry=Entry(line=line, reference=reference, amount=ledger),
        bucket=Bucket.BREAK if findings else bucket,
        findings=tuple(Finding(code, f"about {code}", ledger=ledger, service=service) for code in findings),
        transaction=transaction,
        observed_at=FIRST + timedelta(days=night),
        **fields,
    )


def run_of(folder, name, rows, *, rules=None, **about):
    """Write the report of *rows* into a folder of this name, and open it."""
    rules = rules or Rules()
    with ReportFiles(folder / name, formats=["summary.json", "rows.jsonl"], rules=rules) as files:
        for each in rows:
            files.add(each)
        files.finish(About(rules=rules, **about))
    return open_past_run(folder / name)


def summary_of(folder, name="summary.json"):
    return json.loads((folder / name).read_text())


def rows_of(folder, name="rows.jsonl"):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def contents(folder):
    """Return every file of a report, the journal not among them: the same rows stand there in other pages."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("journal")}

"""A planted ledger, judged without a network: the example behind every test of the page, and its pictures."""

import csv
import io

from payclient import errors
from payclient.protocol.transaction import read_transaction
from payclient.reconcile import Tally, reconcile
from payclient.reconcile.ledger import open_ledger
from payclient.reconcile.report import About, LedgerAbout, Report
from payclient.reconcile.report._html import write
from payclient.reconcile.report.model import Worst
from support.reconciling import Clock, Service
from support.seeded import COLUMNS, generate

REFUSED = errors.PermissionDeniedError("the service refuses this caller: field merchant is blocked")


def both_sides(rows, *, seed=1, columns=COLUMNS):
    """Return a planted dataset, its ledger as CSV, and the answers to each reference."""
    planted, text = generate(rows, seed=seed), io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(planted.ledger)
    answers = {fields["reference"]: [read_transaction(dict(fields))] for fields in planted.transactions}
    return planted, io.BytesIO(text.getvalue().encode()), answers


async def judged(rows, *, unresolved=0, **options):
    """Return the rows of a planted ledger as they were judged; the last so many were never answered."""
    planted, file, answers = both_sides(rows, **options)
    matched = [row for row, said in zip(planted.ledger, planted.expected, strict=True) if said.bucket == "matched"]
    answers |= {row["reference"]: [REFUSED] for row in matched[len(matched) - unresolved :]}
    with open_ledger(file) as ledger:
        found = reconcile(ledger, Service(answers), clock=Clock(), concurrency=1)
        return [row async for row in found]


def tally_of(rows):
    """Return the tally of *rows*."""
    tally = Tally()
    for row in rows:
        tally.add(row)
    return tally


def summary_of(rows):
    """Return the summary of *rows*."""
    return tally_of(rows).summary()


def about(**changes):
    """Return what is known about the made-up run."""
    ledger = LedgerAbout(
        name="settlements-2026-10.csv",
        format="csv",
        size_bytes=312_604,
        sha256="9f2c1f0c6f5a6f0f7e2b1f6f3d2f4b6a1c8e7d90b3a5c2e4f6071829a3b4c5d6",
        columns={"reference": "trx_ref", "amount": "Total"}
        | {name: name for name in ("merchant_reff", "fee", "status")},
        ignored_columns=("created_by", "branch"),
    )
    known = {
        "ledger": ledger,
        "base_url": "https://pay.example/api",
        "environment": "live",
        "key_fingerprint": "b51f-09ac",
        "payclient_version": "0.1.0",
    }
    return About(**known | changes)


def worst_of(rows, **room):
    """Return the rows of *rows* that people read."""
    worst = Worst(**room)
    for row in rows:
        worst.add(row)
    return worst


def page_of(rows, *, tally=None, worst=None, files=None, **known):
    """Return the page of *rows* as text."""
    file, tally = io.StringIO(), tally or tally_of(rows)
    report = Report(tally.summary(), about(**known), worst or worst_of(rows))
    write(file, report, **({} if files is None else {"files": files}))
    return file.getvalue()

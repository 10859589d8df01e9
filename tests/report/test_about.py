"""What is known of a run survives the journal."""

from __future__ import annotations

import json
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import attrs
import pytest

from payclient.reconcile import Accepted, FeeSchedule, Rules, Tolerance
from payclient.report import About, LedgerAbout, about_as_json, about_from_json

LEDGER = LedgerAbout(
    name="ledger.csv",
    format="csv",
    size_bytes=7,
    sha256="ab" * 32,
    columns={"reference": "Nummer"},
    ignored_columns=("note",),
    warnings=("one", "two"),
)
RULES = Rules(
    columns={"amount": "Betrag"},
    tolerances={"amount": Tolerance(above=500)},
    statuses={"berhasil": "paid"},
    grace=timedelta(hours=12),
    time_zone=ZoneInfo("Asia/Jakarta"),
    fees={"VA": FeeSchedule(flat=2500)},
    accepted=[
        Accepted(
            code="underpaid",
            reference="A",
            reason="agreed",
            owner="Ani",
            expires=date(2026, 12, 31),
            largest_difference=500,
        ),
    ],
)
FULL = About(
    ledger=LEDGER,
    rules=RULES,
    base_url="https://pay.example",
    environment="live",
    key_fingerprint="0123456789ab",
    canary="T1",
    ended_by="the service refused",
)


@pytest.mark.parametrize("about", [About(), FULL], ids=["nothing", "everything"])
def test_round_trip(about):
    """What was written as JSON is read again as it was."""
    assert about_from_json(json.loads(json.dumps(about_as_json(about)))) == about


def test_everything_is_in_it():
    """Each attribute is in the JSON, but for the version, which is that of whoever writes the report."""
    names = {field.name for field in attrs.fields(About)}
    assert names - about_as_json(FULL).keys() == {"payclient_version"}
    assert {field.name for field in attrs.fields(LedgerAbout)} == about_as_json(FULL)["ledger"].keys()

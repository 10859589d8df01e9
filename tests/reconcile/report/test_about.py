"""What is known of a run survives the journal."""

import json
import re
from datetime import datetime, timedelta, timezone

import attrs
import pytest

from payclient.reconcile import Rules
from payclient.reconcile._codec import from_json
from payclient.reconcile.report import About, LedgerAbout
from payclient.reconcile.report.model import about_as_json, run_name
from support.ruling import SOME_RULES

LEDGER = LedgerAbout(
    name="ledger.csv",
    format="csv",
    size_bytes=7,
    sha256="ab" * 32,
    columns={"reference": "Nummer"},
    ignored_columns=("note",),
    warnings=("one", "two"),
)
FULL = About(
    run="20261121T020003Z-3f9a1c2d",
    ledger=LEDGER,
    rules=SOME_RULES,
    base_url="https://pay.example",
    environment="live",
    key_fingerprint="0123456789ab",
    canary="T1",
    ended_by="the service refused",
)


@pytest.mark.parametrize("about", [About(), FULL], ids=["nothing", "everything"])
def test_round_trip(about):
    """What was written as JSON is read again as it was."""
    assert from_json(json.loads(json.dumps(about_as_json(about))), About) == about


def test_everything_is_in_it():
    """Each attribute is in the JSON, but for the version of who writes the report."""
    names = {field.name for field in attrs.fields(About)}
    assert names - about_as_json(FULL).keys() == {"payclient_version"}
    assert {field.name for field in attrs.fields(LedgerAbout)} == about_as_json(FULL)["ledger"].keys()


STARTED = datetime(2026, 11, 21, 9, 0, 3, tzinfo=timezone(timedelta(hours=7)))


def test_run_name():
    """A run is named by when it began, in UTC, and by what it is about."""
    name = run_name(attrs.evolve(FULL, run=""), STARTED)
    assert re.fullmatch(r"20261121T020003Z-[0-9a-f]{8}", name)
    assert run_name(attrs.evolve(FULL, ended_by="", canary=None), STARTED) == name


def test_other_run(subtests):
    """Another ledger, service, key or rule makes another name, although both runs began in the same second."""
    cases = {
        "ledger": {"ledger": attrs.evolve(LEDGER, sha256="cd" * 32)},
        "no ledger": {"ledger": None},
        "rules": {"rules": Rules()},
        "address": {"base_url": "https://other.example"},
        "environment": {"environment": "sandbox"},
        "key": {"key_fingerprint": "ba9876543210"},
    }
    for case, other in cases.items():
        with subtests.test(case):
            assert run_name(attrs.evolve(FULL, **other), STARTED) != run_name(FULL, STARTED)

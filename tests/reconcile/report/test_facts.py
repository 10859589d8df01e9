"""What the page says about the run."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import attrs

from payclient.reconcile import Bucket, FeeSchedule, Row, Rules, Tolerance
from payclient.reconcile.ledger import Entry, Excluded
from payclient.reconcile.report import Report, StatementAbout
from payclient.reconcile.report.wording import when
from support.planted import about, summary_of
from support.ruling import accepted

RULES = Rules(
    time_zone=ZoneInfo("Asia/Jakarta"),
    grace=timedelta(hours=36),
    tolerances={"amount": Tolerance(below=500)},
    statuses={"Lunas": "paid"},
    not_found_messages=["gone"],
    fees={"VA": FeeSchedule(flat=4000)},
    accepted=[accepted("A", largest_difference=500)],
)


def told(rows=(), **known):
    return {fact.term: fact.values for fact in Report(summary_of(rows), about(**known)).facts}


def test_ledger():
    """The ledger is named with its size, its fingerprint and its columns, under the names that it has for them."""
    assert {term: values for term, values in told().items() if term in ("Ledger", "Size", "Columns used")} == {
        "Ledger": ("settlements-2026-10.csv",),
        "Size": ("312,604 bytes, read as csv",),
        "Columns used": ("reference from 'trx_ref', amount from 'Total', merchant_reff, fee, status",),
    }


def test_warnings():
    """What was noticed about ledger or statement is said once, and nothing where nothing was."""
    excluded = Excluded(why="in USD", rows=1, amount=5, lines="5")
    ledger = attrs.evolve(
        about().ledger, warnings=("one", str(excluded)), excluded=(excluded,), ignored_columns=("note",)
    )
    known = about(ledger=ledger, statement=StatementAbout(file=ledger))
    signed = {fact.term: fact.values for fact in Report(summary_of([]), known).to_sign}
    for side in ("ledger", "statement"):
        assert signed[f"Warnings about the {side}"] == ("one",)
        assert signed[f"Left out of the {side}"] == ("the column 'note', which is not used", str(excluded))
    plain = {fact.term for fact in Report(summary_of([]), about()).to_sign}
    assert [term for term in plain if term.startswith("Warnings")] == []


def test_not_known():
    """What is not known about the run is said not to be, and a run that was ended early says by what."""
    found = told(base_url="", environment="", key_fingerprint="", canary=None, ledger=None, ended_by="no key")
    assert {found[term] for term in ("Service", "Environment", "Key fingerprint")} == {("not recorded",)}
    terms = ("Ledger", "Canary", "Answers came", "Ended early")
    said = ("not a file that payclient read", "none was given", "none came", "no key")
    assert [found[term] for term in terms] == [(each,) for each in said]
    stream = attrs.evolve(about().ledger, name="")
    assert (told(ledger=stream)["Ledger"], "Ended early" in told()) == (("standard input",), False)


def test_exit_status():
    """The exit status is the one that a command ends with, and says what it means."""
    for bucket, status in ((Bucket.MATCHED, "0"), (Bucket.REJECTED, "1"), (Bucket.UNRESOLVED, "75")):
        row = Row(entry=Entry(line=2, reference="A"), bucket=bucket)
        assert told([row])["Exit status"][0].partition(": ")[0] == status


def test_changed():
    """Rows whose answer changed during the run are counted."""
    row = Row(entry=Entry(line=2, reference="A"), bucket=Bucket.MATCHED, is_changed_during_run=True)
    assert told([row])["Changed during the run"] == ("1 row; judged by the last answer",)


def test_when():
    """Times are in UTC, whatever zone they came in."""
    noon, jakarta = datetime(2026, 11, 21, 12, 0, 1, 999, tzinfo=UTC), timezone(timedelta(hours=7))
    shown = [when(time) for time in (None, noon, datetime(2026, 1, 1, 1, tzinfo=jakarta))]
    assert shown == ["", "2026-11-21 12:00:01", "2025-12-31 18:00:00"]


def test_rules():
    """Every rule that can hide a difference is said."""
    found = told(rules=RULES)
    terms = ("Expiry", "Tolerances", "Grace", "Status words", "Messages that mean not found", "Fee schedule")
    terms += ("Accepted differences",)
    assert [found[term] for term in terms] == [
        ("expiry times were read in the time zone Asia/Jakarta",),
        ("amount: below 500",),
        ("rows younger than 1d 12h may still be on their way",),
        ("lunas means paid",),
        ("gone",),
        (found["Fee schedule"][0],),
        ("1; each is marked where it occurs",),
    ]
    assert found["Fee schedule"][0].startswith("VA: flat 4000")
    assert found["Fingerprint of the rules"] == (RULES.fingerprint,)

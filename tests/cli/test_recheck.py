"""`payclient reconcile --recheck`: rows that matched in earlier runs, looked up again."""

from __future__ import annotations

import gzip
import json

import pytest

from payclient.testing import Reply
from support.reports import contents, rows_of, summary_of

SENTENCE = "rows that matched in earlier runs looked up again: "


@pytest.fixture
def run(night):
    """Reconcile a ledger of these paid references into a folder of this name, after the run of another name."""

    def run(name, *arguments, after=None, lines, **options):
        rows = [line if "," in line or options else f"{line},15000,Paid" for line in lines]
        given = ("--previous", after, "--recheck", "60d") if after else ()
        return night(name, *given, *arguments, lines=rows, **options)

    return run


@pytest.fixture
def two(run, paid, prepared):
    """Make the first night of two payments, among others that are known to the service."""
    paid("A1", "A2", "B1", "C1", "D1")
    assert prepared("two", lambda: run("1", lines=["A1", "A2"])).status == 0


@pytest.fixture
def paid(service):
    """Make these payments known to the service, with a status."""

    def paid(*references, amount=15000, status="Paid"):
        for reference in references:
            service.add(reference=reference, amount=amount, status=status)

    return paid


def by_reference(folder):
    return {row["reference"]: row for row in rows_of(folder)}


def since_of(folder):
    return summary_of(folder)["since"]


def reversal(row):
    return next(each for each in row["findings"] if each["code"] == "reversed")


def test_canceled(run, two, paid, command, tmp_path):
    """A payment that matched on night 1 and is canceled before night 2 is reversed, although no later ledger has it."""
    assert not (tmp_path / "1" / "matched.jsonl.gz").exists()
    paid("A1", status="Canceled")
    result = run("2", after="1", lines=["B1"])
    assert (result.status, "2 looked up again" in result.out.splitlines()[0]) == (1, True)
    assert "1 break; open findings: 0 + 2 new + 0 reopened - 0 resolved = 2." in result.out.splitlines()[0]
    assert f"2 of 2 {SENTENCE}1 changed." in result.out
    row, summary = by_reference(tmp_path / "2")["A1"], summary_of(tmp_path / "2")
    assert row["line_of"] == f"ledger of {summary['since']['run']}"
    assert (reversal(row)["ledger"], reversal(row)["service"]) == ("Paid", "Canceled")
    found = {"population": 2, "looked_at": 2, "unanswered": 0, "changed": 1, "at_most": None, "confidence": 0.95}
    assert summary["since"]["rechecked"] == found
    assert (summary["tie_out"]["ledger_paid_total"], summary["tie_out"]["service_paid_total"]) == (15000, 15000)
    # The break stays, and what matches is looked up again and again.
    result = run("3", after="2", lines=["C1"])
    assert "1 break; open findings: 2 + 0 new + 0 reopened - 0 resolved = 2." in result.out.splitlines()[0]
    assert f"2 of 2 {SENTENCE}0 changed." in result.out
    paid("A1")
    result = run("4", after="3", lines=["D1"])
    assert (result.status, "2 + 0 new + 0 reopened - 2 resolved = 0" in result.out.splitlines()[0]) == (0, True)
    assert run("5", after="4", lines=["D1"]).status == 0
    # A1, which is paid again, is one of them.
    assert since_of(tmp_path / "5")["rechecked"]["population"] == 4
    assert command("verify", "5").status == 0


def test_changes(run, paid, tmp_path):
    """Whatever changed is a break with both values, each night, also where the ledger states nothing."""
    paid("A1", "A2", "B1", "C1")
    bare = {"header": "reference"}
    run("1", "--assume-status", "none", lines=["A1", "A2"], **bare)
    paid("A1", amount=9000)
    paid("A2", status="Refunded")
    for name, after, line, state in (("2", "1", "B1", "new"), ("3", "2", "C1", "still_open")):
        assert run(name, "--assume-status", "none", after=after, lines=[line], **bare).status == 1
        found = {reference: reversal(by_reference(tmp_path / name)[reference]) for reference in ("A1", "A2")}
        assert [(each["ledger"], each["service"]) for each in found.values()] == [(15000, 9000), ("Paid", "Refunded")]
        assert [each["history"]["state"] for each in found.values()] == [state, state]


def test_sample(run, paid, command, tmp_path):
    """A sample has its size each night, is the same for the same seed, and has all strata; others are remembered."""
    small, large = [f"S{number}" for number in range(30)], [f"L{number}" for number in range(10)]
    paid(*small, amount=100)
    paid(*large, amount=5_000_000)
    paid("B1", "C1")
    run("1", lines=[f"{each},100,Paid" for each in small] + [f"{each},5000000,Paid" for each in large])

    def chosen(folder):
        return sorted(reference for reference, row in by_reference(tmp_path / folder).items() if "matched" in row)

    for name in ("2", "2-again"):
        result = run(name, "--sample", "8", "--seed", "0", after="1", lines=["B1"])
        assert f"8 of 40 {SENTENCE}0 changed, so at most 32 % of them have, with 95 % confidence." in result.out
        assert sum(each.startswith("L") for each in chosen(name)) == 2
    assert chosen("2") == chosen("2-again")
    remembered = gzip.decompress((tmp_path / "2" / "matched.jsonl.gz").read_bytes()).splitlines()
    # No more than a sample of that night alone would have, and one for each stratum.
    assert len(remembered) - 1 <= 8 + 2
    assert json.loads(remembered[0])["rows"] == 40
    again = json.loads(remembered[1])["reference"]  # in the ledger again: a row of it, and none of the population
    amount = {"S": 100, "L": 5_000_000}[again[0]]
    run("3", "--sample", "8", after="2", lines=["C1", f"{again},{amount},Paid"])
    assert since_of(tmp_path / "3")["rechecked"]["population"] == 40
    assert (len(chosen("3")), "matched" in by_reference(tmp_path / "3")[again]) == (8, False)
    before = contents(tmp_path / "3")
    assert command("report", "3", "--quiet").status == 0
    assert contents(tmp_path / "3") == before
    assert command("verify", "3").status == 0


def test_resumed(run, paid, service, tmp_path):
    """A run that ended early resumes with the same sample, and has the same rows as one that did not."""
    many = [f"A{number}" for number in range(20)]
    paid(*many, "B1")
    run("1", lines=many)
    assert run("2", "--sample", "5", after="1", lines=["B1"]).status == 0
    whole = by_reference(tmp_path / "2")
    chosen = [reference for reference, row in whole.items() if "matched" in row]
    service.script(chosen[0], Reply(status=403), Reply(status=403))
    early = run("2-again", "--sample", "5", after="1", lines=["B1"])
    assert early.out.startswith("INCOMPLETE: ")
    assert run("2-again", "--sample", "5", after="1", lines=["B1"]).status == 0
    assert list(by_reference(tmp_path / "2-again")) == list(whole)
    other = run("2-again", "--sample", "6", after="1", lines=["B1"])
    assert (other.status, "recheck was 60d, 5 with seed 0, and is 60d, 6 with seed 0 now" in other.err) == (2, True)


def test_statement(run, two, tmp_path):
    """A row that is looked up again need not be in tonight's statement; one that is, is settled by it."""
    (tmp_path / "settled.csv").write_text("reference,amount\nB1,15000\nA1,15000\n")
    result = run("2", "--statement", "settled.csv", "--payout", "30000", after="1", lines=["B1"])
    assert (result.status, result.out.split(":")[0]) == (0, "CLEAN")
    summary = summary_of(tmp_path / "2")
    assert summary["settlement"]["service_paid_total"] == summary["tie_out"]["service_paid_total"] == 30000


def test_reuse(run, two, paid, tmp_path):
    """A row that is looked up again is asked about, also where answers of the run before are reused."""
    paid("A1", status="Canceled")
    assert run("2", "--reuse", "7d", after="1", lines=["A2"]).status == 1
    rows = by_reference(tmp_path / "2")
    assert (rows["A1"]["bucket"], rows["A1"]["reused_from"], rows["A2"]["reused_from"] != "") == ("break", "", True)


def test_not_named(run, two, tmp_path):
    """A run without the option says that the run before had it, which rows that concerns, and that they are lost."""
    run("2", "--sample", "1", "--seed", "7", after="1", lines=["B1"])
    result = run("3", "--previous", "2", lines=["C1"])
    said = (
        "Not looked up again: rows that matched in earlier runs. The previous run knew of 2 rows, by --recheck 60d "
        "--sample 1 --seed 7, which this run was not given; runs after this one do not know of them."
    )
    for text in (result.out, (tmp_path / "3" / "report.html").read_text(), summary_of(tmp_path / "3")["completeness"]):
        assert said in " ".join(text.split())
    assert "Not looked up again" not in run("4", "--previous", "3", lines=["D1"]).out

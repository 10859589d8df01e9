"""`payclient reconcile --recheck`: rows that matched in earlier runs, looked up again."""

from __future__ import annotations

import gzip
import json

import pytest

from payclient.testing import Reply

SENTENCE = "rows that matched in earlier runs looked up again: "


@pytest.fixture
def night(configured, tmp_path, monkeypatch):
    """Reconcile a ledger of these references into a folder of this name, after the run of another name."""
    monkeypatch.chdir(tmp_path)

    def night(name, *arguments, after=None, lines, header="reference,amount,status"):
        rows = [f"{line},15000,Paid" if "," in header and "," not in line else line for line in lines]
        (tmp_path / "ledger.csv").write_text("".join(f"{line}\n" for line in (header, *rows)))
        given = ("--previous", after, "--recheck", "60d") if after else ()
        return configured("reconcile", "ledger.csv", "--out", name, *given, *arguments)

    return night


@pytest.fixture
def two(night, paid, prepared):
    """Make the first night of two payments, among others that are known to the service."""
    paid("A1", "A2", "B1", "C1", "D1")
    assert prepared("two", lambda: night("1", lines=["A1", "A2"])).status == 0


@pytest.fixture
def paid(service):
    """Make these payments known to the service, with a status."""

    def paid(*references, amount=15000, status="Paid"):
        for reference in references:
            service.add(reference=reference, amount=amount, status=status)

    return paid


def rows_of(folder):
    return {row["reference"]: row for row in map(json.loads, (folder / "rows.jsonl").read_text().splitlines())}


def since_of(folder):
    return json.loads((folder / "summary.json").read_text())["since"]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "journal.sqlite"}


def test_canceled(night, two, paid, command, tmp_path):
    """A payment that matched on night 1 and is canceled before night 2 is reversed, although no later ledger has it."""
    assert not (tmp_path / "1" / "matched.jsonl.gz").exists()
    paid("A1", status="Canceled")
    result = night("2", after="1", lines=["B1"])
    assert (result.status, "2 looked up again" in result.out.splitlines()[0]) == (1, True)
    assert "1 break; open findings: 0 + 2 new + 0 reopened - 0 resolved = 2." in result.out.splitlines()[0]
    assert f"2 of 2 {SENTENCE}1 changed." in result.out
    row = rows_of(tmp_path / "2")["A1"]
    assert row["line_of"] == f"ledger of {since_of(tmp_path / '2')['run']}"
    reversed_ = next(each for each in row["findings"] if each["code"] == "reversed")
    assert (reversed_["ledger"], reversed_["service"]) == ("Paid", "Canceled")
    assert since_of(tmp_path / "2")["rechecked"] == {
        "population": 2,
        "looked_at": 2,
        "unanswered": 0,
        "changed": 1,
        "at_most": None,
        "confidence": 0.95,
    }
    summary = json.loads((tmp_path / "2" / "summary.json").read_text())
    assert (summary["tie_out"]["ledger_paid_total"], summary["tie_out"]["service_paid_total"]) == (15000, 15000)
    # The break stays, and what matches is looked up again and again.
    result = night("3", after="2", lines=["C1"])
    assert "1 break; open findings: 2 + 0 new + 0 reopened - 0 resolved = 2." in result.out.splitlines()[0]
    assert f"2 of 2 {SENTENCE}0 changed." in result.out
    paid("A1")
    result = night("4", after="3", lines=["D1"])
    assert (result.status, "2 + 0 new + 0 reopened - 2 resolved = 0" in result.out.splitlines()[0]) == (0, True)
    assert night("5", after="4", lines=["D1"]).status == 0
    # A1, which is paid again, is one of them.
    assert since_of(tmp_path / "5")["rechecked"]["population"] == 4
    assert command("verify", "5").status == 0


@pytest.mark.parametrize("change", [{"amount": 9000}, {"status": "Refunded"}], ids=["amount", "refund"])
def test_changes(night, paid, tmp_path, change):
    """Whatever changed is a break with both values, each night, also where the ledger states nothing."""
    paid("A1", "B1", "C1")
    night("1", "--assume-status", "none", header="reference", lines=["A1"])
    paid("A1", **change)
    expected = ("Paid", "Refunded") if "status" in change else (15000, 9000)
    for name, after, line, state in (("2", "1", "B1", "new"), ("3", "2", "C1", "still_open")):
        assert night(name, "--assume-status", "none", after=after, header="reference", lines=[line]).status == 1
        finding = next(each for each in rows_of(tmp_path / name)["A1"]["findings"] if each["code"] == "reversed")
        assert (finding["ledger"], finding["service"]) == expected
        assert finding["history"]["state"] == state


def test_sample(night, paid, command, tmp_path):
    """A sample has its size each night, is the same for the same seed, and has all strata; others are remembered."""
    small, large = [f"S{number}" for number in range(30)], [f"L{number}" for number in range(10)]
    paid(*small, amount=100)
    paid(*large, amount=5_000_000)
    paid("B1", "C1")
    lines = [f"{each},100,Paid" for each in small] + [f"{each},5000000,Paid" for each in large]
    night("1", lines=lines)

    def chosen(folder):
        return sorted(reference for reference, row in rows_of(tmp_path / folder).items() if "matched" in row)

    samples = {}
    for name, seed in (("2", "0"), ("2-again", "0"), ("2-other", "1")):
        result = night(name, "--sample", "8", "--seed", seed, after="1", lines=["B1"])
        assert f"8 of 40 {SENTENCE}0 changed, so at most 32 % of them have, with 95 % confidence." in result.out
        samples[name] = chosen(name)
        assert sum(each.startswith("L") for each in samples[name]) == 2
    assert samples["2"] == samples["2-again"] != samples["2-other"]
    remembered = gzip.decompress((tmp_path / "2" / "matched.jsonl.gz").read_bytes()).splitlines()
    # No more than a sample of that night alone would have, and one for each stratum.
    assert len(remembered) - 1 <= 8 + 2
    assert json.loads(remembered[0])["rows"] == 40
    night("3", "--sample", "8", after="2", lines=["C1"])
    assert since_of(tmp_path / "3")["rechecked"]["population"] == 41
    assert len(chosen("3")) == 8
    night("all", after="1", lines=["B1"])
    night("another", "--sample", "8", after="all", lines=["C1"])
    first, other = ({each for each in sample if each[0] == "S"} for sample in (samples["2"], chosen("another")))
    assert (other - first != set(), first - other != set()) == (True, True)  # by chance: once in 100,000 runs
    before = contents(tmp_path / "3")
    assert command("report", "3", "--quiet").status == 0
    assert contents(tmp_path / "3") == before
    assert command("verify", "3").status == 0


def test_listed_again(night, paid, tmp_path):
    """A row that is in the ledger again is a row of the ledger, and no part of the population."""
    paid("A1", "A2", "A3", "B1")
    night("1", lines=["A1", "A2", "A3"])
    night("2", "--sample", "1", after="1", lines=["B1"])
    remembered = gzip.decompress((tmp_path / "2" / "matched.jsonl.gz").read_bytes()).splitlines()
    again = [row["reference"] for row in map(json.loads, remembered[1:])]
    night("3", "--sample", "1", after="2", lines=again)
    assert since_of(tmp_path / "3")["rechecked"]["population"] == 4 - len(again)
    assert all("matched" not in rows_of(tmp_path / "3")[reference] for reference in again)


def test_resumed(night, paid, service, tmp_path):
    """A run that ended early resumes with the same sample, and has the same rows as one that did not."""
    many = [f"A{number}" for number in range(20)]
    paid(*many, "B1")
    night("1", lines=many)
    assert night("2", "--sample", "5", after="1", lines=["B1"]).status == 0
    whole = rows_of(tmp_path / "2")
    chosen = [reference for reference, row in whole.items() if "matched" in row]
    service.script(chosen[0], Reply(status=403), Reply(status=403))
    early = night("2-again", "--sample", "5", after="1", lines=["B1"])
    assert early.out.startswith("INCOMPLETE: ")
    again = [night("2-again", "--sample", "5", after="1", lines=["B1"]) for _ in range(3)][-1]
    assert again.status == 0
    assert list(rows_of(tmp_path / "2-again")) == list(whole)
    other = night("2-again", "--sample", "6", after="1", lines=["B1"])
    assert (other.status, "recheck was 60d, 5 with seed 0, and is 60d, 6 with seed 0 now" in other.err) == (2, True)


def test_statement(night, two, tmp_path):
    """A row that is looked up again need not be in tonight's statement; one that is, is settled by it."""
    (tmp_path / "settled.csv").write_text("reference,amount\nB1,15000\nA1,15000\n")
    result = night("2", "--statement", "settled.csv", "--payout", "30000", after="1", lines=["B1"])
    assert (result.status, result.out.split(":")[0]) == (0, "CLEAN")
    summary = json.loads((tmp_path / "2" / "summary.json").read_text())
    assert summary["settlement"]["service_paid_total"] == summary["tie_out"]["service_paid_total"] == 30000


def test_reuse(night, paid, tmp_path):
    """A row that is looked up again is asked about, also where answers of the run before are reused."""
    paid("A1", "B1")
    night("1", lines=["A1", "B1"])
    paid("A1", status="Canceled")
    assert night("2", "--reuse", "7d", after="1", lines=["B1"]).status == 1
    rows = rows_of(tmp_path / "2")
    assert (rows["A1"]["bucket"], rows["A1"]["reused_from"], rows["B1"]["reused_from"] != "") == ("break", "", True)


def test_not_named(night, two, command, tmp_path):
    """A run without the option says that the run before had it, which rows that concerns, and that they are lost."""
    night("2", "--sample", "1", "--seed", "7", after="1", lines=["B1"])
    result = night("3", "--previous", "2", lines=["C1"])
    said = (
        "Not looked up again: rows that matched in earlier runs. The previous run knew of 2 rows, by --recheck 60d "
        "--sample 1 --seed 7, which this run was not given; runs after this one do not know of them."
    )
    assert said in " ".join(result.out.split())
    assert said in " ".join((tmp_path / "3" / "report.html").read_text().split())
    assert said in json.loads((tmp_path / "3" / "summary.json").read_text())["completeness"]
    assert command("report", "3", "--quiet").status == 0
    assert "Not looked up again" not in night("4", "--previous", "3", lines=["D1"]).out


def test_refused(night, two):
    """What cannot be a sample is refused."""
    for arguments, message in {
        ("--recheck", "60d"): "--recheck needs --previous",
        ("--sample", "5"): "--sample needs --recheck",
        ("--previous", "1", "--recheck", "often"): "--recheck must be a duration",
        ("--previous", "1", "--recheck", "60d", "--sample", "0"): "--sample must be at least 1, got 0",
    }.items():
        result = night("2", *arguments, lines=["A1"])
        assert (result.status, message in result.err) == (2, True)

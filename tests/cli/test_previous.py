"""`payclient reconcile --previous`: the run before on the command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from payclient.testing import Reply

OLD = ["T1,14000,Paid", "T2,9000,Canceled"]
NEXT = ["T1,15000,Paid", "T3,1,Paid"]


@pytest.fixture
def night(configured, tmp_path, monkeypatch):
    """Reconcile a ledger of these lines into a folder of this name, below the current one."""
    monkeypatch.chdir(tmp_path)

    def night(name, *arguments, lines):
        (tmp_path / "ledger.csv").write_text("".join(f"{line}\n" for line in ("reference,amount,status", *lines)))
        return configured("reconcile", "ledger.csv", "--out", name, *arguments)

    return night


@pytest.fixture
def first(night, prepared):
    """Make the first night, with two breaks."""
    prepared("first", lambda: night("20", lines=OLD))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_verdict(night, first):
    """The first line has what was carried over, and what became of the breaks."""
    result = night("21", "--previous", "20", lines=NEXT)
    day = result.out.split(" from ")[1].split(":")[0]
    assert (result.status, result.out.splitlines()[0]) == (
        1,
        (
            f"BREAKS: amount and status of 2 ledger rows and 1 carried from {day}: "
            "1 matched, 2 breaks; open findings: 2 + 1 new + 0 reopened - 1 resolved = 2."
        ),
    )
    assert day.split()[0].isdecimal()


def assert_written_again(command, tmp_path, *, status):
    """Move the folder of the run before away, and write the report again: the bytes are the same."""
    before = contents(tmp_path / "21")
    (tmp_path / "20").rename(tmp_path / "moved")
    assert command("report", "21", "--quiet").status == status
    after = contents(tmp_path / "21")
    assert {name for name in before if before[name] != after[name]} <= {"journal.sqlite"}
    assert command("verify", "21").status == 0


def test_same_bytes(night, first, command, tmp_path):
    """The report is written again without the folder of the previous run, with the same bytes."""
    night("21", "--previous", "20", lines=NEXT)
    assert_written_again(command, tmp_path, status=1)
    assert command("diff", "moved", "21", "--quiet").status == 1


def test_gzip_rows(night, first, command, tmp_path):
    """A run before with compressed rows says the same as one with plain rows."""
    results = [night("21", "--previous", "20", lines=NEXT), command("diff", "20", "21", "--json")]
    rows = (tmp_path / "21" / "rows.jsonl").read_bytes().splitlines()
    (tmp_path / "21").rename(tmp_path / "plain")
    assert command("report", "20", "--gzip-rows", "--quiet").status == 1
    results += [night("21", "--previous", "20", "--gzip-rows", lines=NEXT), command("diff", "20", "21", "--json")]
    with gzip.open(tmp_path / "21" / "rows.jsonl.gz") as file:
        again = file.read().splitlines()
    states = [[(row["history"] or {}).get("state") for row in map(json.loads, each)] for each in (rows, again)]
    assert states == [[None, "new", "still_open"]] * 2
    assert results[0].out.splitlines()[0] == results[2].out.splitlines()[0]
    assert json.loads(results[1].out)["counts"] == json.loads(results[3].out)["counts"]


def test_explain(night, first, command, tmp_path):
    """A row that was carried over says so, with the state and the age of its break."""
    night("21", "--previous", "20", lines=["T1,15000,Paid"])
    run = json.loads((tmp_path / "20" / "summary.json").read_text())["run"]
    said = command("explain", "21", "T2").out.splitlines()
    assert said[1] == f"  carried over from the run {run}: the ledger does not list it any more"
    assert said[3].startswith("    still open; first seen ")
    assert said[3].endswith(f"in the run {run}")


def test_fail_on_new(night, first, command):
    """Old breaks leave the status 0 when only news count, also for a report that is written again."""
    without = command("report", "20", "--fail-on-new", "low")
    assert (without.status, "--fail-on-new needs a previous run" in without.err) == (2, True)
    assert night("21", "--previous", "20", "--fail-on-new", "low", lines=OLD).status == 0
    assert (command("report", "21").status, command("report", "21", "--fail-on-new", "low").status) == (1, 0)
    assert night("22", "--previous", "21", "--fail-on-new", "high", lines=[*OLD, "T9,1,Paid"]).status == 1
    assert night("23", "--previous", "22", "--fail-on-new", "critical", lines=[*OLD, "T8,1,Paid"]).status == 0


def test_resume(night, first, service, tmp_path):
    """The same command resumes, and another previous run is refused with the difference."""
    lines = ["T3,1,Paid", "T1,15000,Paid"]
    service.add(reference="T3", amount=1, status="Paid")
    service.script("T3", Reply(status=403), Reply(status=403))
    assert night("21", "--previous", "20", lines=lines).out.startswith("INCOMPLETE: ")
    again = [night("21", "--previous", "20", lines=lines) for _ in range(3)][-1]
    assert (
        again.status,
        "2 matched, 1 break; open findings: 2 + 0 new + 0 reopened - 1 resolved = 1" in again.out,
    ) == (1, True)
    other = night("21", lines=lines)
    assert (other.status, "belongs to another run: previous was" in other.err) == (2, True)


def test_refused(night, first, service, tmp_path):
    """A previous run that cannot be used is refused before anything is asked, and nothing is written: not in it."""
    asked, before, missed = service.total, contents(tmp_path / "20"), []
    for out, arguments, message in (
        ("21", "--fail-on-new low", "--fail-on-new needs --previous"),
        ("21", "--reuse 7d", "--reuse needs --previous, the folder of the run before"),
        ("21", "--previous 20 --reuse often", "--reuse must be a duration such as '90m', '36h' or '3d', got 'often'"),
        ("21", "--previous 21", "--out must be another folder than 21, the previous run, which is not changed"),
        ("20/21", "--previous 20", "--out must be another folder than 20"),
        ("21", "--previous none", "there is no report at none"),
        ("21", "--previous 20 --environment live", "and that of this run is 'http"),
    ):
        result = night(out, *arguments.split(), lines=["T1,15000,Paid"])
        written = (tmp_path / out / "summary.json").exists()
        if (result.status, message in result.err, service.total, written) != (2, True, asked, False):
            missed.append((arguments, result))
    assert (missed, contents(tmp_path / "20")) == ([], before)


@pytest.mark.parametrize("edit", [lambda path: path.write_bytes(b"edited"), Path.unlink], ids=["edited", "gone"])
def test_work_list(night, first, command, tmp_path, edit):
    """A work list that was edited or moved away is no damage, and the command says how its decisions come to count."""
    edit(tmp_path / "20" / "report.xlsx")
    result = night("21", "--previous", "20", "--quiet", lines=["T1,14000,Paid"])
    assert (result.status, result.err) == (
        1,
        (
            "payclient: 20/report.xlsx was edited; what it says counts once it is taken: "
            "payclient decisions take 20/report.xlsx --by NAME\n"
        ),
    )
    assert command("diff", "20", "21", "--quiet").status == 0
    assert command("verify", "20").status == 1
    verified = command("verify", "20", "--allow-edits")
    assert (verified.status, verified.out.splitlines()[0]) == (
        0,
        "every file but report.xlsx in 20 matches 20/manifest.json",
    )


@pytest.fixture
def reusing(night, service, prepared):
    """Make two nights: in the second, one of four rows is looked up."""

    def nights():
        for number in range(3):
            service.add(reference=f"P{number}", amount=number, status="Paid")
        lines = [f"P{number},{number},Paid" for number in range(3)]
        night("20", lines=[*lines, "T1,14000,Paid"])
        before = service.total
        result = night("21", "--previous", "20", "--reuse", "7d", lines=[*lines, "T1,15000,Paid"])
        return result, service.total - before

    return prepared("reusing", nights)


def test_reuse(reusing, night, tmp_path):
    """Requests are sent for the rows that are not reused, and every file says how many are, and since when."""
    result, sent = reusing
    assert (result.status, sent) == (0, 1)
    assert result.out.startswith(
        "CLEAN: amount and status of 4 ledger rows: 4 matched; "
        "open findings: 1 + 0 new + 0 reopened - 1 resolved = 0; 3 answers reused."
    )
    then = [json.loads(line) for line in (tmp_path / "20" / "rows.jsonl").read_text().splitlines()]
    rows = [json.loads(line) for line in (tmp_path / "21" / "rows.jsonl").read_text().splitlines()]
    summary, manifest = (json.loads((tmp_path / "21" / name).read_text()) for name in ("summary.json", "manifest.json"))
    run = json.loads((tmp_path / "20" / "summary.json").read_text())["run"]
    assert [row["reused_from"] for row in rows] == [run] * 3 + [""]
    assert [row["observed_at"] for row in rows[:3]] == [row["observed_at"] for row in then[:3]]
    times = [row["observed_at"] for row in then[:3]]
    expected = {"rows": 3, "oldest_at": min(times), "newest_at": max(times)}
    assert (summary["since"]["reused"], manifest["reused"]) == (expected, expected)
    assert (summary["first_observed_at"], summary["tie_out"]["residual"]) == (rows[3]["observed_at"], 0)
    said = "3 rows that matched before were not looked up again: their answers are "
    assert said in summary["completeness"]
    assert said in result.out
    assert said in (tmp_path / "21" / "report.html").read_text()
    lines = [*(f"P{number},{number},Paid" for number in range(3)), "T1,15000,Paid"]
    for other in ([], ["--reuse", "8d"]):
        refused = night("21", "--previous", "20", *other, lines=lines)
        assert (refused.status, "belongs to another run: reuse was 7d of paid, refunded" in refused.err) == (2, True)


def test_reuse_offline(reusing, command, tmp_path):
    """Everything that reads the folder works without the folder of the run before: with the same bytes."""
    assert_written_again(command, tmp_path, status=0)
    run = json.loads((tmp_path / "moved" / "summary.json").read_text())["run"]
    said = command("explain", "21", "P1").out.splitlines()
    assert said[1] == f"  reused: the answer is from the run {run}; this run did not look it up"
    again = command("rejudge", "21", "--grace", "1h", "--out", "again")
    assert (
        again.status,
        "4 matched; open findings: 1 + 0 new + 0 reopened - 1 resolved = 0; 3 answers reused." in again.out,
    ) == (0, True)
    rows = [(tmp_path / name / "rows.jsonl").read_bytes() for name in ("21", "again")]
    assert rows[0] == rows[1].replace(
        *(json.loads((tmp_path / name / "summary.json").read_text())["run"].encode() for name in ("again", "21"))
    )


def test_reuse_judged_again(night, service, command, tmp_path):
    """A reused answer that differs by other rules is unresolved, and then looked up twice, not once."""
    service.add(reference="T3", amount=1, status="Paid")
    (tmp_path / "mild.toml").write_text("[tolerances.amount]\nbelow = 5\n")
    (tmp_path / "strict.toml").write_text("")
    lines = ["T3,2,Paid", "T1,15000,Paid"]
    night("20", "--rules", "mild.toml", lines=lines)
    night("21", "--rules", "mild.toml", "--previous", "20", "--reuse", "7d", lines=lines)
    before = service.count("T3")
    again = command("rejudge", "21", "--rules", "strict.toml", "--out", "again")
    assert (
        again.status,
        "1 matched, 1 unresolved; open findings: 0 + 0 new + 0 reopened - 0 resolved = 0; 2 answers reused."
        in again.out,
    ) == (75, True)
    done = night("again", "--rules", "strict.toml", "--previous", "20", "--reuse", "7d", lines=lines)
    assert (
        done.status,
        "1 matched, 1 break; open findings: 0 + 1 new + 0 reopened - 0 resolved = 1; 1 answer reused." in done.out,
    ) == (1, True)
    assert service.count("T3") - before == 2

"""`payclient reconcile --previous`: what became of the breaks of the run before, and answers that are reused."""

from pathlib import Path

import pytest

from support.misses import check_each
from support.reports import contents, rows_of, summary_of

OLD = ["T1,14000,Paid", "T2,9000,Canceled"]
NEXT = ["T1,15000,Paid", "T3,1,Paid"]


@pytest.fixture
def first(night, prepared):
    """Make the first night, with two breaks."""
    prepared("first", lambda: night("20", lines=OLD))


@pytest.fixture
def second(night, first, prepared):
    """Make the second night: one break is resolved, one is new, and one is not in the ledger any more."""
    return prepared("second", lambda: night("21", "--previous", "20", lines=NEXT))


def run_of(folder):
    return summary_of(folder)["run"]


def assert_written_again(command, tmp_path, *, status):
    """Move the folder of the run before away, and write the report again: the bytes are the same."""
    before = contents(tmp_path / "21")
    (tmp_path / "20").rename(tmp_path / "moved")
    assert command("report", "21", "--quiet").status == status
    assert contents(tmp_path / "21") == before
    assert command("verify", "21").status == 0


def test_second_night(second, night, command, tmp_path):
    """Verdict, files and `explain` say what became of each break, also without the folder of the run before."""
    day = second.out.split(" from ")[1].split(":")[0]
    assert (second.status, second.out.splitlines()[0]) == (
        1,
        (
            f"BREAKS: amount and status of 2 ledger rows and 1 carried from {day}: "
            "1 matched, 2 breaks; open findings: 2 + 1 new + 0 reopened - 1 resolved = 2."
        ),
    )
    run, rows = run_of(tmp_path / "20"), rows_of(tmp_path / "21")
    assert [row["history"] and row["history"]["state"] for row in rows] == [None, "new", "still_open"]
    since = summary_of(tmp_path / "21")["since"]
    assert (rows[2]["history"]["first_run"], since["run"], since["breaks"]["resolved"]) == (run, run, 1)
    (gone,) = rows_of(tmp_path / "21", "history.jsonl")
    assert (gone["reference"], gone["resolved_by"]) == ("T1", "ledger")
    said = command("explain", "21", "T2").out.splitlines()
    assert said[1] == f"  carried over from the run {run}: the ledger does not list it any more"
    assert said[3].startswith("    still open; first seen ")
    assert said[3].endswith(f"in the run {run}")
    other = night("21", lines=NEXT)
    assert (other.status, "belongs to another run: previous was" in other.err) == (2, True)
    assert other.following[0][-2:] == ["--previous", "20"]  # without it the chain of nights would end
    assert_written_again(command, tmp_path, status=1)
    assert command("diff", "moved", "21", "--quiet").status == 1


def test_fail_on_new(night, first, command):
    """Old breaks leave the status 0 when only news count, also for a report that is written again."""
    assert night("21", "--previous", "20", "--fail-on-new", "low", lines=OLD).status == 0
    assert (command("report", "21").status, command("report", "21", "--fail-on-new", "low").status) == (1, 0)
    assert night("22", "--previous", "21", "--fail-on-new", "high", lines=[*OLD, "T9,1,Paid"]).status == 1
    assert command("report", "22", "--fail-on-new", "critical").status == 0
    result = command("report", "20", "--fail-on-new", "low")
    assert (result.status, "--fail-on-new needs a run with a previous one" in result.err) == (2, True)


def test_same_ledger(second, night):
    """A ledger of the same bytes as on the night before is named: its export may be stuck."""
    named = "the ledger has the same bytes as in the previous run, 21"
    assert named not in second.err
    assert named in night("22", "--previous", "21", lines=NEXT).err


REFUSED = {
    "--fail-on-new low": "--fail-on-new needs --previous",
    "--reuse 7d": "--reuse needs --previous, the folder of the previous run",
    "--previous 20 --reuse often": "--reuse must be a duration such as 10 (seconds), 90s, 5m, 36h or 3d, got 'often'",
    "--previous out": "--out must be another folder than out, the previous run, which is not changed",
    "--previous 20 --out 20/21": "--out must be another folder than 20",
    "--previous none": "no report found at none",
    "--previous 20 --environment live": "but this run has 'http",
    "--decisions none": "no report found at none",
}


def test_refused(night, configured, first, service, tmp_path):
    """A previous run that cannot be used is refused before anything is asked, and nothing is written: not in it."""
    asked, before = service.total, contents(tmp_path / "20")

    def refused(options):
        out = () if "--out" in options else ("--out", "out")
        result = configured("reconcile", "ledger.csv", *out, *options.split())
        written = [path for path in ("out", "20/21") if (tmp_path / path / "summary.json").exists()]
        return result.status, REFUSED[options] in result.err, service.total == asked, written

    check_each(dict.fromkeys(REFUSED, (2, True, True, [])), refused)
    assert contents(tmp_path / "20") == before


def test_same_word(configured, first):
    """Instead of a missing folder the one that is meant is named, and a reference of the same name stays."""
    result = configured("reconcile", "ledger.csv", "--out", "out", "--previous", "T9", "--canary", "T9")
    assert result.following[0][-4:] == ["--previous", "20", "--canary", "T9"]


@pytest.mark.parametrize(
    ("edit", "following"),
    [
        (lambda path: path.write_bytes(b"edited"), [["verify", "20", "--allow-edits"]]),  # `report` would undo the edit
        (Path.unlink, [["report", "20"]]),
    ],
    ids=["edited", "gone"],
)
def test_work_list(night, first, command, tmp_path, edit, following):
    """A work list that was edited or is gone is no damage, and its decisions are to be taken; any other file is."""
    edit(tmp_path / "20" / "report.xlsx")
    result = night("21", "--previous", "20", "--quiet", lines=["T1,14000,Paid"])
    told = "20/report.xlsx was edited or moved, and its decisions are not imported: payclient decisions does that"
    assert (result.status, result.err) == (1, f"payclient: {told}\n")
    assert command("diff", "20", "21", "--quiet").status == 0
    verified = command("verify", "20")
    assert (verified.status, verified.following) == (1, following)
    verified = command("verify", "20", "--allow-edits")
    told = "every file but report.xlsx in 20 matches 20/manifest.json"
    assert (verified.status, verified.out.splitlines()[0]) == (0, told)
    (tmp_path / "20" / "breaks.csv").write_text("")
    assert "20 cannot be compared: breaks.csv: it was changed" in night("22", "--previous", "20", lines=OLD).err
    assert command("verify", "20", "--allow-edits").status == 1


def test_changed_rules(night, first, command, tmp_path):
    """Rules that changed are named below the verdict."""
    (tmp_path / "rules.toml").write_text("[tolerances.amount]\nabove = 2000\nbelow = 2000\n")
    result = night("21", "--previous", "20", "--rules", "rules.toml", lines=OLD)
    said = result.out.splitlines()[:4]
    assert "open findings: 2 + 0 new + 0 reopened - 2 resolved = 0." in said[0]
    assert "Rules that changed since the previous run: tolerances." in said
    assert said[2].startswith("tolerances.amount.above was nothing, and is 2000 now; ")
    assert "Rules that changed in between: tolerances." in command("diff", "20", "21").out.splitlines()


def test_reuse(night, service, command, tmp_path):
    """Only rows that are not reused are looked up, and every file says how many are, and since when; also offline."""
    for number in range(3):
        service.add(reference=f"P{number}", amount=number, status="Paid")
    lines = [f"P{number},{number},Paid" for number in range(3)]
    night("20", lines=[*lines, "T1,14000,Paid"])
    before = service.total
    result = night("21", "--previous", "20", "--reuse", "7d", lines=[*lines, "T1,15000,Paid"])
    assert (result.status, service.total - before) == (0, 1)
    verdict = "4 matched; open findings: 1 + 0 new + 0 reopened - 1 resolved = 0; 3 answers reused."
    assert result.out.startswith(f"CLEAN: amount and status of 4 ledger rows: {verdict}")
    then, rows, summary = rows_of(tmp_path / "20"), rows_of(tmp_path / "21"), summary_of(tmp_path / "21")
    run, times = run_of(tmp_path / "20"), [row["observed_at"] for row in then[:3]]
    assert [row["reused_from"] for row in rows] == [run] * 3 + [""]
    assert [row["observed_at"] for row in rows[:3]] == times
    expected = {"rows": 3, "oldest_at": min(times), "newest_at": max(times)}
    assert summary["since"]["reused"] == summary_of(tmp_path / "21", "manifest.json")["reused"] == expected
    assert (summary["first_observed_at"], summary["tie_out"]["residual"]) == (rows[3]["observed_at"], 0)
    said = "3 rows that matched before were not looked up again: their answers are "
    for text in (summary["completeness"], result.out, (tmp_path / "21" / "report.html").read_text()):
        assert said in text
    refused = night("21", "--previous", "20", "--reuse", "8d", lines=[*lines, "T1,15000,Paid"])
    assert (refused.status, "belongs to another run: reuse was 7d of paid, refunded" in refused.err) == (2, True)
    assert_written_again(command, tmp_path, status=0)
    explained = command("explain", "21", "P1").out.splitlines()
    assert explained[1] == f"  reused: the answer is from the run {run}; this run did not look it up"
    again = command("rejudge", "21", "--grace", "1h", "--out", "again")
    assert (again.status, verdict in again.out) == (0, True)


def test_reuse_judged_again(night, service, command, tmp_path):
    """A reused answer that differs by other rules is unresolved, and then looked up twice, not once."""
    service.add(reference="T3", amount=1, status="Paid")
    (tmp_path / "mild.toml").write_text("[tolerances.amount]\nbelow = 5\n")
    (tmp_path / "strict.toml").write_text("")
    reuse = ("--previous", "20", "--reuse", "7d")
    night("20", "--rules", "mild.toml", lines=["T3,2,Paid"])
    night("21", "--rules", "mild.toml", *reuse, lines=["T3,2,Paid"])
    before = service.count("T3")
    again = command("rejudge", "21", "--rules", "strict.toml", "--out", "again")
    assert (again.status, "1 unresolved; open findings: 0 + 0 new" in again.out) == (75, True)
    done = night("again", "--rules", "strict.toml", *reuse, lines=["T3,2,Paid"])
    assert (done.status, "1 break; open findings: 0 + 1 new" in done.out) == (1, True)
    assert service.count("T3") - before == 2


TYPED = "reference,amount,status,Type"
CHARGES = ["T1,15000,Paid,charge", "T2,7000,Canceled,charge"]
PLAIN = ["T1,15000,Paid", "T2,7000,Canceled"]
WITH_FEES = ["T1,15000,Paid,2500", "T2,7000,Canceled,0"]


def news_of(night, tmp_path, name, *arguments, **options):
    result = night(name, *arguments, **options)
    summary = summary_of(tmp_path / name)
    return result.status, summary["verdict"], summary["compared"]["news"]


def test_newly_left_out(night, tmp_path):
    """A column that is not used is partial for good, and has exit status 1 in the night in which it comes."""
    actual = {
        "20": news_of(night, tmp_path, "20", lines=PLAIN),
        "21": news_of(night, tmp_path, "21", "--previous", "20", lines=CHARGES, header=TYPED),
        "22": news_of(night, tmp_path, "22", "--previous", "21", lines=CHARGES, header=TYPED),
        "23": news_of(
            night, tmp_path, "23", "--previous", "22", lines=[*CHARGES[:1], "T2,7000,Canceled,lost"], header=TYPED
        ),
    }
    column, word = ["column", "Type"], ["word", "Type: lost"]
    assert actual == {
        "20": (0, "clean", []),
        "21": (1, "partial", [column]),
        "22": (0, "partial", []),
        "23": (1, "partial", [word]),
    }
    said = night("24", "--previous", "20", "--fail-on-new", "critical", lines=CHARGES, header=TYPED)
    assert said.out.splitlines()[0].endswith("; not used: Type: charge 2; new, and not compared: column 'Type'.")
    assert said.status == 1


def test_column_that_left(night, tmp_path):
    """A field that the previous run compared, and this ledger has no column for, ends clean for a night."""
    fees = {"lines": WITH_FEES, "header": "reference,amount,status,fee"}
    assert news_of(night, tmp_path, "20", **fees) == (0, "clean", [])
    assert news_of(night, tmp_path, "21", "--previous", "20", lines=PLAIN) == (1, "partial", [["field", "fee"]])
    assert news_of(night, tmp_path, "22", "--previous", "21", lines=PLAIN) == (0, "clean", [])


def test_fail_on_partial(night):
    """The first night has no previous run to tell what is new, so it says so by itself."""
    options = {"lines": CHARGES, "header": TYPED}
    assert [night("20", "--fail-on", each, **options).status for each in ("medium", "info", "partial")] == [0, 0, 1]
    refused = night("20", "--fail-on", "severe", **options)
    assert (refused.status, "partial" in refused.err) == (2, True)


def test_lost_without_a_reference(night, tmp_path):
    """A row that could not be used and had no reference can't be followed: the night in which it is gone says so."""
    other, lost = ",5000,Paid", ",7000,Paid"

    def news(name, *lines, previous=()):
        return news_of(night, tmp_path, name, *previous, lines=["T1,15000,Paid", *lines])

    said = [["lost row without a reference", "amount 7,000"]]
    assert news("20", lost, lost) == (1, "breaks", [])
    assert news("21", lost, lost, previous=("--previous", "20")) == (1, "breaks", [])
    assert news("22", lost, other, previous=("--previous", "21")) == (1, "breaks", said)
    assert news("23", other, previous=("--previous", "22")) == (1, "breaks", said)
    assert news("24", previous=("--previous", "22", "--fail-on-new", "critical"))[:2] == (1, "partial")
    assert news("25", previous=("--previous", "24")) == (0, "clean", [])

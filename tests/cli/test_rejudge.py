"""`payclient rejudge`: a second judgement of a run, without a network."""

import json
import os
import shutil
import zipfile

import pytest

from support.misses import check_each
from support.reports import contents, summary_of

LEDGER = ("reference,amount,status", "T1,14800,Paid", "T2,7000,Canceled", "T3,1,Paid")
LOOSE = "[tolerances.amount]\nabove = 500\n"


@pytest.fixture
def run(night, prepared, tmp_path):
    """Reconcile the ledger by these rules into a folder of this name, and return the folder."""

    def run(name="night", rules="", *arguments, ledger=LEDGER):
        def reconcile():
            (tmp_path / f"{name}.toml").write_text(rules)
            night(name, "--rules", f"{name}.toml", "--quiet", *arguments, header=ledger[0], lines=ledger[1:])

        if name == "night" and not arguments:  # the first run of a test
            prepared((rules, ledger), reconcile)
        else:
            reconcile()
        return tmp_path / name

    return run


@pytest.fixture
def rejudge(command, tmp_path):
    """Judge the run in a folder again, into `again`."""

    def rejudge(folder, *arguments, rules=None):
        if rules is not None:
            (tmp_path / "new.toml").write_text(rules)
            arguments = ("--rules", str(tmp_path / "new.toml"), *arguments)
        return command("rejudge", str(folder), "--out", str(tmp_path / "again"), *arguments)

    return rejudge


def state(folder):
    """Return all that can be seen of a folder."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino)
        for path in (folder, *folder.iterdir())
        if path.is_file()
    } | {".": folder.stat().st_mtime_ns}


def test_same_rules(run, rejudge, tmp_path):
    """The rules of the run give the same bytes but for where it says so, and nothing in its folder is touched."""
    first = run("first", ledger=[line.replace("14800", "14700") for line in LEDGER])
    night = run(
        "night", "grace = '0s'\n", "--previous", str(first), ledger=[line.replace("7000", "6900") for line in LEDGER]
    )
    before, again = state(night), tmp_path / "again"
    result = rejudge(night)
    assert (result.status, result.err) == (1, "")
    assert state(night) == before
    first, second = contents(night), contents(again)
    differing = {"manifest.json", "report.html", "report.xlsx", "summary.json"}
    assert {name for name in first | second if first.get(name) != second.get(name)} == differing
    said = summary_of(again)["judged_again"]
    assert json.dumps(summary_of(again) | {"judged_again": None}) == json.dumps(summary_of(night))
    sentence = (
        f"The answers of the run {said['run']} in &#39;night&#39;, judged again by the same rules, without new lookups."
    )
    page = second["report.html"].decode()
    for part in (f"<p>{sentence}</p>", f"<dt>Judged again</dt><dd>{sentence}</dd>"):
        assert page.count(part) == 1
        page = page.replace(part, "")
    assert page.encode() == first["report.html"]
    assert sheets(again).keys() == sheets(night).keys()
    (name,) = (name for name, sheet in sheets(again).items() if sheet != sheets(night)[name])
    assert name.startswith("xl/worksheets/")
    assert "Judged again" in sheets(again)[name].decode()


def sheets(folder):
    """Return the parts of the work list."""
    with zipfile.ZipFile(folder / "report.xlsx") as workbook:
        return {name: workbook.read(name) for name in workbook.namelist()}


def test_other_rules(run, rejudge, command, tmp_path):
    """Every file says which run was judged again, and by which rules it differs; the new folder is a run like any."""
    night = run()
    again = tmp_path / "again"
    night.chmod(0o500)
    result = rejudge(night, rules=LOOSE)
    night.chmod(0o700)
    name = summary_of(night)["run"]
    sentence = f"The answers of the run {name} in 'night', judged again by other rules (tolerances), "
    sentence += "without new lookups."
    assert result.out.splitlines()[:3] == [
        "BREAKS: amount and status of 3 ledger rows: 2 matched (1 within tolerance or accepted), 1 break.",
        sentence,
        "Changed: tolerances.amount.above was nothing, and is 500 now.",
    ]
    assert sentence.replace("'", "&#39;") in (again / "report.html").read_text()
    origin = {
        "folder": "night",
        "run": name,
        "rules_fingerprint": summary_of(night)["rules"]["fingerprint"],
        "changed_rules": ["tolerances"],
    }
    assert [summary_of(again, file)["judged_again"] for file in ("summary.json", "manifest.json")] == [origin, origin]
    assert summary_of(again)["run"] not in ("", name)
    assert summary_of(night)["judged_again"] is None
    before = contents(again)
    for rules, status in ((LOOSE, 1), ("grace = '2d'\n", 2), (LOOSE.replace("500", "501"), 2)):
        assert (rejudge(night, rules=rules).status, contents(again) == before) == (status, True)
    shutil.rmtree(night)
    assert (command("report", str(again), "--quiet").status, contents(again) == before) == (1, True)
    assert command("verify", str(again)).status == 0
    assert "within the tolerance" in command("explain", str(again), "T1").out
    third = command("rejudge", str(again), "--out", str(tmp_path / "third"))
    assert "in 'again', judged again by the same rules" in third.out


def test_missing_lookups(run, rejudge, configured, service, tmp_path):
    """What needs a second lookup is unresolved, and counted; the run resumes in the new folder, and takes only that."""
    night, again = run(rules=LOOSE), tmp_path / "again"
    asked = len(service.requests)
    result = rejudge(night, rules="")
    assert "By these rules 1 reference needs a second lookup, which the run did not take" in result.out
    assert (summary_of(again)["buckets"]["unresolved"]["rows"], len(service.requests)) == (1, asked)
    configured("reconcile", "ledger.csv", "--rules", "new.toml", "--out", "again", "--quiet")
    assert summary_of(again)["buckets"]["unresolved"]["rows"] == 0
    assert [request.reference for request in service.requests[asked:]] == ["T1"]
    assert summary_of(again)["judged_again"]["folder"] == "night"


def test_rules(run, rejudge, tmp_path):
    """Options override the rules of the run, which hold without a file; it is said which change, and which cannot."""
    night = run(rules=f"not_found_messages = ['gone']\n{LOOSE}")
    assert rejudge(night, "--time-zone", "Asia/Jakarta").status == 1
    rules = summary_of(tmp_path / "again")["rules"]
    assert (rules["time_zone"], rules["tolerances"]) == ("Asia/Jakarta", {"amount": {"above": 500}})
    shutil.rmtree(tmp_path / "again")
    result = rejudge(night, rules=f"require = ['amount']\n{LOOSE}")
    assert "Not changed: require and not_found_messages, because reading" in result.out
    assert "Changed:" not in result.out
    assert summary_of(tmp_path / "again")["rules"]["not_found_messages"] == ["gone"]
    (tmp_path / "again").rename(tmp_path / "first")
    many = "".join(f"w{each:02} = 'paid'\n" for each in range(11))
    result = rejudge(tmp_path / "first", rules=f"[statuses]\n{many}")
    assert '\nChanged: statuses.w00 was nothing, and is "paid" now; ' in result.out
    assert 'statuses.w09 was nothing, and is "paid" now; ….\n' in result.out


def test_killed_before(run, rejudge, tmp_path):
    """What a killed process with the same id left beside its copy is not read."""
    night = run()
    stale = tmp_path / "again" / f".journal.sqlite.{os.getpid()}.partial"
    stale.mkdir(parents=True)
    for suffix in ("", "-wal", "-shm", ".holder"):
        (stale / f"journal.sqlite{suffix}").write_bytes(b"x" * 5000)
    assert rejudge(night).status == 1
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == sorted(path.name for path in night.iterdir())


DAMAGES = {
    "under way, or was killed": lambda journal: journal.with_name("journal.sqlite-wal").touch(),
    "is not the folder of a run: journal.sqlite is missing": lambda journal: journal.unlink(),
    "not a journal of payclient": lambda journal: journal.write_bytes(b"x" * 9000),
    "is damaged": lambda journal: os.truncate(journal, 100),
}


def test_refused(run, rejudge, command, tmp_path):
    """A run under way, a journal, rules or a folder that cannot be used are refused, and nothing is written."""
    whole = run()

    def refused(message):
        night = shutil.copytree(whole, tmp_path / message)
        DAMAGES[message](night / "journal.sqlite")
        result = rejudge(night)
        written = [name for name in ("journal.sqlite", "manifest.json") if (tmp_path / "again" / name).exists()]
        return result.status, message in result.err, written

    check_each(dict.fromkeys(DAMAGES, (2, True, [])), refused)
    before = state(whole)
    result = rejudge(whole, rules="grase = '2d'\n")
    assert (result.status, "unknown key 'grase'" in result.err) == (2, True)
    for out in (whole, whole / "again", tmp_path / "other" / ".." / "night"):
        assert command("rejudge", str(whole), "--out", str(out)).status == 2
    assert state(whole) == before


def resolved(command, folder, other):
    """Return what `payclient diff` says resolved each break, by code."""
    result = command("diff", str(folder), str(other), "--json")
    return {change["code"]: change["resolved_by"] for change in json.loads(result.out)["resolved"]}


TWICE = ("reference,amount,status", "T1,10000,Paid", "T1,5000,Paid")
SUM = '[lines]\nof_one_reference = "sum"\n'


def test_resolved_by_rule(run, rejudge, command, service, tmp_path):
    """What went away by other rules alone was resolved by a rule, in a second judgement and in the next run."""
    first = run(ledger=TWICE)
    rejudge(first, rules=SUM)
    assert resolved(command, first, tmp_path / "again") == {"duplicate_reference": "rule", "overpaid": "rule"}
    # The same ledger cannot have resolved a break; another one can.
    second = run("second", SUM, "--previous", "night", ledger=TWICE)
    third = run("third", "", "--previous", "night", ledger=(TWICE[0], "T1,15000,Paid"))
    for folder, by in ((second, "rule"), (third, "ledger")):
        gone = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
        assert {each["resolved_by"] for each in gone if each["code"] == "duplicate_reference"} == {by}
        assert resolved(command, first, folder)["duplicate_reference"] == by

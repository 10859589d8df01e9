"""`payclient rejudge`: a second judgement of a run, without a network."""

from __future__ import annotations

import json
import os
import shutil
import zipfile

import pytest

LEDGER = "reference,amount,status\nT1,14800,Paid\nT2,7000,Canceled\nT3,1,Paid\n"
LOOSE = "[tolerances.amount]\nabove = 500\n"


@pytest.fixture
def run(configured, prepared, tmp_path):
    """Reconcile the ledger by these rules into a folder of this name, and return the folder."""

    def run(name="night", rules="", *arguments, ledger=LEDGER):
        def reconcile():
            (tmp_path / "ledger.csv").write_text(ledger)
            (tmp_path / f"{name}.toml").write_text(rules)
            wanted = ("--out", str(tmp_path / name), "--rules", str(tmp_path / f"{name}.toml"), "--quiet")
            configured("reconcile", str(tmp_path / "ledger.csv"), *wanted, *arguments)

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


def content(folder):
    """Return the files of a report; the journal holds the same in other pages after it was opened."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".sqlite"}


def told(folder, name="summary.json"):
    return json.loads((folder / name).read_text())


def test_same_rules(run, rejudge, tmp_path):
    """The rules of the run give the same bytes but for where it says so, and nothing in its folder is touched."""
    first = run("first", ledger=LEDGER.replace("14800", "14700"))
    night = run("night", "grace = '0s'\n", "--previous", str(first), ledger=LEDGER.replace("7000", "6900"))
    before, again = state(night), tmp_path / "again"
    result = rejudge(night)
    assert (result.status, result.err) == (1, "")
    assert state(night) == before
    first, second = content(night), content(again)
    differing = {"manifest.json", "report.html", "report.xlsx", "summary.json"}
    assert {name for name in first | second if first.get(name) != second.get(name)} == differing
    said = told(again)["judged_again"]
    assert json.dumps(told(again) | {"judged_again": None}) == json.dumps(told(night))
    sentence = (
        f"A second judgement of the run {said['run']} in &#39;night&#39;, by the same rules; "
        "nothing was asked again for it."
    )
    page = second["report.html"].decode()
    for part in (f"<p>{sentence}</p>", f"<dt>Second judgement</dt><dd>{sentence}</dd>"):
        assert page.count(part) == 1
        page = page.replace(part, "")
    assert page.encode() == first["report.html"]
    assert sheets(again).keys() == sheets(night).keys()
    (name,) = (name for name, sheet in sheets(again).items() if sheet != sheets(night)[name])
    assert name.startswith("xl/worksheets/")
    assert "Second judgement" in sheets(again)[name].decode()


def sheets(folder):
    """Return the parts of the work list."""
    with zipfile.ZipFile(folder / "report.xlsx") as workbook:
        return {name: workbook.read(name) for name in workbook.namelist()}


def test_read_only_folder(run, rejudge):
    """The folder of the run may be read-only."""
    night = run()
    night.chmod(0o500)
    try:
        assert rejudge(night).status == 1
    finally:
        night.chmod(0o700)


def test_other_rules(run, rejudge, tmp_path):
    """Terminal, page, summary and manifest say which run was judged again, and by which rules it differs."""
    night = run()
    again = tmp_path / "again"
    result = rejudge(night, rules=LOOSE)
    name = told(night)["run"]
    sentence = (
        f"A second judgement of the run {name} in 'night', by other rules (tolerances); nothing was asked again for it."
    )
    assert result.out.splitlines()[:2] == [
        "BREAKS: amount and status of 3 ledger rows: 2 matched (1 within tolerance or accepted), 1 break.",
        sentence,
    ]
    assert sentence.replace("'", "&#39;") in (again / "report.html").read_text()
    origin = {
        "folder": "night",
        "run": name,
        "rules_fingerprint": told(night)["rules"]["fingerprint"],
        "changed_rules": ["tolerances"],
    }
    assert [told(again, file)["judged_again"] for file in ("summary.json", "manifest.json")] == [origin, origin]
    assert told(again)["run"] not in ("", name)
    assert told(night)["judged_again"] is None


def test_missing_lookups(run, rejudge, configured, service, tmp_path):
    """What needs a second lookup is unresolved, and counted; the run resumes in the new folder, and takes only that."""
    night = run(rules=LOOSE)
    asked = len(service.requests)
    result = rejudge(night, rules="")
    assert "By these rules 1 reference needs a second lookup, which the run did not take" in result.out
    assert (told(tmp_path / "again")["buckets"]["unresolved"]["rows"], len(service.requests)) == (1, asked)
    arguments = ("--rules", str(tmp_path / "new.toml"), "--out", str(tmp_path / "again"))
    configured("reconcile", str(tmp_path / "ledger.csv"), *arguments, "--quiet")
    assert told(tmp_path / "again")["buckets"]["unresolved"]["rows"] == 0
    assert [request.reference for request in service.requests[asked:]] == ["T1"]
    assert told(tmp_path / "again")["judged_again"]["folder"] == "night"


def test_options(run, rejudge, tmp_path):
    """Options override the rules of the run, which hold where no file is named."""
    night = run(rules=LOOSE)
    assert rejudge(night, "--time-zone", "Asia/Jakarta").status == 1
    rules = told(tmp_path / "again")["rules"]
    assert (rules["time_zone"], rules["tolerances"]) == ("Asia/Jakarta", {"amount": {"above": 500}})


def test_reading_stays(run, rejudge, tmp_path):
    """Rules about how the ledger and the answers are read stay those of the run, and the command says so."""
    night = run(rules="not_found_messages = ['gone']\n")
    result = rejudge(night, rules="require = ['amount']\n")
    assert "Not changed: require and not_found_messages, because reading" in result.out
    assert told(tmp_path / "again")["rules"]["not_found_messages"] == ["gone"]


def test_again_and_again(run, rejudge, tmp_path):
    """The same command writes the same bytes; other rules in the same folder are refused, and it stays as it is."""
    night = run()
    rejudge(night, rules=LOOSE)
    before = content(tmp_path / "again")
    assert rejudge(night, rules=LOOSE).status == 1
    assert content(tmp_path / "again") == before
    for rules in ("grace = '2d'\n", LOOSE.replace("500", "501")):
        assert rejudge(night, rules=rules).status == 2
        assert content(tmp_path / "again") == before


def test_killed_before(run, rejudge, tmp_path):
    """What a killed process with the same id left beside its copy is not read."""
    night = run()
    (tmp_path / "again").mkdir()
    for suffix in ("-wal", "-shm", ".holder"):
        (tmp_path / "again" / f".journal.sqlite.{os.getpid()}.partial{suffix}").write_bytes(b"x" * 5000)
    assert rejudge(night).status == 1
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == sorted(path.name for path in night.iterdir())


def test_refused(run, rejudge, tmp_path):
    """A run that is under way, or whose journal cannot be used, is refused, and no report is written."""
    whole, missed = run(), []
    for message, damage in {
        "under way, or was killed": lambda journal: journal.with_name("journal.sqlite-wal").touch(),
        "there is no journal at": lambda journal: journal.unlink(),
        "not a journal of payclient": lambda journal: journal.write_bytes(b"x" * 9000),
        "is damaged": lambda journal: os.truncate(journal, 100),
    }.items():
        night = shutil.copytree(whole, tmp_path / message)
        damage(night / "journal.sqlite")
        result = rejudge(night)
        written = [name for name in ("journal.sqlite", "manifest.json") if (tmp_path / "again" / name).exists()]
        if (result.status, message in result.err, written) != (2, True, []):
            missed.append((message, result, written))
    assert missed == []


def test_same_folder(run, command, tmp_path):
    """The folder of the run, and a folder in it, cannot take the second judgement."""
    night = run()
    before = state(night)
    for out in (night, night / "again", tmp_path / "other" / ".." / "night"):
        assert command("rejudge", str(night), "--out", str(out)).status == 2
    assert state(night) == before


def test_unusable_rules(run, rejudge, tmp_path):
    """Rules that cannot be used are refused before anything is copied."""
    result = rejudge(run(), rules="grase = '2d'\n")
    assert (result.status, "there is no key 'grase'" in result.err) == (2, True)
    assert not (tmp_path / "again").exists()


def test_whole_folder(run, rejudge, command, tmp_path):
    """The new folder is a run like any other: it verifies, explains, writes its report again and is judged again."""
    rejudge(run(), rules=LOOSE)
    again = tmp_path / "again"
    before = content(again)
    assert command("report", str(again), "--quiet").status == 1
    assert content(again) == before
    assert command("verify", str(again)).status == 0
    assert "within the tolerance" in command("explain", str(again), "T1").out
    third = command("rejudge", str(again), "--out", str(tmp_path / "third"))
    assert "in 'again', by the same rules" in third.out
    shutil.rmtree(tmp_path / "night")
    assert command("report", str(again), "--quiet").status == 1


def test_previous_run(run, rejudge, command, tmp_path):
    """A second judgement of a run with a previous one keeps its carried rows and its ages, byte for byte."""
    run("first")
    shorter = LEDGER.rpartition("T3")[0] + "T4,5,Paid\n"
    night = run("night", "", "--previous", str(tmp_path / "first"), ledger=shorter)
    rejudge(night)
    assert told(night)["since"]["carried"]["break"] == 1
    assert told(night)["since"]["breaks"]["new"] == 1
    for name in ("rows.jsonl", "breaks.csv", "history.jsonl"):
        assert (tmp_path / "again" / name).read_bytes() == (night / name).read_bytes()
    assert command("verify", str(tmp_path / "again")).status == 0


def resolved(command, folder, other):
    """Return what `payclient diff` says resolved each break, by code."""
    result = command("diff", str(folder), str(other), "--json")
    return {change["code"]: change["resolved_by"] for change in json.loads(result.out)["resolved"]}


TWICE = "reference,amount,status\nT1,10000,Paid\nT1,5000,Paid\n"
SUM = '[lines]\nof_one_reference = "sum"\n'


def test_resolved_by_rule(run, rejudge, command, tmp_path):
    """What went away in a second judgement was resolved by a rule: neither side says anything else."""
    folder = run(ledger=TWICE)
    rejudge(folder, rules=SUM)
    assert resolved(command, folder, tmp_path / "again") == {"duplicate_reference": "rule", "overpaid": "rule"}


def test_invoice_resolved_by_rule(run, rejudge, command, service, tmp_path):
    """A payment that is a part of an invoice by the new rules is made twice no more: by a rule."""
    for reference, amount in (("I1", 4), ("I2", 5)):
        service.add(reference=reference, amount=amount, status="Paid", merchant_reff="M")
    folder = run(ledger="reference,merchant_reff,amount,status\nI1,M,4,Paid\nI2,M,5,Paid\n")
    rejudge(folder, rules='[invoices]\nsum = true\namount = "part"\n')
    assert resolved(command, folder, tmp_path / "again") == {"paid_twice": "rule"}


def test_same_ledger_resolved_by_rule(run, command, tmp_path):
    """The same ledger cannot have resolved a break in the next run; another one can."""
    first = run(ledger=TWICE)
    second = run("second", SUM, "--previous", str(first), ledger=TWICE)
    third = run("third", "", "--previous", str(first), ledger="reference,amount,status\nT1,15000,Paid\n")
    for folder, by in ((second, "rule"), (third, "ledger")):
        gone = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
        assert {each["resolved_by"] for each in gone if each["code"] == "duplicate_reference"} == {by}
        assert resolved(command, first, folder)["duplicate_reference"] == by


def test_statement(run, rejudge, configured, service, tmp_path):
    """What is not in the statement by the new rules needs a second lookup, which the same run takes."""
    (tmp_path / "statement.csv").write_text("reference,amount\nT3,1\n")
    service.add(reference="T3", amount=1, status="Paid")
    ledger = "reference,amount,status,created_at\nT1,15000,Paid,2026-11-01\nT3,1,Paid,2026-11-01\n"
    statement = ("--statement", str(tmp_path / "statement.csv"))
    folder = run("night", '[statement]\nsettles_within = "30000d"\n', *statement, ledger=ledger)
    assert told(folder)["buckets"]["open"]["rows"] == 1
    again = rejudge(folder, rules="")
    assert (again.status, "1 reference needs a second lookup" in again.out) == (75, True)
    arguments = ("--out", str(tmp_path / "again"), "--rules", str(tmp_path / "new.toml"), *statement)
    done = configured("reconcile", str(tmp_path / "ledger.csv"), *arguments)
    assert (done.status, told(tmp_path / "again")["findings"]["not_settled"]["rows"]) == (1, 1)
    assert told(tmp_path / "again")["buckets"]["unresolved"]["rows"] == 0

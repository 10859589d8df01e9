"""`payclient decisions take`: from a work list to the next run."""

from __future__ import annotations

import json

import openpyxl
import pytest

RULES = "[approval]\nabove = 1000\n"


@pytest.fixture
def run(configured, tmp_path):
    """Reconcile the ledger into a folder of this name."""
    (tmp_path / "ledger.csv").write_text("reference,amount,status\nT1,15500,Paid\nT2,9000,Canceled\nT3,1,Paid\n")
    (tmp_path / "rules.toml").write_text(RULES)

    def run(name, *arguments):
        wanted = ("--out", str(tmp_path / name), "--rules", str(tmp_path / "rules.toml"), "--quiet")
        return configured("reconcile", str(tmp_path / "ledger.csv"), *wanted, *arguments)

    return run


def write(path, **resolutions):
    """Write resolutions by reference into a work list, each with an owner and a comment."""
    book = openpyxl.load_workbook(path)
    sheet = book["Breaks"]
    places = {cell.value: cell.column for cell in sheet[1]}
    for row in range(2, sheet.max_row + 1):
        if resolution := resolutions.get(sheet.cell(row, places["Reference"]).value):
            for title, value in (("Owner", "Ana"), ("Resolution", resolution), ("Comment", "agreed")):
                sheet.cell(row, places[title]).value = value
    book.save(path)


def shown(path):
    """Return owner, resolution and comment by reference."""
    sheet = openpyxl.load_workbook(path)["Breaks"]
    places = {cell.value: cell.column - 1 for cell in sheet[1]}
    return {
        row[places["Reference"]]: tuple(row[places[title]] for title in ("Owner", "Resolution", "Comment"))
        for row in sheet.iter_rows(min_row=2, values_only=True)
    }


def told(folder):
    return json.loads((folder / "summary.json").read_text())


def test_from_night_to_night(run, command, tmp_path):
    """What was decided shows in the report, counts in the next run, and is known there; nothing else is changed."""
    first, second = tmp_path / "first", tmp_path / "second"
    run("first")
    write(first / "report.xlsx", T1="accepted until 2999-12-31", T3="corrected in the ledger")
    result = command("decisions", "take", str(first / "report.xlsx"), "--by", "ana")
    assert (result.status, result.out) == (0, f"2 decisions taken into {first}/decisions.jsonl; 0 known before\n")
    rows = (first / "rows.jsonl").read_bytes()
    assert command("report", str(first), "--quiet").status == 1
    assert command("verify", str(first)).status == 0
    assert (first / "rows.jsonl").read_bytes() == rows
    assert shown(first / "report.xlsx") == {
        "T1": ("Ana", "accepted until 2999-12-31", "agreed"),
        "T2": (None, None, None),
        "T3": ("Ana", "corrected in the ledger", "agreed"),
    }
    assert "0 decisions taken" in command("decisions", "take", str(first / "report.xlsx"), "--by", "ana").out
    before = {path.name: path.read_bytes() for path in first.iterdir()}
    assert run("second", "--decisions", str(first)).status == 1
    assert {path.name: path.read_bytes() for path in first.iterdir()} == before
    summary = told(second)
    assert (summary["buckets"]["matched"]["rows"], summary["buckets"]["break"]["rows"]) == (1, 2)
    assert [each["reference"] for each in summary["still_there"]] == ["T3"]
    assert shown(second / "report.xlsx")["T3"] == ("Ana", "corrected in the ledger", "agreed")
    assert command("verify", str(second)).status == 0


def test_resumed(run, command, tmp_path):
    """A run keeps the decisions that it began with, whatever is decided while it is resumed."""
    run("first")
    write(tmp_path / "first" / "report.xlsx", T1="accepted until 2999-12-31")
    command("decisions", "take", str(tmp_path / "first" / "report.xlsx"), "--by", "ana")
    run("second", "--decisions", str(tmp_path / "first"))
    files = {name: (tmp_path / "second" / name).read_bytes() for name in ("rows.jsonl", "summary.json")}
    write(tmp_path / "second" / "report.xlsx", T3="accepted until 2999-12-31")
    assert command("decisions", "take", str(tmp_path / "second" / "report.xlsx"), "--by", "ana").status == 0
    for arguments in ((), ("--decisions", str(tmp_path / "first"))):
        assert run("second", *arguments).status == 1
        assert {name: (tmp_path / "second" / name).read_bytes() for name in files} == files


def test_second_judgement(run, command, tmp_path):
    """A second judgement applies what was accepted in its run, and takes the decisions along."""
    run("first")
    write(tmp_path / "first" / "report.xlsx", T1="accepted until 2999-12-31")
    command("decisions", "take", str(tmp_path / "first" / "report.xlsx"), "--by", "ana")
    command("rejudge", str(tmp_path / "first"), "--out", str(tmp_path / "again"), "--quiet")
    assert told(tmp_path / "again")["buckets"]["break"]["rows"] == 2
    assert told(tmp_path / "again")["judged_again"]["changed_rules"] == ["accepted"]
    assert command("verify", str(tmp_path / "again")).status == 0
    lines = [(tmp_path / name / "decisions.jsonl").read_bytes() for name in ("first", "again")]
    assert lines[0] == lines[1]


def test_elsewhere(run, command, tmp_path):
    """A work list that was mailed around is taken with the folder of its run."""
    run("first")
    (tmp_path / "first" / "report.xlsx").rename(tmp_path / "mailed.xlsx")
    write(tmp_path / "mailed.xlsx", T1="raised with the service")
    arguments = ("decisions", "take", str(tmp_path / "mailed.xlsx"), "--by", "ana")
    assert "cannot be used: manifest.json" in command(*arguments).err
    assert command(*arguments, "--folder", str(tmp_path / "first")).status == 0


def test_approval(run, command, tmp_path):
    """The rules of the run say which amounts need a second person."""
    run("first")
    write(tmp_path / "first" / "report.xlsx", T2="accepted until 2999-12-31")
    arguments = ("decisions", "take", str(tmp_path / "first" / "report.xlsx"), "--by", "ana")
    result = command(*arguments)
    assert (result.status, "2,000 is at stake; above 1,000 it needs approval" in result.err) == (2, True)
    assert not (tmp_path / "first" / "decisions.jsonl").exists()
    assert command(*arguments, "--approved-by", "Ana").status == 2
    assert command(*arguments, "--approved-by", "budi").status == 0


def test_refused(run, command, tmp_path):
    """A changed report, a name that is none, and decisions that were changed are refused."""
    run("first")
    folder = tmp_path / "first"
    arguments = ("decisions", "take", str(folder / "report.xlsx"))
    assert command(*arguments, "--by", " ").status == 2
    write(folder / "report.xlsx", T1="raised with the service")
    assert command(*arguments, "--by", "ana").status == 0
    path = folder / "decisions.jsonl"
    path.write_bytes(path.read_bytes().replace(b"raised", b"Raised"))
    verified = command("verify", str(folder))
    assert (verified.status, "decisions.jsonl: line 1: it was changed" in verified.out) == (1, True)
    assert command("report", str(folder)).status == 2
    path.unlink()
    with (folder / "rows.jsonl").open("a") as file:
        file.write("{}\n")
    assert "rows.jsonl: it was changed" in command(*arguments, "--by", "ana").err


def test_gzip_rows(run, command, tmp_path):
    """The evidence of a decision is the same line, whether the rows are compressed or not."""
    evidence = []
    for options in ((), ("--gzip-rows",)):
        run("first", *options)
        write(tmp_path / "first" / "report.xlsx", T1="corrected in the ledger")
        assert command("decisions", "take", str(tmp_path / "first" / "report.xlsx"), "--by", "ana").status == 0
        line = (tmp_path / "first" / "decisions.jsonl").read_text().splitlines()[0]
        evidence.append(json.loads(line)["evidence"])
        (tmp_path / "first" / "decisions.jsonl").unlink()
    assert (tmp_path / "first" / "rows.jsonl.gz").exists()
    assert evidence[0] == evidence[1]


def test_no_such_folder(run, tmp_path):
    """Decisions of a folder that is not there are refused before anything is asked."""
    result = run("second", "--decisions", str(tmp_path / "nowhere"))
    assert (result.status, "--decisions must be the folder of a run" in result.err) == (2, True)
    assert not (tmp_path / "second").exists()


def test_previous(run, command, tmp_path):
    """The decisions of the previous run count, also while its work list is as it was edited."""
    run("first")
    write(tmp_path / "first" / "report.xlsx", T1="accepted until 2999-12-31")
    command("decisions", "take", str(tmp_path / "first" / "report.xlsx"), "--by", "ana")
    result = run("second", "--previous", str(tmp_path / "first"))
    assert (result.status, result.err) == (1, "")
    assert told(tmp_path / "second")["buckets"]["break"]["rows"] == 2


def test_refused_previous(run, tmp_path):
    """A previous run that is refused leaves nothing behind."""
    run("first")
    (tmp_path / "first" / "breaks.csv").unlink()
    assert run("second", "--previous", str(tmp_path / "first")).status == 2
    assert not (tmp_path / "second").exists()


def test_carried_row(run, command, tmp_path):
    """A row that was carried over from the previous run is decided like any other, also where it has another's line."""
    run("first")
    (tmp_path / "ledger.csv").write_text("reference,amount,status\nT3,2,Paid\n")
    run("second", "--previous", str(tmp_path / "first"))
    write(tmp_path / "second" / "report.xlsx", T1="raised with the service", T3="corrected in the ledger")
    result = command("decisions", "take", str(tmp_path / "second" / "report.xlsx"), "--by", "ana")
    assert (result.status, result.out[:18]) == (0, "2 decisions taken ")

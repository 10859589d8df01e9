"""`payclient decisions take`: from a work list to the next run."""

from __future__ import annotations

import json

import openpyxl
import pytest


@pytest.fixture
def run(configured, tmp_path):
    """Reconcile the ledger into a folder of this name."""
    (tmp_path / "ledger.csv").write_text("reference,amount,status\nT1,15500,Paid\nT2,9000,Canceled\nT3,1,Paid\n")
    (tmp_path / "rules.toml").write_text("[approval]\nabove = 1000\n")

    def run(name, *arguments):
        wanted = ("--out", str(tmp_path / name), "--rules", str(tmp_path / "rules.toml"), "--quiet")
        return configured("reconcile", str(tmp_path / "ledger.csv"), *wanted, *arguments)

    return run


@pytest.fixture
def first(run, prepared, tmp_path):
    """Give the folder of a first run."""
    prepared("first", lambda: run("first"))
    return tmp_path / "first"


@pytest.fixture
def take(command):
    """Take the decisions of a work list, which are written into it first."""

    def take(path, *arguments, by="ana", **resolutions):
        write(path, **resolutions)
        return command("decisions", "take", str(path), "--by", by, *arguments)

    return take


@pytest.fixture
def accepted(first, take):
    """Give the folder of a first run, of which one break was accepted."""
    assert take(first / "report.xlsx", T1="accepted until 2999-12-31").status == 0
    return first


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


def test_from_night_to_night(run, first, take, command, tmp_path):
    """What was decided shows in the report, counts in the next run, and is known there; nothing else is changed."""
    second = tmp_path / "second"
    result = take(first / "report.xlsx", T1="accepted until 2999-12-31", T3="corrected in the ledger")
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


def test_resumed(run, accepted, take, tmp_path):
    """A run keeps the decisions that it began with, whatever is decided while it is resumed."""
    second = tmp_path / "second"
    run("second", "--decisions", str(accepted))
    files = {name: (second / name).read_bytes() for name in ("rows.jsonl", "summary.json")}
    assert take(second / "report.xlsx", T3="accepted until 2999-12-31").status == 0
    for arguments in ((), ("--decisions", str(accepted))):
        assert run("second", *arguments).status == 1
        assert {name: (second / name).read_bytes() for name in files} == files


def test_second_judgement(accepted, command, tmp_path):
    """A second judgement applies what was accepted in its run, and takes the decisions along."""
    again = tmp_path / "again"
    command("rejudge", str(accepted), "--out", str(again), "--quiet")
    assert told(again)["buckets"]["break"]["rows"] == 2
    assert told(again)["judged_again"]["changed_rules"] == ["accepted"]
    assert command("verify", str(again)).status == 0
    assert (again / "decisions.jsonl").read_bytes() == (accepted / "decisions.jsonl").read_bytes()


def test_elsewhere(first, take, tmp_path):
    """A work list that was mailed around is taken with the folder of its run."""
    mailed = (first / "report.xlsx").rename(tmp_path / "mailed.xlsx")
    assert "cannot be used: manifest.json" in take(mailed, T1="raised with the service").err
    assert take(mailed, "--folder", str(first)).status == 0


def test_approval(first, take):
    """The rules of the run say which amounts need a second person."""
    path = first / "report.xlsx"
    result = take(path, T2="accepted until 2999-12-31")
    assert (result.status, "2,000 is at stake; above 1,000 it needs approval" in result.err) == (2, True)
    assert not (first / "decisions.jsonl").exists()
    assert [take(path, "--approved-by", name).status for name in ("Ana", "budi")] == [2, 0]


def test_refused(first, take, command):
    """A changed report, a name that is none, and decisions that were changed are refused."""
    assert take(first / "report.xlsx", by=" ").status == 2
    assert take(first / "report.xlsx", T1="raised with the service").status == 0
    path = first / "decisions.jsonl"
    path.write_bytes(path.read_bytes().replace(b"raised", b"Raised"))
    verified = command("verify", str(first))
    assert (verified.status, "decisions.jsonl: line 1: it was changed" in verified.out) == (1, True)
    assert command("report", str(first)).status == 2
    path.unlink()
    with (first / "rows.jsonl").open("a") as file:
        file.write("{}\n")
    assert "rows.jsonl: it was changed" in take(first / "report.xlsx").err


def test_gzip_rows(run, first, take):
    """The evidence of a decision is the same line, whether the rows are compressed or not."""
    evidence = []
    for options in ((), ("--gzip-rows",)):
        run("first", *options)
        assert take(first / "report.xlsx", T1="corrected in the ledger").status == 0
        evidence.append(json.loads((first / "decisions.jsonl").read_text().splitlines()[0])["evidence"])
        (first / "decisions.jsonl").unlink()
    assert (first / "rows.jsonl.gz").exists()
    assert evidence[0] == evidence[1]


def test_previous(run, accepted, tmp_path):
    """The decisions of the previous run count, also while its work list is as it was edited."""
    result = run("second", "--previous", str(accepted))
    assert (result.status, result.err) == (1, "")
    assert told(tmp_path / "second")["buckets"]["break"]["rows"] == 2


def test_refused_folders(run, first, tmp_path):
    """A folder without decisions, or a previous run that is damaged, is refused and leaves nothing behind."""
    result = run("second", "--decisions", str(tmp_path / "nowhere"))
    assert (result.status, "--decisions must be the folder of a run" in result.err) == (2, True)
    (first / "breaks.csv").unlink()
    assert run("second", "--previous", str(first)).status == 2
    assert not (tmp_path / "second").exists()


def test_carried_row(run, first, take, tmp_path):
    """A row that was carried over from the previous run is decided like any other, also where it has another's line."""
    (tmp_path / "ledger.csv").write_text("reference,amount,status\nT3,2,Paid\n")
    run("second", "--previous", str(first))
    work_list = tmp_path / "second" / "report.xlsx"
    result = take(work_list, T1="raised with the service", T3="corrected in the ledger")
    assert (result.status, result.out[:18]) == (0, "2 decisions taken ")

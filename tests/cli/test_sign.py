"""`payclient sign`: who prepared a report and who reviewed it, over the state that each of them saw."""

import json
import re

import pytest

AT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00")


@pytest.fixture
def report(night, tmp_path):
    """Write a clean report, and return its folder."""
    assert night("report", lines=["T1,15000,Paid", "T2,7000,Canceled"]).status == 0
    return tmp_path / "report"


def signatures(folder):
    return [
        (each["role"], each["by"]) for each in map(json.loads, (folder / "signatures.jsonl").read_text().splitlines())
    ]


def test_signed(report, command):
    """The two roles are signed by two people, and shown by the check of the report."""
    result = command("sign", "report", "--prepared", " Ana ")
    assert (result.status, AT.sub("AT", result.out)) == (0, "prepared by 'Ana' at AT\n")
    assert command("sign", "report", "--reviewed", "Budi").status == 0
    assert signatures(report) == [("prepared", "Ana"), ("reviewed", "Budi")]
    result = command("verify", "report")
    assert (result.status, AT.findall(result.out) != []) == (0, True)
    assert [line[:20] for line in result.out.splitlines()[-2:]] == ["prepared by 'Ana' at", "reviewed by 'Budi' a"]


def test_changed_since(report, command):
    """What changed after a signature is reported: another report in its place, or a decision."""
    command("sign", "report", "--prepared", "Ana")
    (report / "decisions.jsonl").write_bytes(b"")
    assert command("verify", "report").status == 0  # an empty list of decisions decides nothing
    manifest = json.loads((report / "manifest.json").read_text())
    (report / "manifest.json").write_text(json.dumps(manifest, indent=1))
    result = command("verify", "report")
    assert (result.status, "Next: " in result.out) == (1, False)  # writing the report again would not sign it
    assert ": sign it again" not in command("sign", "report", "--prepared", "Ana").out
    assert command("verify", "report").status == 0
    (report / "signatures.jsonl").write_text("{}\n")
    assert "signatures.jsonl is damaged" in command("verify", "report").out
    assert command("sign", "report", "--prepared", "Ana").status == 2
    (report / "signatures.jsonl").unlink()
    (report / "signatures.jsonl").mkdir()
    result = command("verify", "report")
    assert (result.status, result.out[:40]) == (1, "signatures.jsonl: it cannot be read: not")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "give the name of one person"),
        (("--prepared", "Ana", "--reviewed", "Budi"), "give the name of one person"),
        (("--prepared", " "), "give the name of one person"),
        (("--reviewed", "Budi"), "it must be signed with --prepared as it is now"),
    ],
)
def test_refused(report, command, arguments, problem):
    """One person signs at a time, the one who prepared it first."""
    result = command("sign", "report", *arguments)
    assert (result.status, problem in result.err) == (2, True)
    assert not (report / "signatures.jsonl").exists()


def test_same_person(report, command):
    """Nobody reviews a report that they prepared themselves."""
    command("sign", "report", "--prepared", "Ana")
    result = command("sign", "report", "--reviewed", "ANA")
    assert (result.status, "another person must review it" in result.err) == (2, True)


def test_damaged(report, command):
    """A report with a changed file is not signed; a work list that people filled in is."""
    with (report / "report.xlsx").open("ab") as file:
        file.write(b" ")
    assert command("sign", "report", "--prepared", "Ana").status == 0
    (report / "breaks.csv").write_text("")
    result = command("sign", "report", "--reviewed", "Budi")
    assert (result.status, result.out.splitlines()[-1]) == (1, "the report was not signed")
    assert signatures(report) == [("prepared", "Ana")]

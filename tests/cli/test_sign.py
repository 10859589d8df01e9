"""`payclient sign`: who prepared a report and who reviewed it, over the state that each of them saw."""

import json
import re
import shlex
import shutil

import openpyxl
import pytest

from payclient.reconcile._atomic import lock

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
    assert command("verify", "report", "--allow-edits").status == 0  # what the next night asks for
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


@pytest.mark.parametrize(
    ("names", "last"),
    [
        ({"prepared": "Ana"}, ("reviewed", "ANA")),
        ({"prepared": "Jos\u00e9  P"}, ("reviewed", "Jose\u0301 P")),
        ({"prepared": "Ana", "reviewed": "Budi"}, ("prepared", "budi")),
    ],
)
def test_same_person(report, command, names, last):
    """Nobody signs a report in both roles, in whatever order and however their name is typed."""
    for role, name in names.items():
        assert command("sign", "report", f"--{role}", name).status == 0
    role, name = last
    result = command("sign", "report", f"--{role}", name)
    assert (result.status, "another person must" in result.err) == (2, True)
    assert signatures(report) == [*names.items()]


def test_two_at_once(report, command):
    """While one signature is written, another is refused, and neither is lost."""
    command("sign", "report", "--prepared", "Ana")
    with (report / "signatures.jsonl").open("rb") as held:
        assert lock(held)
        result = command("sign", "report", "--reviewed", "Budi")
    assert (result.status, "in use by another process" in result.err) == (2, True)
    with (report / "signatures.jsonl").open("ab") as file:
        file.write(b'{"role": "rev')  # a process was killed
    assert command("sign", "report", "--reviewed", "Budi").status == 0
    assert signatures(report) == [("prepared", "Ana"), ("reviewed", "Budi")]


def test_not_imported(report, command, night, tmp_path):
    """What a work list has, and the report or the signature has not, is named; so is the list of another run."""
    night("other", lines=["T1,1,Paid", "T3,5,Paid"])
    filled = openpyxl.load_workbook(tmp_path / "other" / "report.xlsx")
    for row in (2, 3):
        filled["Breaks"].cell(row, [cell.value for cell in filled["Breaks"][1]].index("Owner") + 1).value = "Ana"
    filled.save(tmp_path / "other" / "report.xlsx")
    said, step = command("sign", "other", "--prepared", "Ana").out.splitlines()[1:]
    assert said == "not signed: 2 decisions in report.xlsx, which must be imported first"
    assert command(*shlex.split(step)[2:]).status == 0
    (said,) = command("sign", "other", "--prepared", "Ana").out.splitlines()[1:]
    assert said == "not in the report: 2 decisions imported since it was written"
    shutil.copy(tmp_path / "other" / "report.xlsx", report)
    assert "not signed: report.xlsx: the work list is of" in command("sign", "report", "--prepared", "Ana").out


def test_damaged(report, command, night, tmp_path):
    """A changed file, a damaged journal and the journal of another run are not signed, a changed work list is."""
    with (report / "report.xlsx").open("ab") as file:
        file.write(b" ")
    assert command("sign", "report", "--prepared", "Ana").status == 0
    night("other", lines=["T1,15000,Paid"])
    journal = (tmp_path / "other" / "journal.sqlite").read_bytes()
    for name, content, what in (
        ("breaks.csv", b"", "it was changed"),
        ("journal.sqlite", journal[:5000], "is damaged"),
        ("journal.sqlite", journal, "it is of the run "),
    ):
        before = (report / name).read_bytes()
        (report / name).write_bytes(content)
        for result in (command("sign", "report", "--reviewed", "Budi"), command("verify", "report", "--allow-edits")):
            assert (result.status, result.out.startswith(f"{name}: "), what in result.out) == (1, True, True), name
        (report / name).write_bytes(before)
    assert signatures(report) == [("prepared", "Ana")]

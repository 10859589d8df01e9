"""`payclient drift`: the contracts of some runs in, what is new in the last one out."""

from __future__ import annotations

import json
import random
from hashlib import sha256
from pathlib import Path

import pytest

from payclient.testing import Reply
from support.drifting import golden, night, nights
from support.json_schema import problems
from support.reports import summary_of, with_manifest

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "drift.schema.json").read_text())
ROWS = 60
NEW_TYPE = {"type of amount": "text"}


def planted(cells, _):
    cells["transition", "Paid", "Pending"] = cells["took", "Paid", "Pending", "under an hour"] = 3


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Give what writes the contracts of simulated runs into folders, and returns their names."""
    monkeypatch.chdir(tmp_path)

    def folders(runs):
        for name, contract in runs:
            with_manifest(tmp_path / name, {"contract.json": json.dumps(contract.as_json())})
        return [name for name, _ in runs]

    return folders


@pytest.fixture
def quiet(folders):
    """Give the folders of eight quiet runs."""
    return folders(nights(8, random.Random(1)))


@pytest.fixture
def changed(quiet, folders):
    """Give the folders of eight quiet runs, and of one with a new transition and another type."""
    return [*quiet, *folders([night(8, random.Random(2), goldens=golden(**NEW_TYPE), plant=planted)])]


def test_nothing_new(command, quiet):
    """Quiet runs have nothing new, whatever the order of the folders; it says what that rests on."""
    result = command("drift", *reversed(quiet))
    assert (result.status, result.err, result.out.splitlines()[0]) == (0, "", "NOTHING NEW.")
    assert f" answers in {quiet[-1]}: 5 methods, 4 states, " in result.out.splitlines()[1]
    assert " answers in 7 runs before. What was never seen in them occurs in at most " in result.out


def test_new(command, changed):
    """A new transition and a golden answer of another type are told, and the exit status is 1."""
    result = command("drift", *changed)
    lines = result.out.splitlines()
    assert (result.status, lines[0], lines[3:5]) == (1, "NEW: 2 changes of the service.", ["", "New:"])
    assert "States, of references that were looked up more than once:" in lines
    assert lines[5].startswith("  high: First: Paid becomes Pending, 3 times; never in ")
    assert lines[6] == (
        "  high: 3 of 3 golden answers: type of amount changed from integer to text "
        "(golden type of amount integer text)"
    )


def test_json(command, changed):
    """The object is as the schema says, and has the same changes."""
    result = command("drift", *changed, "--json")
    content = json.loads(result.out)
    assert list(problems(content, SCHEMA, SCHEMA)) == []
    assert [each["name"] for each in content["new"]] == [
        "first transition Paid Pending",
        "golden type of amount integer text",
    ]
    assert (content["nights"], content["earlier"], result.status) == (changed, [], 1)
    result = command("drift", *changed, "--quiet")
    assert (result.status, result.out, result.err) == (1, "", "")


def test_known(command, changed, folders, tmp_path):
    """A change is no news when it is accepted, up to the last day, and on the nights after it was told; it is shown."""
    names = ("first transition Paid Pending", "golden type of amount integer text")
    table = '[[accepted]]\ndrift = "{}"\nreason = "announced"\nowner = "ana"\nexpires = {}\n'
    for expires, status, text in (("2026-01-09", 0, "Accepted:"), ("2026-01-08", 1, "until")):
        (tmp_path / "accepted.toml").write_text("".join(table.format(name, expires) for name in names))
        result = command("drift", *changed, "--accepted", "accepted.toml")
        assert (result.status, text in result.out, "ana" in result.out) == (status, True, True)
    changed += folders([night(9, random.Random(3), goldens=golden(**NEW_TYPE), plant=planted)])
    result = command("drift", *changed)
    assert (result.status, result.out.splitlines()[0]) == (0, "NOTHING NEW.")
    assert "  night-008: high: First: Paid becomes Pending" in result.out


def test_page(command, changed, tmp_path):
    """The page has the changes and a line for each transition, one of them new; nothing in it is loaded."""
    result = command("drift", *changed, "--html", "drift.html")
    page = (tmp_path / "drift.html").read_text()
    assert (result.status, result.out.splitlines()[-1]) == (1, "Page: drift.html")
    # Four transitions, and the verdict's sign.
    assert (page.count("<path d="), page.count('class="new"')) == (5, 1)
    assert "type of amount changed from integer to text" in page
    assert "http" not in page.replace("http-equiv", "")


def test_refused(command, quiet, tmp_path):
    """A contract that is not as it was written is refused, as are unusable acceptances, and a page within a report."""
    folder, found = tmp_path / quiet[3], {}
    (tmp_path / "accepted.toml").write_text("[accepted")
    for option, value in (("--accepted", "accepted.toml"), ("--html", f"{quiet[0]}/drift.html")):
        result = command("drift", *quiet, option, value)
        assert (result.status, "cannot be used" in result.err or "must be a file outside" in result.err) == (2, True)
    damages = {
        "contract.json: it was changed": lambda: (folder / "contract.json").write_text("{}"),
        "contract.json: it is missing": (folder / "contract.json").unlink,
        "it is not version 1 of payclient.contract": lambda: with_manifest(folder, {"contract.json": "[]"}),
        "contract.json cannot be read": lambda: with_manifest(folder, {"contract.json": "{"}),
        "manifest.json: there is none": (folder / "manifest.json").unlink,
    }
    for message, damage in damages.items():
        damage()
        result = command("drift", *quiet)
        found[message] = (result.status, message in result.err)
    assert found == dict.fromkeys(damages, (2, True))


def test_none(command, folders, tmp_path):
    """A report that remembers nothing is left out, and said; without any other, the command refuses."""
    with_manifest(tmp_path / "old", {"summary.json": "{}"})
    result = command("drift", "old", *folders(nights(1, random.Random(1))))
    assert (result.status, result.err) == (0, "payclient: left out, because it has no contract.json: old\n")
    result = command("drift", "old")
    assert (result.status, "none of the reports has a contract.json" in result.err) == (2, True)


@pytest.fixture
def reconcile(night, service):
    """Reconcile sixty paid rows into a folder of this name, after the one before."""
    names = [f"G{number}" for number in range(ROWS)]
    service.load({"reference": name, "amount": 15000, "status": "Paid"} for name in names)

    def reconcile(name, previous=None):
        before = () if previous is None else ("--previous", previous)
        return night(name, "--quiet", *before, lines=[f"{name},15000,Paid" for name in names])

    return reconcile


def test_golden(command, reconcile, service):
    """A run asks for a twentieth more, the same each night; one whose answer has another form is told next night."""
    assert reconcile("20").status == 0
    asked = [request.reference for request in service.requests]
    assert (len(asked), len(set(asked))) == (ROWS + ROWS // 20, ROWS)
    assert reconcile("21", previous="20").status == 0
    goldens = asked[ROWS:]
    assert [request.reference for request in service.requests][-len(goldens) :] == goldens
    for name in goldens:
        service.script(name, Reply(body=lambda answer: answer), Reply(body=in_text))
    assert reconcile("22", previous="21").status == 0
    result = command("drift", "20", "21", "22")
    assert result.status == 1
    assert "3 of 3 golden answers: type of amount changed from integer to text" in result.out
    assert command("verify", "22").status == 0


def in_text(answer):
    """Return an answer with its amount as text."""
    return {**answer, "data": {**answer["data"], "amount": str(answer["data"]["amount"])}}


def test_other_version(reconcile, prepared, tmp_path):
    """After a run with a contract of another version, memory restarts, with other golden answers."""
    prepared("20", lambda: reconcile("20"))
    contract = tmp_path / "20" / "contract.json"
    before = contract.read_bytes()
    contract.write_text(json.dumps({"schema": "payclient.contract", "version": 99}))
    manifest = summary_of(tmp_path / "20", "manifest.json")
    text = json.dumps(manifest).replace(sha256(before).hexdigest(), sha256(contract.read_bytes()).hexdigest())
    manifest = json.loads(text.replace(f'"size_bytes": {len(before)}', f'"size_bytes": {len(contract.read_bytes())}'))
    del manifest["sha256"]
    manifest["sha256"] = sha256(json.dumps(manifest).encode()).hexdigest()
    (tmp_path / "20" / "manifest.json").write_text(json.dumps(manifest))
    assert reconcile("21", previous="20").status == 0
    assert len(summary_of(tmp_path / "21", "contract.json")["golden"]) == ROWS // 20


def test_same_contract(configured, reconcile, prepared, tmp_path):
    """The command again, the report again and a second judgement have the contract of the run, which counts once."""
    prepared("20", lambda: reconcile("20"))
    first = (tmp_path / "20" / "contract.json").read_bytes()
    reconcile("20")
    configured("report", "20", "--quiet")
    configured("rejudge", "20", "--out", "again", "--quiet")
    assert [(tmp_path / name / "contract.json").read_bytes() for name in ("20", "again")] == [first, first]
    assert len(json.loads(configured("drift", "20", "again", "--json").out)["nights"]) == 1

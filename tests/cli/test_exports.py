"""
Files of providers, shops, books and banks that disagree with the service: no way to read one is clean.

The service has every payment as paid. Each file says of two that they are not, in its own way, so a clean verdict is
wrong, whichever of the printed commands led to it.
"""

import re
import shlex
import shutil

import pytest

from payclient.testing import FakeService
from support.exports import FEE, PAYMENTS, exports

MAX_STEPS = 5
GOOD = {"completed", "deposited", "lunas", "sentforsettle", "settled", "settled successfully", "settlement", "success"}
"""Words for paid that payclient does not know."""


@pytest.fixture
def service():
    """Give a service that has every payment as paid."""
    fake = FakeService()
    for reference, amount in PAYMENTS.items():
        fake.add(reference=reference, amount=amount, fee=FEE, status="Paid", merchant_reff=reference)
    return fake


def written(line, result):
    """Return the text of a rules file as the step in *line* asks for it; empty if it is not to be written."""
    note = line.partition(", then: ")[0]
    found = re.findall(r'(\S+) = (\{.*?\}|".*?"|\[.*?\]|\d+|true) under \[([\w.]+)\]', note)
    if "under [statuses]" in note:
        words = re.findall(r'statuses\.(".*?"|\S+) = ', result.err)
        found = [(word, '"paid"' if word.strip('"').casefold() in GOOD else '"failed"', "statuses") for word in words]
    tables = {}
    for key, value, table in found:
        tables.setdefault(table, []).append(f"{key} = {value}\n")
    return "".join(f"[{table}]\n{''.join(lines)}" for table, lines in tables.items())


def follow(configured, folder, call):
    """Run *call* and what is proposed first, up to `MAX_STEPS` times; return each command with what it printed."""
    trail, rules = [], folder / "rules.toml"
    while call and len(trail) < MAX_STEPS:
        for path in filter(lambda path: path.is_dir(), folder.iterdir()):
            shutil.rmtree(path)
        result = configured(*call)
        trail.append((shlex.join(call), result))
        if result.out.startswith(("BREAKS", "CLEAN")) or not result.following:
            break
        has_note, call = result.steps[0]
        note = next(line for line in (result.out + result.err).splitlines() if line.startswith("Next: "))[6:]
        if note.startswith("write "):
            rules.write_text((rules.read_text() if rules.exists() else "") + written(note, result))
        elif has_note or call[0] not in ("reconcile", "ledger"):  # what a person has to look at
            break
    return trail


EVERY = exports()
CASES = [*((each, "ledger") for each in EVERY), *((each, "statement") for each in EVERY if each.has_movements)]


@pytest.mark.parametrize(("export", "role"), CASES, ids=str)
def test_never_clean(export, role, configured, tmp_path, monkeypatch):
    """A file that says something else than the service is never clean, bare or by pasting what is proposed."""
    monkeypatch.chdir(tmp_path)
    file = f"export.{export.suffix}"
    (tmp_path / file).write_bytes(export.content)
    own = "".join(f"{reference},{PAYMENTS[reference]},Paid\n" for reference in sorted(export.references))
    (tmp_path / "own.csv").write_text(f"reference,amount,status\n{own}")
    chosen = f"reference={export.column}"
    call = {
        "ledger": ("reconcile", file, "--out", "new", "--column", chosen),
        "statement": ("reconcile", "own.csv", "--statement", file, "--statement-column", chosen, "--out", "new"),
    }[role]
    trail = follow(configured, tmp_path, call)
    assert [command for command, result in trail if "CLEAN" in result.out] == []
    assert trail[-1][1].status < 3 or "unresolved" in trail[-1][1].out

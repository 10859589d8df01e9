"""A report that an earlier version of payclient wrote, in the folder `before`, stays readable."""

import shutil
from pathlib import Path

import pytest

from payclient.reconcile import Kinds, Rules, StatementRules
from payclient.reconcile.folders import open_past_run, write_again
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import verify
from support.nights import Night, entry, paid

BEFORE = Path(__file__).with_name("before")
KINDS = Kinds(column="Type", charge=["sale"], refund=["refund"], fee=["fee"])
RULES = Rules(statement=StatementRules(kind=KINDS, new_lines_only=True))


@pytest.fixture
def folder(tmp_path):
    """Give a copy of the old report."""
    return Path(shutil.copytree(BEFORE, tmp_path / "night-0"))


def test_verified(folder):
    """Its checksums are right, and its journal makes the same rows by the present rules."""
    assert list(verify(folder)) == []
    summary = write_again(folder).summary
    assert (summary.rows, summary.tie_out.residual) == (7, 0)
    assert list(verify(folder)) == []


async def test_previous(night, folder):
    """As a previous run, it gives its breaks with their ages, and what its statements settled."""
    entries = [entry(name, 20_000, line=number) for number, name in enumerate("AB" + "D", 2)]
    answers = {name: paid(name, 20_000) for name in "AB"} | {"D": paid("D", 20_000, "Refunded")}
    taken = [Entry(line=2, reference="D", kind="refund", amount=-20_000, amount_received=-20_000) for _ in range(2)]
    before = Night(open_past_run(folder), None, ())
    done = await night(entries, answers, previous=before, rules=RULES, statement=taken)
    states = {key: state for key, state in done.states.items() if key[0] in "BD"}
    assert states == {
        ("B", "underpaid"): "resolved",
        ("B", "settled_differently"): "new",
        ("D", "refund_not_recorded"): "new",
        ("D", "settled_differently"): "new",
    }
    assert done["D"].findings[-1].at_stake == 20_000
    assert done["A"].findings == ()  # its charge is in the statement of the run before the old one

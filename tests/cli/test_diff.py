"""`payclient diff`: two folders in, what became of each break out."""

from __future__ import annotations

import re

import pytest


@pytest.fixture
def reconcile(configured, tmp_path, monkeypatch):
    """Reconcile a ledger of these lines into a folder of this name, below the current one."""
    monkeypatch.chdir(tmp_path)

    def reconcile(name, *lines):
        (tmp_path / "ledger.csv").write_text("".join(f"{line}\n" for line in ("reference,amount,status", *lines)))
        return configured("reconcile", "ledger.csv", "--out", name, "--quiet")

    return reconcile


@pytest.fixture
def nights(reconcile, prepared):
    """Give the folders of two runs."""

    def runs():
        reconcile("20", "T1,14000,Paid", "T2,9000,Canceled", "T9,1,Paid")
        reconcile("21", "T2,8000,Canceled", "T1,15000,Paid")

    prepared("nights", runs)
    return "20", "21"


def test_text(command, nights):
    """The counts come first, then the breaks of each state; it needs no key, and news has status 1."""
    result = command("diff", *nights)
    assert (result.status, result.err) == (1, "")
    assert (
        re.sub(r"since [-\d]+, \d+ d", "since DAY, N d", result.out)
        == """\
NEWS: 1 changed; 1 resolved, 1 not known since 20.

open findings  number  at stake
  open before       3     3,001
  new               0         0
  reopened          0         0
  resolved         -1    -1,000
  changed (1)            -1,000
  open now          2     1,001

changed:
  T2: high, underpaid: amount is 8000 in the ledger and 7000 at the service, which is 1000 less (since DAY, N d; was 9000 and 7000; 1,000 at stake, was 2,000)

resolved:
  T1: high, overpaid: amount is 14000 in the ledger and 15000 at the service, which is 1000 more (since DAY, N d; by the ledger)

not known:
  T9: high, missing_at_service: the service knows no transaction 'T9'; the ledger has an amount of 1 (since DAY, N d; the later run has no row with this reference, and did not ask about it)
"""  # noqa: E501  as a terminal shows it
    )


def test_itself(command, nights):
    """A run compared with itself has status 0; the status says it all with `--quiet`, from a severity on."""
    quiet = command("diff", *nights, "--quiet", "--fail-on", "critical")
    assert (quiet.status, quiet.out, quiet.err) == (75, "", "")
    result = command("diff", "20", "20")
    assert (result.status, result.out.splitlines()[0]) == (0, "NO NEWS: 3 still open; none resolved since 20.")


def test_wrong_order(command, nights, tmp_path):
    """Runs in the wrong order are compared as they were named, and that is said."""
    result = command("diff", *reversed(nights), "--html", "changes.html")
    said = "All answers of 20 came before those of 21: name the earlier run first."
    assert (result.out.splitlines()[1], result.out.splitlines()[-1]) == (said, "Page: changes.html")
    assert said in (tmp_path / "changes.html").read_text()
    assert "came before" not in command("diff", *nights).out


def test_many(command, reconcile):
    """Of many breaks in one state some are shown, and how many more there are."""
    lines = [f"T1{number:02d},1,Paid" for number in range(13)]
    reconcile("20", "T1,15000,Paid")
    reconcile("21", "T1,15000,Paid", *lines)
    result = command("diff", "20", "21")
    assert result.out.splitlines()[-1] == "  and 3 more, which --json prints"


def test_html_inside(command, nights, tmp_path):
    """A page within one of the reports is refused, because neither is ever changed."""
    (tmp_path / "link").symlink_to("21")
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    paths = ("20/report.html", "21/new/page.html", "20", "link/page.html")
    results = {path: command("diff", *nights, "--html", path) for path in paths}
    refused = {path for path, each in results.items() if "--html must be a file outside of 20 and 21" in each.err}
    assert (refused, {each.status for each in results.values()}) == ({*paths}, {2})
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_refused(command, nights, tmp_path):
    """A report that was changed is refused with status 2, and the command that says more."""
    (tmp_path / "20" / "breaks.csv").write_text("")
    result = command("diff", *nights)
    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "payclient: 20 cannot be compared: breaks.csv: it was changed: it has 0 bytes, and "
        f"had {result.err.split('had ')[1].split(' ')[0]} (see payclient verify 20)\n"
    )


def test_hostile_text(command, configured, reconcile):
    """Escape sequences of a ledger never reach the terminal."""
    reconcile("20", "T1,15000,Paid")
    reconcile("21", "T1,15000,Paid", "T2,7000,P\x1b[31maid")
    shown = command("diff", "20", "21").out
    assert "unknown_status" in shown
    assert [character for character in shown if not character.isprintable() and character != "\n"] == []

"""`payclient diff`: two folders in, what became of each break out."""

import json
import re

import pytest


@pytest.fixture
def nights(night, prepared):
    """Give the folders of two runs."""

    def runs():
        night("20", "--quiet", lines=["T1,14000,Paid", "T2,9000,Canceled", "T9,1,Paid"])
        night("21", "--quiet", lines=["T2,8000,Canceled", "T1,15000,Paid"])

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
  resolved         -1    -1,000
  changed (1)            -1,000
  open now          2     1,001

changed:
  T2: high, underpaid: amount is 8,000 in the ledger and 7,000 at the service, which is 1,000 less (since DAY, N d; was 9,000 and 7,000; 1,000 at stake, was 2,000)

resolved:
  T1: high, overpaid: amount is 14,000 in the ledger and 15,000 at the service, which is 1,000 more (since DAY, N d; by the ledger)

not known:
  T9: high, missing_at_service: the service knows no transaction 'T9', but the ledger has an amount of 1 (since DAY, N d; the later run did not list this reference or ask about it)
Next: payclient explain 21 T2
"""  # noqa: E501  as a terminal shows it
    )


def test_json_and_quiet(command, nights):
    """With `--json` standard output is one object with a list for each state; with `--quiet` the status says it all."""
    found = json.loads(command("diff", *nights, "--json", "--quiet").out)
    states = ("new", "still_open", "changed", "reopened", "resolved", "not_known")
    told = {state: [each["reference"] for each in found[state]] for state in states if found[state]}
    assert told == {"changed": ["T2"], "resolved": ["T1"], "not_known": ["T9"]}
    result = command("diff", *nights, "--quiet", "--fail-on", "critical")
    assert (result.status, result.out, result.err) == (75, "", "")
    result = command("diff", "20", "20")
    assert (result.status, result.out.splitlines()[0]) == (0, "NO NEWS: 3 still open; none resolved since 20.")


def test_order(command, nights):
    """Runs in the wrong order are compared as named, which is said."""
    assert "are older" not in command("diff", *nights).out
    said = "All answers of 20 are older than the answers of 21: name the earlier run first."
    assert command("diff", *reversed(nights)).out.splitlines()[1] == said


def test_many(command, night, tmp_path):
    """Of many breaks in one state some are shown, and how many more; escapes of ledger or folder never get through."""
    night("20", "--quiet", lines=["T1,15000,Paid"])
    night("21", "--quiet", lines=["T1,15000,Paid", *(f"T1{number:02d},1,Paid" for number in range(13))])
    night("22", "--quiet", lines=["T1,15000,P\x1b[31maid"])
    assert command("diff", "20", "21").out.splitlines()[-2] == "  and 3 more, which --json prints"
    (tmp_path / "20").rename(tmp_path / "2\x1b[31m0")
    shown = command("diff", "2\x1b[31m0", "22").out
    assert ("unknown_status" in shown, "since 2<U+001B>[31m0." in shown) == (True, True)
    assert [character for character in shown if not character.isprintable() and character != "\n"] == []


def test_refused(command, nights, tmp_path):
    """A report that was changed is refused."""
    (tmp_path / "20" / "breaks.csv").write_text("")
    result = command("diff", *nights)
    told = "payclient: 20 cannot be compared: breaks.csv: it was changed: it has 0 bytes, and had "
    assert (result.status, result.out, result.err.startswith(told)) == (2, "", True)
    assert result.following == [["verify", "20"]]

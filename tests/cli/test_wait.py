"""`payclient wait`: one line per reference, one exit status for all."""

from __future__ import annotations

import io
import json

import pytest

from payclient.cli._progress import live_on
from payclient.cli._streams import Streams
from payclient.cli._wait import _Open
from payclient.testing import Reply

QUICK = ("--interval", "0.01", "--max-interval", "0.02")


@pytest.fixture
def changing(service):
    """Add transactions that change at once, at their second lookup."""
    service.add(reference="T3", status="Pending", becomes=[(1e-9, "Review"), (2e-9, "Paid")], amount=5000)
    service.add(reference="T4", status="Pending")
    return service


def test_reached(configured, changing):
    """When all are reached the status is 0, and each has one line."""
    result = configured("wait", "T1", "T3", "--until", "Paid", "--deadline", "60s", *QUICK)
    assert (result.status, result.out, result.err) == (0, "T1  Paid  15000\nT3  Paid  5000  (was Pending)\n", "")


def test_terminal(configured, service):
    """On a terminal each open reference has a live line on standard error, and only its end is on standard output."""
    service.add(reference="T3", status="\x1b[31mPending", becomes=[(1e-9, "Paid")], amount=5000)
    result = configured("wait", "T3", "--until", "Paid", "--deadline", "60s", *QUICK, is_terminal=True)
    assert result.out == "T3  Paid  5000  (was <U+001B>[31mPending)\n"
    assert ("<U+001B>[31mPending  5000" in result.err, "Paid" in result.err, "\x1b[31m" in result.err) == (
        True,
        False,
        False,
    )


def test_many_on_a_terminal(terminal):
    """On a terminal no more than twenty references have a line, and the others are counted; at the end none is left."""
    streams = Streams(stdin=io.BytesIO(), stdout=io.StringIO(), stderr=terminal)
    with live_on(streams) as live:
        still_open = _Open(live, streams)
        for index in range(25):
            still_open.show(index, f"M{index}  Pending")
        drawn = terminal.getvalue()
        for index in range(25):
            still_open.end(index, f"M{index}  Paid")
    assert ("M19  Pending" in drawn, "M20  Pending" in drawn, "and 5 more" in drawn) == (True, False, True)
    assert streams.stdout.getvalue().split() == [word for index in range(25) for word in (f"M{index}", "Paid")]


def test_status(configured, changing, monkeypatch):
    """The exit status distinguishes "never" from "not yet", and a refused key ends it at once."""
    options = ("--until", "Paid", "--deadline", "1m", *QUICK)
    assert configured("wait", "T2", "T3", "--unless", "Canceled, Expired", *options).status == 1  # T3 ends later
    monkeypatch.setenv("PAYCLIENT_API_KEY", "some-other-key")
    result = configured("wait", "T1", "T2", *options)
    assert (result.status, result.out) == (3, "")


def test_not_found(configured, service):
    """A reference that does not appear in time has a line, and status 1."""
    service.script("T9", *[Reply(status=422, body={"success": False, "message": "the amount is missing"})] * 4)
    result = configured("wait", "T9", "--until", "Paid", "--deadline", "60s", *QUICK)
    assert (result.status, result.out) == (1, "T9  the service declined: the amount is missing (HTTP 422)\n")


def test_json(configured, changing):
    """A program gets each change, with the payment code masked; then nothing is on standard error."""
    result = configured("wait", "T3", "--until", "Paid", "--deadline", "1m", "--json", *QUICK, is_terminal=True)
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [(line["previous"], line["status"], line["is_last"], line["is_reached"]) for line in lines] == [
        (None, "Pending", False, False),
        ("Pending", "Paid", True, True),
    ]
    assert ({line["payment_code"] for line in lines}, result.err) == ({"************0001"}, "")


def test_not_yet(configured, changing):
    """What is open at the deadline has priority over what can never be reached, and is told as what failed."""
    result = configured(
        *("wait", "T1", "T2", "T4", "--until", "Paid", "--unless", "Canceled", "--deadline", "1s", "--json", *QUICK)
    )
    last = {line["reference"]: line for line in map(json.loads, result.out.splitlines()) if line["is_last"]}
    told = {reference: (line.get("error"), line["is_reached"]) for reference, line in last.items()}
    assert told == {"T1": (None, True), "T2": (None, False), "T4": ("WaitDeadlineError", False)}
    assert result.status == 75


def test_usage(configured, subtests):
    """What cannot be run is said in one line, with status 2, before anything is asked."""
    for arguments, message in [
        (["--until", "Paid", "--deadline", "1m"], "wait needs at least one reference"),
        (["T1", "--until", ",", "--deadline", "1m"], "--until must be statuses in the service's own words"),
        (["T1", "--until", "Paid", "--deadline", "soon"], "--deadline must be like 90s, 15m or 1h 30m, got 'soon'"),
        (["T1", "--until", "Paid", "--deadline", "0s"], "--deadline must be like 90s, 15m or 1h 30m, got '0s'"),
        (["T1", "--until", "Paid", "--unless", "Paid", "--deadline", "1m"], "--until and --unless both name Paid"),
        (["T1", "--until", "Paid", "--deadline", "1m", "--interval", "0"], "--interval must be a number of seconds"),
        (["T1", "--untill=Paid", "--until", "Paid", "--deadline", "1m"], "unknown option --untill (see payclient wait"),
    ]:
        with subtests.test(arguments=arguments):
            result = configured("wait", *arguments)
            assert (result.status, result.out) == (2, "")
            assert result.err.startswith(f"payclient: {message}")

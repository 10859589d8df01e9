"""What every command has in common: help, version, and one line and one status for whatever goes wrong."""

import io
import re
import signal
import sys
from importlib.metadata import version
from pathlib import Path

import attrs
import pytest

from payclient import AsyncClient, cli
from payclient.cli._app import COMMANDS, GROUPS, run
from payclient.cli._process import Streams, abandon


class Closed(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text):
        raise BrokenPipeError


def test_help(command, monkeypatch):
    """`--help` lists each command with the first line of its own help, which has an example and fits any terminal."""
    monkeypatch.setenv("COLUMNS", "120")
    listed = command("--help").out.split()
    misses = {}
    for name, summary in COMMANDS.items():
        shown = command(name, "--help").out
        found = (name in listed, summary.replace("`", "") in " ".join(shown.split()), f"$ payclient {name}" in shown)
        if found != (True, True, True):
            misses[name] = found
    assert misses == {}
    monkeypatch.setenv("COLUMNS", "30")
    assert command("reconcile", "--help").status == 0


def test_help_in_groups(command, monkeypatch):
    """`--help` lists the commands by group, in the order of use; in each command, options rarely needed come last."""
    monkeypatch.setenv("COLUMNS", "100")
    lines = command("--help").out.splitlines()
    assert [line for line in lines if line.endswith(":")] == [*(f"{title}:" for title in GROUPS), "Options:"]
    listed = [line.split()[0] for line in lines if line[:2] == "  "]
    assert listed == [*COMMANDS, "--help", "--version"]
    for name in ("get", "ledger", "reconcile", "doctor"):
        titles = [line for line in command(name, "--help").out.splitlines() if line.endswith(":") and line[0] != " "]
        assert titles[-1] == "Rarely needed:"


def test_size_of_reconcile(command, monkeypatch):
    """`payclient reconcile` has at most 40 options, and its help at most 70 lines of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")
    lines = command("reconcile", "--help").out.splitlines()
    options = [line for line in lines if re.match(r"  [* ]? +--[a-z]|  --[a-z]", line)]
    assert (len(options) <= 40, len(lines) <= 70, max(map(len, lines)) <= 100) == (True, True, True)
    assert len(options) > 30


def test_words_for_help(command):
    """`help`, `help COMMAND`, `version` and `-V` are understood."""
    assert command("help") == command("--help")
    assert command("help", "get") == command("get", "--help")
    assert command("version") == command("-V") == command("--version")


def test_durations(configured, tmp_path):
    """A duration is written in one way everywhere, as seconds or with a unit."""
    (tmp_path / "ledger.csv").write_text("reference,created_at\nT1,2026-11-01\n")
    for text in ("10", "0.5", "10s", "1m", "1h 30m", "1d"):
        for option in ("--timeout", "--deadline"):
            assert configured("get", "T1", option, text).status == 0
    ledger, out = str(tmp_path / "ledger.csv"), str(tmp_path / "report")
    for text in ("10", "10s", "1m", "1h 30m", "1d"):
        arguments = ("--grace", text, "--statement", ledger, "--settles-within", text)
        assert configured("reconcile", ledger, "--out", f"{out}-{text}", "--confirm-after", "0", *arguments).status == 0
    assert configured("get", "T1", "--deadline", "none").status == 0


def test_misspelt(command, subtests):
    """A mistake on the command line is said in one line, with status 2."""
    for arguments, message in [
        (["gte"], 'payclient: Unknown command "gte". Did you mean "get"?'),
        (["sandbox", "--prot", "1"], "payclient: unknown option --prot (did you mean '--port'?)"),
        (["sandbox", "-p", "1"], "payclient: unknown option -p (did you mean '--port'?)"),
        (["reconcile", "ledger.csv", "-o", "new"], "payclient: unknown option -o (did you mean '--out'?)"),
        (["ledger", "ledger.csv", "-x"], "payclient: unknown option -x\n"),
        (["sandbox", "--port", "x"], "payclient: --port must be a whole number, got 'x'"),
        (["sandbox", "--port", "65536"], "payclient: Invalid value"),
        (
            ["reconcile", "ledger.csv"],
            "payclient: --out FOLDER is missing, as in: payclient reconcile ledger.csv --out",
        ),
        (["reconcile", "--out", "report"], "payclient: LEDGER is missing, as in: payclient reconcile ledger.csv --out"),
        (["reconcile", "ledger.csv", "--out"], "payclient: --out needs a value, as in: --out FOLDER"),
        (["reconcile", "ledger.csv", "report"], "payclient: --out FOLDER is missing"),
        (["show", "report", "more"], "payclient: unexpected: more"),
        (["sandbox", "--latency", "none"], "payclient: --latency must be a duration"),
        (["sandbox", "--latency", "1.5s", "--seed", "x"], "payclient: --seed must be a whole number"),
        (["demo", "--rows", "3"], "payclient: Invalid value"),
    ]:
        with subtests.test(arguments=arguments):
            result = command(*arguments)
            assert (result.status, result.err[: len(message)], result.said.count("\n")) == (2, message, 1)


def test_missing_extra(monkeypatch, capsys):
    """Without the extra the command says what to install, and never a traceback."""
    monkeypatch.setitem(sys.modules, "rich", None)
    for name in ("payclient.cli._app", "payclient.cli._process", "rich.cells"):
        monkeypatch.delitem(sys.modules, name)
    status = cli.main(["--version"])
    assert (status, capsys.readouterr().err) == (2, "payclient: rich missing: pip install 'payclient[cli]'\n")


def test_version(monkeypatch, capsys):
    """The version is that of the installed package; without arguments of its own `main` takes those of the process."""
    monkeypatch.setattr(sys, "argv", ["payclient", "--version"])
    assert (cli.main(), capsys.readouterr().out) == (0, f"payclient {version('payclient')}\n")


@pytest.mark.parametrize("arguments", [["get", "T1"], ["get", "--json", "T1"], ["--help"], ["get", "--help"]])
def test_closed_output(configured, arguments):
    """When the reader of the output has gone, the command ends without a word."""
    streams = Streams(stdin=io.BytesIO(), stdout=Closed(), stderr=io.StringIO())
    assert (run(arguments, streams), streams.stderr.getvalue()) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk")
def test_full_disk(configured):
    """A disk that is full may be free later, so the command can be run again, also if nobody can be told why."""
    with Path("/dev/full").open("w") as out, Path("/dev/full").open("w") as err:
        streams = Streams(stdin=io.BytesIO(), stdout=out, stderr=io.StringIO())
        assert (run(["get", "T1"], streams), streams.stderr.getvalue().splitlines()) == (
            75,
            [
                "payclient: No space left on device",
                "Next: make sure that the disk works and has room, then: payclient get T1",
            ],
        )
        assert run(["get", "T1"], attrs.evolve(streams, stderr=err)) == 75
        abandon(out)


def test_bug(configured, monkeypatch):
    """A bug of payclient has its own exit status and shows the traceback."""

    async def broken(*_, **__):
        message = "a \x1b[31mslip"
        raise AssertionError(message)

    monkeypatch.setattr(AsyncClient, "get_transactions", broken)
    result = configured("get", "T1")
    assert (result.status, result.err.splitlines()[-2:]) == (
        70,
        ["AssertionError: a <U+001B>[31mslip", "payclient: this is a bug of payclient: please report the lines above"],
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(configured, interrupt, number):
    """The first signal ends a command cleanly, with its own exit status."""
    interrupt(number)
    result = configured("get", "T1")
    assert (result.status, result.err) == (130, "payclient: interrupted\n")

"""What every command has in common: help, version, and one line and one status for whatever goes wrong."""

from __future__ import annotations

import io
import signal
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from payclient import AsyncClient, cli
from payclient.cli._app import COMMANDS, run
from payclient.cli._streams import Streams, abandon


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


def test_misspelt(command, subtests):
    """A mistake on the command line is said in one line, with status 2."""
    for arguments, message in [
        (["gte"], 'payclient: Unknown command "gte". Did you mean "get"?'),
        (["sandbox", "--prot", "1"], "payclient: Unknown option: --prot. Did you mean --port?"),
        (["sandbox", "--port", "x"], "payclient: Invalid value for --port"),
        (["sandbox", "--port", "65536"], "payclient: Invalid value"),
        (["reconcile", "ledger.csv"], 'payclient: Command "reconcile" parameter --out requires an argument'),
        (["demo", "--rows", "3"], "payclient: Invalid value"),
    ]:
        with subtests.test(arguments=arguments):
            result = command(*arguments)
            assert (result.status, result.err[: len(message)], result.err.count("\n")) == (2, message, 1)


def test_missing_extra(monkeypatch, capsys):
    """Without the extra the command says what to install, and never a traceback."""
    monkeypatch.setitem(sys.modules, "rich", None)
    status = cli.main(["--version"])
    assert (status, capsys.readouterr().err) == (
        2,
        "payclient: rich missing; install with: pip install 'payclient[cli]'\n",
    )


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
    """A disk that is full may be free later, so the command can be run again."""
    with Path("/dev/full").open("w") as full:
        streams = Streams(stdin=io.BytesIO(), stdout=full, stderr=io.StringIO())
        assert (run(["get", "T1"], streams), streams.stderr.getvalue()) == (75, "payclient: No space left on device\n")
        abandon(full)


def test_bug(configured, monkeypatch):
    """A bug of payclient has its own exit status and shows the traceback."""

    async def broken(*_, **__):
        message = "a \x1b[31mslip"
        raise AssertionError(message)

    monkeypatch.setattr(AsyncClient, "get_transactions", broken)
    result = configured("get", "T1")
    assert (result.status, result.err.splitlines()[-2:]) == (
        70,
        ["AssertionError: a <U+001B>[31mslip", "payclient: this is a bug of payclient; please report the lines above"],
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(configured, interrupt, number):
    """The first signal ends a command cleanly, with its own exit status."""
    interrupt(number)
    result = configured("get", "T1")
    assert (result.status, result.err) == (130, "payclient: interrupted\n")

"""What every command has in common: help, version, and one line and one status for whatever goes wrong."""

from __future__ import annotations

import inspect
import io
import signal
import sys
from importlib import import_module
from importlib.metadata import version

import pytest

from payclient import AsyncClient, cli
from payclient.cli import _app as _run
from payclient.cli._streams import Streams

COMMANDS = ["get", "ledger", "reconcile", "sandbox", "demo"]


class Closed(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text):
        raise BrokenPipeError


def test_version(command):
    """The version is that of the installed package."""
    assert command("--version").out == f"payclient {version('payclient')}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_listed(command, name):
    """Every command is in the list that `--help` gives."""
    assert name in command("--help").out.split()


@pytest.mark.parametrize("name", _run.COMMANDS)
def test_summary(name):
    """The list of commands says of each what the first line of its docstring says."""
    command = getattr(import_module(f"payclient.cli._{name}"), name)
    assert inspect.getdoc(command).partition("\n")[0] == _run.COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples(command, name):
    """The help of every command has an example to copy."""
    result = command(name, "--help")
    assert (result.status, f"$ payclient {name}" in result.out) == (0, True)


@pytest.mark.parametrize("name", COMMANDS)
def test_narrow_help(command, monkeypatch, name):
    """Help is readable in a narrow terminal."""
    monkeypatch.setenv("COLUMNS", "30")
    assert command(name, "--help").status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gte"], 'payclient: Unknown command "gte". Did you mean "get"?'),
        (["sandbox", "--prot", "1"], "payclient: Unknown option: --prot. Did you mean --port?"),
        (["sandbox", "--port", "x"], "payclient: Invalid value for --port"),
        (["sandbox", "--port", "65536"], "payclient: Invalid value"),
        (["reconcile", "ledger.csv"], 'payclient: Command "reconcile" parameter --out requires an argument'),
        (["demo", "--rows", "3"], "payclient: Invalid value"),
    ],
)
def test_misspelt(command, arguments, message):
    """A mistake on the command line is said in one line, with status 2."""
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


def test_own_arguments(monkeypatch, capsys):
    """Without arguments of its own `main` takes those of the process."""
    monkeypatch.setattr(sys, "argv", ["payclient", "--version"])
    assert (cli.main(), capsys.readouterr().out.split()[0]) == (0, "payclient")


@pytest.mark.parametrize("arguments", [["get", "T1"], ["get", "--json", "T1"], ["--help"], ["get", "--help"]])
def test_closed_output(configured, arguments):
    """When the reader of the output has gone, the command ends without a word."""
    streams = Streams(stdin=io.BytesIO(), stdout=Closed(), stderr=io.StringIO())
    assert (_run.run(arguments, streams), streams.stderr.getvalue()) == (141, "")


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

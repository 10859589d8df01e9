"""The command as a process of its own: both ways to start it, and what signals and closed pipes do to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals, and pipes that close, are those of POSIX")

MODULE = (sys.executable, "-m", "payclient")
# A shell makes its background jobs ignore SIGINT, and these tests may run in one.
HEEDING = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from payclient.cli import main; sys.exit(main())"
)


@contextmanager
def start(*arguments, **options):
    """Run a process for as long as the block; a test that fails leaves none behind."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [str(argument) for argument in arguments]
    with subprocess.Popen(command, text=True, **streams, **options) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("start_with", ["module", "script"])
def test_starts(start_with):
    """`payclient` and `python -m payclient` are the same command."""
    script = (shutil.which("payclient", path=str(Path(sys.executable).parent)),)
    with start(*(MODULE if start_with == "module" else script), "--version") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.split()[0], err) == (0, "payclient", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sandbox(configured, number):
    """The sandbox prints where it is and its key as one line for a shell, serves, and ends well on a signal."""
    with start(sys.executable, "-c", HEEDING, "sandbox", "--port", "0") as process:
        line = process.stdout.readline()
        settings = dict(word.split("=", 1) for word in line.removeprefix("export ").split())
        result = configured("get", "T0000000001DEMO", "--base-url", settings["PAYCLIENT_BASE_URL"], "--json")
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert (json.loads(result.out)["status"], process.returncode, out) == ("Paid", 0, "")


def test_ignored_interrupt(configured):
    """A sandbox that a shell script started in the background ends on SIGTERM, although SIGINT is ignored there."""
    ignoring = HEEDING.replace("signal.default_int_handler", "signal.SIG_IGN")
    with start(sys.executable, "-c", ignoring, "sandbox", "--port", "0") as process:
        process.stdout.readline()
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_cut_connections_are_quiet(configured):
    """Connections that the sandbox cuts on purpose leave no traceback behind."""
    with start(*MODULE, "sandbox", "--port", "0", "--fault-share", "0.9") as process:
        url = process.stdout.readline().split()[1].split("=")[1]
        configured("get", *["T0000000001DEMO"] * 20, "--base-url", url, "--deadline", "2")
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert err.splitlines()[-1] == "serving; Ctrl-C stops"


def test_closed_pipe(configured):
    """When the reader of a pipe has gone, the process ends without a traceback, at its very end too."""
    with start(*MODULE, "get", "-", "--json") as process:
        process.stdout.close()
        _, err = process.communicate("T1\nT2\n", timeout=60)
    assert (process.returncode, err) == (141, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_encodings(configured, monkeypatch, encoding):
    """What the encoding of the output cannot write is escaped, and nothing crashes."""
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    with start(*MODULE, "get", "T1", "Tü1", "支付", encoding=encoding) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, len(out.splitlines()), err) == (1, 4, "")


def test_closed_streams(configured):
    """A process that was started without any stream works."""
    script = "import os, sys; [os.close(n) for n in (0, 1, 2)]; os.execv(sys.executable, sys.argv[1:])"
    with start(sys.executable, "-c", script, *MODULE, "get", "T1") as process:
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_reading_terminal_is_left(configured):
    """A signal ends a command also while it waits for standard input."""
    with start(sys.executable, "-c", HEEDING, "get", "-", "--json") as process:
        process.stdin.write("T1\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, "payclient: interrupted\n")


def test_reconcile_interrupted(configured, server, service, tmp_path):
    """A signal during a reconciliation ends it in order: no half report, no files left, and what to do next."""
    ledger = tmp_path / "ledger.csv"
    ledger.write_text("reference\n" + "".join(f"T{number}\n" for number in range(1000)))
    asked = threading.Event()
    server.on_request = asked.set
    with start(sys.executable, "-c", HEEDING, "reconcile", ledger, "--out", tmp_path / "report") as process:
        assert asked.wait(60)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.splitlines()[-2:], list((tmp_path / "report").iterdir())) == (
        130,
        ["no report was written; this version of payclient starts over when it is run again", "payclient: interrupted"],
        [],
    )


def test_demo_interrupted(tmp_path):
    """Ctrl-C in the middle of the demo ends it, and the sandbox with it."""
    options = ("--rows", "20000", "--progress", "live", "--out", tmp_path)
    with start(sys.executable, "-c", HEEDING, "demo", *options, start_new_session=True) as process:
        told = ""
        while "asking" not in told:
            told += process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert process.returncode == 130

"""The command as a process of its own: both ways to start it, and what signals and closed pipes do to it."""

import itertools
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

from payclient.reconcile import Journal
from payclient.testing import Reply
from support.untraced import untraced

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals, and pipes that close, are those of POSIX")

MODULE = (sys.executable, "-m", "payclient")
SCRIPT = shutil.which("payclient", path=str(Path(sys.executable).parent))
# A shell makes its background jobs ignore SIGINT, and these tests may run in one.
HEEDING = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from payclient.cli import main; sys.exit(main())"
)


ROWS, CONCURRENCY = 120, 4


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


def test_sandbox(configured, tmp_path):
    """The sandbox prints where it is and its key as one line for a shell, serves a file, and ends well on a signal."""
    (tmp_path / "transactions.jsonl").write_text('{"reference": "T9", "status": "Paid"}\n')
    options = ("--port", "0", "--transactions", tmp_path / "transactions.jsonl")
    with start(sys.executable, "-c", HEEDING, "sandbox", *options) as process:
        line = process.stdout.readline()
        settings = dict(word.split("=", 1) for word in line.removeprefix("export ").split())
        result = configured("get", "T9", "--base-url", settings["PAYCLIENT_BASE_URL"], "--json")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert (json.loads(result.out)["status"], process.returncode, out) == ("Paid", 0, "")


def test_sandbox_in_the_background(configured):
    """It ends on SIGTERM where a shell ignores SIGINT; connections that it cuts on purpose leave no traceback."""
    ignoring = HEEDING.replace("signal.default_int_handler", "signal.SIG_IGN")
    with start(sys.executable, "-c", ignoring, "sandbox", "--port", "0", "--fault-share", "0.9") as process:
        url = process.stdout.readline().split()[1].split("=")[1]
        configured("get", *["T0000000001DEMO"] * 20, "--base-url", url, "--deadline", "0.5")
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.splitlines()[-1]) == (0, "serving until Ctrl-C")


def test_get_is_light(configured):
    """While something is found, `get` imports only what it needs."""
    absent = {"httpx", "payclient.engines", "payclient.reconcile", "rich.console", "rich.live", "sqlite3"}
    program = f"import sys; from payclient import cli; cli.main(['get', 'T1']); print(sys.modules.keys() & {absent})"
    with start(sys.executable, "-c", program, env=untraced()) as process:
        out, _ = process.communicate(timeout=60)
    assert (out.count("\n"), out.splitlines()[-1]) == (3, "set()")


def test_closed_pipe(configured):
    """When the reader of a pipe has gone, the process ends without a traceback, at its very end too."""
    with start(*MODULE, "get", "-", "--json") as process:
        process.stdout.close()
        _, err = process.communicate("T1\nT2\n", timeout=60)
    assert (process.returncode, err) == (141, "")


@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(each, marks=pytest.mark.slow) for each in ("latin-1", "utf-8"))]
)
def test_encodings(configured, monkeypatch, encoding):
    """What the encoding of the output cannot write is escaped, and nothing crashes; also as `payclient`."""
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    with start(SCRIPT, "get", "T1", "Tü1", "支付", encoding=encoding) as process:
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


@pytest.fixture
def reconciling(configured, service, tmp_path):
    """Start a reconciliation of many rows, all of which match, in a process of its own."""
    service.load({"reference": f"T{number}", "status": "Paid"} for number in range(ROWS))
    ledger = tmp_path / "ledger.csv"
    ledger.write_text("reference\n" + "".join(f"T{number}\n" for number in range(ROWS)))
    options = ("--out", tmp_path / "report", "--max-concurrency", str(CONCURRENCY))
    return lambda *more: start(sys.executable, "-c", HEEDING, "reconcile", ledger, *options, *more)


@pytest.fixture
def asked(server):
    """Give a function that waits until so many questions have come to the service."""
    arrived = threading.Semaphore(0)
    server.on_request = arrived.release

    def asked(number):
        assert all(arrived.acquire(timeout=60) for _ in range(number))

    return asked


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def answered(folder):
    """Return how many references have their answer in the journal."""
    with Journal(folder / "journal.sqlite") as journal:
        return journal.count_references() - journal.answers.count_to_ask()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_reconcile_interrupted(reconciling, server, service, tmp_path, number):
    """The first signal lets what is under way finish, keeps it, leaves no half report, and says how to go on."""
    report, requests = tmp_path / "report", itertools.count(1)
    held, released = threading.Event(), threading.Event()
    server.on_request = lambda: next(requests) == CONCURRENCY + 5 and (held.set() or released.wait(60))
    with reconciling() as process:
        assert held.wait(60)
        process.send_signal(number)
        while "stopping, but lookups in flight may finish within 15 s" not in process.stderr.readline():
            pass
        released.set()
        _, err = process.communicate(timeout=60)
    assert (process.returncode, names_in(report)) == (130, ["journal.sqlite"])
    again = f"payclient reconcile {tmp_path / 'ledger.csv'} --out {report} --max-concurrency {CONCURRENCY}"
    assert err.splitlines()[-2:] == [
        f"the answers so far are in {report / 'journal.sqlite'}; to resume: {again}",
        "payclient: the reconciliation was stopped, and its answers are kept",
    ]
    assert answered(report) == len({request.reference for request in service.requests}) < ROWS


@pytest.mark.slow
def test_reconcile_interrupted_twice(reconciling, asked, service, tmp_path):
    """The second signal ends a run at once, although lookups are under way, and what was answered is kept."""
    report = tmp_path / "report"
    for row in range(CONCURRENCY + 5, ROWS):
        service.script(f"T{row}", Reply(never_responds=True))
    with reconciling() as process:
        asked(2 * CONCURRENCY + 5)
        process.send_signal(signal.SIGINT)
        while "stopping" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, names_in(report)) == (130, ["journal.sqlite"])
    assert (answered(report), "to resume: payclient reconcile" in err) == (CONCURRENCY + 5, True)


def test_reconcile_killed(reconciling, asked, service, tmp_path):
    """A run that was killed is resumed by the same command, and repeats only what was under way."""
    with reconciling() as process:
        asked(ROWS // 2)
        process.kill()
        process.communicate(timeout=60)
    with reconciling("--quiet") as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert ROWS <= service.total <= ROWS + CONCURRENCY

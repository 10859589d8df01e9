"""Commands run in this process, against a fake service behind a real server in another thread."""

import io
import os
import shlex
import shutil
import signal

import pytest
from attrs import frozen

from payclient._shared.options import OPTIONS
from payclient.cli._app import run
from payclient.cli._process import Streams
from payclient.testing import FakeService
from support.in_thread import ServedInThread


@frozen
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def said(self):
        """What was said on standard error, without the commands that follow."""
        return "".join(line for line in self.err.splitlines(keepends=True) if not line.startswith(("Next: ", "Or: ")))

    @property
    def lines(self):
        """What follows, on either stream, without the words *Next* and *payclient*."""
        found = (line.lstrip().partition(": ") for line in (self.out + self.err).splitlines())
        return [line.replace("payclient ", "", 1) for start, _, line in found if start in ("Next", "Or")]

    @property
    def steps(self):
        """The commands that follow, each in its words, with whether something is to be done before it."""
        found = (line.lstrip() for line in (self.out + self.err).splitlines())
        parts = [shlex.split(line.partition(": ")[2])[::-1] for line in found if line[:4] in ("Next", "Or: ")]
        ends = [(words, words.index("payclient")) for words in parts if "payclient" in words]
        return [(bool(words[end + 1 :]), words[:end][::-1]) for words, end in ends]

    @property
    def following(self):
        """The commands that follow, each in its words."""
        return [words for _, words in self.steps]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def terminal():
    """Give a stream that says it is a terminal."""
    return Terminal()


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch):
    """Start every test from an environment that says nothing about the service or the terminal."""
    variables = filter(None, (option.variable for option in OPTIONS.values()))
    for name in (*variables, "NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONUNBUFFERED", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def service():
    """Give a service with two transactions."""
    fake = FakeService()
    fake.add(reference="T1", amount=15000, fee=2500, status="Paid", merchant_reff="INV-1")
    fake.add(reference="T2", amount=7000, fee=0, status="Canceled", merchant_reff="INV-2")
    return fake


@pytest.fixture(scope="session")
def server():
    """Run one server for all tests, on a loopback port, in another thread: to start one takes longer than a test."""
    with ServedInThread() as running:
        yield running


@pytest.fixture
def base_url(server, service):
    """Serve the service of this test."""
    server.service = service
    yield server.url
    server.on_request = lambda: None


@pytest.fixture
def command():
    """Run one command with streams of its own."""

    def command(*arguments, stdin=b"", is_terminal=False):
        kind = Terminal if is_terminal else io.StringIO
        stdin = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        streams = Streams(stdin=stdin, stdout=kind(), stderr=kind())
        status = run(arguments, streams)
        return Result(status, streams.stdout.getvalue(), streams.stderr.getvalue())

    return command


@pytest.fixture(scope="module")
def kept():
    """Remember for a module where the folders are that its tests prepared."""
    return {}


@pytest.fixture
def prepared(kept, tmp_path, tmp_path_factory):
    """Prepare the folder of a test: once in a module by these runs, then by a copy of what they wrote."""

    def prepared(key, prepare):
        if key in kept:
            folder, result = kept[key]
            shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        else:
            result = prepare()
            kept[key] = shutil.copytree(tmp_path, tmp_path_factory.mktemp("kept"), dirs_exist_ok=True), result
        return result

    return prepared


@pytest.fixture
def interrupt(server):
    """Give a function that makes the next request send this process a signal, as a user or the system would."""

    if os.name == "nt":
        pytest.skip("a process cannot send itself these signals on Windows")

    def interrupt(number):
        def send():
            server.on_request = lambda: None
            os.kill(os.getpid(), number)

        server.on_request = send

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    yield interrupt
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def configured(monkeypatch, service, base_url, command):
    """Run one command that finds the service in its environment."""
    monkeypatch.setenv("PAYCLIENT_BASE_URL", base_url)
    monkeypatch.setenv("PAYCLIENT_API_KEY", service.api_key)
    monkeypatch.setenv("PAYCLIENT_ENVIRONMENT", "sandbox")
    return command


@pytest.fixture
def night(configured, tmp_path, monkeypatch):
    """Reconcile a ledger of these lines into a folder of this name, below the folder of the test, which is current."""
    monkeypatch.chdir(tmp_path)

    def night(name, *arguments, lines=(), header="reference,amount,status", **options):
        (tmp_path / "ledger.csv").write_text("".join(f"{line}\n" for line in (header, *lines)))
        return configured("reconcile", "ledger.csv", "--out", name, *arguments, **options)

    return night

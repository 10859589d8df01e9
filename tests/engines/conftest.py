"""What the tests of the engines share: background clients over a scripted transport, and a service on a real server."""

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from payclient.blocking import LoopThread
from payclient.testing import FakeService, Latency
from support.fakes import ScriptedTransport, client
from support.in_thread import ServedInThread


@pytest.fixture
def transport():
    return ScriptedTransport()


@pytest.fixture
def background_clients():
    """Give a function that makes a background client over a transport; all are closed at the end."""
    made = []

    def make(transport, *, loop=None, **options):
        made.append(LoopThread(client(transport, **options), loop))
        return made[-1]

    yield make
    for background in made:
        background.stop(at_once=True)
        background.join()


@pytest.fixture
def background(background_clients, transport):
    return background_clients(transport)


def process_at(scope):
    """Return the id of the process of this machine that sent the request of *scope*."""
    ends = [f":{scope[end][1]:04X}" for end in ("client", "server")]
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (inode,) = (row[9] for row in rows if row[1].endswith(ends[0]) and row[2].endswith(ends[1]))
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(handle.readlink() == Path(f"socket:[{inode}]") for handle in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:  # it has ended, or belongs to somebody else
            continue
    raise LookupError(ends)


class Served(ServedInThread):
    """
    A fake service that knows every reference beginning with T, served over HTTP in a thread of its own.

    `on_request` is called with the number of each request, in that thread; whoever asks for the `poison` is killed.
    """

    def __init__(self, count):
        self.fake = FakeService(latency=Latency(seconds=0.002))
        self.fake.load({"reference": f"T{n}"} for n in range(count))
        self.references = [f"T{n}" for n in range(count)]
        self.on_request = lambda _: None
        self.began = 0
        self.poison = None
        self.poisoned = 0
        self._scope = None

    async def __call__(self, scope, receive, send):
        self.began += 1
        self._scope = scope
        self.on_request(self.began)
        await self.fake(scope, self._tasting(scope, receive) if self.poison else receive, send)

    def _tasting(self, scope, receive):
        async def taste():
            message = await receive()
            if f'"{self.poison}"'.encode() in message.get("body", b""):
                os.kill(process_at(scope), signal.SIGKILL)
                self.poisoned += 1
            return message

        return taste

    def kill_asker(self):
        """Kill the process that sent the request that has just begun; return its id."""
        process = process_at(self._scope)
        os.kill(process, signal.SIGKILL)
        return process

    def counts(self):
        """Return how often each reference was asked for."""
        return [self.fake.count(reference) for reference in self.references]

    def write(self, folder, files):
        """Write the references into so many Parquet files, and return their paths."""
        folder.mkdir(exist_ok=True)
        size = -(-len(self.references) // files)
        paths = [folder / f"part-{n}.parquet" for n in range(files)]
        for n, path in enumerate(paths):
            pq.write_table(pa.table({"reference": self.references[n * size : (n + 1) * size]}), path)
        return paths

    def answered(self, folder):
        """Return the references that the results in *folder* have, in order, and which outcomes there are."""
        tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
        names = [name for table in tables for name in table["reference"].to_pylist()]
        return names, {outcome for table in tables for outcome in table["outcome"].to_pylist()}


@pytest.fixture
def served(monkeypatch):
    """Give what serves so many transactions, and name it in the environment of this process and its children."""
    with ExitStack() as running:

        def start(count):
            one = running.enter_context(Served(count))
            monkeypatch.setenv("PAYCLIENT_BASE_URL", one.url)
            monkeypatch.setenv("PAYCLIENT_API_KEY", one.fake.api_key)
            monkeypatch.setenv("PAYCLIENT_ENVIRONMENT", "live")
            return one

        yield start

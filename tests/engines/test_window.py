"""Batches through one stream: in order, across their edges, no further ahead than they may."""

import asyncio
import json
import os
import threading
from contextlib import closing

import pytest

from payclient import AuthenticationError, ClientClosedError, ConfigurationError, ConnectionFailedError, ServiceError
from payclient.engines.arrow import Batch, Window
from payclient.reconcile import Answer
from support.fakes import ScriptedTransport, answer, document
from support.virtual_time import VirtualTimeLoop


def batch(*references):
    return Batch(None, len(references), tuple(dict.fromkeys(references)))


def batches(count, size):
    return [batch(*(f"T{size * n + k}" for k in range(size))) for n in range(count)]


def sent(transport):
    return [json.loads(request.body)["reference"] for request in transport.sent]


def tasks(background):
    """Return the tasks that the background's event loop has, when it has done what was asked of it so far."""

    async def look():
        return asyncio.all_tasks() - {asyncio.current_task()}

    return asyncio.run_coroutine_threadsafe(look(), background.loop).result()


class Gate:
    """Holds back the answers to some references until it is opened, from another thread."""

    def __init__(self, transport, background, *references):
        self._event, self._background = asyncio.Event(), background
        for reference in references:
            transport.script(reference, lambda name=reference: self._pass(name))

    async def _pass(self, reference):
        await self._event.wait()
        return answer(document(reference))

    def open(self):
        self._background.loop.call_soon_threadsafe(self._event.set)


def test_order(background, transport):
    """Batches come in the order in which they went, with a result for each reference; no task is left behind."""
    given = batches(20, 7)
    got = list(Window(background, rows=30).through(iter(given)))
    assert (got, tasks(background)) == (given, set())
    assert all(set(each.first) == set(each.references) for each in got)
    assert sorted(sent(transport)) == sorted(reference for each in given for reference in each.references)


def test_slow_row(background, transport):
    """While one row of the first batch is under way, rows of the batches after it are asked for."""
    gate = Gate(transport, background, "T3")
    taken = []

    def source():
        for n, each in enumerate(batches(10, 10)):
            taken.append(n)
            if n == 3:
                gate.open()
            yield each

    assert len(list(Window(background, rows=10).through(source()))) == 10
    assert taken == list(range(10))


def test_ahead(background, transport):
    """With a slow row in the first batch, at most four windows are read."""
    gate = Gate(transport, background, "T3")
    taken = []

    def source():
        for n, each in enumerate(batches(100, 10)):
            taken.append(n)
            if n == 3:
                background.loop.call_soon_threadsafe(background.loop.call_later, 0.05, gate.open)
            yield each

    with closing(Window(background, rows=10).through(source())) as got:
        next(got)
        assert taken == [0, 1, 2, 3]


def test_pace(background, transport):
    """If the result is not read, at most four windows are read ahead."""
    taken = []
    source = (taken.append(n) or each for n, each in enumerate(batches(100, 10)))
    with closing(Window(background, rows=10).through(source)) as got:
        for n in range(20):
            next(got)
            assert len(taken) <= n + 1 + 4


def test_small_window(background):
    """A batch that is larger than the window passes, and so does an empty one."""
    given = [batch(), batch(*(f"T{n}" for n in range(50))), batch(), batch("T50")]
    assert list(Window(background, rows=1).through(iter(given))) == given


def test_asked_once(background, transport):
    """A reference is asked once, however many batches of the window have it, and each has the result."""
    gate = Gate(transport, background, "T1")
    given = [batch("T1", "T2"), batch("T1"), batch("T1", "T3")]

    def source():
        yield from given
        gate.open()

    got = list(Window(background, rows=100).through(source()))
    assert sorted(sent(transport)) == ["T1", "T2", "T3"]
    assert got[0].first["T1"] is got[1].first["T1"] is got[2].first["T1"]


def test_source_in_the_callers_thread(background):
    """The source is read by the thread that reads the results, and by no other."""
    threads = set()

    def source():
        for each in batches(5, 3):
            threads.add(threading.current_thread())
            yield each

    list(Window(background, rows=4).through(source()))
    assert threads == {threading.current_thread()}


async def test_in_a_running_loop(background):
    """A cell of a notebook, whose thread runs an event loop, reads batches too."""
    given = batches(3, 5)
    assert list(Window(background, rows=10).through(iter(given))) == given


def test_leaving_early(background, transport):
    """Leaving early leaves no lookup and no task behind."""
    Gate(transport, background, "T9")
    with closing(Window(background, rows=10).through(iter(batches(3, 9)))) as got:
        next(got)
    assert (tasks(background), transport.in_flight) == (set(), 0)


def test_source_fails(background, transport):
    """What the source raises comes out, and ends what is under way."""
    Gate(transport, background, "T1")

    def source():
        yield batch("T1")
        raise LookupError

    with pytest.raises(LookupError):
        list(Window(background, rows=10).through(source()))
    assert tasks(background) == set()


def test_fatal(background, transport):
    """What is the same for every row is raised once, after the batches that were answered before it."""
    refused = answer(b'{"success": false, "message": "Unauthenticated."}', 401, content_type="application/json")
    transport.script("T10", refused)
    got = []
    with pytest.raises(AuthenticationError):
        got.extend(Window(background, rows=5).through(iter(batches(100, 5))))
    assert len(got) <= 2


@pytest.mark.parametrize("place", [0, 4, 9])
def test_poison(background_clients, place):
    """A row that always fails gets its error in the end, at any position, and does not block others."""
    transport = ScriptedTransport(latency=0.01)
    given = batches(10, 5)
    poison = given[place].references[2]
    transport.script(poison, *[answer(b"", 503)] * 1000)
    background = background_clients(transport, loop=VirtualTimeLoop())
    got = list(Window(background, rows=10).through(iter(given)))
    failed = {name: seen.error for each in got for name, seen in each.first.items() if seen.answer is not Answer.FOUND}
    assert failed == {poison: ServiceError.__name__}
    assert got[place].first[poison].attempts == sent(transport).count(poison)


def test_attempts(background_clients, transport):
    """A result has the number of all attempts, and the status of the last."""
    transport.script("T1", answer(b"", 503), answer(b"", 502))
    background = background_clients(transport, loop=VirtualTimeLoop())
    (got,) = Window(background, rows=10).through(iter([batch("T1", "T2")]))
    accounts = {name: (result.attempts, result.status_code) for name, result in got.first.items()}
    assert accounts == {"T1": (3, 200), "T2": (1, 200)}


def test_no_answer(background_clients, transport):
    """When the last attempt got no answer, there is no status."""
    transport.script("T2", *[ConnectionFailedError("broken", sent="unknown")] * 100)
    background = background_clients(transport, loop=VirtualTimeLoop())
    (got,) = Window(background, rows=10).through(iter([batch("T1", "T2")]))
    result = got.first["T2"]
    assert (result.error, result.status_code) == (ConnectionFailedError.__name__, None)


def test_unaskable(background, transport):
    """What cannot be a reference is not sent."""
    (got,) = Window(background, rows=10).through(iter([batch("", "T1")]))
    result = got.first[""]
    assert (result.attempts, result.status_code, result.answer, sent(transport)) == (
        *(0, None, Answer.UNASKABLE, ["T1"]),
    )


def test_second_lookup_over_a_fresh_connection(background_clients, transport):
    """A second lookup asks for a connection that carried nothing before, also in a later pass; a first does not."""
    transport.script("T1", answer(document("T1")), *[answer(b"", 503)] * 7, answer(document("T1")))
    background = background_clients(transport, loop=VirtualTimeLoop())
    rows = Batch(None, 2, ("T1", "T2"), {"T1": ["differs"], "T2": ["agrees"]})
    window = Window(background, rows=10, needs_confirmation=lambda entry, _: entry == "differs")
    (got,) = window.through(iter([rows]))
    asked = [(json.loads(request.body)["reference"], request.needs_fresh_connection) for request in transport.sent]
    assert got.second["T1"].attempts == asked.count(("T1", True)) + 1
    assert sorted(set(asked)) == [("T1", False), ("T1", True), ("T2", False)]
    assert asked.count(("T1", False)) == 1


def test_canary(background, transport):
    """A canary is asked first; one that is not found ends it before anything else is asked."""
    missing = answer(b'{"success": false, "message": "Transaction not found"}', 404, content_type="application/json")
    transport.script("C1", missing)
    with pytest.raises(ConfigurationError, match="does not know the canary 'C1'"):
        list(Window(background, rows=10, canary="C1").through(iter(batches(1, 5))))
    assert sent(transport) == ["C1"]


def test_closed(background, transport):
    """When the process ends, waiting for a batch raises."""
    Gate(transport, background, "T0")

    def source():
        yield batch("T0")
        background.stop(at_once=True)

    with pytest.raises(ClientClosedError):
        list(Window(background, rows=10).through(source()))


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # raised since Python 3.15
def test_fork(background):
    """In a fork, earlier work is refused at once, and the end of the process waits for nothing."""
    got = Window(background, rows=1).through(iter(batches(50, 1)))
    next(got)
    child = os.fork()
    if child == 0:
        try:
            list(got)
        except ClientClosedError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    got.close()

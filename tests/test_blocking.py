"""The client for code without an event loop."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from payclient import (
    AsyncClient,
    ClientClosedError,
    ConfigurationError,
    Found,
    TransactionNotFoundError,
    UnreachableStatusError,
)
from payclient.blocking import Client
from support.fakes import ScriptedTransport, answer, client, document
from support.timeline import NOT_FOUND


def blocking(transport=None, **options):
    return Client(client(transport or ScriptedTransport(), **options))


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "payclient"]


def test_methods():
    """Each method gives what the one of the same name gives, and raises what it raises."""
    transport = ScriptedTransport()
    transport.script("T1", *[answer(document("T1", status=status)) for status in ("Pending", "Paid", "Paid", "Paid")])
    transport.script("T9", NOT_FOUND)
    with blocking(transport) as pay:
        assert pay.wait_for("T1", until={"Paid"}, deadline=60.0, interval=0.01).status == "Paid"
        assert pay.get_transaction("T1").reference == "T1"
        assert [type(outcome) for outcome in pay.get_transactions(["T2", "T3"])] == [Found, Found]
        assert pay.confirm("T1", amount=15000, status={"Paid"}).is_confirmed
        with pytest.raises(TransactionNotFoundError):
            pay.get_transaction("T9")
        with pytest.raises(UnreachableStatusError):
            pay.wait_for("T4", until={"Paid"}, unless={"Canceled"}, deadline=60.0)


@pytest.mark.parametrize("name", ["get_transaction", "get_transactions", "wait_for", "confirm"])
def test_signatures(name):
    """Each method has the arguments and the documentation of the one that is awaited."""
    own, awaited = getattr(Client, name), getattr(AsyncClient, name)
    assert inspect.signature(own).parameters == inspect.signature(awaited).parameters
    assert own.__doc__ == awaited.__doc__


def test_many_threads():
    """Threads share one client, its connections and its limiter."""
    transport = ScriptedTransport(latency=0.001)
    with blocking(transport, max_concurrency=3) as pay, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(pay.get_transaction, [f"T{number}" for number in range(200)]))
    assert [transaction.reference for transaction in found] == [f"T{number}" for number in range(200)]
    assert (transport.most_in_flight <= 3, len(transport.sent)) == (True, 200)


def test_closed():
    """After close a call is refused, closing again is harmless, and the thread has ended."""
    before = threads()
    pay = blocking()
    pay.get_transaction("T1")
    pay.close()
    pay.close()
    with pytest.raises(ClientClosedError, match="it has been closed"):
        pay.get_transaction("T1")
    assert threads() == before


def test_never_used():
    """A client that was never used can be closed."""
    blocking().close()


def test_closed_while_others_wait():
    """Closing ends the calls of other threads, those that would have gone on waiting too."""
    polled = threading.Event()

    async def pending():
        polled.set()
        return answer(document("T1", status="Pending"))

    transport = ScriptedTransport()
    transport.script("T1", *[pending] * 1000)
    pay = blocking(transport)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pay.wait_for, "T1", until={"Paid"}, deadline=900.0, interval=300.0, max_interval=300.0)
        assert polled.wait(60)
        pay.close()
        with pytest.raises(ClientClosedError, match="it has been closed"):
            waiting.result(60)


async def test_in_an_event_loop():
    """In a coroutine it is refused, because it would block the event loop."""
    pay = await asyncio.to_thread(blocking)
    with pytest.raises(RuntimeError, match="would block the event loop of this thread; await an AsyncClient instead"):
        pay.get_transaction("T1")
    await asyncio.to_thread(pay.close)


def test_no_configuration(monkeypatch):
    """Without a client it makes one from the environment, and leaves no thread when it cannot."""
    monkeypatch.delenv("PAYCLIENT_API_KEY", raising=False)
    before = threads()
    with pytest.raises(ConfigurationError):
        Client()
    assert threads() == before


def run(program):
    """Run a program in a process of its own, and return what it printed as JSON."""
    code = textwrap.dedent(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, check=True, text=True, env=environment
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_fork():
    """In a forked process a call is refused at once, instead of waiting for a thread that is not there."""
    found = run(
        """
        import json, os
        from payclient import ClientClosedError
        from payclient.blocking import Client
        from support.fakes import ScriptedTransport, client

        pay = Client(client(ScriptedTransport()))
        pay.get_transaction("T1")
        reader, writer = os.pipe()
        if os.fork() == 0:
            try:
                pay.get_transaction("T2")
            except ClientClosedError as error:
                os.write(writer, json.dumps(str(error)).encode())
            pay.close()
            os._exit(0)
        os.wait()
        print(os.read(reader, 1000).decode())
        pay.close()
        """
    )
    assert found == "this client cannot be used: it was made in another process; make a client after the fork"


def is_waiting(thread):
    code = sys._current_frames()[thread.ident].f_code
    return code.co_name == "wait" and Path(code.co_filename).name == "threading.py"


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself this signal on Windows")
def test_interrupted():
    """Ctrl-C ends a call in the main thread, and cancels what it waits for."""
    transport = ScriptedTransport()

    async def interrupt():
        while not is_waiting(threading.main_thread()):
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.get_running_loop().create_future()

    transport.script("T1", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with blocking(transport, timeout=600.0) as pay:
            with pytest.raises(KeyboardInterrupt):
                pay.get_transaction("T1")
            pay.get_transaction("T2")
            assert transport.in_flight == 0
    finally:
        signal.signal(signal.SIGINT, before)

"""The client for code without an event loop."""

import asyncio
import copy
import gc
import inspect
import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from traceback import TracebackException
from types import SimpleNamespace
from typing import get_type_hints

import pytest

import payclient.blocking
from payclient import (
    AsyncClient,
    ClientClosedError,
    ConfigurationError,
    DeadlineExceededError,
    Found,
    TransactionNotFoundError,
    UnreachableStatusError,
)
from payclient.blocking import Client, _pass_on
from payclient.client._client import ClientOptions
from payclient.transports import NetworkOptions
from support.fakes import KEY, NOT_FOUND, ScriptedTransport, answer, client, document
from support.in_thread import serving
from support.raw_server import RawServer


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


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_views():
    """A view has options of its own, shares the rest with its client, and keeps it open."""
    with blocking(ScriptedTransport(latency=0.2)) as pay:
        with pytest.raises(DeadlineExceededError):
            pay.with_options(deadline=0.01).get_transaction("T1")
        gc.collect()
        assert pay.get_transaction("T1").reference == "T1"
        assert (pay.stats.lookups, pay.with_options(timeout=1.0).stats.lookups) == (2, 2)
    view = blocking().with_options(timeout=1.0)
    gc.collect()
    assert view.get_transaction("T1").reference == "T1"
    view.close()


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_copied(take):
    """A client cannot be copied; one that was would close the other's thread."""
    with blocking() as pay:
        with pytest.raises(TypeError, match="a client can't be pickled or copied"):
            take(pay)
        gc.collect()
        assert pay.get_transaction("T1").reference == "T1"


@pytest.mark.parametrize("kind", [AsyncClient, Client])
def test_view_of_a_subclass(kind):
    """A view has the class and the attributes of its client, and its class has no others for the checkers of types."""

    class Shop(kind):
        def __init__(self, **options):
            super().__init__(**options)
            self.name = "shop"

    pay = Shop(api_key=KEY, base_url="http://127.0.0.1:1", environment="sandbox")
    view = pay.with_options(deadline=1.0).with_options(timeout=1.0)
    assert (type(view), view.name) == (Shop, "shop")
    if kind is Client:
        pay.close()


async def test_view_is_not_entered():
    """A block around a view would close the client that others use, so it is refused; closing it is not."""
    said = "a view is not entered, because leaving it would close its client: enter the client itself"
    for made in (client(ScriptedTransport()), blocking()):
        view = made.with_options(deadline=1.0)
        with pytest.raises(TypeError) as caught:
            if isinstance(view, Client):
                with view:
                    pass
            else:
                async with view:
                    pass
        assert str(caught.value) == said
        await (asyncio.to_thread(view.close) if isinstance(view, Client) else view.aclose())


def test_stream_that_was_not_opened():
    """Reading a stream before or after its block is refused by `next` as by `for`, without words of the other form."""
    with blocking() as pay:
        with pay.stream_transactions(["T1"]) as ended:
            pass
        for read in (next, list):
            with pytest.raises(TypeError, match=r"^read a stream in its block: `with client\.stream_transactions"):
                read(pay.stream_transactions(["T1"]))
            with pytest.raises(RuntimeError, match=r"^the block of this stream has ended: [a-z ]*$"):
                read(ended)


def test_rate_at_run_time():
    """The rate can be changed between two lookups, and an invalid one is refused."""
    with blocking() as pay:
        pay.set_max_rate(0.01, workers=2)
        with pytest.raises(ConfigurationError, match="max_rate must be a number of attempts per second"):
            pay.set_max_rate(0)
        outcomes = pay.get_transactions(["T1", "T2", "T3"], deadline=0.1)
    assert "max_rate allows this client 0.005/s, its share among 2 workers" in str(outcomes[-1].error)


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


def test_closed_while_others_wait():
    """Closing ends the calls of other threads, those that would have gone on waiting too."""
    polled = threading.Event()

    async def pending():
        polled.set()
        return answer(document("T1", status="Pending"))

    transport = ScriptedTransport(T1=[*[pending] * 1000])
    pay = blocking(transport)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pay.wait_for, "T1", until={"Paid"}, deadline=900.0, interval=300.0, max_interval=300.0)
        assert polled.wait(60)
        pay.close()
        with pytest.raises(ClientClosedError, match="it has been closed"):
            waiting.result(60)


def test_closed_without_a_result(monkeypatch):
    """Whatever happens in the event loop, its end is the end of each call."""
    monkeypatch.setattr(payclient.blocking, "_pass_on", lambda *_: None)
    pay, ended = blocking(), []

    def ask():
        with pytest.raises(ClientClosedError, match="it has been closed"):
            pay.get_transaction("T1")
        ended.append(True)

    caller = threading.Thread(target=ask, daemon=True)
    caller.start()
    while not is_waiting(caller):
        pass
    pay.close()
    caller.join(60)
    assert ended == [True]


async def test_call_that_was_left():
    """The error of a call whose thread was interrupted meanwhile is read, or asyncio would log it."""
    logged, answer = [], Future()

    async def fail():
        raise ValueError

    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    answer.cancel()
    _pass_on(answer, task)
    del task
    gc.collect()
    assert logged == []


async def test_in_an_event_loop():
    """In a coroutine it is refused, because it would block the event loop."""
    pay = await asyncio.to_thread(blocking)
    with pytest.raises(RuntimeError, match="would block the event loop of this thread: await an AsyncClient instead"):
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
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        check=True,
        text=True,
        env=environment,
        timeout=120,
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
    assert found == "this client cannot be used: it was created in another process: create a client after the fork"


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


def test_options():
    """The options are those of `AsyncClient`, each with its type, and a client or options are given, not both."""
    assert get_type_hints(ClientOptions).keys() | {"network"} == inspect.signature(AsyncClient).parameters.keys() | set(
        get_type_hints(NetworkOptions)
    )
    with Client(api_key=KEY, base_url="https://pay.example", deadline=5.0, transport=ScriptedTransport()) as pay:
        assert pay.get_transaction("T1").reference == "T1"
    with pytest.raises(ConfigurationError, match="pass a client or its options, not both"):
        Client(client(ScriptedTransport()), deadline=5.0)
    with pytest.raises(ConfigurationError, match="client must be an AsyncClient, got str: pass options by name"):
        Client("https://pay.example")


def test_refused_option_shows_no_key():
    """When an option is refused, no frame of the traceback holds the key."""
    with pytest.raises(ConfigurationError) as caught:
        Client(api_key=KEY, base_url="https://pay.example", timeout=0)
    assert KEY not in "".join(TracebackException.from_exception(caught.value, capture_locals=True).format())


def test_stream():
    """A stream is a plain iterator that reads its input lazily; leaving the block early ends the lookups."""
    transport = ScriptedTransport(latency=0.001)
    read = []
    with blocking(transport, max_concurrency=4) as pay:
        with pay.stream_transactions(f"T{number}" for number in range(100)) as outcomes:
            assert sorted(outcome.index for outcome in outcomes) == list(range(100))
        endless = (read.append(number) or f"T{number}" for number in itertools.count())
        with pay.stream_transactions(endless, concurrency=2) as outcomes:
            assert isinstance(next(outcomes), Found)
        assert (transport.in_flight, len(read) < 20) == (0, True)
        with pytest.raises(TypeError):
            pay.stream_transactions("T1").__enter__()
        with pay.stream_transactions(["T1"]) as outcomes:
            assert len(list(outcomes)) == 1
            with pytest.raises(RuntimeError, match="has been read to its end"):
                list(outcomes)


@pytest.mark.parametrize(
    ("library", "module", "question", "part"),
    [
        *(("gevent", "monkey", "is_module_patched", part) for part in ("threading", "select")),
        ("eventlet", "patcher", "is_monkey_patched", "thread"),
    ],
)
def test_green_threads(monkeypatch, library, module, question, part):
    """In a process whose threads gevent or eventlet has replaced, the client is refused, before anything is started."""
    patches = SimpleNamespace(**{question: lambda name: name == part})
    monkeypatch.setitem(sys.modules, f"{library}.{module}", patches)
    expected = f"which {library} has replaced: use a worker with them: gunicorn -k gthread"
    with pytest.raises(ConfigurationError, match=expected):
        Client(api_key=KEY, base_url="https://pay.example")


def test_closed_while_a_stream_is_read():
    """Closing in another thread ends a stream: the iteration says so, and leaving the block is harmless."""
    pay = blocking(ScriptedTransport())
    with pay.stream_transactions(f"T{number}" for number in itertools.count()) as outcomes:
        next(outcomes)
        pay.close()
        with pytest.raises(ClientClosedError):
            list(outcomes)


ENDINGS = {
    "on_attempt": "options = {'on_attempt': lambda _: sys.exit(3)}",
    "key source": "options = {'api_key': lambda: sys.exit(3)}",
    "predicate": "call = lambda: pay.wait_for('T1', until=lambda _: sys.exit(3), deadline=60.0)",
    "transport": "transport.script('T1', SystemExit(3))",
    "interrupt": "transport.script('T1', KeyboardInterrupt())",
    "twice": "options = {'on_attempt': lambda _: sys.exit(3)}; transport.close = sys.exit",
    "signal": "call = lambda: (signal.raise_signal(signal.SIGTERM), sys.exit(3))",
    "interrupted close": "call = lambda: (interrupt_soon(), getattr(pay, 'close')())",
    "close in a callback": "options = {'on_attempt': lambda _: pay.close()}",
    "close in a signal": "signal.signal(15, lambda *_: pay.close()); call = lambda: signal.raise_signal(15)",
}


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself these signals on Windows")
@pytest.mark.parametrize("ending", ENDINGS)
def test_loop_ends(ending):
    """However the loop of a client ends, each call of each thread ends, the client is closed, and so is its thread."""
    program = f"""
        import asyncio, contextlib, json, os, signal, sys, threading, time
        from payclient import ClientClosedError
        from payclient.blocking import Client
        from support.fakes import ScriptedTransport, client

        class Transport(ScriptedTransport):
            async def aclose(self):
                await super().aclose()
                getattr(self, "close", int)()

        def interrupt_soon():
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

        async def never():
            waiting.release()
            await asyncio.get_running_loop().create_future()

        blocks = contextlib.ExitStack()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: pay.get_transaction("T2"))
        transport, options, waiting, results = Transport(), {{}}, threading.Semaphore(0), []
        transport.script("T9", never, never)
        transport.script("T8", never, never)
        call = lambda: pay.get_transaction("T1")
        {ENDINGS[ending]}
        pay = Client(client(transport, **{{"timeout": 600.0, "deadline": None, **options}}))

        def ask(reference):
            try:
                pay.get_transaction(reference)
            except BaseException as error:
                results.append(type(error).__name__)

        def see_it():
            deadline = time.monotonic() + 60
            for thread in others:
                thread.join(deadline - time.monotonic())

        others = [threading.Thread(target=ask, args=(each,), daemon=True) for each in ("T8", "T9")]
        if "api_key" not in options and "pay.close" not in {ENDINGS[ending]!r}:
            for thread in others:
                thread.start()
            for _ in others:
                waiting.acquire()
        else:
            others = []
        ended = "returned"
        try:
            call()
        except BaseException as error:
            ended = type(error).__name__
        if {ending!r} == "signal":
            pay._thread.loop.call_soon_threadsafe(sys.exit)
        see_it()
        try:
            pay.get_transaction("T3")
        except ClientClosedError as error:
            last = str(error)
        pay.close()
        print(json.dumps([ended, results, last, pay._thread._thread.is_alive()]))
    """
    _, results, last, is_alive = run(program)
    assert (set(results) <= {"ClientClosedError", "SystemExit"}, is_alive) == (True, False)
    assert last.startswith("this client cannot be used: ")


def test_python_ends():
    """A call at the end of Python, in `atexit`, resolves a name, reads the trusted certificates, and is answered."""
    with serving(server := RawServer()):
        url = server.url.replace("127.0.0.1", "localhost")
        found = run(
            f"""
            import asyncio, atexit, json
            from payclient import AsyncClient, PayClientError
            from payclient.blocking import Client

            options = {{"api_key": "test-key-0123456789", "base_url": {url!r}}}
            pays = [Client(transport=name, **options) for name in ("httpx", "fast")]

            async def look_up():
                async with AsyncClient(**options) as pay:
                    return await pay.get_transaction("T1")

            @atexit.register
            def last():
                found = [pay.get_transaction("T1").status for pay in pays] + [asyncio.run(look_up()).status]
                try:
                    Client(**options | {{"base_url": "https://localhost:9"}}, retry=None).get_transaction("T1")
                except PayClientError as error:
                    found.append(error.step)
                print(json.dumps(found))
            """
        )
    assert found == ["Canceled", "Canceled", "Canceled", "connect"]

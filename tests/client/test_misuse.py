"""What a caller does wrong, and what is said: every message names the option, what was found, and what helps."""

import asyncio
import copy
import functools
import gc
import inspect
import math
import pickle
import re
from itertools import product
from traceback import TracebackException

import httpx
import pytest

from payclient import AsyncClient, ClientClosedError, ConfigurationError, InvalidReferenceError, RetryPolicy
from payclient._shared.options import ELSEWHERE, OPTIONS
from payclient.blocking import Client
from payclient.otel import OpenTelemetry
from payclient.reconcile import RulesError, parse_rules, reconcile
from payclient.reconcile.ledger import LedgerError, open_ledger
from payclient.testing import FakeService
from payclient.transports import HttpxTransport
from support.fakes import KEY, ScriptedTransport, client
from support.misses import check_table, refusal

TRANSPORT = (
    "transport must be 'httpx', 'httpx2', 'fast' or an object with async methods send and aclose, got {}; "
    "pass a client of httpx, also for its transports, as http_client"
)
ASYNC = " must be a plain function, got an async one, which would never be awaited"
CANARY = "canary must be a reference that is known to exist: "
SECONDS = " must be a number of seconds above 0, got "
NO_COLUMN = "no column is called reference: the columns are 'trx', 'amount'; --column reference=trx chooses it"
COUNT = " must be an integer of at least 1, got "


async def asynchronous(*_):
    """Do nothing, and never: nobody awaits it."""


async def generator(*_):
    """Give nothing."""
    yield


class Observer:
    """Called like a function, and asynchronous."""

    async def __call__(self, attempt):
        """Do nothing."""


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


WRONG_OPTIONS = [
    ({"timeout": 0}, "timeout" + SECONDS + "0"),
    ({"timeout": -1}, "timeout" + SECONDS + "-1"),
    ({"timeout": math.nan}, "timeout" + SECONDS + "nan"),
    ({"timeout": math.inf}, "timeout" + SECONDS + "inf"),
    ({"timeout": None}, "timeout" + SECONDS + "None"),
    ({"timeout": "5"}, "timeout" + SECONDS + "'5'"),
    ({"timeout": True}, "timeout" + SECONDS + "True"),
    ({"deadline": -1}, "deadline" + SECONDS + "-1"),
    ({"deadline": math.inf}, "deadline" + SECONDS + "inf"),
    ({"max_concurrency": 0}, "max_concurrency" + COUNT + "0"),
    ({"max_concurrency": 2.5}, "max_concurrency" + COUNT + "2.5"),
    ({"workers": 0}, "workers" + COUNT + "0"),
    ({"max_rate": 0}, "max_rate must be a number of attempts per second above 0, or None, got 0"),
    ({"max_rate": math.nan}, "max_rate must be a number of attempts per second above 0, or None, got nan"),
    ({"retry": 3}, "retry must be a RetryPolicy or None, got int"),
    ({"not_found_messages": "x"}, "not_found_messages must be a list of messages, each with a word in it"),
    ({"environment": "prod"}, "environment must be one of 'live', 'sandbox', got 'prod'"),
    ({"environment": True}, "environment must be one of 'live', 'sandbox', got True"),
    ({"timeout": 20, "deadline": 5}, "timeout must not be above deadline, got 20 and 5"),
    ({"tracing": OpenTelemetry}, "tracing must be an object such as OpenTelemetry(), got the class OpenTelemetry"),
    (
        {"application": "my shop"},
        "application must be a name without spaces, such as 'shop' or 'shop/1.2', got 'my shop'",
    ),
    ({"on_attempt": 3}, "on_attempt must be callable, got int"),
    ({"on_attempt": asynchronous}, "on_attempt" + ASYNC),
    ({"on_attempt": generator}, "on_attempt" + ASYNC),
    ({"on_attempt": functools.partial(asynchronous, 1)}, "on_attempt" + ASYNC),
    ({"on_attempt": functools.partial(Observer())}, "on_attempt" + ASYNC),
    ({"on_attempt": Observer()}, "on_attempt" + ASYNC),
    ({"on_attempt": Observer().__call__}, "on_attempt" + ASYNC),
    ({"on_attempt": wrapped(asynchronous)}, "on_attempt" + ASYNC),
    ({"tracing": asynchronous}, "tracing" + ASYNC),
    ({"tracing": generator}, "tracing" + ASYNC),
    ({"on_outage": None}, "on_outage must be 'fail' or 'wait', got None"),
    ({"transport": "htpx"}, "transport must be one of 'httpx', 'httpx2', 'fast', got 'htpx'"),
    ({"transport": 5}, TRANSPORT.format("int")),
    ({"transport": HttpxTransport}, TRANSPORT.format("the class HttpxTransport")),
    ({"transport": httpx.MockTransport(asynchronous)}, TRANSPORT.format("MockTransport")),
    ({"transport": httpx.AsyncHTTPTransport()}, TRANSPORT.format("AsyncHTTPTransport")),
    ({"transport": httpx.AsyncClient()}, TRANSPORT.format("AsyncClient")),
    ({"transport": None, "http_client": httpx.Client()}, "http_client must be an httpx.AsyncClient, got Client"),
    ({"http_client": httpx.AsyncClient()}, "pass a transport or an http_client, not both"),
]


def test_option_of_a_client():
    """An invalid option is refused when the client is created, not in the first lookup."""
    check_table(
        WRONG_OPTIONS,
        lambda options: refusal(ConfigurationError, client, **{"transport": ScriptedTransport(), **options}),
    )


async def test_coroutine_of_a_callback():
    """A callback that only turns out to be async when called is refused then, without a warning."""
    pay = client(ScriptedTransport(), on_attempt=lambda _: asynchronous())
    with pytest.raises(TypeError, match=r"on_attempt gave a coroutine, which would never be awaited"):
        await pay.get_transaction("T1")


def test_option_of_a_view():
    """An option that a view cannot change is named, without its value, and with what to write."""
    for name, said in (
        ("time_out", "with_options got an unexpected keyword argument 'time_out' (did you mean 'timeout'?)"),
        ("api_key", "with_options takes no api_key; it is an option of the client itself"),
        ("max_retries", "with_options takes no max_retries; pass retry=RetryPolicy(max_attempts=...)"),
    ):
        with pytest.raises(TypeError) as caught:
            client(ScriptedTransport()).with_options(**{name: KEY})
        assert str(caught.value) == said


OTHER_WORDS = [
    (AsyncClient, "max_retries", "pass retry=RetryPolicy(max_attempts=...)"),
    (AsyncClient, "num_retries", "pass retry=RetryPolicy(max_attempts=...)"),
    (AsyncClient, "access_token", "pass api_key="),
    (AsyncClient, "api_url", "pass base_url="),
    (AsyncClient, "pool_timeout", "pass timeout="),
    (AsyncClient, "verify", "pass ca_file= or ssl_context="),
    (AsyncClient, "cert", "pass client_cert= and client_key="),
    (AsyncClient, "headers", "pass http_client=httpx.AsyncClient(...)"),
    (AsyncClient, "limits", "pass max_concurrency="),
    (AsyncClient, "http2", "pass http_client=httpx.AsyncClient(...)"),
    (AsyncClient, "proxies", "pass proxy="),
    (AsyncClient, "max_connections", "pass max_concurrency="),
    (AsyncClient, "key", "pass api_key="),
    (AsyncClient, "until", ""),
    (RetryPolicy, "max_retries", "pass max_attempts=, the first included"),
    (RetryPolicy, "backoff_factor", "pass initial_backoff="),
    ("get_transaction", "timeout", "pass deadline= for the whole lookup, or use with_options(timeout=...) for one"),
    ("get_transactions", "max_workers", "pass concurrency="),
    ("stream_transactions", "deadline", "use with_options(deadline=...)"),
    ("stream_transactions", "timeout", "use with_options(timeout=...) for one attempt"),
    ("stream_transactions", "batch_size", "pass concurrency="),
    ("wait_for", "poll_interval", "pass interval="),
    ("wait_for", "max_retries", "use with_options(retry=RetryPolicy(max_attempts=...))"),
    ("confirm", "environment", "it is an option of the client itself"),
]


@pytest.mark.parametrize(("called", "word", "advice"), OTHER_WORDS)
async def test_word_of_another_library(called, word, advice):
    """An argument that other libraries have is answered with payclient's, alike in both clients."""
    for name, pay in (("async", client(ScriptedTransport())), ("blocking", Client(client(ScriptedTransport())))):
        call = called if isinstance(called, type) else getattr(pay, called)
        call = Client if called is AsyncClient and name == "blocking" else call
        given = ["T1"] if isinstance(called, str) else []
        with pytest.raises(TypeError) as caught:
            if name == "async":
                await call(*given, **{word: KEY})
            else:
                await asyncio.to_thread(entered, call, *given, **{word: KEY})
        shown = called if isinstance(called, str) else called.__name__
        assert str(caught.value).startswith(f"{shown} takes no {word}; {advice}" if advice else f"{shown} got an unex")
        if isinstance(pay, Client):
            await asyncio.to_thread(pay.close)


def entered(call, *args, **options):
    result = call(*args, **options)
    with result:
        pass


def test_table_of_words():
    """Each word of another library leads to an argument that exists, and is not payclient's own, but for two."""
    callables = [AsyncClient, RetryPolicy, *(getattr(AsyncClient, name) for name in dir(AsyncClient) if name[0] != "_")]
    own = {name for each in callables if callable(each) for name in inspect.signature(each).parameters} | {*OPTIONS}
    assert {each for ours in ELSEWHERE.values() for each in ours} - own == set()
    assert ELSEWHERE.keys() & own == {"rate", "timeout"}  # of `set_max_rate`, and of the client


async def test_doors_of_a_stream():
    """However a stream is read outside of its block, it says how it is read; it is never taken for an empty one."""
    said = "read a stream in its block: `async with client.stream_transactions(...) as outcomes:`"

    async def awaited(stream):
        await stream

    async def read(stream):
        return [each async for each in stream]

    async def advanced(stream):
        return await anext(stream, None)

    for door in (awaited, read, advanced, list, next, entered_plainly):
        with pytest.raises(TypeError) as caught:
            stream = client(ScriptedTransport()).stream_transactions(["T1"])
            await door(stream)
        assert str(caught.value) == said


def entered_plainly(stream):
    with stream:
        pass


async def test_option_of_a_stream(subtests):
    """An invalid option of a stream is refused when the stream is created, by name."""
    cases = (("concurrency", 0), ("concurrency", 1.0), *(("stall_timeout", value) for value in (-1, math.nan, None)))
    for name, value in cases:
        with subtests.test(name=name, value=value):
            with pytest.raises(ConfigurationError) as caught:
                client(ScriptedTransport()).stream_transactions(["T1"], **{name: value})
            assert str(caught.value) == f"{name}{COUNT if name == 'concurrency' else SECONDS}{value!r}"


ONE = "references must be an iterable of references, got one {}: use get_transaction for a single one"


async def test_one_reference_for_many(subtests):
    """A single reference instead of a list is refused: its characters are not looked up one by one."""
    cases = (
        ("T1", ONE.format("str")),
        ("", ONE.format("str")),
        (b"T1", ONE.format("bytes")),
        (bytearray(b"T1"), ONE.format("bytearray")),
        (7, "references must be an iterable of references, got int"),
        (None, "references must be an iterable of references, got NoneType"),
    )
    for references, message in cases:
        with subtests.test(references=references, message=message):
            transport = ScriptedTransport()
            pay = client(transport)
            with pytest.raises(TypeError) as caught:
                await pay.get_transactions(references)
            with pytest.raises(TypeError) as again:
                pay.stream_transactions(references)
            assert ((str(caught.value), str(again.value)), transport.sent) == ((message, message), [])


@pytest.mark.parametrize("reference", [" T1", "T1 ", " T1 "])
async def test_blanks_around_a_reference(reference):
    """A blank before or after a reference is refused with its position, by every method."""
    transport = ScriptedTransport()
    pay = client(transport)
    with pytest.raises(InvalidReferenceError, match=r"has a blank at position \d: strip it"):
        await pay.get_transaction(reference)
    (failed,) = await pay.get_transactions([reference])
    assert isinstance(failed.error, InvalidReferenceError)
    async with pay.stream_transactions([reference]) as outcomes:
        assert [type(outcome.error) async for outcome in outcomes] == [InvalidReferenceError]
    assert transport.sent == []


def test_without_asyncio():
    """Without a running event loop of asyncio the client says that it needs one; trio drives coroutines like this."""
    message = (
        "this client cannot be used: it needs a running event loop of asyncio, such as in asyncio.run(...). "
        "Under trio, call a payclient.blocking.Client in a thread: "
        "trio.to_thread.run_sync(client.get_transaction, reference)"
    )
    pay = client(ScriptedTransport())
    with pytest.raises(ClientClosedError) as caught:
        pay.stream_transactions(["T1"])
    with pytest.raises(ClientClosedError) as again:
        pay.get_transaction("T1").send(None)
    assert (str(caught.value), str(again.value)) == (message, message)
    with pytest.raises(StopIteration):
        client("httpx").aclose().send(None)


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def test_copied(take):
    """A client says why it cannot be pickled or copied."""
    with pytest.raises(TypeError) as caught:
        take(client(ScriptedTransport()))
    assert str(caught.value) == ("a client can't be pickled or copied with its API key: make one in each process")


def test_shown():
    """The `repr` of a client or view shows the URL and the key's fingerprint, but not the key."""
    pay = client(ScriptedTransport(), environment="sandbox")
    shown = (
        "AsyncClient(url='https://pay.example/api-sandbox/transaction/detail', environment='sandbox', "
        f"key_fingerprint='{pay.key_fingerprint}')"
    )
    assert (repr(pay), repr(pay.with_options(timeout=1))) == (shown, shown)


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("transport", ["httpx", "fast"])
def test_unclosed(transport, is_kept):
    """An unclosed client is named in a `ResourceWarning` if it owns its connections, even if it outlives its loop."""

    async def use():
        pay = client(transport, environment="live")
        pay.stream_transactions([])
        return pay if is_kept else gc.collect()

    match = r"^unclosed AsyncClient\(url='https://pay.example/.*: use it in `async w"
    with pytest.warns(ResourceWarning, match=match) as caught:
        asyncio.run(use())
    assert type(caught[0].source).__name__ == "Session"


@pytest.mark.filterwarnings("error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("transport", ["httpx", "fast", None])
def test_nothing_to_close(transport):
    """There is no warning for a client that was closed, never used, or owns nothing to close."""

    async def use():
        async with client("httpx") as pay:
            pay.stream_transactions([])
        client("httpx")
        client(ScriptedTransport()).stream_transactions([])

    asyncio.run(use())
    gc.collect()


async def test_argument_of_reconcile(subtests):
    """A wrong argument of a reconciliation is refused before the ledger is read."""
    cases = (
        ({"entries": "T1"}, TypeError, "entries must be ledger entries, got str: read a file with open_ledger"),
        ({"entries": b"T1"}, TypeError, "entries must be ledger entries, got bytes: read a file with open_ledger"),
        ({"concurrency": 0}, ConfigurationError, "concurrency" + COUNT + "0"),
        ({"stall_timeout": 0}, ConfigurationError, "stall_timeout" + SECONDS + "0"),
        ({"stall_timeout": math.nan}, ConfigurationError, "stall_timeout" + SECONDS + "nan"),
        ({"canary": ""}, ConfigurationError, CANARY + "reference is empty"),
        (
            {"canary": "T1 "},
            ConfigurationError,
            CANARY + "reference has a blank at position 2: strip it, because a reference is sent exactly as given",
        ),
        ({"on_progress": asynchronous}, ConfigurationError, "on_progress" + ASYNC),
    )
    for arguments, error, message in cases:
        with subtests.test(arguments=arguments, error=error):
            with pytest.raises(error) as caught:
                [row async for row in reconcile(**{"entries": [], "lookup": asynchronous, **arguments})]
            assert str(caught.value) == message


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ('a = 1\nb = "T1', 2, "Unterminated string"),
        ("a = 1\nb = [1,\n 2,\n\n", 3, "Invalid value (at end of document)"),
        ("a = 1\nb = {c = 1", 2, "Unclosed inline table"),
        ("[accepted", 1, "Expected ']' at the end of a table declaration"),
        ('"""' + "\n" * 80, 1, "Expected "),
    ],
)
def test_toml_that_does_not_end(content, line, message):
    """An unterminated item of a rules file is reported with the last line that is not blank."""
    with pytest.raises(RulesError, match=rf"rules, line {line}: it is not TOML: {re.escape(message)}"):
        parse_rules(content)


@pytest.fixture
def ledger(tmp_path):
    """Give what writes a ledger and reads it."""

    def read(content="reference,amount\nT1,1\n", **options):
        path = tmp_path / "ledger.csv"
        path.write_text(content)
        with open_ledger(path, **options) as opened:
            return list(opened)

    return read


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"content": "trx,amount\n1,1\n"}, LedgerError, NO_COLUMN),
        (
            {"content": f"reference,amount\nT1,1\n{'x' * 140_000},1\n"},
            LedgerError,
            "line 3: a cell has more than 131,072 characters: perhaps a quote before it doesn't close",
        ),
        ({"format": "excel"}, ValueError, "format must be one of csv, jsonl, xlsx, parquet, got 'excel'"),
        ({"delimiter": ";;"}, ValueError, "delimiter must be one character that separates cells, got ';;'"),
        ({"delimiter": ""}, ValueError, "delimiter must be one character that separates cells, got ''"),
        ({"delimiter": '"'}, ValueError, "delimiter must be one character that separates cells, got '\"'"),
        (
            {"columns": "amount"},
            TypeError,
            "columns must give the name of a column for each field, as in {'amount': 'Betrag'}, got 'amount'",
        ),
        (
            {"columns": {"amount": 3}},
            TypeError,
            "columns must give the name of a column for each field, as in {'amount': 'Betrag'}, got {'amount': 3}",
        ),
    ],
    ids=["column", "cell", "format", "delimiter", "no delimiter", "quote", "columns", "name"],
)
def test_option_of_a_ledger(ledger, options, error, message):
    """The error of an unreadable ledger says what helps, not the message of the csv module."""
    with pytest.raises(error) as caught:
        ledger(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: FakeService(latency=0.5), "latency must be a Latency, such as Latency(seconds=0.5), got 0.5"),
        (lambda: FakeService().script("T1", 500), "each reply must be a Reply, such as Reply(status=500), got 500"),
        (lambda: FakeService().load("T1"), "each transaction must be a mapping of its fields, got 'T'"),
    ],
    ids=["latency", "script", "load"],
)
def test_fake_service(use, message):
    """The fake service refuses invalid arguments at once, not in the first request."""
    with pytest.raises(TypeError) as caught:
        use()
    assert str(caught.value) == message


async def test_read_without_a_block():
    """A stream that is iterated without its block says how to write it."""
    pay = client(ScriptedTransport())
    with pytest.raises(TypeError, match=r"read a stream in its block: `async with client\.stream_transactions"):
        [item async for item in pay.stream_transactions(["T1"])]


def test_misspelt_option():
    """A misspelt option is answered with the right one, before one that is missing; its value is in no frame."""
    for cls, options in product((AsyncClient, Client), ({}, {"base_url": "https://pay.example"})):
        with pytest.raises(TypeError) as caught:
            cls(apikey=KEY, **options)
        assert str(caught.value) == "AsyncClient got an unexpected keyword argument 'apikey' (did you mean 'api_key'?)"
        assert KEY not in "".join(TracebackException.from_exception(caught.value, capture_locals=True).format())


async def test_read_twice():
    """A second `async for` over a stream that has been read to its end says so; another task may join."""
    pay = client(ScriptedTransport())
    async with pay.stream_transactions(["T1"]) as items:
        assert len([item async for item in items]) == 1
        with pytest.raises(RuntimeError, match="has been read to its end: open another one"):
            [item async for item in items]

        async def read(items):
            return [item async for item in items]

        assert await asyncio.create_task(read(items)) == []
    await pay.aclose()


def test_defaults_do_not_contradict():
    """A default is bounded by what was given; only two values of the caller contradict each other."""
    for options in ({"deadline": 5.0}, {"timeout": 60.0}, {"timeout": 5.0, "deadline": 5.0}):
        client(ScriptedTransport(), **options)
    client(ScriptedTransport(), deadline=5.0).with_options(timeout=4.0)
    with pytest.raises(ConfigurationError, match="timeout must not be above deadline, got"):
        client(ScriptedTransport(), deadline=5.0).with_options(timeout=8.0)
    assert [RetryPolicy(initial_backoff=9.0).max_backoff, RetryPolicy(max_backoff=0.1).initial_backoff] == [8.0, 0.25]
    with pytest.raises(ConfigurationError, match="initial_backoff must not be above max_backoff, got"):
        RetryPolicy(initial_backoff=9.0, max_backoff=4.0)


async def test_claim(subtests):
    """A claim that no transaction could meet is refused before anything is sent, always with the same class."""
    cases = (
        ({"amount": -5}, "-5"),
        ({"amount": 1.5}, "1.5"),
        ({"amount": "5"}, "'5'"),
        ({"amount": True}, "True"),
        ({"merchant_reff": 7}, "int"),
        ({"status": "Paid"}, "'Paid'"),
        ({"status": set()}, "set()"),
    )
    for claim, shown in cases:
        with subtests.test(claim=claim):
            transport = ScriptedTransport()
            async with client(transport) as pay:
                with pytest.raises(ConfigurationError, match=rf"must be .*, got {re.escape(shown)}$"):
                    await pay.confirm("T1", **{"amount": 5, "status": {"Paid"}, **claim})
            assert transport.sent == []


async def test_closed_http_client():
    """A closed `http_client` is refused at once, and one that is closed later says so."""
    closed, later = httpx.AsyncClient(), httpx.AsyncClient()
    await closed.aclose()
    with pytest.raises(ClientClosedError, match="this http_client cannot be used: it has been closed"):
        AsyncClient(api_key=KEY, base_url="https://pay.example", http_client=closed)
    pay = AsyncClient(api_key=KEY, base_url="https://pay.example", http_client=later)
    await later.aclose()
    with pytest.raises(ClientClosedError, match="this http_client cannot be used: it has been closed"):
        await pay.get_transaction("T1")

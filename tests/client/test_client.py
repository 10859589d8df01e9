"""The client: options, lookups, views, life."""

import asyncio
import json
import logging
import os
import random
from importlib.metadata import version

import attrs
import pytest

from payclient import (
    AttemptTimeoutError,
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    Failed,
    Found,
    RateLimitedError,
    ReferenceMismatchError,
    ResponseError,
    RetryPolicy,
    ServiceError,
    Stats,
    TransactionNotFoundError,
)
from payclient.transports import Request
from support.fakes import KEY, ScriptedTransport, answer, client, document, now

pytestmark = pytest.mark.virtual_time

NOT_FOUND = answer(b'{"success": false, "message": "no such transaction"}', 404)
DOWN = answer(b'{"success": false, "message": "try later"}', 500)
UNKNOWN = answer(b'{"success": false, "message": "Kode tak dikenal"}', 404)
REFUSED = answer(status=429, retry_after="60")
CLOSED = "this client cannot be used: it has been closed"


async def test_names_itself():
    """The `User-Agent` has the version of payclient, behind the application's name; an invalid one is refused."""
    transport = ScriptedTransport()
    for options in ({}, {"application": "shop/1.2"}):
        async with client(transport, **options) as pay:
            await pay.get_transaction("T1")
    ours = f"payclient/{version('payclient')}"
    assert [request.headers["User-Agent"] for request in transport.sent] == [ours, f"shop/1.2 {ours}"]
    for refused in ("", "my shop", "shop/", "a/b/c", "shop\r\nX: y", "läden", 7):
        with pytest.raises(ConfigurationError, match="application must be a name without spaces"):
            client(transport, application=refused)


async def test_retries():
    """A failing lookup is retried up to `max_attempts`, and the error has the number of attempts."""
    transport = ScriptedTransport(T1=[DOWN, DOWN, DOWN], T2=[*[DOWN] * 9])
    async with client(transport) as pay:
        assert (await pay.get_transaction("T1")).reference == "T1"
        with pytest.raises(ServiceError) as caught:
            await pay.get_transaction("T2")
        assert caught.value.attempts == 4
        assert (pay.stats.lookups, pay.stats.attempts, pay.stats.retries) == (2, 8, 6)


async def test_throttled_costs_no_attempt():
    """A 429 with a short `Retry-After` does not count as an attempt."""
    transport = ScriptedTransport(T1=[*[answer(status=429, retry_after="1")] * 8])
    async with client(transport) as pay:
        assert (await pay.get_transaction("T1")).reference == "T1"
        assert pay.stats.throttled == 8


async def test_stats():
    """`stats` shows the current lookups, limit and pause."""
    transport = ScriptedTransport(T1=[answer(status=429, retry_after="7")])
    async with client(transport) as pay:
        lookup = asyncio.create_task(pay.get_transaction("T1"))
        await asyncio.sleep(3)
        paused = pay.stats
        await lookup
    assert paused == Stats(
        lookups=1,
        attempts=1,
        retries=0,
        throttled=1,
        in_flight=0,
        limit=1.0,
        paused_seconds=pytest.approx(4),
        waiting=1,
        asked_ago=3.0,
        answered_ago=3.0,
    )


async def test_cancelled_attempts_do_not_raise_the_limit():
    """The limit grows with answers only: lookups that are cancelled in flight, as by page reloads, leave it alone."""
    async with client(ScriptedTransport(latency=60)) as pay:
        before = pay.stats.limit
        for _ in range(10):
            lookups = [asyncio.create_task(pay.get_transaction(f"T{number}")) for number in range(8)]
            await asyncio.sleep(0.1)
            for lookup in lookups:
                lookup.cancel()
            await asyncio.wait(lookups)
        assert pay.stats.limit == before


async def test_late_response_counts():
    """A response after its caller has left raises the limit as one in time does, and frees no slot again."""
    transport, found = ScriptedTransport(latency=60), []
    async with client(transport, not_found_messages=["kode tak dikenal"]) as pay:
        for late in (answer(document("T9")), UNKNOWN, answer(document("T2"))):
            lookups = [asyncio.create_task(pay.get_transaction(f"T{number}")) for number in range(3)]
            await asyncio.sleep(1)
            await asyncio.wait([lookup for lookup in lookups if lookup.cancel()])
            transport.sent[-1].on_late(late)
            found.append((pay.stats.limit, pay.stats.in_flight))
    assert found == [(4.0, 0), (5.0, 0), (6.0, 0)]


async def test_failure_with_retry_after():
    """`Retry-After` on an answer that does not ask for fewer requests neither pauses nor counts as throttled."""
    transport = ScriptedTransport(default=lambda _: answer(NOT_FOUND.body, 404, retry_after="60"))
    async with client(transport) as pay:
        with pytest.raises(TransactionNotFoundError):
            await pay.get_transaction("T1")
        assert (pay.stats.throttled, pay.stats.paused_seconds) == (0, 0.0)


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_headers_that_describe(status):
    """Rate-limit headers of a failure only describe: the retry is answered, and the client does not pause."""
    told = {"x_ratelimit_remaining": "4999", "x_ratelimit_reset": "3600", "ratelimit": '"default";r=4999;t=3600'}
    transport = ScriptedTransport(T1=[answer(DOWN.body, status, **told)])
    async with client(transport) as pay:
        await pay.get_transaction("T1")
        await pay.get_transaction("T2")
        assert (pay.stats.throttled, pay.stats.paused_seconds) == (0, 0.0)
    assert now() < 2.0


async def test_longest_pause_is_waited_for():
    """A pause exactly as long as the remaining time is waited out."""
    loop, transport = asyncio.get_running_loop(), ScriptedTransport(T1=[answer(status=429, retry_after="100")])
    async with client(transport, deadline=None, retry=RetryPolicy(max_retry_after=100)) as pay:
        await pay.get_transaction("T1")
    assert loop.time() == 100


async def test_pause_beyond_the_deadline_raises_at_once():
    """A pause longer than the deadline raises at once, here and later; of a day it is believed for five minutes."""
    loop, transport = asyncio.get_running_loop(), ScriptedTransport(T1=[answer(status=429, retry_after="86400")])
    async with client(transport) as pay:
        with pytest.raises(RateLimitedError) as caught:
            await pay.get_transaction("T1")
        told = caught.value
        assert (told.asked_pause, told.retry_after, told.status_code) == (86400, 300, 429)  # then one asks
        with pytest.raises(RateLimitedError) as caught:
            await pay.get_transaction("T2")
        expected = ("the service asked this client to wait [retry after 300 s]", 300)
        assert (str(caught.value), caught.value.retry_after) == expected
        assert (loop.time() < 1, len(transport.sent)) == (True, 1)
        await asyncio.sleep(290)
        await pay.get_transaction("T3")
        assert loop.time() >= 300


async def test_pause_ends_waits():
    """As a pause begins, a lookup that waits is told if its time ends before the pause; one in flight is answered."""
    random.seed(1)  # the back-off is longer than the deadline
    transport, told = ScriptedTransport(latency=1.0, B=[DOWN], L=[DOWN], P=[REFUSED]), {}
    transport.script("A", lambda: asyncio.sleep(3, answer(document("A"))))

    async def ask(name, deadline):
        try:
            told[name] = (await pay.get_transaction(name[0], deadline=deadline)).reference, now()
        except RateLimitedError as error:
            told[name] = error.retry_after, now()

    retry = RetryPolicy(initial_backoff=1000.0, max_backoff=1000.0)
    async with client(transport, max_concurrency=2, retry=retry) as pay, asyncio.TaskGroup() as callers:
        for at, name, deadline in (
            *((0.0, "B backs off", 30.0), (0.0, "L backs off", 1000.0), (0.5, "L is shared", 30.0)),
            *((1.5, "A", 30.0), (1.5, "P", 30.0), (2.0, "A is shared", 30.0), (2.0, "Q queues", 30.0)),
            *((2.0, "R queues", 1000.0), (3.0, "R is shared", 30.0), (3.0, "N", 30.0)),
        ):
            await asyncio.sleep(at - now())
            callers.create_task(ask(name, deadline))
    late = {name: told.pop(name) for name in ("L backs off", "R queues")}
    assert told == {
        **dict.fromkeys(("B backs off", "L is shared", "P", "Q queues"), (60.0, 2.5)),
        **dict.fromkeys(("A", "A is shared"), ("A", 5.5)),
        **dict.fromkeys(("R is shared", "N"), (59.5, 3.0)),
    }
    assert {(reference, at > 62.5) for reference, at in late.values()} == {("L", True), ("R", True)}


async def test_late_answer_after_closing():
    """What comes when the client is closed is learnt by nothing."""
    transport = ScriptedTransport(latency=9.0)
    async with client(transport) as pay:
        lookup = asyncio.create_task(pay.get_transaction("T1"))
        await asyncio.sleep(0.5)
        lookup.cancel()
    transport.sent[0].on_late(REFUSED)
    assert pay.stats.paused_seconds == 0.0


async def test_late_pause(caplog):
    """A pause that is asked for when its caller has left is logged, and ends waits as any other."""
    transport = ScriptedTransport(latency=9.0)
    async with client(transport, max_concurrency=1) as pay:
        lookups = [asyncio.create_task(pay.get_transaction(reference)) for reference in ("T1", "T2", "T2")]
        await asyncio.sleep(0.5)
        lookups[1].cancel()  # the other makes its lookup
        await asyncio.sleep(0.5)
        last = asyncio.create_task(pay.get_transaction("T3"))
        lookups[0].cancel()
        await asyncio.sleep(1)
        transport.sent[0].on_late(REFUSED)
        with pytest.raises(RateLimitedError):
            await last
        assert (now(), (await lookups[2]).reference) == (2.0, "T2")
    assert [record.message for record in caplog.records] == ["the service asks for a pause of 60 s (status 429)"]


async def test_pause_instead_of_back_off():
    """A failure that asks for a pause has no back-off: its lookup is told at once, or sent as the pause ends."""
    transport = ScriptedTransport(default=lambda _: answer(DOWN.body, 503, retry_after="60") if now() < 90 else found)
    found, retry = answer(document("T2")), RetryPolicy(initial_backoff=1000.0, max_backoff=1000.0)
    async with client(transport, retry=retry) as pay:
        with pytest.raises(ServiceError):
            await pay.get_transaction("T1", deadline=30.0)
        assert now() == 0.0
        await asyncio.sleep(70)
        await pay.get_transaction("T2", deadline=100.0)
    assert transport.times() == [0.0, 70.0, 130.0]


@pytest.mark.parametrize(("seconds", "holds_all"), [(1, False), (2, False), (3, True)])
async def test_short_wait_is_for_the_refused(seconds, holds_all):
    """`Retry-After: 2` holds the refused request for as long, and no other; a longer one holds all."""
    transport = ScriptedTransport(latency=0.1, T1=[answer(status=429, retry_after=str(seconds))])
    async with client(transport) as pay:
        for number in range(20):
            await pay.get_transaction(f"A{number}")
        refused = asyncio.create_task(pay.get_transaction("T1"))
        await asyncio.sleep(0.2)
        await pay.get_transaction("T2")
        await refused
    (first, again), (other,) = transport.times("T1"), transport.times("T2")
    assert again - first >= seconds
    assert (other - first >= seconds) == holds_all


async def test_rate():
    """With `workers=2` a client starts half of `max_rate`, retries included, and follows `set_max_rate`."""
    loop, transport = asyncio.get_running_loop(), ScriptedTransport(T1=[DOWN])
    random.seed(1)
    first = 2.0 * random.Random(1).random()
    async with client(
        transport, max_rate=1.0, workers=2, retry=RetryPolicy(initial_backoff=1e-9), deadline=None
    ) as pay:
        await pay.get_transaction("T1")
        await pay.get_transaction("T2")
        at_half = loop.time()
        pay.with_options(timeout=1).set_max_rate(2.0)
        await pay.get_transaction("T3")
        at_one = loop.time()
        pay.set_max_rate(2.0, workers=1)
        await pay.get_transaction("T4")
        at_two = loop.time()
        pay.set_max_rate(None)
        await pay.get_transactions(["T5", "T6", "T7"])
    took = [at - first for at in (at_half, at_one, at_two, loop.time())]
    assert took == pytest.approx([4.0, 5.0, 5.5, 5.5], abs=1e-6)


async def test_deadline_covers_everything():
    """The deadline ends a lookup during an attempt, and the error says where the time went."""
    loop, transport = asyncio.get_running_loop(), ScriptedTransport(latency=6, T1=[DOWN, DOWN, DOWN])
    async with client(transport, deadline=10) as pay:
        with pytest.raises(DeadlineExceededError) as caught:
            await pay.get_transaction("T1")
    assert loop.time() == pytest.approx(10)
    assert isinstance(caught.value.__cause__, ServiceError)
    assert sum(caught.value.seconds.values()) == pytest.approx(10)
    assert caught.value.attempts == 2


async def test_attempt_timeout():
    """An attempt that takes longer than `timeout` is cancelled and retried."""
    transport = ScriptedTransport(T1=[lambda: asyncio.sleep(3600)])
    async with client(transport, timeout=2) as pay:
        assert (await pay.get_transaction("T1")).reference == "T1"
        assert transport.in_flight == 0
        transport.script("T2", *[lambda: asyncio.sleep(3600)] * 9)
        with pytest.raises(AttemptTimeoutError, match="no whole answer within 2 s"):
            await pay.get_transaction("T2")
    assert [request.needs_fresh_connection for request in transport.sent[:2]] == [False, True]


async def test_foreign_timeout_error():
    """A `TimeoutError` from a bug in a transport propagates unchanged."""
    transport = ScriptedTransport(T1=[TimeoutError("mine")])
    async with client(transport) as pay:
        with pytest.raises(TimeoutError, match="mine") as caught:
            await pay.get_transaction("T1")
        assert type(caught.value) is TimeoutError


async def test_mismatch_discards_the_connection():
    """An answer about another reference is never returned: its connection is closed and the request repeated once."""
    transport = ScriptedTransport(T1=[answer(document("T9"))])
    transport.script("T2", answer(document("T9")), answer(document("T9")), answer(document("T9")))
    async with client(transport) as pay:
        assert (await pay.get_transaction("T1")).reference == "T1"
        with pytest.raises(ReferenceMismatchError):
            await pay.get_transaction("T2")
    assert [response.body for response in transport.discarded] == [document("T9")] * 3
    assert [request.needs_fresh_connection for request in transport.sent] == [False, True] * 2


@pytest.mark.parametrize("refused", [NOT_FOUND, DOWN], ids=["not-found", "down"])
async def test_refusal_keeps_the_connection(refused):
    """The connection of a refusal that names its reference is kept."""
    transport = ScriptedTransport(T1=[refused])
    async with client(transport, retry=None) as pay:
        with pytest.raises(ResponseError):
            await pay.get_transaction("T1")
    assert transport.discarded == []


@pytest.mark.parametrize(
    ("before", "sent"),
    [
        pytest.param([], "no", id="never-connected"),
        pytest.param([answer(b"", 429)], "yes", id="answered"),
        pytest.param([ConnectionFailedError("reset", sent="unknown")], "unknown", id="perhaps"),
        pytest.param([answer(b"", 429), ConnectionFailedError("refused", sent="no")], "yes", id="two-before"),
    ],
)
async def test_sent_is_of_the_whole_lookup(before, sent):
    """A lookup whose last attempt could not connect still says that the service may have received an earlier one."""
    transport = ScriptedTransport(default=lambda _: ConnectionFailedError("refused", sent="no"), T1=[*before])
    async with client(transport) as pay:
        with pytest.raises(ConnectionFailedError) as caught:
            await pay.get_transaction("T1")
    assert caught.value.sent == sent


async def test_short_deadline_of_the_leader_hurts_nobody():
    """A lookup that joined late is not ended by the deadline of the one it joined."""
    transport = ScriptedTransport(latency=6)
    async with client(transport, deadline=5) as pay:
        patient = pay.with_options(deadline=20)
        patient._calls = pay._calls
        hasty = asyncio.create_task(pay.get_transaction("T1"))
        await asyncio.sleep(1)
        assert (await patient.get_transaction("T1")).reference == "T1"
        with pytest.raises(DeadlineExceededError):
            await hasty


async def test_cancelled_at_every_moment():
    """A lookup cancelled at any await gives back its slot, its attempt and its in-flight entry."""
    for moment in range(40):
        transport = ScriptedTransport(latency=1, T1=[DOWN, answer(status=429, retry_after="1")])
        pay = client(transport)
        task = asyncio.create_task(pay.get_transaction("T1"))
        for _ in range(moment):
            await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (transport.in_flight, pay.stats.in_flight, len(pay._calls)) == (0, 0, 0), moment
        await pay.aclose()


async def test_small_set_keeps_the_order():
    """`get_transactions` returns one outcome per reference in input order, duplicates and failures included."""
    transport = ScriptedTransport(T2=[NOT_FOUND])
    async with client(transport) as pay:
        outcomes = await pay.get_transactions(["T3", "T2", "T1", "T3", ""])
    assert [(type(o), o.reference, o.index) for o in outcomes] == [
        (Found, "T3", 0),
        (Failed, "T2", 1),
        (Found, "T1", 2),
        (Found, "T3", 3),
        (Failed, "", 4),
    ]


async def test_small_set_has_one_deadline():
    """`get_transactions` returns within the deadline; unanswered references are `Failed`."""
    loop, transport = asyncio.get_running_loop(), ScriptedTransport(latency=4)
    async with client(transport, max_concurrency=1, deadline=10) as pay:
        outcomes = await pay.get_transactions(["T1", "T2", "T3", "T4"])
    assert loop.time() == pytest.approx(10)
    assert [type(o) for o in outcomes] == [Found, Found, Failed, Failed]
    assert isinstance(outcomes[3].error, DeadlineExceededError)
    assert [sum(each.error.seconds.values()) for each in outcomes[2:]] == pytest.approx([10, 10])  # the list's own


async def test_small_set_raises_what_is_the_same_for_all():
    """A refused key is raised once by `get_transactions`."""
    async with client(ScriptedTransport(default=lambda _: answer(status=401))) as pay:
        with pytest.raises(AuthenticationError):
            await pay.get_transactions(["T1", "T2"])


async def test_concurrency_of_a_call():
    """`get_transactions` and a stream have at most `concurrency` lookups in flight."""
    transport, references = ScriptedTransport(latency=1), [f"T{n}" for n in range(9)]
    async with client(transport) as pay:
        await pay.get_transactions(references, concurrency=2)
        assert transport.most_in_flight == 2
        async with pay.stream_transactions(iter(references), concurrency=3) as stream:
            assert len([outcome async for outcome in stream]) == 9
    assert transport.most_in_flight == 3


async def test_deadline_in_a_stream_begins_at_admission():
    """In a stream, neither the queue nor a pause counts against a lookup's deadline."""
    transport = ScriptedTransport(latency=4, T0=[answer(status=429, retry_after="100")])
    async with client(transport, max_concurrency=1, deadline=5) as pay:
        async with pay.stream_transactions((f"T{n}" for n in range(5)), concurrency=5) as stream:
            outcomes = [outcome async for outcome in stream]
    assert [type(o) for o in outcomes] == [Found] * 5


async def test_view_shares_the_client():
    """A view has other options, and the same connections, limiter and counters."""
    transport, records = ScriptedTransport(), []
    async with client(transport) as pay:
        view = pay.with_options(on_attempt=records.append, retry=None, deadline=None)
        await view.get_transaction("T1")
        await pay.get_transaction("T2")
        assert [record.reference for record in records] == ["T1"]
        assert view.stats == pay.stats
        assert (pay._options.retry.max_attempts, view._options.retry.max_attempts) == (4, 1)


async def test_attempt_records():
    """`on_attempt` gets one record per attempt: number, status, error class and time."""
    transport, records = ScriptedTransport(latency=2), []
    transport.script("T1", DOWN, ConnectionFailedError("reset"))
    async with client(transport, on_attempt=records.append, retry=RetryPolicy(initial_backoff=0)) as pay:
        await pay.get_transaction("T1")
    assert [(r.reference, r.number, r.status, r.error, r.seconds) for r in records] == [
        ("T1", 1, 500, "ServiceError", 2.0),
        ("T1", 2, None, "ConnectionFailedError", 2.0),
        ("T1", 3, 200, None, 2.0),
    ]


async def test_record_of_a_cancelled_attempt():
    """A cancelled attempt has a record too."""
    records = []
    async with client(ScriptedTransport(latency=5), on_attempt=records.append) as pay:
        lookup = asyncio.create_task(pay.get_transaction("T1"))
        await asyncio.sleep(1)
        lookup.cancel()
        await asyncio.gather(lookup, return_exceptions=True)
    assert [(r.status, r.error, r.seconds) for r in records] == [(None, "cancelled", 1.0)]


async def test_use_after_close():
    """Every method of a closed client raises `ClientClosedError`."""
    pay = client(ScriptedTransport())
    await pay.aclose()
    await pay.aclose()
    said = set()
    for use in (pay.get_transaction("T1"), pay.get_transactions(["T1"]), pay.__aenter__()):
        with pytest.raises(ClientClosedError) as caught:
            await use
        said.add(str(caught.value))
    with pytest.raises(ClientClosedError) as caught:
        pay.stream_transactions(["T1"])
    assert said | {str(caught.value)} == {CLOSED}


async def test_close_drains():
    """Closing waits for attempts in flight, fails queued ones, and does not close the caller's transport."""
    transport = ScriptedTransport(latency=3)
    pay = client(transport, max_concurrency=1)
    await pay.get_transaction("T0")
    running = asyncio.create_task(pay.get_transaction("T1"))
    queued = asyncio.create_task(pay.get_transaction("T2"))
    await asyncio.sleep(1)
    await pay.aclose()
    assert running.done()
    assert (await running).reference == "T1"
    with pytest.raises(ClientClosedError) as caught:
        await queued
    assert (str(caught.value), transport.is_closed) == (CLOSED, False)


async def test_shared_transport():
    """Clients can share a transport object, because neither closes it; a transport made by name is closed."""
    transport = ScriptedTransport()
    async with client(transport), client(transport) as other:
        await client(transport).aclose()
        assert (await other.get_transaction("T1")).reference == "T1"
    async with client(None) as pay:
        made = pay._session._transport
    with pytest.raises(ClientClosedError, match=r"^the transport has been closed$"):
        await made.send(Request("POST", "http://127.0.0.1/x", {}, b"", str))


async def test_transport_without_discard():
    """A transport needs only `send` and `aclose`."""
    scripted = ScriptedTransport(T1=[answer(b"{}")])
    bare = type("Bare", (), {"send": scripted.send, "aclose": scripted.aclose})()
    async with client(bare, retry=RetryPolicy(initial_backoff=0)) as pay:
        assert (await pay.get_transaction("T1")).reference == "T1"


async def test_close_does_not_wait_for_ever(caplog):
    """Closing waits at most `timeout` for attempts in flight, and logs if some are left."""
    caplog.set_level(logging.DEBUG, "payclient")
    loop, transport = asyncio.get_running_loop(), ScriptedTransport(latency=1000)
    pay = client(transport, timeout=10, deadline=None)
    task = asyncio.create_task(pay.with_options(timeout=2000).get_transaction("T1"))
    await asyncio.sleep(1)
    await pay.aclose()
    assert loop.time() == pytest.approx(11)
    assert caplog.messages == ["closing with 1 lookups under way"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_other_event_loop():
    """A client used in a second event loop raises, and closing it there does not close what the first one has."""
    transport = ScriptedTransport()
    pay = client(transport)
    asyncio.run(pay.get_transaction("T1"))
    with pytest.raises(ClientClosedError) as caught:
        asyncio.run(pay.get_transaction("T2"))
    asyncio.run(pay.aclose())
    expected = (
        "this client cannot be used: it belongs to another event loop, and "
        "asyncio.run makes one per call: keep one asyncio.Runner, or use payclient.blocking"
    )
    assert (str(caught.value), transport.is_closed) == (expected, False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_after_fork():
    """A client used in a forked child raises, and the parent's still works."""
    pay = client(ScriptedTransport())
    await pay.get_transaction("T1")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            pay.get_transaction("T2").send(None)
        except ClientClosedError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    said = os.read(reading, 1000).decode()
    os.close(reading)
    assert said == "this client cannot be used: it was created in another process: create a client after the fork"
    await pay.get_transaction("T3")
    await pay.aclose()


def test_key_is_not_shown():
    """No part of a client prints the key."""
    pay = client(ScriptedTransport())
    assert KEY not in repr(pay) + repr(vars(pay)) + repr(vars(pay._session))


@pytest.mark.parametrize(("closed_at", "ends_at", "kind"), [(1, 3, ServiceError), (4, 4, ClientClosedError)])
async def test_no_retry_after_close(closed_at, ends_at, kind):
    """An attempt that fails while the client is closing is not retried, and the wait after one that failed ends."""
    loop, transport = asyncio.get_running_loop(), ScriptedTransport(latency=3, default=lambda _: DOWN)
    pay = client(transport, retry=RetryPolicy(initial_backoff=1e9, max_backoff=1e9))
    lookup = asyncio.create_task(pay.get_transaction("T1"))
    await asyncio.sleep(closed_at)
    await pay.aclose()
    assert loop.time() == pytest.approx(ends_at)
    with pytest.raises(kind):
        await lookup


async def test_doubtful_verdict_while_closing():
    """A "not found" that may belong to another request is not the last word because nobody can be asked any more."""
    not_found = attrs.evolve(answer(b'{"success": false, "message": "Transaction not found"}', 404), is_fresh=False)
    transport = ScriptedTransport(latency=3, default=lambda _: not_found)
    pay = client(transport)
    lookup = asyncio.create_task(pay.get_transaction("T1"))
    await asyncio.sleep(1)
    await pay.aclose()
    with pytest.raises(ClientClosedError):
        await lookup


async def test_not_found_messages():
    """A message in `not_found_messages` means "no such transaction"."""
    transport = ScriptedTransport(default=lambda _: UNKNOWN)
    async with client(transport, not_found_messages=["kode tak dikenal"]) as pay:
        with pytest.raises(TransactionNotFoundError):
            await pay.get_transaction("T1")


@pytest.mark.parametrize(
    ("is_fresh", "message", "attempts"),
    [
        pytest.param(True, "Transaction not found", 1, id="fresh"),
        pytest.param(False, "Transaction not found", 2, id="kept"),
        pytest.param(True, "", 2, id="fresh-without-words"),
    ],
)
async def test_not_found_is_proven(is_fresh, message, attempts):
    """An answer "not found" is believed from a fresh connection and with evidence; otherwise it is requested again."""
    transport = ScriptedTransport()
    body = json.dumps({"success": False, "message": message}).encode()
    transport.script("T1", *[attrs.evolve(answer(body, 404), is_fresh=is_fresh)] * 3)
    async with client(transport, retry=None) as pay:
        with pytest.raises(TransactionNotFoundError):
            await pay.get_transaction("T1")
    assert [request.needs_fresh_connection for request in transport.sent] == [False, True][:attempts]
    assert len(transport.discarded) == (not is_fresh) * attempts


async def test_freshness_of_the_last_attempt():
    """A refusal over a reused connection is sent once more, though an earlier attempt had a fresh one."""
    transport = ScriptedTransport(T1=[answer(b"", 503), attrs.evolve(NOT_FOUND, is_fresh=False)])
    async with client(transport) as pay:
        assert (await pay.get_transaction("T1")).reference == "T1"
    assert [request.needs_fresh_connection for request in transport.sent] == [False, False, True]


async def test_reference_that_needs_a_fresh_connection():
    """A second lookup of a reconciliation asks for a fresh connection; a lookup of another reference does not."""
    transport = ScriptedTransport()
    async with client(transport) as pay:
        await pay.get_transaction("T1")
        await pay.get_transaction("T2", fresh=True)
        async with pay.stream_transactions(["T3", "T4"], fresh={"T4"}) as outcomes:
            assert len([outcome async for outcome in outcomes]) == 2
    sent = {json.loads(request.body)["reference"]: request.needs_fresh_connection for request in transport.sent}
    assert sent == {"T1": False, "T2": True, "T3": False, "T4": True}


@pytest.mark.parametrize(
    ("first", "status"),
    [
        pytest.param("no", 422, id="rejected"),
        pytest.param("Transaction not found", 404, id="not-found"),
        pytest.param("Not Found", 404, id="bare"),
    ],
)
async def test_bare_not_found_is_said_twice(first, status):
    """A bare "Not Found" is believed when two fresh connections gave it; what a reused one gave does not count."""
    transport = ScriptedTransport()
    bare = answer(b'{"success": false, "message": "Not Found"}', 404)
    body = json.dumps({"success": False, "message": first}).encode()
    doubtful = attrs.evolve(answer(body, status), is_fresh=False)
    transport.script("T1", doubtful, bare)
    transport.script("T2", doubtful, bare, bare)
    async with client(transport) as pay:
        assert (await pay.get_transaction("T1")).reference == "T1"
        with pytest.raises(TransactionNotFoundError):
            await pay.get_transaction("T2")
    assert ([request.needs_fresh_connection for request in transport.sent], now()) == ([False, True, True] * 2, 0.0)


def test_refused_rate_changes_nothing():
    """`set_max_rate` refuses an invalid rate or number of workers by its name, and nothing has changed."""
    pay = client(ScriptedTransport(), max_rate=10.0, workers=2)
    for name, rate, workers in (("max_rate", 0, None), ("workers", 1.0, 0)):
        with pytest.raises(ConfigurationError, match=f"^{name} must be"):
            pay.set_max_rate(rate, workers=workers)
    assert pay._session._limiter._gap == 0.2

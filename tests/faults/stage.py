"""The stage on which a fault is played: a server, a client, and a look around when both have gone."""

import asyncio
import os
import pickle
import random
import ssl
import traceback
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from unittest import mock

import httpx
import httpx2

from payclient import AsyncClient, PayClientError, RetryPolicy, Transaction
from payclient.errors import Signal
from payclient.transports import HttpxTransport
from payclient.transports._client import HttpxClientTransport
from payclient.transports.fast import FastTransport
from pools import connections, idle, late
from support.fakes import KEY, document
from support.raw_server import http, send

FOUND = document("T1")
OK = http(FOUND)
ok = send(OK)
AT_ONCE = RetryPolicy(initial_backoff=0)
LIBRARIES = {"httpx": httpx, "httpx2": httpx2}
OURS = {"own": "httpx", "own, httpx2": "httpx2", "fast": "fast"}
"""The transports of ours, by the carriers that use them."""
TRUST = ssl.create_default_context()  # one for all: to load the certificates takes longer than most rows
DESCRIPTORS = Path("/proc/self/fd")
NOTHING = {"in flight": 0, "queued": 0, "flights": 0, "busy connections": 0}


@asynccontextmanager
async def stage(server, *, carrier="own", scheme=None, **options):
    """
    Give a client that asks *server*, and see that nothing is left of what was asked.

    Args:
        server: Started and stopped here.
        carrier: One of `OURS` for a transport of ours, `httpx` or `httpx2` for a client of it that is passed in.
        scheme: In the place of the server's own.
        options: Of the client, in the place of the usual ones.
    """
    before = traces()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(server)
        if library := LIBRARIES.get(carrier):
            limits = library.Limits(max_connections=10)  # few, so that those which are never given back are missed
            habits = {"follow_redirects": True, "auth": ("somebody", "else")}  # neither may hold
            http_client = library.AsyncClient(limits=limits, trust_env=False, verify=TRUST, **habits)
            options["http_client"] = await stack.enter_async_context(http_client)
        elif carrier != "own":
            options.setdefault("transport", OURS[carrier])
        url = server.url if scheme is None else f"{scheme}:{server.url.partition(':')[2]}"
        options = {"base_url": url, "retry": AT_ONCE, "timeout": 60, **options}
        async with AsyncClient(api_key=KEY, **options) as pay:
            yield pay
            assert at_rest(pay) == NOTHING
        if not isinstance(options.get("transport", ""), str):
            await options["transport"].aclose()
        assert all(f"Authorization: Bearer {KEY}".encode() in request for request in server.requests)
        if carrier in OURS:
            assert await server.deserted() == 0
            assert len(connections(pay._session._transport)) == 0
    await settle()
    assert traces() <= before


class Httpx2Transport(HttpxTransport):
    library = httpx2


def ours(**options):
    """Return the transport that the environment names, with options that a name cannot have."""
    transports = {"httpx": HttpxTransport, "httpx2": Httpx2Transport, "fast": FastTransport}
    return transports[os.environ["PAYCLIENT_TRANSPORT"]](**options)


async def settle():
    """Let the event loop close what was told to close, which takes it some turns."""
    for _ in range(5):
        await asyncio.sleep(0)


def traces():
    """
    Return what could be left behind: tasks and open descriptors.

    Compare by `<=`: what another test of this process left may go at any moment, with the next garbage collection.
    """
    return asyncio.all_tasks() - {asyncio.current_task()} | descriptors()


def descriptors():
    found = set()
    for path in DESCRIPTORS.iterdir():
        with suppress(FileNotFoundError):  # the one by which the directory was read
            found.add((path.name, path.readlink().as_posix()))
    return {(name, target) for name, target in found if target != "/dev/null"}  # one belongs to uvloop


def at_rest(pay):
    """Return what a client holds while nobody asks it anything; that must be `NOTHING`."""
    limiter = pay._session._limiter
    return {
        "in flight": pay.stats.in_flight,
        "queued": limiter.waiting,
        "flights": len(pay._calls),
        "busy connections": len(busy(pay._session._transport)),
    }


def busy(transport):
    """Return the connections that are neither idle nor closed, in the caller's own pool too."""
    if type(transport) is HttpxClientTransport:
        pool = transport._client._transport._pool
        return [connection for connection in pool.connections if not (connection.is_idle() or connection.is_closed())]
    return connections(transport) - set(idle(transport)) - late(transport)


async def ask(pay, reference="T1"):
    """Return what a lookup comes to: the transaction, or the error, in which the key is nowhere."""
    try:
        return await pay.get_transaction(reference)
    except PayClientError as error:
        failure = error
    assert KEY not in shown(failure)
    return failure


async def cancel_many(pay, count, *, turns):
    """Cancel so many lookups, each at one of the first *turns* of the event loop; return how many that stopped."""
    draw, cancelled = random.Random(7), 0

    async def hasty():
        nonlocal cancelled
        while cancelled < count:
            lookup = asyncio.create_task(pay.get_transaction(f"T{draw.random()}"))
            for _ in range(draw.randrange(turns)):
                await asyncio.sleep(0)
            lookup.cancel()
            await asyncio.wait([lookup])
            assert lookup.cancelled() or lookup.result().reference
            cancelled += lookup.cancelled()

    await asyncio.gather(*(hasty() for _ in range(8)))  # fewer than connections: none is ever waited for
    return cancelled


async def signal_of(pay):
    """Ask once, and return what the limiter is told; None if it is told more than one thing."""
    limiter, told = pay._session._limiter, set()
    release = limiter.release

    def listen(ticket, signal, **pause):
        told.add(signal)
        release(ticket, signal, **pause)

    with mock.patch.object(limiter, "release", listen):
        await ask(pay)
    told.discard(Signal.SILENT)  # as of a second failure of one reference, which says nothing new
    return next(iter(told), Signal.SILENT) if len(told) < 2 else None


def shown(error):
    """Return all that a program could print or store of an error."""
    texts = [str(error), repr(error), pickle.dumps(error).decode("latin-1")]
    texts += traceback.TracebackException.from_exception(error, capture_locals=True).format()
    return "\n".join(texts)


def words(outcome):
    """Return what an outcome says for people: the text of an error, or what was tolerated in a transaction."""
    return "; ".join(outcome.deviations) if isinstance(outcome, Transaction) else str(outcome)

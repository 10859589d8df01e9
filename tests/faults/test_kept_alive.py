"""Faults of a connection that is kept alive between two lookups."""

import pytest
from attrs import frozen

from faults.answers import page
from faults.stage import FOUND, OK, ask, ok, stage
from payclient import ConnectionFailedError, Transaction
from support.fakes import document
from support.raw_server import RawServer, Script, close, http, reset, send, stall

OTHER = http(document("T2"))
LATE = http(b"<html>Request Time-out</html>", "408 Request Time-out", "Connection: close")


@frozen
class Kept:
    """
    One row: a first lookup, what happens on its connection then, and a second lookup.

    Attributes:
        sentence: What happens, in words.
        first: The steps that answer the first lookup.
        idle: The steps done while nobody asks.
        second: The steps that answer the second lookup if it comes over the same connection.
        attempts: How many the two lookups make together.
        connections: How many they need.
    """

    sentence: str
    first: tuple = (ok,)
    idle: tuple = ()
    second: tuple = (ok,)
    attempts: int = 2
    connections: int = 2


ROWS = (
    Kept("nothing happens on a kept connection", connections=1),
    Kept("the service closes an idle connection", idle=(close,)),
    Kept("the service resets an idle connection", idle=(reset,)),
    Kept("the service closes an idle connection when it is used", second=(close,)),
    Kept("the service resets an idle connection when it is used", second=(reset,)),
    Kept("a load balancer says 408 on an idle connection", idle=(send(LATE), close)),
    Kept("an answer that nobody asked for, on an idle connection", idle=(send(OTHER),)),
    Kept("an empty line that nobody asked for, on an idle connection", idle=(send(b"\r\n"),)),
    Kept("an answer that nobody asked for, right behind the right one", (send(OK + OTHER),)),
    Kept("the right answer twice, one right behind the other", (send(OK + OK),)),
    Kept("408 right behind the answer", (send(OK + LATE),)),
    Kept("408 right behind the answer, and closed", (send(OK + LATE), close)),
    Kept("rubbish right behind the answer", (send(OK + b"</html>\r\n\r\n"),)),
    Kept("Connection: close, and closed", (send(http(FOUND, "200 OK", "Connection: close")), close)),
    Kept("Connection: close, and left open", (send(http(FOUND, "200 OK", "Connection: close")), stall)),
    Kept("a promise to keep alive, and closed", (send(http(FOUND, "200 OK", "Keep-Alive: timeout=60")), close)),
    Kept("torn off in the middle of the second answer", second=(send(OK[:-9]), reset), attempts=3),
    Kept("a second answer that is garbled", second=tuple(page("200 OK")), attempts=3),
)


@pytest.mark.parametrize("carrier", ["own", "fast"])
async def test_second_lookup(carrier, row, subtests):
    """After any fault on a kept connection, the next lookup gets its own answer, without an extra attempt."""
    for kept in ROWS:
        row(kept.sentence, Transaction.__name__)
        server = RawServer(Script(kept.first, kept.second, [ok]))
        with subtests.test(kept.sentence):
            async with stage(server, carrier=carrier) as pay:
                await ask(pay)
                for step in kept.idle:
                    await step(server.connections[0])
                outcome = await ask(pay)
                assert (type(outcome), pay.stats.attempts) == (Transaction, kept.attempts)
                assert len(server.connections) == kept.connections


@pytest.mark.parametrize("carrier", ["own", "fast"])
async def test_connection_close_after_each_answer(carrier, row):
    """A service that closes after each answer costs connections, and no failure."""
    row("Connection: close after every answer", Transaction.__name__)
    server = RawServer(Script([send(http(FOUND, "200 OK", "Connection: close")), close]))
    async with stage(server, carrier=carrier, retry=None) as pay:
        outcomes = [await ask(pay) for _ in range(5)]
        assert [type(outcome) for outcome in outcomes] == [Transaction] * 5
        assert len(server.connections) == 5


@pytest.mark.parametrize("carrier", ["own", "fast"])
async def test_replaced_once(carrier, row):
    """A connection that is closed when it is used is replaced once: the same end of the next one fails the attempt."""
    row("every connection closed after the first answer", ConnectionFailedError.__name__)
    async with stage(server := RawServer(Script([ok], [close])), carrier=carrier, timeout=5) as pay:
        await ask(pay)
        assert (type(await ask(pay)), pay.stats.attempts) == (ConnectionFailedError, 5)
        assert len(server.connections) == 5

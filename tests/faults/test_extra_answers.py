"""An answer too many on a kept connection is never the verdict on the next reference."""

import json
import ssl

import pytest
import trustme

from faults.stage import OK, ask, ok, ours, stage
from payclient import AuthenticationError, PermissionDeniedError, RejectedError, Transaction, TransactionNotFoundError
from support.fakes import document
from support.raw_server import RawServer, Script, head, http, send, server_context, well_behaved

each_carrier = pytest.mark.parametrize(
    "carrier", ["own", "fast", "httpx", pytest.param("httpx2", marks=pytest.mark.slow)]
)


def refusal(status, message):
    return http(json.dumps({"success": False, "message": message}).encode(), status)


NOT_FOUND = refusal("404 Not Found", "Transaction not found")
EXTRAS = {
    "another transaction": http(document("T9")),
    "not found": NOT_FOUND,
    "not found with status 200": refusal("200 OK", "Transaction not found"),
    "rejected": refusal("422 No", "The transaction cannot be shown"),
    "unauthorized": refusal("401 Unauthorized", "Unauthenticated."),
    "unauthorized with status 200": refusal("200 OK", "Unauthenticated."),
    "forbidden": http(b"<html>Forbidden</html>", "403 Forbidden"),
    "a page that is not there": http(b"<html>Not Found</html>", "404 Not Found"),
    "a redirect": http(b"", "302 Found", "Location: /login"),
}
SECOND = http(document("T2"))
MOMENTS = {
    # The steps that answer the first lookup, those done while nobody asks, and those that answer the second one.
    "in the same read": ([send(OK), send(b"")], [], [send(SECOND)]),
    "later": ([ok], ["extra"], [send(SECOND)]),
    "before the next answer": ([ok], [], ["extra", send(SECOND)]),
    "in the place of the next answer": ([ok], [], ["extra"]),
}


@each_carrier
@pytest.mark.parametrize("moment", MOMENTS)
async def test_extra_answer(moment, carrier, row, subtests):
    """Whenever an extra answer comes, the next lookup gets its own."""
    row(f"an extra answer, {moment}", Transaction.__name__)
    for case, extra in EXTRAS.items():
        with subtests.test(case):
            first, idle, second = (
                [send(extra) if step == "extra" else step for step in steps] for steps in MOMENTS[moment]
            )
            if moment == "in the same read":
                first = [send(OK + extra)]
            server = RawServer(Script(first, second, [send(SECOND)]))
            async with stage(server, carrier=carrier) as pay:
                assert type(await ask(pay, "T1")) is Transaction
                for step in idle:
                    await step(server.connections[0])
                outcome = await ask(pay, "T2")
                assert type(outcome) is Transaction
                assert outcome.reference == "T2"


@each_carrier
async def test_one_answer_late(carrier, row):
    """A connection on which each answer is the one to the request before decides nothing."""
    row("a service that is one answer late on a connection", Transaction.__name__)

    async def late(connection):
        answer = http(document(await connection.request())) + NOT_FOUND
        while answer:
            await connection.write(answer)
            reference = await connection.request()
            answer = reference and http(document(reference))

    async with stage(RawServer(late), carrier=carrier) as pay:
        outcomes = [await ask(pay, f"T{number}") for number in range(9)]
        assert [type(outcome) for outcome in outcomes] == [Transaction] * 9


TRUE = {
    TransactionNotFoundError: NOT_FOUND,
    RejectedError: EXTRAS["rejected"],
    AuthenticationError: EXTRAS["unauthorized"],
    PermissionDeniedError: EXTRAS["forbidden"],
}


@each_carrier
@pytest.mark.parametrize("verdict", TRUE, ids=lambda verdict: verdict.__name__)
async def test_refusal_is_asked_again(verdict, carrier, row):
    """A refusal over a connection that was used before is asked again over another one, and then believed."""
    row("a refusal over a kept connection", verdict.__name__)
    server = RawServer(Script([ok], [send(TRUE[verdict])]))
    async with stage(server, carrier=carrier, retry=None) as pay:
        await ask(pay, "T1")
        assert type(await ask(pay, "T2")) is verdict
        assert pay.stats.attempts == 3
        assert [len(connection.requests) for connection in server.connections] == [2, 1]


@pytest.mark.parametrize("carrier", ["own", "fast"])
async def test_refusal_over_a_fresh_connection(carrier, row):
    """A refusal over a connection that carried nothing before is believed at once."""
    row("a refusal over a new connection", TransactionNotFoundError.__name__)
    async with stage(RawServer(Script([send(NOT_FOUND)])), carrier=carrier) as pay:
        assert type(await ask(pay)) is TransactionNotFoundError
        assert pay.stats.attempts == 1


UNREUSABLE = {
    "a body behind 204": head("HTTP/1.1 204 No Content", f"Content-Length: {len(NOT_FOUND)}") + NOT_FOUND,
    "a body behind 304": head("HTTP/1.1 304 Not Modified", f"Content-Length: {len(NOT_FOUND)}") + NOT_FOUND,
    "a 204 that promises a body": head("HTTP/1.1 204 No Content", f"Content-Length: {len(NOT_FOUND)}"),
    "a 304 that promises a body": head("HTTP/1.1 304 Not Modified", "Transfer-Encoding: chunked"),
    "status 000": http(b"", "000 Nothing"),
    "101": head("HTTP/1.1 101 Switching Protocols", "Upgrade: h2c") + NOT_FOUND,
    "a body in an interim answer": head("HTTP/1.1 103 Early Hints", "Content-Length: 5") + b"12345" + OK,
    "both framings": head("HTTP/1.1 200 OK", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
}


@pytest.mark.parametrize("carrier", ["own", "fast"])
async def test_unreusable(carrier, row, subtests):
    """After an answer whose end is in doubt, the connection is not used again."""
    row("an answer whose end is in doubt", Transaction.__name__)
    for case, answer in UNREUSABLE.items():
        server = RawServer(Script([ok], [send(answer)], [send(SECOND)]))
        with subtests.test(case):
            async with stage(server, carrier=carrier, retry=None) as pay:
                await ask(pay, "T1")
                assert type(await ask(pay, "T2")) is not TransactionNotFoundError
                assert type(await ask(pay, "T2")) is Transaction
                assert len(server.connections[0].requests) == 2


@pytest.mark.usefixtures("each_of_ours")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # asyncio's own, on the server's side
async def test_extra_record_under_tls(row):
    """An extra answer in a TLS record behind the right one's is seen, although the socket is empty."""
    row("an extra answer in a TLS record of its own", Transaction.__name__)
    authority, trust = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trust)

    async def two_records(connection):
        await connection.request()
        connection.writer.write(OK)
        await connection.write(NOT_FOUND)
        await connection.request()

    server = RawServer(two_records, well_behaved, ssl=server_context(authority, "localhost"))
    async with stage(server, transport=ours(ssl_context=trust)) as pay:
        assert type(await ask(pay, "T1")) is Transaction
        assert type(await ask(pay, "T2")) is Transaction
        assert pay.stats.attempts == 2

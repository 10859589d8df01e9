"""Logging: quiet by default, one line per attempt, no secrets."""

import asyncio
import copy
import logging
import pickle
import subprocess
import sys
from contextlib import nullcontext

import pytest

from payclient import ConnectionFailedError, RetryPolicy, UnexpectedResponseError
from support.fakes import KEY, SAMPLE, ScriptedTransport, answer, client, document

pytestmark = pytest.mark.virtual_time


async def test_one_line_per_attempt(caplog):
    """Each attempt is one DEBUG line with number, status, time and error class."""
    transport = ScriptedTransport(latency=1.25, T1=[answer(status=500)])
    with caplog.at_level(logging.DEBUG, "payclient"):
        async with client(transport, retry=RetryPolicy(initial_backoff=0)) as pay:
            await pay.get_transaction("T1")
    lines = [record.getMessage() for record in caplog.records if record.name == "payclient"]
    assert lines == ["attempt 1: status 500 in 1.250 s, ServiceError", "attempt 2: status 200 in 1.250 s, found"]


async def test_no_secrets(caplog):
    """At DEBUG, for every logger, neither key nor payload is written, whatever the service echoes."""
    echo = answer(f"<html>you sent: Authorization: Bearer {KEY}</html>".encode(), x_request_id=f"id-{KEY}")
    transport = ScriptedTransport(T1=[echo])
    with caplog.at_level(logging.DEBUG):
        async with client(transport, retry=RetryPolicy(initial_backoff=0)) as pay:
            await pay.get_transaction("T1")
            transport.script("T2", echo, echo)
            with pytest.raises(UnexpectedResponseError) as caught:
                await pay.get_transaction("T2")
    assert "T1" not in caplog.text
    assert SAMPLE["payment_code"] not in caplog.text
    shown = f"{caplog.text} {caught.value} {caught.value!r} {vars(caught.value)}"
    assert KEY not in shown
    assert "[api key]" in caught.value.body


def test_quiet():
    """Without any configuration of logging, nothing is written to standard error."""
    program = "import logging, payclient; payclient.AsyncClient; logging.getLogger('payclient').warning('x')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


async def test_structured_fields(caplog):
    """A record of the log has reference, attempt, status and seconds as fields of their own, for structured logging."""
    with caplog.at_level(logging.DEBUG, "payclient"):
        await client(ScriptedTransport()).get_transaction("T1")
    (record,) = [record for record in caplog.records if record.name == "payclient"]
    assert (record.reference, record.attempt, record.status, record.seconds < 60) == ("T1", 1, 200, True)


async def test_structured_pause(caplog):
    """The record of a pause has its status and its seconds."""
    transport = ScriptedTransport(T1=[answer(b'{"success": false, "message": "slow down"}', 429, retry_after="60")])
    with caplog.at_level(logging.WARNING, "payclient"):
        await client(transport, deadline=None).get_transaction("T1")
    (record,) = [record for record in caplog.records if record.name == "payclient"]
    assert (record.status, record.seconds) == (429, pytest.approx(60.0))


@pytest.mark.parametrize(("later", "lines"), [("9", 1), ("10.9", 1), ("11.1", 2), ("60", 2)])
async def test_longer_pause_is_logged(caplog, later, lines):
    """A pause is logged once, and again only when another answer makes it more than a second longer."""
    first, second = (answer(b"", 429, retry_after=seconds) for seconds in ("10", later))
    transport = ScriptedTransport(latency=1.0, T1=[first], T2=[second])
    with caplog.at_level(logging.WARNING, "payclient"):
        await asyncio.gather(*map(client(transport, deadline=None).get_transaction, ("T1", "T2")))
    assert len(caplog.records) == lines


async def test_short_pause_is_logged(caplog):
    """The first pause of the client is logged; one of up to 2 s holds its own request only."""
    transport = ScriptedTransport(T1=[answer(b"", 429, retry_after=seconds) for seconds in ("1", "2.5")])
    with caplog.at_level(logging.WARNING, "payclient"):
        await client(transport).get_transaction("T1")
    assert [record.getMessage() for record in caplog.records] == ["the service asks for a pause of 2.5 s (status 429)"]


async def test_seconds_of_an_attempt_that_was_not_answered():
    """The error of an attempt without a response has the seconds that it took."""
    transport = ScriptedTransport(latency=2.5, default=lambda _: ConnectionFailedError("refused"))
    await asyncio.sleep(7)
    with pytest.raises(ConnectionFailedError) as caught:
        await client(transport, retry=None).get_transaction("T1")
    assert caught.value.seconds == pytest.approx(2.5)


async def test_attempt_has_what_the_response_tells():
    """A record of an attempt has the identifier of the request, cleaned, and what was not as documented."""
    attempts = []
    told = {"x_request_id": f"r-1 {KEY}\x1b"}
    transport = ScriptedTransport(default=lambda _: answer(document("T1", amount="15000", expdate="10:00 WIB"), **told))
    pay = client(transport, on_attempt=attempts.append)
    await pay.get_transaction("T1")
    (attempt,) = attempts
    assert (attempt.request_id, attempt.url) == ("r-1 [api key]", pay.url)
    assert attempt.deviations == ("amount", "expdate")


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("7f3a-1", "7f3a-1"),
        ("", None),
        (f"r-1 {KEY}", "r-1 [api key]"),
        ("a\x85b", "a b"),
        ("x" * 900, "x" * 199 + "…"),
    ],
    ids=["plain", "none", "key", "control", "long"],
)
async def test_transaction_has_request_id(sent, kept):
    """A transaction has the identifier of its request without any observer, cleaned; the rest of it is as before."""
    reply = answer(document("T1"), x_request_id="", request_id=sent)
    found = await client(ScriptedTransport(default=lambda _: reply)).get_transaction("T1")
    plain = await client(ScriptedTransport()).get_transaction("T1")
    assert (found.request_id, plain.request_id) == (kept, None)
    assert (found, repr(found), found.as_json(), found.deviations) == (plain, repr(plain), plain.as_json(), ())
    assert (pickle.loads(pickle.dumps(found)).request_id, copy.copy(found).request_id) == (kept, kept)


@pytest.mark.parametrize("yielded", [None, 7], ids=["nothing", "a-number"])
async def test_tracing_that_yields_no_observer(yielded):
    """A tracing context that yields nothing gets no records; anything that cannot be called is refused, unsent."""
    transport = ScriptedTransport()
    pay = client(transport, tracing=lambda: nullcontext(yielded))
    if yielded is None:
        assert (await pay.get_transaction("T1")).reference == "T1"
        return
    with pytest.raises(TypeError, match="tracing must yield a callable that gets the attempts, or None, got int"):
        await pay.get_transaction("T1")
    assert transport.sent == []

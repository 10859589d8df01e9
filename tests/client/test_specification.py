"""Each rule of the specification, through the client and down to the bytes that a transport gets."""

import json

import attrs
import pytest

from payclient import AsyncClient, Transaction
from payclient.testing import envelope
from support.fakes import ScriptedTransport, answer

pytestmark = pytest.mark.virtual_time

REFERENCE = "T0000000033KGJ0D"
FIELDS = {
    "reference": REFERENCE,
    "merchant_reff": "INV-0001",
    "payment_method": "MANDIRIVA",
    "payment_name": "Mandiri Virtual Account",
    "amount": 153750,
    "fee": 4250,
    "amount_received": 149500,
    "payment_code": "8812345678901234",
    "expdate": "2030-01-31 23:59:59",
    "status": "Canceled",
}


def answering(value=None):
    """Return a transport that answers each request with the same JSON."""
    body = json.dumps(envelope(**FIELDS) if value is None else value).encode()
    return ScriptedTransport(default=lambda _: answer(body))


async def look_up(transport, reference=REFERENCE, *, environment="live"):
    async with AsyncClient(
        api_key="the-key", base_url="https://pay.example", environment=environment, transport=transport
    ) as client:
        return await client.get_transaction(reference)


async def sent(environment="live"):
    """Return the one request that a lookup sends."""
    transport = answering()
    await look_up(transport, environment=environment)
    (request,) = transport.sent
    return request


# Part 2: resources and their fields


async def test_ten_fields():
    """Part 2 and 4, rule 1: a transaction has the ten documented fields under the service's names; none is odd."""
    found = await look_up(answering())
    assert (found.as_json(with_payment_code=True), set(found.raw), found.deviations) == (FIELDS, set(FIELDS), ())


def test_no_other_fields():
    """Part 2: beside the ten fields a transaction has only what we say about the answer."""
    assert [field.name for field in attrs.fields(Transaction)] == [*FIELDS, "raw", "deviations", "request_id"]


# Part 3: states


@pytest.mark.parametrize("status", ["Canceled", "Paid", "whatever it is"])
async def test_status_is_not_interpreted(status):
    """Part 3: the list of states is not shown, so a status is the service's word as it came."""
    assert (await look_up(answering(envelope(**{**FIELDS, "status": status})))).status == status


# Part 4: the endpoint


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ("live", "https://pay.example/api/transaction/detail"),
        ("sandbox", "https://pay.example/api-sandbox/transaction/detail"),
    ],
)
async def test_path(environment, url):
    """Part 4: each environment has its path below the base URL."""
    assert (await sent(environment)).url == url


async def test_request():
    """Part 4 and 5: POST, JSON with the reference and nothing else, and `Bearer ` with the key."""
    request = await sent()
    assert (request.method, request.headers["Content-Type"]) == ("POST", "application/json")
    assert (json.loads(request.body), request.authorization()) == ({"reference": REFERENCE}, "Bearer the-key")


async def test_reference_is_sent_exactly():
    """Part 4: the reference is sent as it was given, with its spaces, quotes and case."""
    reference = 't "é" -T'
    transport = answering(envelope(**{**FIELDS, "reference": reference}))
    await look_up(transport, reference)
    assert json.loads(transport.sent[0].body) == {"reference": reference}


# Part 5: authentication


async def test_every_request_is_authorized():
    """Part 5, rule 1: every request carries the key, retries included."""
    transport = answering({"success": True})
    with pytest.raises(Exception, match="data: absent"):
        await look_up(transport)
    assert [request.authorization() for request in transport.sent] == ["Bearer the-key"] * 2


# Part 9: versioning


async def test_environments_differ_in_path_only():
    """Part 9: live and sandbox send exactly the same request but for the path."""
    live, sandbox = await sent("live"), await sent("sandbox")
    assert live.url.replace("/api/", "/api-sandbox/") == sandbox.url
    assert (live.method, dict(live.headers), live.body) == (sandbox.method, dict(sandbox.headers), sandbox.body)


async def test_no_version_is_sent():
    """Part 9: no version header exists, so none is sent: these headers are all there are."""
    names = set((await sent()).headers)
    assert names == {"Content-Type", "Accept", "Accept-Encoding", "User-Agent"}

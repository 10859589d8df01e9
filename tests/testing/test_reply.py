"""A reply becomes exactly the status, headers and body that it says."""

import json

import pytest

from payclient import Transaction
from payclient.errors import (
    AuthenticationError,
    RateLimitedError,
    ReferenceMismatchError,
    RejectedError,
    TransactionNotFoundError,
    UnexpectedResponseError,
)
from payclient.protocol._wire import parse_response
from payclient.testing import FakeService, Reply, changed
from payclient.transports import Response
from support.malformed import MALFORMED
from support.misses import check_table
from testing.asking import ask

ENVELOPE = {"success": True, "data": {"reference": "T1"}}
FAILED = b'{"success":false,"message":"Service Unavailable"}'


def test_content():
    """The body of a reply is sent unchanged if it is bytes or text, and otherwise as JSON."""
    cases = {
        "normal": (Reply(), b'{"success":true,"data":{"reference":"T1"}}'),
        "failure": (Reply(status=503), FAILED),
        "failure without words": (Reply(status=520), b'{"success":false,"message":"Status 520"}'),
        "bytes": (Reply(body=b"\xff"), b"\xff"),
        "no bytes": (Reply(body=b""), b""),
        "text": (Reply(body="é"), "é".encode()),
        "object": (Reply(body={"a": 1}), b'{"a":1}'),
        "list": (Reply(body=[]), b"[]"),
        "function to object": (Reply(body=lambda envelope: envelope["data"]), b'{"reference":"T1"}'),
        "function to bytes": (Reply(body=lambda _: b"cut"), b"cut"),
        "function to null": (Reply(body=lambda _: None), b"null"),
        "status without body": (Reply(status=204), b""),
        "status without body, in spite of one": (Reply(status=304, body=b"x"), b""),
    }
    check_table(cases.values(), lambda reply: reply.content(ENVELOPE))


@pytest.mark.parametrize(
    ("reply", "headers"),
    [
        (Reply(), {"content-type": "application/json", "content-length": "3"}),
        (Reply(headers={"Content-Type": "text/html"}), {"content-type": "text/html", "content-length": "3"}),
        (Reply(status=204, headers={"X-A": "1"}), {"x-a": "1"}),
    ],
    ids=["JSON", "other", "no body"],
)
def test_headers(reply, headers):
    """Headers of the reply win over those that go without saying."""
    assert reply.all_headers(b"abc") == headers


@pytest.mark.parametrize("status", [100, 199, 600])
def test_no_final_status(status):
    """A status that cannot end a response is refused."""
    with pytest.raises(ValueError, match="status"):
        Reply(status=status)


TOLERATED = {
    "amount_as_text",
    "amount_as_text_with_cents",
    "fee_null",
    "status_as_number",
    "optional_fields_null",
    "optional_fields_empty",
    "payment_code_as_number",
    "expdate_with_zone",
    "expdate_zero",
    "unknown_field",
    "byte_order_mark",
}
MEANINGS = {
    **dict.fromkeys(MALFORMED, UnexpectedResponseError),
    **dict.fromkeys(TOLERATED, Transaction),
    "wrong_reference": ReferenceMismatchError,
    "success_false": RejectedError,
    "rate_limited_page": RateLimitedError,
}


async def answer_to(reply):
    service = FakeService()
    service.add(reference="T1")
    service.script("T1", reply)
    return await ask(service)


def meaning(answer):
    """Return the class of what the client makes of an answer."""
    try:
        return type(parse_response(Response(answer.status_code, answer.headers, answer.content), "T1"))
    except (
        UnexpectedResponseError,
        RateLimitedError,
        RejectedError,
        TransactionNotFoundError,
        AuthenticationError,
    ) as error:
        return type(error)


async def test_meaning(subtests):
    """Every malformed response gives a transaction if it is harmless, and otherwise the expected error."""
    for name in MALFORMED:
        with subtests.test(name=name):
            assert meaning(await answer_to(MALFORMED[name])) is MEANINGS[name]


async def test_is_odd(subtests):
    """Every malformed response that is tolerated leaves a note, so it did arrive."""
    for name in sorted(TOLERATED):
        with subtests.test(name=name):
            answer = await answer_to(MALFORMED[name])
            assert parse_response(Response(200, answer.headers, answer.content), "T1").deviations != ()


async def test_changed():
    """A changed field is the only difference, and a function gets the value as it was."""
    normal = (await answer_to(Reply())).json()
    odd = (await answer_to(Reply(body=changed(amount=lambda amount: amount + 1, fee=None)))).json()
    assert odd == {**normal, "data": {**normal["data"], "amount": normal["data"]["amount"] + 1, "fee": None}}


async def test_stored_stays():
    """A malformed response does not change the stored transaction."""
    service = FakeService()
    stored = dict(service.add(reference="T1"))
    replies = [*MALFORMED.values(), Reply(body=lambda envelope: envelope["data"].clear())]
    service.script("T1", *replies)
    for _ in replies:
        await ask(service)
    assert (await ask(service)).json()["data"] == stored


async def test_cut():
    """A truncated body is not JSON."""
    with pytest.raises(json.JSONDecodeError):
        (await answer_to(MALFORMED["cut_json"])).json()

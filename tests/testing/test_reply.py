"""A reply becomes exactly the status, headers and body that it says."""

import pytest

from payclient.testing import FakeService, Reply, changed
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
    with pytest.raises(TypeError, match="'status' must be <class 'int'>"):
        Reply(status=str(status))


async def answer_to(reply):
    service = FakeService()
    service.add(reference="T1")
    service.script("T1", reply)
    return await ask(service)


async def test_changed():
    """A changed field is the only difference, and a function gets the value as it was."""
    normal = (await answer_to(Reply())).json()
    odd = (await answer_to(Reply(body=changed(amount=lambda amount: amount + 1, fee=None)))).json()
    assert odd == {**normal, "data": {**normal["data"], "amount": normal["data"]["amount"] + 1, "fee": None}}


async def test_stored_stays():
    """A response that was changed does not change the stored transaction."""
    service = FakeService()
    stored = dict(service.add(reference="T1"))
    replies = [Reply(body=changed(amount=str)), Reply(body=lambda envelope: envelope["data"].clear())]
    service.script("T1", *replies)
    for _ in replies:
        await ask(service)
    assert (await ask(service)).json()["data"] == stored

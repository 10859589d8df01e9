"""A reply becomes exactly the status, headers and body that it says."""

from __future__ import annotations

import pytest

from payclient.testing import Reply

ENVELOPE = {"success": True, "data": {"reference": "T1"}}
FAILED = b'{"success":false,"message":"Service Unavailable"}'


@pytest.mark.parametrize(
    ("reply", "content"),
    [
        pytest.param(Reply(), b'{"success":true,"data":{"reference":"T1"}}', id="normal"),
        pytest.param(Reply(status=503), FAILED, id="failure"),
        pytest.param(Reply(status=520), b'{"success":false,"message":"Status 520"}', id="failure without words"),
        pytest.param(Reply(body=b"\xff"), b"\xff", id="bytes"),
        pytest.param(Reply(body=b""), b"", id="no bytes"),
        pytest.param(Reply(body="é"), "é".encode(), id="text"),
        pytest.param(Reply(body={"a": 1}), b'{"a":1}', id="object"),
        pytest.param(Reply(body=[]), b"[]", id="list"),
        pytest.param(Reply(body=lambda envelope: envelope["data"]), b'{"reference":"T1"}', id="function to object"),
        pytest.param(Reply(body=lambda _: b"cut"), b"cut", id="function to bytes"),
        pytest.param(Reply(body=lambda _: None), b"null", id="function to null"),
        pytest.param(Reply(status=204), b"", id="status without body"),
        pytest.param(Reply(status=304, body=b"x"), b"", id="status without body, in spite of one"),
    ],
)
def test_content(reply, content):
    """The body is what the reply says, bytes and text as they are, anything else as JSON."""
    assert reply.content(ENVELOPE) == content


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

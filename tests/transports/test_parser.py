"""The response parser, without an event loop: bytes in, one response out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.transports._parser import MalformedError, ResponseParser
from support.raw_server import head, http

OK = http(b"{}")
CHUNKED = head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


def parsed(*parts):
    """Return the response and its parser after these parts have been fed."""
    parser, response = ResponseParser(), None
    parser.begin()
    for part in parts:
        response = response or (parser.feed(part) if parser.is_awaited else None)
    return response, parser


@given(st.sampled_from([OK, CHUNKED, HINTS + OK]), st.data())
def test_cut_anywhere(message, data):
    """However a message is cut, the response is the same, and the connection can be reused."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(message) - 1), max_size=6)))
    parts = [message[start:end] for start, end in zip([0, *cuts], [*cuts, len(message)], strict=True)]
    response, parser = parsed(*parts)
    assert (response.status_code, response.body, response.is_fresh) == (200, b"{}", True)
    assert (parser.is_reusable, parser.is_awaited) == (True, False)


def test_what_follows():
    """What follows a response in the same bytes does not change it, and its connection is neither fresh nor reused."""
    for behind in (OK, b"HTTP/1.1 ", b"garbage", b"\0", HINTS):
        for message in (OK, CHUNKED):
            response, parser = parsed(message + behind)
            found = (response.status_code, response.body, response.is_fresh, parser.is_reusable)
            assert found == (200, b"{}", False, False), (message, behind)


def test_ambiguous_end():
    """A response is complete, and its connection not reused, where an intermediary may see another end."""
    for message in (
        head("HTTP/1.1 204 No Content"),
        head("HTTP/1.1 304 Not Modified"),
        head("HTTP/1.1 200 OK", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
        http(b"{}", "200 OK", "Connection: close"),
        http(b"{}").replace(b"HTTP/1.1", b"HTTP/1.0"),
    ):
        response, parser = parsed(message)
        assert response is not None, message
        assert (parser.is_reusable, parser.is_awaited) == (False, False), message


def test_malformed():
    """What is not one well-formed response raises, and says why."""
    for message, reason in (
        (b"garbage\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 000 X\r\n\r\n", "status 000"),
        (b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", "control character|not HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "unknown transfer coding"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "not HTTP"),
        (b"HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\n{}", "body in an interim|not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: yyyy\r\n" * 40_000, "headers of more than"),
    ):
        with pytest.raises(MalformedError, match=reason):
            parsed(message)


def test_limits():
    """A body is cut at its limit; endless framing is refused."""
    response, parser = parsed(head("HTTP/1.1 200 OK", "Content-Length: 9999999") + b"x" * 300_000)
    assert (len(response.body), response.is_truncated, parser.is_reusable) == (256 * 1024, True, False)
    with pytest.raises(MalformedError, match="more than 524288 bytes"):
        parsed(head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + b"1;" + b"x" * 600_000)


def test_end_of_connection():
    """Without length and chunks a response ends with its connection; any other is cut by it."""
    for message, body in ((head("HTTP/1.1 200 OK") + b"{}", b"{}"), (OK[:-1], None), (CHUNKED[:-2], None), (b"", None)):
        response, parser = parsed(message)
        assert response is None, message
        ended = parser.end()
        assert (ended and ended.body) == body, message


def test_second_exchange():
    """The response of a later exchange is not fresh, and has nothing of the one before."""
    parser = ResponseParser()
    parser.begin()
    parser.feed(http(b"one", "200 OK", "X-Only: once"))
    parser.begin()
    response = parser.feed(OK)
    assert (response.body, response.is_fresh, "x-only" in response.headers) == (b"{}", False, False)


def test_raw_headers():
    """Repeated headers are joined for lookups, and kept apart for callers that need them as they were received."""
    response, parser = parsed(http(b"{}", "200 OK", "Set-Cookie: a=1", "Set-Cookie: b=2"))
    assert response.headers["set-cookie"] == "a=1, b=2"
    assert [value for name, value in parser.raw_headers if name == b"Set-Cookie"] == [b"a=1", b"b=2"]

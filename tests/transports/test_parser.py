"""The response parser, without an event loop: bytes in, one response out."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payclient.protocol import BODY_LIMIT
from payclient.transports._parser import MalformedError, ResponseParser
from support.raw_server import head, http

OK = http(b"{}")
CHUNKED = head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
ENDLESS = head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked")
PIECES = [
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 103 Early Hints\r\n", b"X: \0\r\n", b" folded\r\n"),
    *(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n", b"Connection: close\r\n"),
    *(b"Content-Length: 2\r\n", b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Transfer-Encoding: gzip, chunked\r\n", b"2\r\n{}\r\n", b"0\r\n\r\n", b"\r\n", b"\n", b"{}", OK),
]


def parsed(*parts):
    """Return the response and its parser after these parts have been fed."""
    parser, response = ResponseParser(), None
    parser.begin()
    for part in parts:
        response = response or (parser.feed(part) if parser.is_awaited else None)
    return response, parser


def meaning(*parts):
    """Return the response of an exchange that ends with its connection; None if it is malformed or cut."""
    try:
        response, parser = parsed(*parts)
    except MalformedError:
        return None
    response = response or parser.end()
    return response and (response.status_code, dict(response.headers), response.body, response.is_truncated)


def test_body_of_an_interim_answer():
    """A body before the head of the final response is malformed, whatever reads it."""
    parser = ResponseParser()
    parser.begin()
    parser.on_body(b"x")
    with pytest.raises(MalformedError, match="a body in an interim answer"):
        parser.feed(OK)


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=40), max_size=12))
@example([b"HTTP/1.1 200 OK\r\n\r\n", b"{}"])
@example([b"HTTP/1.1 200 OK\r\n", b"X: \0\r\n", b"Content-Length: 2\r\n", b"\r\n", b"{}"])
def test_any_bytes(parts):
    """For any bytes, an exchange ends with a final response within the limit, or as malformed."""
    for given_parts in (parts, [b"".join(parts)]):
        if found := meaning(*given_parts):
            assert (found[0] >= 200, len(found[2]) <= BODY_LIMIT) == (True, True)


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.integers(1, 60), max_size=20))
@example([OK, b"HTTP/1.1 103 Early Hints\r\n\r\n"], [1, 45])
@example([HINTS, CHUNKED], [1, 2, 3, 40, 60])
def test_cut_anywhere(parts, cuts):
    """The meaning of bytes does not depend on how they are split."""
    whole, pieces, rest = b"".join(parts), [], b"".join(parts)
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert meaning(*pieces, rest) == meaning(whole)


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
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 30_000, "more than 524288 bytes"),
        (ENDLESS + b"1;" + b"x" * 600_000, "more than 524288 bytes"),
        (ENDLESS + b"0\r\n" + b"A: x\r\n" * 100_000, "more than 524288 bytes"),
        *((http(b"{}", "200 OK", f"X: a{control}b"), "control character|not HTTP") for control in "\0\x01\x0b\x7f"),
    ):
        with pytest.raises(MalformedError, match=reason):
            parsed(message)


def test_limits():
    """A body as long as the limit is whole; a longer one is cut there, and its connection not reused."""
    for size in (BODY_LIMIT, BODY_LIMIT + 1):
        response, parser = parsed(http(b"x" * size))
        found = (len(response.body), response.is_truncated, parser.is_reusable)
        assert found == (BODY_LIMIT, size > BODY_LIMIT, size == BODY_LIMIT)


def test_small_chunks():
    """A chunk counts as 64 bytes at least: a body in chunks of one byte is cut long before the limit."""
    response, parser = parsed(ENDLESS + b"1\r\nx\r\n" * 5000)
    assert (response.is_truncated, len(response.body), parser.is_reusable) == (True, BODY_LIMIT // 64 + 1, False)


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


def test_headers():
    """Names are in lower case, repeated headers are joined for lookups, and kept apart for callers that need them."""
    response, parser = parsed(http(b"{}", "203 Odd", "Set-Cookie: a=1", "Set-Cookie: b=2", "X-Odd: \xe9"))
    assert (response.status_code, response.headers["set-cookie"], response.headers["x-odd"]) == (
        203,
        "a=1, b=2",
        "\xe9",
    )
    assert [value for name, value in parser.raw_headers if name == b"Set-Cookie"] == [b"a=1", b"b=2"]


def test_no_headers_of_others():
    """Neither an interim response nor a trailer adds a header or replaces one."""
    trailers = b"2\r\n{}\r\n0\r\nX-Kind: trailer\r\nX-More: trailer\r\n\r\n"
    response, _ = parsed(HINTS + head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "X-Kind: head") + trailers)
    assert response.headers == {"transfer-encoding": "chunked", "x-kind": "head"}

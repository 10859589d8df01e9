"""The head that a connection has received before: read as llhttp reads it, or not at all."""

import attrs
import pytest

from fuzz.heads import BODY, differences, nested
from payclient.transports._parser import KnownHead, ResponseParser

HEAD = b"HTTP/1.1 200 OK\r\nDate: Tue, 24 Nov 2026 10:00:00 GMT\r\nX-Request-Id: 0a\r\nContent-Length: %d\r\n\r\n"
FIRST = HEAD % len(BODY) + BODY


class Counting(ResponseParser):
    """Counts the headers that llhttp reports."""

    count = 0

    def on_header(self, name, value):
        self.count += 1
        super().on_header(name, value)


def received(parser, message):
    parser.begin()
    return parser.feed(memoryview(message))


def test_differences():
    """Mutated responses mean the same with and without a known head, and a fair part has one."""
    wrong, known = differences(10_000, seed=1)
    assert (wrong, known > 1_000) == (0, True)


def test_no_callbacks():
    """A head that differs in the digits of date, identifier and length is read without a callback, as it stands."""
    parser = Counting()
    received(parser, FIRST)
    second = FIRST.replace(b"24 Nov 2026 10:00:00", b"25 Nov 2026 11:30:01").replace(b"0a", b"F9").replace(b"T1", b"T2")
    response = received(parser, second)
    assert (parser.count, parser.is_reusable, parser.is_awaited) == (3, True, False)
    assert response.headers == {"date": "Tue, 25 Nov 2026 11:30:01 GMT", "x-request-id": "F9", "content-length": "73"}
    assert parser.raw_headers[1] == (b"X-Request-Id", b"F9")
    assert (response.status_code, response.body, response.is_fresh) == (200, BODY.replace(b"T1", b"T2"), False)


def test_left_to_llhttp():
    """Everything else is left to llhttp, and the known head of one connection is unknown to another."""
    other = FIRST.replace(b"200 OK", b"201 OK")
    for first in (FIRST, other):  # each begins a connection
        parser = Counting()
        received(parser, first)
        assert parser.count == 3
    for message in (
        other,
        FIRST.replace(b"Tue", b"Wed"),
        FIRST.replace(b"0a", b"0g"),
        HEAD % 2 + b"{}",
        FIRST + b"\r\n",
    ):
        parser = Counting()
        received(parser, FIRST)
        received(parser, message)
        assert parser.count == 6, message
    parser = Counting()
    received(parser, FIRST)
    parser.begin()
    assert [parser.feed(FIRST[:-1]), parser.feed(FIRST[-1:]).body, parser.count] == [None, BODY, 6]


@pytest.mark.parametrize(
    "message",
    [FIRST.replace(b"Date: ", b"Connection: close\r\nDate: "), FIRST + b"\r\n", FIRST.replace(b"\r\n", b"\n")],
)
def test_not_remembered(message):
    """The head of a response that ends its connection, or with more than the plainest form, is not remembered."""
    parser = Counting()
    received(parser, message)
    assert parser.known_head is None


def test_always_new():
    """A service that writes a new head each time is not remembered forever."""
    parser = Counting()
    for number in range(100, 140):
        received(parser, FIRST.replace(b"200 OK", b"%d OK" % (number + 300)))
    assert parser.known_head.status_code == 415


@pytest.mark.parametrize("prefix", [b"", b"<html>"])
def test_inside_of_a_body(prefix):
    """A segment of a body that looks like a response received before is a part of that body."""
    parser = ResponseParser()
    received(parser, FIRST)
    message, place = nested(FIRST, prefix)
    assert received(parser, message[:place]) is None
    assert parser.feed(memoryview(message[place:])).body == prefix + FIRST


def broken(kind):
    """Return parsers whose known heads are of *kind*."""

    class Broken(ResponseParser):
        def feed(self, data):
            response = super().feed(data)
            if self.known_head is not None:
                self.known_head = kind(*attrs.astuple(self.known_head, recurse=False))
            return response

    return Broken


def group_of_the_length(head):
    return [name for name, _ in head.variables].index("content-length") + 1


class BelievesAnotherLength(KnownHead):
    def find(self, data):
        message, match = bytes(data), self.pattern.match(data)
        if match is not None:
            start, end = match.span(group_of_the_length(self))
            message = message[:start] + b"%d" % len(match["body"]) + message[end:]
        return super().find(message)


class DoesNotLookBehind(KnownHead):
    def find(self, data):
        match = self.pattern.match(data)
        if match is not None:
            data = data[: match.start("body") + int(match[group_of_the_length(self)])]
        return super().find(data)


class LooksInsideOfABody(ResponseParser):
    def feed(self, data):
        before, self.received = self.received, 0
        try:
            return super().feed(data)
        finally:
            self.received += before


@pytest.mark.parametrize(
    "parser",
    [broken(BelievesAnotherLength), broken(DoesNotLookBehind), LooksInsideOfABody],
    ids=["length", "behind", "inside"],
)
def test_controls(parser):
    """The comparison notices a known head of another length, and one that is sought behind or inside of a body."""
    assert differences(5_000, seed=2, make=parser)[0] > 0

"""
Compare the parser with one that remembers no head, over mutations of real responses: `python -m fuzz.heads [COUNT]`.

Both get the same bytes, one connection after the other. They must give the same responses, headers and errors, and
agree on whether the connection can be reused.
"""

import random
import re
import sys
from collections.abc import Callable

from payclient.transports._parser import MalformedError, ResponseParser

COUNT = 200_000
BODY = b'{"success":true,"data":{"reference":"T1","amount":10000,"status":"Paid"}}'
HEADS = [
    "200 OK|Server: nginx|Date: Tue, 24 Nov 2026 10:00:00 GMT|Content-Type: application/json|Content-Length: {}",
    "200 OK|date: Tue, 24 Nov 2026 10:00:00 GMT|server: uvicorn|content-length: {}|content-type: application/json",
    "200 OK|Content-Length: {}|X-Request-Id: 8f3a0b1c-1234-4abc-9def-0123456789ab|Connection: keep-alive",
    "200 OK|Date: Tue, 24 Nov 2026 10:00:00 GMT|Content-Length: {}|CF-RAY: 8e7c0a1b2c3d4e5f-SIN|Via: 1.1 x",
    "404 Not Found|Set-Cookie: a=1|Set-Cookie: b=2|Content-Length: {}|Keep-Alive: timeout=5, max=100",
    "200 OK|X-Powered-By: PHP/8.2.7|Request-Id: 00000000000000000000000000000001|Content-Length:  {}|Vary: Accept",
]
LINES = [
    *(
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        b"Content-Length: 5",
        b"Content-Length: 73",
        b"Upgrade: h2c",
    ),
    *(b" folded", b"\tfolded", b"X: \x01", b"X", b": x", b"X :y", b"Date: 1", b"X-Request-Id: 1", b"", b"Trailer: X"),
]


def messages() -> list[bytes]:
    """Return one well-formed response of each server."""
    return [
        ("HTTP/1.1 " + head.format(len(body)).replace("|", "\r\n") + "\r\n\r\n").encode() + body
        for head in HEADS
        for body in (BODY, b"{}", b"")
    ]


def _digit(draw: random.Random, message: bytearray) -> None:
    place = draw.randrange(len(message))
    while not chr(message[place]).isdigit():
        place = draw.randrange(len(message))
    message[place] = draw.choice(b"0123456789abcF -")


def _byte(draw: random.Random, message: bytearray) -> None:
    message[draw.randrange(len(message))] = draw.randrange(256)


def _cut(draw: random.Random, message: bytearray) -> None:
    start = draw.randrange(len(message))
    del message[start : start + draw.randrange(1, 4)]


def _insert(draw: random.Random, message: bytearray) -> None:
    place = draw.randrange(len(message))
    message[place:place] = draw.choice([b"\r\n", b"\n", b" ", b"0", b"\t", b"\r", b"\0", b"1"])


def _line(draw: random.Random, message: bytearray) -> None:
    ends = [place for place in range(len(message) - 1) if message[place : place + 2] == b"\r\n"]
    if ends:
        place = draw.choice(ends)
        message[place:place] = b"\r\n" + draw.choice(LINES)


def _behind(draw: random.Random, message: bytearray) -> None:
    message += draw.choice([b"\r\n", b"\n", b"{", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"\0"])


def _length(draw: random.Random, message: bytearray) -> None:
    place = message.lower().find(b"content-length: ") + 16
    message[place : place + draw.randrange(1, 3)] = b"%d" % draw.randrange(100)


def _case(draw: random.Random, message: bytearray) -> None:
    start = draw.randrange(len(message))
    message[start : start + 3] = message[start : start + 3].swapcase()


MUTATIONS = (_digit, _digit, _digit, _byte, _cut, _insert, _line, _behind, _length, _case)


def nested(message: bytes, prefix: bytes) -> tuple[bytes, int]:
    """Return a response whose body ends with *message*, and where that begins."""
    head, _, _ = message.partition(b"\r\n\r\n")
    size = len(prefix) + len(message)
    outer = re.sub(rb"(?i)(content-length: +)[0-9]+", rb"\g<1>%d" % size, head) + b"\r\n\r\n" + prefix
    return outer + message, len(outer)


class PlainParser(ResponseParser):
    """One that remembers no head."""

    __slots__ = ()

    def _remember(self, data: bytes, response: object) -> None:
        pass


def outcome(parser: ResponseParser, parts: list[bytes]) -> tuple[object, ...]:
    """Return all that the parser says about one exchange."""
    parser.begin()
    try:
        response = None
        for part in parts:
            response = parser.feed(part) if response is None else response
        response = response or parser.end()
    except MalformedError as error:
        return str(error), parser.has_head, parser.received
    if response is None:
        return (None, parser.has_head, parser.received)
    shown = (response.status_code, dict(response.headers), response.body, response.is_truncated, response.is_fresh)
    return (*shown, parser.raw_headers, parser.is_reusable, parser.is_awaited)


def differences(count: int, seed: int, make: Callable[[], ResponseParser] = ResponseParser) -> tuple[int, int]:
    """Return how many of *count* responses the parsers read differently, and how many had a known head."""
    draw, wellformed = random.Random(seed), messages()
    wrong = known = done = 0
    while done < count:
        message = draw.choice(wellformed)
        parsers = (make(), PlainParser())
        for parser in parsers:
            outcome(parser, [message])
        for _ in range(8):
            mutated = bytearray(message)
            for _ in range(draw.randrange(3)):
                if mutated:
                    draw.choice(MUTATIONS)(draw, mutated)
            place = draw.randrange(len(mutated)) if mutated and draw.random() < 0.1 else len(mutated)
            if draw.random() < 0.1:  # a known head inside of a body, at the beginning of a segment
                whole, place = nested(message, draw.choice([b"", b"<html>", BODY]))
                mutated = bytearray(whole)
            parts = [bytes(part) for part in (mutated[:place], mutated[place:]) if part]
            known += parsers[0].known_head is not None and parsers[0].known_head.find(bytes(mutated)) is not None
            found, expected = (outcome(parser, parts) for parser in parsers)
            wrong += found != expected
            done += 1
            if not (parsers[0].is_reusable and parsers[1].is_reusable):
                break
    return wrong, known


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    size = min(total, 100_000)
    sums = [0, 0]
    for seed in range(max(1, total // size)):
        for place, number in enumerate(differences(size, seed)):
            sums[place] += number
        print(f"{(seed + 1) * size} responses, {sums[1]} with a known head, {sums[0]} differences", flush=True)
    sys.exit(sums[0] > 0)

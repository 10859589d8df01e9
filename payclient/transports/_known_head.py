"""
A head that a connection has received before, found again without a callback for each header.

A service answers every lookup with the same head, but for the digits of its length, its date and its identifier of the
request. A response is read here if the whole of it came at once, nothing came behind it, and its head is, byte for
byte but for those digits, one that this connection received before and that llhttp accepted. llhttp reads both heads
the same way: of those digits, only the length has a meaning in HTTP. Everything else is left to llhttp.
"""

from collections.abc import Mapping, Sequence
from typing import Self

from attrs import frozen

from payclient.protocol import BODY_LIMIT

_END = b"\r\n\r\n"
_LENGTH = "content-length"
_DECIMAL = bytes.maketrans(b"0123456789", b"0" * 10)
_HEXADECIMAL = bytes.maketrans(b"0123456789abcdefABCDEF", b"0" * 22)
_VARIABLES = {
    _LENGTH: _DECIMAL,
    "date": _DECIMAL,
    **dict.fromkeys(("x-request-id", "request-id", "x-correlation-id", "cf-ray"), _HEXADECIMAL),
}
"""The headers whose digits may differ, each with the table that makes its digits equal."""


@frozen(eq=False)
class KnownHead:
    """One head, as llhttp has accepted it."""

    status_code: int
    headers: Mapping[str, str]
    raw_headers: Sequence[tuple[bytes, bytes]]
    size: int
    parts: Sequence[tuple[int, int, bytes | None, bytes]]
    """Start, end, the table that makes digits equal (None if they may not differ), and the bytes expected with it."""
    variables: Sequence[tuple[int, int, str, int]]
    """Start, end, name and position among all headers of those whose digits may differ."""
    length: slice

    @classmethod
    def of(
        cls,
        message: bytes,
        body_size: int,
        status_code: int,
        headers: Mapping[str, str],
        raw_headers: Sequence[tuple[bytes, bytes]],
    ) -> Self | None:
        """Return the head of *message*, a reusable response. None if its shape is not the plainest one."""
        size = len(message) - body_size
        head = message[:size]
        is_plain = head.startswith(b"HTTP/1.1 ") and head.find(_END) == size - len(_END) and b"\t" not in head
        has_lines = head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r") and b"\r\n " not in head
        if not is_plain or not has_lines or len(headers) != len(raw_headers) or _LENGTH not in headers:
            return None
        variables: list[tuple[int, int, str, int]] = []
        for place, (name, value) in enumerate(raw_headers):
            if (key := name.decode("latin-1").lower()) in _VARIABLES:
                line = b"\r\n%b: %b\r\n" % (name, value)
                if head.count(line) != 1:  # more white space than usual
                    return None
                end = head.index(line) + len(line) - 2
                variables.append((end - len(value), end, key, place))
        parts: list[tuple[int, int, bytes | None, bytes]] = []
        done = 0
        for start, end, key, _ in variables:
            digits = _VARIABLES[key]
            parts += [(done, start, None, head[done:start]), (start, end, digits, head[start:end].translate(digits))]
            done = end
        parts.append((done, size, None, head[done:]))
        length = next(slice(start, end) for start, end, key, _ in variables if key == _LENGTH)
        if not head[length].isdigit() or int(head[length]) != body_size:
            return None
        return cls(status_code, headers, raw_headers, size, parts, variables, length)

    def find(self, data: bytes | memoryview) -> tuple[dict[str, str], list[tuple[bytes, bytes]], bytes] | None:
        """Return headers and body of *data* if it is one whole response with this head. Otherwise None."""
        message = bytes(data)
        for start, end, digits, expected in self.parts:
            if (message[start:end] if digits is None else message[start:end].translate(digits)) != expected:
                return None
        body = message[self.size :]
        size = len(body)
        if size != int(message[self.length]) or size > BODY_LIMIT:
            return None
        headers, raw_headers = dict(self.headers), list(self.raw_headers)
        for start, end, key, place in self.variables:
            value = message[start:end]
            headers[key] = value.decode("latin-1")
            raw_headers[place] = (raw_headers[place][0], value)
        return headers, raw_headers, body

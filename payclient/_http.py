"""What crosses the border between the client and a transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import field, frozen


@frozen(eq=False)
class Request:
    """
    One HTTP request.

    Attributes:
        method: Always `POST` today.
        url: Absolute.
        headers: Without `Authorization`.
        body: The bytes to send.
        authorization: Gives the value of the `Authorization` header. A function, because the text
            of the key is never kept in a value that prints: call it while writing the headers.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    authorization: Callable[[], str] = field(repr=False)


@frozen(eq=False)
class Response:
    """
    One whole HTTP response.

    Attributes:
        status_code: As sent by the service.
        headers: Names in lower case; of a repeated header, the values joined by a comma.
        body: The bytes as they came, still under their `Content-Encoding`.
        is_truncated: The body was longer than the transport's cap, and the rest was not read.
        connection: By what its own transport knows the connection again; None where it cannot.
    """

    status_code: int
    headers: Mapping[str, str] = field(repr=False)  # both may echo what must not be printed
    body: bytes = field(repr=False)
    is_truncated: bool = False
    connection: object | None = field(default=None, repr=False)


BODY_LIMIT = 256 * 1024
"""Bytes read of a body, raw and decoded. The documented answer has about 350."""

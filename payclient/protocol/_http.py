"""The request and response that client and transport exchange."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from contextvars import ContextVar

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
        needs_fresh_connection: Send it over a connection that has carried no exchange before, on which
            no other answer can be under way.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    authorization: Callable[[], str] = field(repr=False)
    needs_fresh_connection: bool = False


@frozen(eq=False)
class Response:
    """
    One whole HTTP response.

    Attributes:
        status_code: As sent by the service.
        headers: Names in lower case; of a repeated header, the values joined by a comma.
        body: The bytes as they came, still under their `Content-Encoding`.
        is_truncated: The body was longer than the transport's cap, and the rest was not read.
        connection: A handle by which the transport recognises the connection; None if it has none.
        is_fresh: The connection had carried no exchange before this one, and nothing follows the
            answer; False where the transport does not know.
    """

    status_code: int
    headers: Mapping[str, str] = field(repr=False)  # both may echo what must not be printed
    body: bytes = field(repr=False)
    is_truncated: bool = False
    connection: object | None = field(default=None, repr=False)
    is_fresh: bool = False


fresh_references: ContextVar[Container[str]] = ContextVar("payclient_fresh_references", default=())
"""References that a task and its children look up over fresh connections, because one lookup confirms another."""

BODY_LIMIT = 256 * 1024
"""Bytes read of a body, raw and decoded. The documented answer has about 350."""

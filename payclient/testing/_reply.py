"""One answer of the fake service, whatever it is: the language of scripts, faults and assumptions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, TypeAlias

from attrs import field, frozen, validators

Oddity: TypeAlias = Callable[[dict[str, Any]], object]
"""Takes the answer as it would have been, and returns what is sent instead: bytes and text as they are, else JSON."""

Body: TypeAlias = bytes | str | Mapping[str, Any] | list[Any] | Oddity | None

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_WITHOUT_BODY = frozenset({204, 304})


def json_bytes(value: object) -> bytes:
    """Return *value* as JSON, the way the fake writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict).encode()


def _lower(headers: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({name.lower(): value for name, value in headers.items()})


@frozen(kw_only=True)
class Reply:
    """
    One answer of the fake service; `Reply()` is the normal one.

    Attributes:
        status: HTTP status.
        headers: Sent besides, or instead of, `content-type: application/json`.
        body: Bytes and text are sent as they are, objects and lists as JSON. A function gets the
            answer as it would have been and returns what is sent instead. None is the transaction
            when the status is 200, or else a failure envelope with the status in words.
        delay: Seconds until it is sent, on top of the service's latency.
        is_dead: It is never sent: the request stays in flight until its client gives up.
    """

    status: int = field(default=200, validator=[validators.ge(200), validators.le(599)])
    headers: Mapping[str, str] = field(default=_NO_HEADERS, converter=_lower)
    body: Body = None
    delay: float = field(default=0.0, validator=validators.ge(0))
    is_dead: bool = False

    @property
    def is_about_transaction(self) -> bool:
        """Whether the body is made from the transaction that was asked for."""
        return callable(self.body) or (self.body is None and self.status == 200)

    def content(self, envelope: dict[str, Any]) -> bytes:
        """
        Return the bytes of the body.

        Args:
            envelope: The answer as it would have been; a function as the body may change it.
        """
        body: object = self.body(envelope) if callable(self.body) else self.body
        if self.status in _WITHOUT_BODY:
            return b""
        if body is None and not callable(self.body):
            body = envelope if self.status == 200 else failure(_words(self.status))
        if isinstance(body, str):
            return body.encode()
        return body if isinstance(body, bytes) else json_bytes(body)

    def all_headers(self, content: bytes) -> dict[str, str]:
        """Return the headers to send with *content*, names in lower case."""
        if self.status in _WITHOUT_BODY:
            return dict(self.headers)
        return {"content-type": "application/json", "content-length": str(len(content)), **self.headers}


def failure(message: str) -> dict[str, Any]:
    """Return a failure envelope: `success` false and a message, a form that the specification does not show."""
    return {"success": False, "message": message}


def _words(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"Status {status}"

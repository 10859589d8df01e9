"""The replies of the fake service, for scripts, faults and assumptions, and the sample transactions in them."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from http.client import responses
from types import MappingProxyType
from typing import Any, TypeAlias, TypedDict, Unpack

from attrs import field, frozen, validators

REFERENCE = "T0000000001FAKE"
"""The default reference."""


class Fields(TypedDict, total=False):
    """
    The fields of a sample transaction, with the service's own names.

    Source:
        Transaction detail specification, part 2.
    """

    reference: str
    merchant_reff: str
    payment_method: str
    payment_name: str
    amount: int
    fee: int
    amount_received: int
    payment_code: str
    expdate: str
    status: str


FIELDS = tuple(Fields.__annotations__)
"""The ten names, in the order of the specification."""


def transaction(**fields: Unpack[Fields]) -> dict[str, Any]:
    """Return the `data` object of an answer, as `FakeService.add` stores it."""
    if unknown := sorted(fields.keys() - Fields.__annotations__.keys()):
        raise TypeError(f"a transaction has no field {', '.join(unknown)}; it has {', '.join(FIELDS)}")
    reference = fields.get("reference", REFERENCE)
    amount = fields.get("amount", 15000)
    check_type(amount, int, "amount must be an int")
    fee = fields.get("fee", max(0, min(2500, amount)))
    check_type(fee, int, "fee must be an int")
    return {
        "reference": reference,
        "merchant_reff": f"INV-{reference}",
        "payment_method": "VA",
        "payment_name": "Virtual Account",
        "amount": amount,
        "fee": fee,
        "amount_received": max(0, amount - fee),
        "payment_code": "8800000000000001",
        "expdate": "2030-01-31 23:59:59",
        "status": "Canceled",
        **fields,
    }


class Becoming:
    """The later statuses of a transaction, each with the seconds from its first request."""

    def __init__(self, steps: Iterable[object], advanced: float = 0.0) -> None:
        self._advanced = advanced  # seconds that were added to the service's clock before
        self._steps: deque[tuple[float, str]] = deque()
        self._began_at: float | None = None
        for step in steps:
            match step:
                case [int() | float() as seconds, str() as status]:
                    self._steps.append((seconds, status))
                case _:
                    raise TypeError(f"becomes must be pairs such as (30, 'Paid'), got {step!r}")

    def change(self, stored: dict[str, Any], now: float, advanced: float) -> None:
        """Give a transaction the status that it has *now*, with the seconds that were added to the service's clock."""
        if self._began_at is None:
            self._began_at = now
        while self._steps and self._steps[0][0] <= now - self._began_at + advanced - self._advanced:
            stored["status"] = self._steps.popleft()[1]


def check_type(given: object, kind: type, rule: str) -> None:
    if not isinstance(given, kind):
        raise TypeError(f"{rule}, got {given!r}")


def envelope(**fields: object) -> dict[str, Any]:
    """
    Return a complete answer: `success` true, and `data` with the ten fields.

    Args:
        fields: Replace the defaults. Values of other types and undocumented fields are allowed, to
            simulate malformed answers.

    Source:
        Transaction detail specification, part 4, rule 1.
    """
    data = {**transaction(reference=str(fields.get("reference", REFERENCE))), **fields}
    amount, fee = data["amount"], data["fee"]
    if "amount_received" not in fields and type(amount) is int and type(fee) is int:
        data["amount_received"] = max(0, amount - fee)
    return {"success": True, "data": data}


Malformation: TypeAlias = Callable[[dict[str, Any]], object]
"""Takes the normal answer, and returns the value to send: bytes and text unchanged, anything else as JSON."""

Body: TypeAlias = bytes | str | Mapping[str, Any] | list[Any] | Malformation | None

_WITHOUT_BODY = frozenset({204, 304})


def _lower(headers: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({name.lower(): value for name, value in headers.items()})


@frozen(kw_only=True)
class Reply:
    """
    One answer of the fake service. `Reply()` is the normal one.

    Attributes:
        status: HTTP status.
        headers: Added to, or replacing, `content-type: application/json`.
        body: Bytes and text are sent unchanged, objects and lists as JSON. A function gets the normal
            answer and returns the value to send. None is the transaction if the status is 200, and
            otherwise a failure envelope with the reason phrase of the status.
        delay: Additional seconds until it is sent, on top of the service's latency.
        never_responds: Whether no reply is sent. The request stays in flight until its client gives up.
    """

    status: int = field(default=200, validator=[validators.ge(200), validators.le(599)])
    headers: Mapping[str, str] = field(factory=dict[str, str], converter=_lower)
    body: Body = None
    delay: float = field(default=0.0, validator=validators.ge(0))
    never_responds: bool = False

    def content(self, envelope: dict[str, Any]) -> bytes:
        """Return the bytes of the body. *envelope* is the normal answer, which a function as the body may change."""
        body: object = self.body(envelope) if callable(self.body) else self.body
        if self.status in _WITHOUT_BODY:
            return b""
        if body is None and not callable(self.body):
            body = envelope if self.status == 200 else failure(responses.get(self.status, f"Status {self.status}"))
        if not isinstance(body, bytes | str):
            body = json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=dict)
        return body.encode() if isinstance(body, str) else body

    def all_headers(self, content: bytes) -> dict[str, str]:
        """Return the headers to send with *content*, names in lower case."""
        if self.status in _WITHOUT_BODY:
            return dict(self.headers)
        return {"content-type": "application/json", "content-length": str(len(content)), **self.headers}


def failure(message: str) -> dict[str, Any]:
    """Return a failure envelope: `success` false and a message. The specification does not describe one."""
    return {"success": False, "message": message}


_PAGE = "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body><h1>Not Found</h1></body></html>\n"


@frozen(kw_only=True)
class Assumptions:
    """
    The replies of the fake service that the specification does not describe.

    They are typical for services of this kind, and may differ from the real service. Pass your own if
    you know better. The following is assumed too, and cannot be changed here: live and sandbox accept
    the same key and have the same transactions, a content type may have parameters,
    `Reply(status=…)` without a body is a failure envelope, and every latency, limit and
    `Retry-After`.

    Attributes:
        refused_key: `Authorization` is absent, malformed, or has another key.
        unknown_path: The path is neither of the two. A web server's page, not the service's envelope.
        wrong_method: The path is right, and the method is not `POST`.
        wrong_content_type: The content type is not JSON.
        unreadable_body: The body is not a JSON object.
        no_reference: The object has no `reference`, or one that is not text.
        unknown_reference: There is no transaction with that reference.
        throttled: A limit is reached. `Retry-After` is added if the limit has one.

    Source:
        Transaction detail specification, part 5, rule 3, and parts 7 and 8: "not shown".
    """

    refused_key: Reply = Reply(status=401, body=failure("Invalid API key"))
    unknown_path: Reply = Reply(status=404, headers={"content-type": "text/html"}, body=_PAGE)
    wrong_method: Reply = Reply(status=405, headers={"allow": "POST"}, body=failure("Method not allowed"))
    wrong_content_type: Reply = Reply(status=415, body=failure("Content-Type must be application/json"))
    unreadable_body: Reply = Reply(status=400, body=failure("The body is not a JSON object"))
    no_reference: Reply = Reply(status=422, body=failure("The reference field is required"))
    unknown_reference: Reply = Reply(status=404, body=failure("Transaction not found"))
    throttled: Reply = Reply(status=429, body=failure("Too many requests"))


def changed(**fields: object) -> Malformation:
    """
    Return a body for `Reply` with these fields of the transaction changed.

    Args:
        fields: Values to send, or functions of the original value.
    """

    def change(envelope: dict[str, Any]) -> dict[str, Any]:
        data = envelope["data"]
        new = {name: value(data.get(name)) if callable(value) else value for name, value in fields.items()}
        return {**envelope, "data": {**data, **new}}

    return change

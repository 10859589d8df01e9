"""The fake payment service: an ASGI application with transactions in memory, its replies and their assumptions."""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from http.client import responses
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias, TypedDict, Unpack

import attrs
from attrs import define, field, frozen, validators

from payclient.protocol import is_object

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


def transaction(**fields: Unpack[Fields]) -> dict[str, Any]:
    """Return the `data` object of an answer, as `FakeService.add` stores it."""
    if unknown := sorted(fields.keys() - Fields.__annotations__.keys()):
        raise TypeError(
            f"unknown field of a transaction: {', '.join(unknown)}; it has {', '.join(Fields.__annotations__)}"
        )
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
            answer and returns the value to send. None sends the transaction if the status is 200, and otherwise a
            failure envelope with the reason phrase of the status.
        delay: Additional seconds until it is sent, on top of the service's latency.
        never_responds: Whether no reply is sent. The request stays in flight until its client gives up.
    """

    status: int = field(default=200, validator=[validators.instance_of(int), validators.ge(200), validators.le(599)])
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
        no_reference: The object's `reference` is missing, or not text.
        unknown_reference: No transaction has that reference.
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


Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
"""An ASGI 3 application."""

_BODY_LIMIT = 64 * 1024
"""Maximum size of a request body in bytes. The documented one has about 40."""


async def receive_body(receive: Receive) -> bytearray | None:
    """Return the body of a request, or None if its client disconnected before it was complete."""
    body = bytearray()
    while (message := await receive())["type"] != "http.disconnect":
        if len(body) <= _BODY_LIMIT:  # the rest is read and dropped, so that the answer can be sent
            body += message.get("body", b"")
        if not message.get("more_body", False):
            return body
    return None


def _json_object(body: bytearray) -> dict[str, Any] | None:
    try:
        value: object = json.loads(body) if len(body) <= _BODY_LIMIT else None
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


async def still_connected_after(receive: Receive, seconds: float | None) -> bool:
    """Wait *seconds*, or for ever if it is None, and return whether the client is still connected."""
    if seconds == 0:
        await asyncio.sleep(0)  # let the client run once, as with any real service
        return True
    try:
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return True
    return False


@define(kw_only=True)
class ReceivedRequest:
    """
    One request, as the service received it, without the key.

    Attributes:
        method: The HTTP method.
        path: The path, without the query.
        reference: The requested reference, or None if the body lacks it.
        headers: Names in lower case. The value of `authorization` is `***`.
        status: The status of the answer. None while the request is in flight, and if its client
            disconnected before the answer.
        started_at: On the event loop's clock, in seconds.
    """

    method: str
    path: str
    reference: str | None
    headers: Mapping[str, str] = field(factory=dict[str, str])
    status: int | None = None
    started_at: float


@frozen(kw_only=True)
class Latency:
    """
    The time between a request and its answer.

    Attributes:
        seconds: The minimum, in seconds.
        jitter: Upper bound of a random addition, drawn evenly from 0, in seconds.
    """

    seconds: float = field(default=0.0, validator=validators.ge(0))
    jitter: float = field(default=0.0, validator=validators.ge(0))

    def draw(self, random: Random) -> float:
        """Return the seconds of one answer, drawn evenly from *seconds* to *seconds* + *jitter*."""
        return self.seconds + self.jitter * random.random() if self.jitter else self.seconds


PATHS = ("/api/transaction/detail", "/api-sandbox/transaction/detail")
"""Live and sandbox. Source: Transaction detail specification, part 4."""

_NORMAL = Reply()


class FakeService:
    """
    An ASGI application that answers like the payment service.

    It follows the specification. Where that is silent, above all for failures, it follows
    `assumptions`. It runs in process, `httpx.ASGITransport(app=service)`, or behind a server,
    `serve(service)`. Time is the event loop's clock, and randomness is seeded, so the same requests in the same order
    get the same answers.

    A request is checked against, in this order: path, method and headers; its body; the script of its
    reference. Otherwise it gets its transaction.

    Args:
        api_key: The accepted key.
        latency: The time of each answer.
        assumptions: The replies that the specification does not describe.
        seed: Seed of the random numbers.

    Source:
        Transaction detail specification, parts 2, 4 and 5.
    """

    def __init__(
        self,
        *,
        api_key: str = "fake-api-key",
        latency: Latency = Latency(),
        assumptions: Assumptions = Assumptions(),
        seed: int = 0,
    ) -> None:
        check_type(latency, Latency, "latency must be a Latency, such as Latency(seconds=0.5)")
        self.api_key = api_key
        self.assumptions = assumptions
        self._latency = latency
        self._random = Random(seed)  # noqa: S311  chance in a test, not a secret
        self._transactions: dict[str, dict[str, Any]] = {}
        self._becoming: dict[str, Becoming] = {}
        self._advanced = 0.0
        self._scripts: dict[str, deque[Reply]] = {}
        self._requests = deque[ReceivedRequest](maxlen=10_000)
        self._counts = Counter[str]()

    def add(self, *, becomes: Iterable[tuple[float, str]] = (), **fields: Unpack[Fields]) -> dict[str, Any]:
        """
        Store a transaction. It replaces a transaction with the same reference.

        Args:
            becomes: Later statuses, such as `[(30, "Paid")]`, each with the seconds since the first request for
                the transaction. `advance` adds to the real seconds.
            fields: Fields of the transaction. The others have defaults: `status` is `Canceled`, the only word in the
                specification, and `amount_received` is amount minus fee, never negative.

        Returns:
            The stored transaction itself. Changing it changes later answers.

        Raises:
            TypeError: When a field is not one of the ten, or *becomes* isn't pairs of seconds and a status.
        """
        becoming = Becoming(becomes, self._advanced)
        fields.setdefault("reference", f"T{len(self._transactions) + 1:010d}FAKE")
        stored = transaction(**fields)
        self._transactions[stored["reference"]] = stored
        self._becoming[stored["reference"]] = becoming
        return stored

    def load(self, transactions: Iterable[Mapping[str, Any]]) -> None:
        """
        Store many transactions, each a mapping of the fields of `add`.

        Raises:
            TypeError: When one is not a mapping, or a field is not one of the ten.
        """
        for fields in transactions:
            check_type(fields, Mapping, "each transaction must be a mapping of its fields")
            self.add(**fields)

    def script(self, reference: str, *replies: Reply) -> None:
        """
        Set the replies to the next requests for *reference*, one each. After them, replies are normal.

        They are added to those not used yet. A request that is invalid or refused by a limit uses none.

        Raises:
            TypeError: When one is not a `Reply`.
        """
        for reply in replies:
            check_type(reply, Reply, "each reply must be a Reply, such as Reply(status=500)")
        self._scripts.setdefault(reference, deque()).extend(replies)

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass for transactions with `becomes`, in addition to real time. A test need not wait."""
        self._advanced += seconds

    @property
    def requests(self) -> tuple[ReceivedRequest, ...]:
        """The last 10,000 requests, in order of arrival."""
        return tuple(self._requests)

    @property
    def total(self) -> int:
        """Number of all requests."""
        return self._counts.total()

    def count(self, reference: str) -> int:
        """Return the number of requests for *reference*."""
        return self._counts[reference]

    def admit(self, started_at: float) -> AbstractContextManager[Reply | None]:  # noqa: ARG002  for subclasses
        """Return a block around one request, which yields a reply that is sent instead of an answer. Here, None."""
        return nullcontext()

    def fault(self) -> Reply | None:
        """Return the reply that a valid request without a script gets instead of its answer. Here, None."""
        return None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """
        Serve one request.

        Raises:
            ValueError: When it is not HTTP. ASGI servers then know that it lacks a lifespan.
        """
        if scope["type"] != "http":
            raise ValueError(f"the fake service speaks http, not {scope['type']}")
        started_at = asyncio.get_running_loop().time()
        if (body := await receive_body(receive)) is None:
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        key, value = headers.get("authorization"), _json_object(body)
        named = None if value is None else value.get("reference")
        request = ReceivedRequest(
            method=scope["method"],
            path=scope["path"],
            reference=named if isinstance(named, str) and named else None,
            headers=headers if key is None else {**headers, "authorization": "***"},
            started_at=started_at,
        )
        self._requests.append(request)
        reference = request.reference or ""
        self._counts[reference] += 1
        with self.admit(started_at) as refusal:
            if (becoming := self._becoming.get(reference)) is not None:
                becoming.change(self._transactions[reference], started_at, self._advanced)
            reply = refusal or self._objection(request, key, has_object=value is not None) or self._reply(reference)
            seconds = None if reply.never_responds else self._latency.draw(self._random) + reply.delay
            content = reply.content({"success": True, "data": dict(self._transactions.get(reference, {}))})
            if await still_connected_after(receive, seconds):
                request.status = reply.status
                sent = [
                    (name.encode("latin-1"), value.encode("latin-1"))
                    for name, value in reply.all_headers(content).items()
                ]
                await send({"type": "http.response.start", "status": reply.status, "headers": sent})
                await send({"type": "http.response.body", "body": content})

    def _objection(self, request: ReceivedRequest, key: str | None, *, has_object: bool) -> Reply | None:
        """Return the reply to an invalid request, or None. Source: specification, part 4."""
        assumed = self.assumptions
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        checks = (
            (request.path in PATHS, assumed.unknown_path),
            (request.method == "POST", assumed.wrong_method),
            (key == f"Bearer {self.api_key}", assumed.refused_key),
            (content_type == "application/json", assumed.wrong_content_type),
            (has_object, assumed.unreadable_body),
            (request.reference is not None, assumed.no_reference),
        )
        return next((reply for is_kept, reply in checks if not is_kept), None)

    def _reply(self, reference: str) -> Reply:
        script = self._scripts.get(reference)
        reply = script.popleft() if script else self.fault() or _NORMAL
        is_about_transaction = callable(reply.body) or (reply.body is None and reply.status == 200)
        if not is_about_transaction or reference in self._transactions:
            return reply
        # An unknown reference gets the same delay.
        unknown = self.assumptions.unknown_reference
        never_responds = unknown.never_responds or reply.never_responds
        return attrs.evolve(unknown, delay=unknown.delay + reply.delay, never_responds=never_responds)

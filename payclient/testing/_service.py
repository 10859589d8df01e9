"""The fake payment service: transactions in memory behind the documented operation."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from datetime import UTC, datetime
from random import Random
from typing import Any, Unpack

import attrs
from attrs import define, field

from payclient.testing._asgi import ParsedRequest, Receive, Send, receive_request, send_response, still_connected_after
from payclient.testing._limits import Fault, Faults, Latency, Limit, Limiter, Refusal
from payclient.testing._reply import Assumptions, Becoming, Fields, Reply, transaction


@define(kw_only=True)
class ReceivedRequest:
    """
    One request, as the service received it, without the key.

    Attributes:
        method: The HTTP method.
        path: The path, without the query.
        reference: The requested reference, or None if the body has none.
        headers: Names in lower case; the value of `authorization` is `***`.
        status: The status of the answer; None while the request is in flight, and if its client
            disconnected before the answer.
        started_at: On the event loop's clock, in seconds.
    """

    method: str
    path: str
    reference: str | None
    headers: Mapping[str, str] = field(factory=dict[str, str])
    status: int | None = None
    started_at: float


class RequestLog:
    """The last requests, and the number of requests for each reference; as many as *size* says of both."""

    def __init__(self, size: int) -> None:
        if size < 1:
            message = f"remember must be at least 1, got {size}"
            raise ValueError(message)
        self._size = size
        self.last: deque[ReceivedRequest] = deque(maxlen=size)
        self._counts: dict[str, int] = {}
        self._has_forgotten = False
        self.total = 0

    def begin(self, request: ParsedRequest, started_at: float) -> ReceivedRequest:
        """Remember a request; its status is set when it is answered."""
        reference = request.reference
        hidden = {"authorization": "***"} if "authorization" in request.headers else {}
        received = ReceivedRequest(
            method=request.method,
            path=request.path,
            reference=reference,
            headers={**request.headers, **hidden},
            started_at=started_at,
        )
        self.last.append(received)
        self.total += 1
        if reference is not None:
            self._counts[reference] = self._counts.pop(reference, 0) + 1
            if len(self._counts) > self._size:
                del self._counts[next(iter(self._counts))]  # the least recently requested one
                self._has_forgotten = True
        return received

    def count(self, reference: str) -> int:
        if reference not in self._counts and self._has_forgotten:
            message = f"{reference!r} may have been asked for and forgotten; raise remember above {self._size}"
            raise LookupError(message)
        return self._counts.get(reference, 0)


PATHS = ("/api/transaction/detail", "/api-sandbox/transaction/detail")
"""Live and sandbox. Source: Transaction detail specification, part 4."""

_NORMAL = Reply()


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _check_type(given: object, kind: type, rule: str) -> None:
    if not isinstance(given, kind):
        message = f"{rule}, got {given!r}"
        raise TypeError(message)


class FakeService:
    """
    An ASGI application that answers like the payment service.

    It follows the specification. Where that is silent, above all for failures, it follows
    `assumptions`. It runs in process, `httpx.ASGITransport(app=service)`, or behind a server,
    `serve(service)`. Time is the event loop's clock, and randomness comes from a seed, so the same
    requests in the same order get the same answers.

    A request is checked against, in this order: the limits; path, method and headers; its body; the
    script of its reference; the faults. Otherwise it gets its transaction.

    Args:
        api_key: The accepted key.
        latency: The time of each answer.
        limits: Limits of requests; a refused one gets `assumptions.throttled`.
        faults: Replies for a random share of the requests.
        assumptions: The replies where the specification describes none.
        seed: Of the random numbers.
        remember: Number of requests, and of references, that are remembered.
        now: The wall clock, aware, in UTC; for `Retry-After` dates only.

    Source:
        Transaction detail specification, parts 2, 4 and 5.
    """

    def __init__(
        self,
        *,
        api_key: str = "fake-api-key",
        latency: Latency = Latency(),  # noqa: B008  frozen
        limits: Iterable[Limit] = (),
        faults: Iterable[Fault] = (),
        assumptions: Assumptions = Assumptions(),  # noqa: B008  frozen
        seed: int = 0,
        remember: int = 10_000,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        _check_type(latency, Latency, "latency must be a Latency, such as Latency(seconds=0.5)")
        self.api_key = api_key
        self.assumptions = assumptions
        self._latency = latency
        self._limiter = Limiter(limits)
        self._faults = Faults(faults)
        self._random = Random(seed)  # noqa: S311  chance in a test, not a secret
        self._now = now
        self._transactions: dict[str, dict[str, Any]] = {}
        self._becoming: dict[str, Becoming] = {}
        self._advanced = 0.0
        self._scripts: dict[str, deque[Reply]] = {}
        self._log = RequestLog(remember)
        self._in_flight = 0

    def add(self, *, becomes: Iterable[tuple[float, str]] = (), **fields: Unpack[Fields]) -> dict[str, Any]:
        """
        Store a transaction; it replaces one with the same reference.

        Args:
            becomes: Later statuses, such as `[(30, "Paid")]`, each with the seconds since the first request for
                the transaction. `advance` adds to the real seconds.
            fields: Fields of the transaction; the others have defaults, see `transaction`.

        Returns:
            The stored transaction itself; changing it changes later answers.

        Raises:
            TypeError: When a field is not one of the ten, or *becomes* has no pairs of seconds and a status.
        """
        becoming = Becoming(becomes, self._advanced)
        fields.setdefault("reference", f"T{len(self._transactions) + 1:010d}FAKE")
        stored = transaction(**fields)
        self._transactions[stored["reference"]] = stored
        self._becoming[stored["reference"]] = becoming
        return stored

    def load(self, transactions: Iterable[Mapping[str, Any]]) -> None:
        """Store many transactions, each a mapping as `add` takes it."""
        for fields in transactions:
            _check_type(fields, Mapping, "each transaction must be a mapping of its fields")
            self.add(**fields)

    def script(self, reference: str, *replies: Reply) -> None:
        """
        Set the replies to the next requests for *reference*, one each; after them, replies are normal.

        Args:
            reference: It need not have a transaction.
            replies: Added to those not used yet. A request that is invalid or refused by a limit
                uses none.
        """
        for reply in replies:
            _check_type(reply, Reply, "each reply must be a Reply, such as Reply(status=500)")
        self._scripts.setdefault(reference, deque()).extend(replies)

    def advance(self, seconds: float) -> None:
        """
        Let time pass for transactions with `becomes`, so that a test need not wait.

        Args:
            seconds: Added to the seconds since the first request, or since `add` if there was none yet.
        """
        self._advanced += seconds

    @property
    def in_flight(self) -> int:
        """Number of requests in flight."""
        return self._in_flight

    @property
    def requests(self) -> tuple[ReceivedRequest, ...]:
        """The last requests, in order of arrival."""
        return tuple(self._log.last)

    @property
    def total(self) -> int:
        """Number of all requests, forgotten ones included."""
        return self._log.total

    def count(self, reference: str) -> int:
        """
        Return the number of requests for *reference*.

        Raises:
            LookupError: When it may have been forgotten; see `remember`.
        """
        return self._log.count(reference)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """
        Serve one request.

        Raises:
            ValueError: When it is not HTTP; this tells ASGI servers that there is no lifespan.
        """
        if scope["type"] != "http":
            message = f"the fake service speaks http, not {scope['type']}"
            raise ValueError(message)
        self._in_flight += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._in_flight -= 1

    async def _serve(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        started_at = asyncio.get_running_loop().time()
        request = await receive_request(scope, receive)
        if request is None:
            return
        received = self._log.begin(request, started_at)
        with self._limiter.admit(started_at) as refusal:
            reference = request.reference or ""
            if (becoming := self._becoming.get(reference)) is not None:
                becoming.change(self._transactions[reference], started_at, self._advanced)
            reply = self._throttled(refusal) if refusal else self._reply(request)
            seconds = None if reply.never_responds else self._latency.draw(self._random) + reply.delay
            content = reply.content({"success": True, "data": dict(self._transactions.get(reference, {}))})
            if await still_connected_after(receive, seconds):
                received.status = reply.status
                await send_response(send, reply.status, reply.all_headers(content), content)

    def _throttled(self, refusal: Refusal) -> Reply:
        reply = self.assumptions.throttled
        headers = refusal.limit.retry_after.headers(refusal.seconds, self._now())
        return attrs.evolve(reply, headers={**reply.headers, **headers})

    def _reply(self, request: ParsedRequest) -> Reply:
        objection = self._objection(request)
        if objection is not None or request.reference is None:
            return objection or self.assumptions.no_reference
        script = self._scripts.get(request.reference)
        reply = script.popleft() if script else self._faults.draw(self._random) or _NORMAL
        if reply.is_about_transaction and request.reference not in self._transactions:
            # An unknown reference gets the same delay.
            unknown = self.assumptions.unknown_reference
            return attrs.evolve(
                unknown,
                delay=unknown.delay + reply.delay,
                never_responds=unknown.never_responds or reply.never_responds,
            )
        return reply

    def _objection(self, request: ParsedRequest) -> Reply | None:
        """Return the reply to an invalid request, or None. Source: specification, part 4."""
        assumed = self.assumptions
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        checks = (
            (request.path in PATHS, assumed.unknown_path),
            (request.method == "POST", assumed.wrong_method),
            (request.headers.get("authorization") == f"Bearer {self.api_key}", assumed.refused_key),
            (content_type == "application/json", assumed.wrong_content_type),
            (isinstance(request.body, dict), assumed.unreadable_body),
        )
        return next((reply for is_kept, reply in checks if not is_kept), None)

"""
Internal: every exception that payclient raises on purpose. Import them from `payclient`.

An error contains only plain values: strings, numbers, dictionaries of them, and in one place a
`Transaction`. It never contains a request, a response or a client, so it can be pickled, copied and
logged without the API key.
"""

import math
from copy import copy
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, dataclass_transform

from attrs import Factory, define, field, frozen

if TYPE_CHECKING:
    from payclient.protocol.transaction import Transaction

Sent: TypeAlias = Literal["yes", "no", "unknown"]
"""Whether the service may have received the request of a failed attempt."""

Step: TypeAlias = Literal["", "name", "connect", "proxy", "tls", "sending", "waiting", "body"]
"""
How far an attempt got: looking up the name, connecting, asking the proxy for a tunnel, the TLS handshake with the
service, sending the request, waiting for the response, reading its body. "" if that is not known.
"""


class Signal(Enum):
    """Evidence of one attempt about the load that the service accepts."""

    ACCEPTED = "accepted"  # answered, "not found" included
    THROTTLED = "throttled"
    OVERLOADED = "overloaded"  # service or network failed. A few of these are normal
    SILENT = "silent"  # cancelled, rejected by the client itself, or a declined key


class Again(Enum):
    """Whether another attempt of the same lookup can help."""

    NEVER = "never"
    ONCE = "once"  # a malformed body may be a transmission error
    COUNTED = "counted"  # limited by the policy, with back-off
    LATER = "later"  # the service cannot answer now: likewise, but a lookup with a deadline does not count it
    UNCOUNTED = "uncounted"  # the service asked for fewer requests


@frozen
class Classification:
    """The meaning of one error for limiter, retry and stream."""

    signal: Signal
    again: Again
    is_fatal: bool = False  # every other lookup would fail too


_OURS = Classification(Signal.SILENT, Again.NEVER)
_FATAL = Classification(Signal.SILENT, Again.NEVER, is_fatal=True)
_UNASKED = Classification(Signal.SILENT, Again.COUNTED)
_BROKEN = Classification(Signal.OVERLOADED, Again.COUNTED)
_GARBLED = Classification(Signal.OVERLOADED, Again.ONCE)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class _WithAttributes:
    def __init_subclass__(cls) -> None:
        """Give one of our own errors keyword arguments. Each has a default: unpickling passes only the message."""
        if cls.__module__.startswith("payclient."):
            define(cls, kw_only=True, slots=False, eq=False, repr=False, auto_exc=False)


class PayClientError(_WithAttributes, Exception):
    """
    The base class of the errors that payclient raises on purpose.

    Attributes:
        attempts: HTTP exchanges of the lookup until it ended with this error.
        is_first: Whether to log it. False once a lookup was rejected in the same outage, or the reference has failed
            since the last answer.
        http_status: The status of a web application's answer. 500 for a mistake of the application.
        detail: A sentence for its visitors, without any detail of this error.
    """

    http_status: ClassVar[int] = 500
    detail: ClassVar[str] = "internal server error"
    _meaning: ClassVar[Classification] = _OURS
    _message: str = field(default="", kw_only=False, alias="message")
    attempts: int = 0
    is_first: bool = True

    def __attrs_post_init__(self) -> None:
        super().__init__(self._message)
        del self._message  # `args` alone has the text, which is redacted there

    @property
    def message(self) -> str:
        """The text of the error, without the class name."""
        return str(self.args[0]) if self.args else ""

    @property
    def is_retryable(self) -> bool:
        """False if asking again cannot help: the key, the proxy or the certificate was refused."""
        return classify(self).again is not Again.NEVER

    @property
    def http_headers(self) -> dict[str, str]:
        """The headers of that answer: `Retry-After` with a 503."""
        return {}

    def _classified(self) -> Classification:
        return self._meaning

    def __reduce__(self) -> tuple[object, ...]:
        # The default drops `__cause__`, and shares `headers` and `__notes__` among copies.
        state = {name: copy(value) for name, value in self.__dict__.items()}
        state |= {"__cause__": self.__cause__, "__suppress_context__": self.__suppress_context__}
        return type(self), self.args, state


class ConfigurationError(PayClientError, ValueError):
    """
    The key, the base URL or an option is invalid. Raised when the client is created.

    Attributes:
        option: The option at fault, in Python's spelling. Empty if the message is about more than one.
        problem: The rest of the message after its name.
    """

    _meaning = _FATAL
    option: str = ""
    problem: str = ""


class InvalidReferenceError(PayClientError, ValueError):
    """The reference is invalid. It was not sent."""

    http_status = 404
    detail = "no such payment"


class ClientClosedError(PayClientError, RuntimeError):
    """The client was closed, or is used in another event loop or after a fork. The message names the reason."""

    _meaning = _FATAL


class CouldNotAskError(PayClientError):
    """
    The service was not asked, or gave no answer about the transaction: it may exist, or not, in any status.

    Attributes:
        retry_after: Seconds until it makes sense to ask again: the rest of a pause, the time to the next probe in an
            outage, or else 5.
    """

    http_status = 503
    detail = "the payment service cannot be asked now"
    _meaning = _UNASKED
    retry_after: float = Factory(
        lambda self: self.asked_pause if isinstance(self, ResponseError) and self.asked_pause is not None else 5.0, True
    )

    @property
    def http_headers(self) -> dict[str, str]:
        """`Retry-After`, in whole seconds."""
        return {"Retry-After": str(max(1, math.ceil(self.retry_after)))}


class KeySourceError(CouldNotAskError):
    """
    The function that gives the API key failed or gave none, so the service could not be asked. It may succeed later.

    The text has the class and the words of its exception, without what may be a key. The exception itself is not kept.
    """


class DeadlineExceededError(CouldNotAskError, TimeoutError):
    """
    The time budget of the lookup is spent. `__cause__` is the error of the last attempt, if there was one.

    Attributes:
        seconds: Seconds spent in each phase: `queued`, `attempts`, `backoff`.
    """

    seconds: dict[str, float] = field(factory=dict)


class TransportError(CouldNotAskError):
    """
    No usable response was received.

    Attributes:
        sent: Whether the service may have received the request, in this attempt or an earlier one of the lookup: `yes`,
            `no` or `unknown`.
        step: Where the attempt ended.
        address: IP address and port of the peer, or of the proxy if there is one. Before a connection exists, the
            addresses that were tried. "" if unknown.
        seconds: How long the attempt took. 0 if it was not measured.
    """

    _meaning = _BROKEN
    sent: Sent = "unknown"
    step: Step = ""
    address: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        where = [f"step {self.step}"] if self.step else []
        where += [self.address] if self.address else []
        where += [f"after {self.seconds:.2f} s"] if self.seconds else []
        return f"{self.message} [{', '.join(where)}]" if self.step else self.message


class ConnectionFailedError(TransportError):
    """The connection could not be opened, or broke before the response was complete."""


class AttemptTimeoutError(TransportError, TimeoutError):
    """One attempt took longer than `timeout`."""


class OutageError(TransportError):
    """
    The service answers no lookup of this client now. This one was not sent, or was given up.

    Attributes:
        last_failure: Class and text of the client's most recent failure, from any lookup.
        outage_seconds: Seconds without any answer.
        refused: Lookups that were refused in this outage, this one included.
    """

    _meaning = _UNASKED
    last_failure: str = ""
    outage_seconds: float = 0.0
    refused: int = 0

    def __str__(self) -> str:
        return (
            f"{super().__str__()} (for {self.outage_seconds:.1f} s; {self.refused} refused; "
            f"next try in {self.retry_after:.1f} s)"
        )


class OverloadedError(TransportError):
    """
    The lookups that wait, a rate or a pause leave no time to answer this one. It was not sent.

    Attributes:
        waiting: Lookups that queue.
    """

    _meaning = _UNASKED
    waiting: int = 0

    def __str__(self) -> str:
        return f"{super().__str__()} (ask again in {self.retry_after:.1f} s)"


class TLSVerificationError(TransportError):
    """No trusted TLS connection could be opened. The message has the reason. Never retried, never downgraded."""

    _meaning = _FATAL


class ProxyRefusedError(TransportError):
    """
    The proxy refuses the tunnel to the service. The same for every reference. Never retried.

    Attributes:
        status_code: The HTTP status of the proxy, such as 407.
    """

    _meaning = _FATAL
    status_code: int = 0


class ResponseError(PayClientError):
    """
    The service answered, but not with a transaction.

    Attributes:
        status_code: The HTTP status.
        headers: A selection of the response headers, names in lower case. Never cookies.
        body: The beginning of the body as text, without control characters.
        request_id: The service's identifier of the request, if it sent one.
        asked_pause: Seconds to wait before the next request, if the service sent that.
        service_message: The message in the service's JSON, cleaned and shortened. "" without one, or if a gateway
            answered.
    """

    _meaning = Classification(Signal.ACCEPTED, Again.NEVER)
    status_code: int = 0
    headers: dict[str, str] = field(factory=dict)
    body: str = ""
    request_id: str | None = None
    asked_pause: float | None = None
    service_message: str = ""

    def __str__(self) -> str:
        more = [f"retry after {math.ceil(self.asked_pause)} s"] if self.asked_pause else []
        more += [f"request id {self.request_id}"] if self.request_id else []
        return f"{self.message} [{', '.join(more)}]" if more else self.message


class AuthenticationError(CouldNotAskError, ResponseError):
    """The service refuses the API key. Every lookup would fail the same way."""

    _meaning = _FATAL


class PermissionDeniedError(CouldNotAskError, ResponseError):
    """The key is known, but this caller may not ask (an IP allow-list, a gateway)."""

    _meaning = _OURS


class TransactionNotFoundError(ResponseError):
    """
    The service answers, in its own envelope, that it does not know the transaction.

    Attributes:
        is_conclusive: Whether the message is about a transaction or a reference. If not ("not found", "no data",
            no message), the service gave the same response again over a fresh connection.
    """

    http_status = 404
    detail = "no such payment"
    is_conclusive: bool = True


class RateLimitedError(CouldNotAskError, ResponseError):
    """The service asked for fewer requests (usually 429)."""

    _meaning = Classification(Signal.THROTTLED, Again.UNCOUNTED)


class ServiceError(CouldNotAskError, ResponseError):
    """The service, or a proxy in front of it, cannot answer now (5xx, 408, 425)."""

    def _classified(self) -> Classification:
        if self.asked_pause is not None:
            return Classification(Signal.THROTTLED, Again.LATER)
        return Classification(Signal.OVERLOADED, Again.LATER if self.status_code == 503 else Again.COUNTED)


class RejectedError(ResponseError):
    """The service understood the request and declined it. The message has its words."""

    http_status = 422
    detail = "the payment service declines this reference"


class UnexpectedResponseError(CouldNotAskError, ResponseError):
    """
    The response does not have the documented shape.

    Attributes:
        problem: The place and the value found there, such as `data.amount: 15000.5 is not a whole number`.
        is_about_reference: Whether the service answered about the reference that was asked for. A web page, an empty
            body or a redirect is about none, so asking later may help.
    """

    problem: str = ""
    is_about_reference: bool = False

    def _classified(self) -> Classification:
        if 300 <= self.status_code < 400 or (self.status_code == 404 and not self.service_message):
            return _FATAL  # it suggests a wrong `base_url`
        return _OURS if 400 <= self.status_code < 500 else _GARBLED


class ReferenceMismatchError(UnexpectedResponseError):
    """`data.reference` is not the reference that was sent, so the response belongs to another lookup."""

    def _classified(self) -> Classification:
        return _GARBLED


class WaitError(PayClientError):
    """
    A wait ended without its condition being met.

    Attributes:
        transaction: The last transaction of the service, or None. The payment code is masked in the value
            itself, and `raw` is empty, because errors are logged and stored.
        lookups: Lookups that have ended.
        waited: Seconds from the beginning of the wait to its end.
        statuses: Each status that was seen, with the seconds from the beginning of the wait to when it was first seen.
    """

    http_status = 409
    detail = "the payment is not in the expected state"
    transaction: "Transaction | None" = None
    lookups: int = 0
    waited: float = 0.0
    statuses: dict[str, float] = field(factory=dict)


class UnreachableStatusError(WaitError):
    """`unless` is true: the awaited state can no longer be reached."""


class WaitDeadlineError(WaitError, TimeoutError):
    """`deadline` seconds have passed. If the last lookup failed, its error is the `__cause__`."""


class WaitUnansweredError(CouldNotAskError, WaitDeadlineError):
    """The deadline has passed, and the last lookup was not answered. `transaction` is the last one before, if any."""


def classify(error: PayClientError) -> Classification:
    """Return what *error* means for limiter, retry and stream."""
    return error._classified()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  users need not see it

"""The values around a lookup: its environment, its outcome, the request and response of an attempt, and claims."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NoReturn, TypeAlias

from attrs import field, frozen

from payclient.errors import PayClientError
from payclient.protocol.transaction import Returnable, Transaction


class Environment(StrEnum):
    """
    The service's two environments, which differ in the path.

    Source:
        Transaction detail specification, parts 4 and 9.
    """

    LIVE = "live"
    SANDBOX = "sandbox"


class WithoutTruth:
    """The base class of results that are neither true nor false."""

    # With a truth value, `if outcome:` would take a failure, or a transaction that was not paid, for a success, or
    # "could not ask" for "not there".

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        message = (
            f"{type(self).__name__} is neither true nor false: "
            "ask isinstance(..., Failed), and then for the status of the transaction"
        )
        raise TypeError(message)


@frozen
class Found(WithoutTruth, Returnable):
    """
    A lookup that found its transaction.

    Attributes:
        reference: The reference, as given.
        transaction: The transaction.
        index: Position of the reference in the input, from 0.
    """

    reference: str
    transaction: Transaction
    index: int = field(default=0, kw_only=True)


@frozen
class Failed(WithoutTruth, Returnable):
    """
    A lookup that failed.

    Attributes:
        reference: The reference, as given.
        error: The reason. Only `TransactionNotFoundError` means that the transaction does not exist.
        index: Position of the reference in the input, from 0.
    """

    reference: str
    error: PayClientError
    index: int = field(default=0, kw_only=True)

    @property
    def transaction(self) -> NoReturn:
        """Raises the stored error."""
        raise self.error

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON. Of the error, only its answer is shown."""
        error = self.error
        shown = {"type": type(error).__name__, "detail": error.detail, "http_status": error.http_status}
        return {**super().as_json(), "error": shown}


Outcome: TypeAlias = Found | Failed
"""The result of one lookup in a stream."""


BODY_LIMIT = 256 * 1024
"""Maximum of bytes read of a body, also after decompression. The documented response has about 350."""


@frozen(eq=False)
class Request:
    """
    One HTTP request.

    Attributes:
        method: Always `POST` today.
        url: Absolute.
        headers: Without `Authorization`.
        body: The bytes to send.
        authorization: Returns the value of the `Authorization` header. It is a function, so that the
            key is in no printable value: call it while writing the headers.
        needs_fresh_connection: Send it over a new connection: no other response can be outstanding there.
        on_late: Called with the response if it arrives after the caller has left.
        body_limit: Bytes of the response's body to read at most.

    Source:
        Transaction detail specification, part 4.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    authorization: Callable[[], str] = field(repr=False)
    needs_fresh_connection: bool = False
    on_late: "Callable[[Response], object] | None" = field(default=None, repr=False)
    body_limit: int = BODY_LIMIT


@frozen(eq=False)
class Response:
    """
    One complete HTTP response.

    Attributes:
        status_code: As sent by the service.
        headers: Names in lower case. The values of a repeated header are joined by a comma.
        body: The bytes as received, with their `Content-Encoding`.
        is_truncated: Whether the body was longer than `Request.body_limit`, and the rest was not read.
        connection: The transport's handle of the connection. None without one.
        is_fresh: Whether this was the first exchange of the connection, and nothing followed the
            response. False if the transport does not know.

    Source:
        RFC 9110 for status and headers.
    """

    status_code: int
    headers: Mapping[str, str] = field(repr=False)  # both may echo what must not be printed
    body: bytes = field(repr=False)
    is_truncated: bool = False
    connection: object | None = field(default=None, repr=False)
    is_fresh: bool = False


UNPAID = frozenset({"pending", "canceled", "cancelled", "expired", "failed", "refunded"})
"""Status words, in lower case, of transactions that expect no money, or no more."""


def missing_amount(amount: int, fee: int | None, received: int | None) -> int:
    """Return how much less was received than was due. 0 if all was, or if that is unknown."""
    due = amount - (fee or 0)
    if received is None or received >= due:
        return 0
    # If the fee is unknown, only a payment of 0 is certainly too little.
    return due - received if fee is not None or received <= 0 < due else 0


def text_stated(text: str | None) -> str | None:
    """Return *text* without surrounding spaces. None if it is empty or a dash, and so means nothing."""
    text = (text or "").strip()
    return text if any(map(str.isalnum, text)) else None

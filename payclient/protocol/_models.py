"""The values around a lookup: its environment, its outcome, the request and response of an attempt, and claims."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, ClassVar, NoReturn, TypeAlias, TypedDict, cast, get_type_hints

from attrs import field, fields, frozen

from payclient.errors import PayClientError
from payclient.protocol.transaction import Transaction


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


class Returnable:
    """The base class of results that have JSON, so that a page can return them, and FastAPI lists of them."""

    __slots__ = ()
    _computed: ClassVar[tuple[str, ...]] = ()
    """The properties that are a part of the JSON."""

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON has it: the payment code is masked, and of an error only its answer is shown."""
        names = (*(each.name for each in fields(cast("type[Any]", type(self)))), *self._computed)
        return {name: _plain(getattr(self, name)) for name in names}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        # As pydantic's models do: `dict(result)` works, as does a response of FastAPI without a type.
        return iter(self.as_json().items())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        """Make it a response model of FastAPI; called by pydantic only."""
        from payclient.protocol.transaction._pydantic import schema  # noqa: PLC0415  it needs pydantic

        return schema(cls, _shape(cls), cls.as_json)

    @classmethod
    def _json_types(cls) -> dict[str, Any]:
        """Return the types of what its JSON has."""
        computed = {name: get_type_hints(getattr(cls, name).fget)["return"] for name in cls._computed}
        hints = get_type_hints(cls)
        return {each.name: hints[each.name] for each in fields(cast("type[Any]", cls))} | computed


class _Answer(TypedDict):
    type: str
    detail: str
    http_status: int


def _plain(value: object) -> object:
    if isinstance(value, PayClientError):
        return _Answer(type=type(value).__name__, detail=value.detail, http_status=value.http_status)
    if isinstance(value, Returnable | Transaction):
        return value.as_json()
    return [_plain(each) for each in cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _shape(kind: Any) -> Any:
    from payclient.protocol.transaction._pydantic import result_shape, shape_of, transaction_shape  # noqa: PLC0415  the same

    if kind is Transaction:
        return transaction_shape()
    hints = get_type_hints(_Answer) if kind is PayClientError else kind._json_types()  # noqa: SLF001  its own
    return result_shape(kind.__name__, {name: shape_of(each, _shape) for name, each in hints.items()})


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


Outcome: TypeAlias = Found | Failed
"""The result of one lookup in a stream."""


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
        needs_fresh_connection: Send it over a new connection, on which no other response can be
            outstanding.
        on_late: Called with the response if it arrives after the caller has left.

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


@frozen(eq=False)
class Response:
    """
    One complete HTTP response.

    Attributes:
        status_code: As sent by the service.
        headers: Names in lower case. The values of a repeated header are joined by a comma.
        body: The bytes as received, with their `Content-Encoding`.
        is_truncated: Whether the body was longer than `BODY_LIMIT`, and the rest was not read.
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


BODY_LIMIT = 256 * 1024
"""Maximum of bytes read of a body, also after decompression. The documented response has about 350."""


UNPAID = frozenset({"pending", "canceled", "cancelled", "expired", "failed", "refunded"})
"""Status words, in lower case, of a transaction that no money, or no more, is expected of."""


def missing_amount(amount: int, fee: int | None, received: int | None) -> int:
    """Return how much less was received than was due. 0 if all was, or if that is unknown."""
    due = amount - (fee or 0)
    if received is None or received >= due:
        return 0
    # Without a known fee, only a payment of nothing is certainly too little.
    return due - received if fee is not None or received <= 0 < due else 0


def text_stated(text: str | None) -> str | None:
    """Return *text* without surrounding spaces. None if it is empty or a dash, and so says nothing."""
    text = (text or "").strip()
    return text if any(map(str.isalnum, text)) else None

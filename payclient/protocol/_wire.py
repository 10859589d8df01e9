"""
Build the request, and read a response as a transaction or an error.

Design rules:

- The body decides before the status: a service that answers 200 with `success` false has refused.
- A transaction needs everything to be right: status 200, `success` true, `data` readable, and the
  echoed reference equal to the one that was sent.
- "Not found" needs evidence: the service's own envelope, and words about a transaction or a reference.
  A page, a gateway, a time-out or a word that is not known is never "not found".
- Anything else becomes an error that names the place and what was found there.
"""

from __future__ import annotations

import json
import zlib
from codecs import BOM_UTF8
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from payclient import errors
from payclient.errors import InvalidReferenceError
from payclient.protocol._codec import FieldProblem, read_transaction
from payclient.protocol._http import BODY_LIMIT, Request, Response
from payclient.protocol._json import JSONProblem, is_list, is_object, kind, read_json
from payclient.protocol._models import Environment, Transaction
from payclient.protocol._redaction import REMOVED
from payclient.protocol._refusal import ErrorResponse, refuse

MAX_REFERENCE_LENGTH = 256


def check_reference(reference: object) -> str:
    """
    Return *reference* unchanged if it can name a transaction.

    The specification shows no format, so this refuses only what no format would allow. Nothing is
    stripped: the answer must carry the very same code.

    Raises:
        InvalidReferenceError: When it is not a string, empty, only white space, longer than 256
            characters, begins or ends with a blank, or holds a character that is not printable.
    """
    if not isinstance(reference, str):
        problem = f"must be a string, got {type(reference).__name__}"
    elif not reference.strip():
        problem = "is empty"
    elif len(reference) > MAX_REFERENCE_LENGTH:
        problem = f"must have at most {MAX_REFERENCE_LENGTH} characters, got {len(reference)}"
    elif not reference.isprintable():
        place = next(i for i, character in enumerate(reference) if not character.isprintable())
        problem = f"has a character at position {place} that does not print ({reference[place]!a})"
    elif reference[0] == " " or reference[-1] == " ":  # the only blank that prints
        place = 0 if reference[0] == " " else len(reference) - 1
        problem = f"has a blank at position {place}; strip it, because a reference is sent exactly as given"
    else:
        return reference
    message = f"reference {problem}"
    raise InvalidReferenceError(message)


def check_references(references: object) -> None:
    """
    Refuse one reference where several are asked for: its characters would be looked up one by one.

    Raises:
        TypeError: When *references* is text or bytes, or cannot be iterated.
    """
    if isinstance(references, str | bytes | bytearray):
        problem = f"one {type(references).__name__}; use get_transaction for a single one"
    elif not isinstance(references, Iterable | AsyncIterable):
        problem = type(references).__name__
    else:
        return
    message = f"references must be an iterable of references, got {problem}"
    raise TypeError(message)


_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_MAX_LAYERS = 2
_MAX_SHOWN = 40
"""Longer names are not shown: cut, one could hold a piece of a secret too short to be redacted."""


class InflateError(ValueError):
    """The body cannot be decoded; the text says why."""


def inflate(body: bytes, content_encoding: str, *, limit: int) -> bytes:
    """
    Return *body* decoded, at most *limit* bytes of it.

    We ask for `identity`, so an encoding is a deviation; one that a proxy adds is undone.

    Raises:
        InflateError: When the coding is unknown, stacked too high, cut or larger than *limit*:
            1,830 bytes of gzip in gzip can stand for a gibibyte.
    """
    codings = [name for part in content_encoding.split(",") if (name := part.strip()).lower() not in ("", "identity")]
    if len(codings) > _MAX_LAYERS:
        message = f"{len(codings)} content codings on top of each other"
        raise InflateError(message)
    for coding in reversed(codings):
        body = _undo(body, coding, limit)
    return body


def _undo(body: bytes, coding: str, limit: int) -> bytes:
    bits = _WINDOW_BITS.get(coding.lower())
    if bits is None:  # shown as it came: a secret in lower case would not be known as one
        name = repr(coding) if len(coding) <= _MAX_SHOWN else f"of {len(coding)} characters"
        message = f"unknown content coding {name}"
        raise InflateError(message)
    decoder = zlib.decompressobj(bits)
    try:
        plain = decoder.decompress(body, limit + 1)
    except zlib.error as error:
        message = f"damaged {coding} data: {error}"
        raise InflateError(message) from None
    if len(plain) > limit:
        message = f"{coding} data that grows beyond {limit} bytes"
        raise InflateError(message)
    if not decoder.eof:
        message = f"{coding} data that ends too early"
        raise InflateError(message)
    if decoder.unused_data:
        message = f"bytes after the end of the {coding} data"
        raise InflateError(message)
    return plain


_PATHS = {
    Environment.LIVE: "/api/transaction/detail",
    Environment.SANDBOX: "/api-sandbox/transaction/detail",
}
_HEADERS: Mapping[str, str] = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # so that the cap on the body is a cap on memory
}
_MARKED = ("body: began with a byte order mark",)
_ECHOED = ("body: the API key stood in it and was removed",)
_encode = json.JSONEncoder(ensure_ascii=False).encode


def endpoint(base_url: str, environment: Environment) -> str:
    """
    Return the address of the operation.

    Source:
        Transaction detail specification, part 4; the environments differ in the path alone.
    """
    return base_url.rstrip("/") + _PATHS[environment]


def request_headers(user_agent: str) -> Mapping[str, str]:
    """Return the headers that all requests of a client have in common."""
    return MappingProxyType({**_HEADERS, "User-Agent": user_agent})


def build_request(url: str, reference: str, *, headers: Mapping[str, str], authorization: Callable[[], str]) -> Request:
    """
    Return the one request there is.

    Source:
        Transaction detail specification, part 4: method, headers and body.
    """
    return Request("POST", url, headers, f'{{"reference":{_encode(reference)}}}'.encode(), authorization)


def parse_response(
    response: Response,
    reference: str,
    *,
    redact: Callable[[str], str] = str,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    not_found_messages: frozenset[str] = frozenset(),
) -> Transaction:
    """
    Return the transaction that *response* holds, or raise what it means instead.

    Args:
        response: Whole, or truncated at the cap.
        reference: The one that was sent.
        redact: Removes the API key from text that goes into an error.
        now: The wall clock, for `Retry-After` dates.
        not_found_messages: Further messages that mean "no such transaction", as `plain` writes them.

    Raises:
        ResponseError: Always one of its subclasses.

    Source:
        Transaction detail specification, part 4, rules 1 to 3; part 7 shows no errors, so the
        reading of those is ours.
    """
    outcome = _outcome(response, reference, redact, now, not_found_messages)
    if isinstance(outcome, Transaction):
        return outcome
    raise outcome  # here: a traceback may come with locals, and the frames below hold what may echo the key


def _outcome(
    response: Response,
    reference: str,
    redact: Callable[[str], str],
    now: Callable[[], datetime],
    not_found_messages: frozenset[str],
) -> Transaction | errors.ResponseError:
    body, problem, value = _read(response)

    def answer() -> ErrorResponse:  # made for an error only
        return ErrorResponse(
            response.status_code, response.headers, _text(body), problem, redact, now, not_found_messages
        )

    is_clean = value is None or redact(text := body.decode("utf-8", "replace")) == text
    value = value if is_clean else _without_key(value, redact)
    if response.status_code != 200 or not is_object(value) or value.get("success") is not True:
        return refuse(answer(), value, reference)
    data = value.get("data")
    if not is_object(data):
        found = kind(data) if "data" in value else "absent"
        return answer().unexpected(f"data: {found} where an object is needed")
    notes = (*(_MARKED if body.startswith(BOM_UTF8) else ()), *(() if is_clean else _ECHOED))
    try:
        transaction = read_transaction(data, notes=notes)
    except FieldProblem as trouble:
        return answer().unexpected(f"data.{trouble}")
    if transaction.reference != reference:
        found = f"data.reference is {transaction.reference[:80]!r}, asked for {reference!r}"
        return answer().unexpected(found, kind=errors.ReferenceMismatchError)
    if not is_clean and REMOVED in transaction.status:
        return answer().unexpected("data.status: the API key stands in it")
    return transaction


def _without_key(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a JSON value without the key: what is kept of a transaction goes into journals and reports."""
    if isinstance(value, str):
        return redact(value)
    if is_list(value):
        return [_without_key(item, redact) for item in value]
    if is_object(value):
        return {redact(name): _without_key(item, redact) for name, item in value.items()}
    return value


def _read(response: Response) -> tuple[bytes, str, Any]:
    """Return the body as far as it can be shown, what is wrong with it ("" when nothing is), and its value."""
    body = response.body
    if response.is_truncated or len(body) > BODY_LIMIT:
        return body, f"body: longer than {BODY_LIMIT} bytes", None
    if coding := response.headers.get("content-encoding"):
        try:
            body = inflate(body, coding, limit=BODY_LIMIT)
        except InflateError as problem:
            return b"", f"body: {problem}", None
    if not body or body.isspace():
        return b"", "body: empty", None
    try:
        return body, "", read_json(body)
    except JSONProblem as problem:
        return body, f"body: {problem}", None


def _text(body: bytes) -> str:
    # More than an excerpt is never shown, and a signature stands at the top.
    return body[:4096].decode("utf-8", "replace")

"""
The protocol without I/O: build the request, say what an answer means.

Design rules:

- The body decides before the status: a service that answers 200 with `success` false has refused.
- A transaction needs everything to be right: status 200, `success` true, `data` readable, and the
  echoed reference equal to the one that was sent.
- "Not found" needs evidence: the service's own envelope, with status 404 or with one of the few
  messages below. A page, a gateway or a time-out is never "not found".
- Whatever is neither becomes an error that says what was found where.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from payclient import errors
from payclient._codec import FieldProblem, read_transaction
from payclient._http import BODY_LIMIT, Request, Response
from payclient._inflate import InflateError, inflate
from payclient._json import JSONProblem, is_object, kind, read_json
from payclient._models import Environment, Transaction
from payclient._refusal import Answer, refuse

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
) -> Transaction:
    """
    Return the transaction that *response* holds, or raise what it means instead.

    Args:
        response: Whole, or truncated at the cap.
        reference: The one that was sent.
        redact: Removes the API key from text that goes into an error.
        now: The wall clock, for `Retry-After` dates.

    Raises:
        ResponseError: Always one of its subclasses.

    Source:
        Transaction detail specification, part 4, rules 1 to 3; part 7 shows no errors, so the
        reading of those is ours.
    """
    outcome = _outcome(response, reference, redact=redact, now=now)
    if isinstance(outcome, Transaction):
        return outcome
    raise outcome  # here: a traceback may come with locals, and the frames below hold what may echo the key


def _outcome(
    response: Response, reference: str, *, redact: Callable[[str], str], now: Callable[[], datetime]
) -> Transaction | errors.ResponseError:
    body, problem, value = _read(response)

    def answer() -> Answer:  # made for an error only
        return Answer(response.status_code, response.headers, _text(body), problem, redact, now)

    if response.status_code != 200 or not is_object(value) or value.get("success") is not True:
        return refuse(answer(), value, reference)
    data = value.get("data")
    if not is_object(data):
        found = kind(data) if "data" in value else "absent"
        return answer().unexpected(f"data: {found} where an object is needed")
    try:
        transaction = read_transaction(data, notes=_MARKED if body.startswith(BOM_UTF8) else ())
    except FieldProblem as trouble:
        return answer().unexpected(f"data.{trouble}")
    if transaction.reference == reference:
        return transaction
    found = f"data.reference is {transaction.reference[:80]!r}, asked for {reference!r}"
    return answer().unexpected(found, kind=errors.ReferenceMismatchError)


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

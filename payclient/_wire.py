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
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
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


def endpoint(base_url: str, environment: Environment) -> str:
    """
    Return the address of the operation.

    Source:
        Transaction detail specification, part 4; the environments differ in the path alone.
    """
    return base_url.rstrip("/") + _PATHS[environment]


def build_request(url: str, reference: str, *, authorization: Callable[[], str], user_agent: str) -> Request:
    """
    Return the one request there is.

    Source:
        Transaction detail specification, part 4: method, headers and body.
    """
    body = json.dumps({"reference": reference}, ensure_ascii=False, separators=(",", ":")).encode()
    return Request("POST", url, {**_HEADERS, "User-Agent": user_agent}, body, authorization)


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
    problem, text, value = _read(response)
    answer = Answer(response.status_code, response.headers, text, problem, redact, now)
    if response.status_code != 200 or not is_object(value) or value.get("success") is not True:
        return refuse(answer, value, reference)
    data = value.get("data")
    if not is_object(data):
        found = kind(data) if "data" in value else "absent"
        return answer.unexpected(f"data: {found} where an object is needed")
    return _checked(data, reference, answer)


def _checked(data: dict[str, Any], reference: str, answer: Answer) -> Transaction | errors.ResponseError:
    notes = ("body: began with a byte order mark",) if answer.text.startswith("\ufeff") else ()
    try:
        transaction = read_transaction(data, notes=notes)
    except FieldProblem as problem:
        found = f"data.{problem}"
    else:
        if transaction.reference == reference:
            return transaction
        found = f"data.reference is {transaction.reference[:80]!r}, asked for {reference!r}"
        return answer.unexpected(found, kind=errors.ReferenceMismatchError)
    return answer.unexpected(found)


def _read(response: Response) -> tuple[str, str, Any]:
    """Return what is wrong with the body ("" when nothing is), its text for people, and its value."""
    if response.is_truncated or len(response.body) > BODY_LIMIT:
        return f"body: longer than {BODY_LIMIT} bytes", _text(response.body), None
    try:
        body = inflate(response.body, response.headers.get("content-encoding", ""), limit=BODY_LIMIT)
    except InflateError as problem:
        return f"body: {problem}", "", None
    if not body.strip():
        return "body: empty", "", None
    try:
        return "", _text(body), read_json(body)
    except JSONProblem as problem:
        return f"body: {problem}", _text(body), None


def _text(body: bytes) -> str:
    # More than an excerpt is never shown, and a signature stands at the top.
    return body[:4096].decode("utf-8", "replace")

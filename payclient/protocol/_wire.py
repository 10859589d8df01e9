"""
Build the request, and read a response as a transaction or an error.

Design rules:

- The body is read before the status: a 200 with `success` false is a refusal.
- A transaction needs status 200, `success` true, readable `data`, and exactly the reference that
  was sent.
- "Not found" needs evidence: the service's own envelope, and words about a transaction or a reference.
  A web page, a gateway error, a time-out or an unknown message is never "not found".
- Anything else becomes an error that names the place and the value there.
"""

import zlib
from codecs import BOM_UTF8
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import Any

from payclient import errors
from payclient.protocol._json import JSONProblem, is_list, is_object, kind, named, read_json
from payclient.protocol._models import BODY_LIMIT, Environment, Response
from payclient.protocol._refusal import ErrorResponse, refuse, search_for_key
from payclient.protocol._secret import REMOVED
from payclient.protocol.transaction import FieldProblem, Transaction, read_documented, read_transaction

MAX_REFERENCE_LENGTH = 256


def check_reference(reference: object) -> str:
    """Return *reference* unchanged if it is valid."""
    # The specification gives no format, so only what no format would allow is refused. The response must have exactly
    # the same reference, so it is not stripped.
    if not isinstance(reference, str):
        raise errors.InvalidReferenceError(f"reference must be a string, got {type(reference).__name__}")
    length, is_printable = len(reference), reference.isprintable()
    if is_printable and 0 < length <= MAX_REFERENCE_LENGTH and reference[0] != " " != reference[-1]:
        return reference
    wrong = (place for place, character in enumerate(reference) if not character.isprintable())
    place = next(wrong, 0 if reference.startswith(" ") else length - 1)  # the only blank that prints
    problems = (
        (not reference.strip(), "is empty"),
        (length > MAX_REFERENCE_LENGTH, f"must have at most {MAX_REFERENCE_LENGTH} characters, got {length}"),
        (not is_printable, f"has a character at position {place} that does not print ({reference[place:][:1]!a})"),
        (True, f"has a blank at position {place}: strip it, because a reference is sent exactly as given"),
    )
    raise errors.InvalidReferenceError(f"reference {next(problem for holds, problem in problems if holds)}")


def check_references(references: object) -> None:
    """Refuse a single reference instead of a list: its characters would be looked up one by one."""
    if isinstance(references, str | bytes | bytearray):
        problem = f"one {type(references).__name__}: use get_transaction for a single one"
    elif not isinstance(references, Iterable | AsyncIterable):
        problem = type(references).__name__
    else:
        return
    raise TypeError(f"references must be an iterable of references, got {problem}")


def inflate(body: bytes, coding: str, *, limit: int) -> tuple[bytes, str]:
    """Return the body without its coding, and the problem with it: "" without one."""
    # The client asks for `identity`, but a proxy may compress.
    coding = coding.strip()
    if coding.lower() in ("", "identity"):
        return body, ""
    if coding.lower() not in ("gzip", "x-gzip"):  # shown unchanged: a secret in lower case would not be redacted
        return b"", f"unknown content coding {named(coding)}"
    decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)  # only gzip
    try:
        plain = decoder.decompress(body, limit + 1)
    except zlib.error as error:
        return b"", f"damaged {coding} data: {error}"
    if len(plain) > limit:
        return b"", f"{coding} data that grows beyond {limit} bytes"
    if not decoder.eof:
        return b"", f"{coding} data that ends too early"
    return (b"", f"bytes after the end of the {coding} data") if decoder.unused_data else (plain, "")


_PATHS = {Environment.LIVE: "/api/transaction/detail", Environment.SANDBOX: "/api-sandbox/transaction/detail"}
_HEADERS: Mapping[str, str] = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # so that the limit on the body also limits memory
}


def endpoint(base_url: str, environment: Environment) -> str:
    # Transaction detail specification, part 4. The environments differ only in the path.
    return base_url.rstrip("/") + _PATHS[environment]


def request_headers(user_agent: str) -> Mapping[str, str]:
    return MappingProxyType({**_HEADERS, "User-Agent": user_agent})


def request_body(reference: str) -> bytes:
    # Transaction detail specification, part 4, as the method and the headers of the request.
    return f'{{"reference":{encode_basestring(reference)}}}'.encode()


def parse_response(
    response: Response,
    reference: str,
    *,
    redact: Callable[[str], str] = str,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    not_found_messages: frozenset[str] = frozenset(),
) -> Transaction:
    """Return the transaction in *response*, or raise the error that it means."""
    # Transaction detail specification, part 4, rules 1 to 3. Part 7 describes no errors, so their mapping is ours.
    if (transaction := _documented(response, reference, redact)) is not None:
        return transaction
    outcome = _outcome(response, reference, redact, now, not_found_messages)
    if isinstance(outcome, Transaction):
        return outcome
    raise outcome  # raised here, because local variables in the frames of `_outcome` may be the key


def _documented(response: Response, reference: str, redact: Callable[[str], str]) -> Transaction | None:
    """Return the transaction of a response that is as documented to the letter, as nearly all are. None for others."""
    if response.status_code != 200 or response.is_truncated or "content-encoding" in response.headers:
        return None
    try:
        text = response.body.decode()
    except UnicodeDecodeError:
        return None
    is_clean, request_id = search_for_key(text, response.headers, redact)
    transaction = read_documented(text, request_id=request_id) if is_clean else None
    return transaction if transaction is not None and transaction.reference == reference else None


def _outcome(
    response: Response,
    reference: str,
    redact: Callable[[str], str],
    now: Callable[[], datetime],
    not_found_messages: frozenset[str],
) -> Transaction | errors.ResponseError:
    body, problem, value = _read(response)
    excerpt = body[:4096].decode("utf-8", "replace")  # enough to recognise a web page
    failed = ErrorResponse(response.status_code, response.headers, excerpt, problem, redact, now, not_found_messages)
    text = body.decode("utf-8", "replace")
    is_clean, request_id = (True, None) if value is None else search_for_key(text, response.headers, redact)
    value = value if is_clean else _without_key(value, redact)
    if response.status_code != 200 or not is_object(value) or value.get("success") is not True:
        return refuse(failed, value, reference)
    if not is_object(data := value.get("data")):
        found = kind(data) if "data" in value else "absent"
        return failed.unexpected(f"data: {found} where an object is needed")
    notes = ("body: began with a byte order mark",) * body.startswith(BOM_UTF8)
    notes += ("body: contained the API key, which was removed",) * (not is_clean)
    try:
        transaction = read_transaction(data, notes=notes, request_id=request_id)
    except FieldProblem as fault:
        return failed.unexpected(f"data.{fault}", is_about_reference=str(data.get("reference")) == reference)
    if transaction.reference != reference:
        found = f"data.reference is {transaction.reference[:80]!r}, asked for {reference!r}"
        return failed.unexpected(found, kind=errors.ReferenceMismatchError)
    if not is_clean and REMOVED in transaction.status:
        return failed.unexpected("data.status: contains the API key", is_about_reference=True)
    return transaction


def _without_key(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a JSON value without the key, because it goes into journals and reports."""
    if isinstance(value, str):
        return redact(value)
    if is_list(value):
        return [_without_key(item, redact) for item in value]
    if is_object(value):
        return {redact(name): _without_key(item, redact) for name, item in value.items()}
    return value


def _read(response: Response) -> tuple[bytes, str, Any]:
    """Return the body to show in errors, the problem with it ("" without one), and its JSON value."""
    body = response.body
    if response.is_truncated or len(body) > BODY_LIMIT:
        return body, f"body: longer than {BODY_LIMIT} bytes", None
    if coding := response.headers.get("content-encoding"):
        body, damage = inflate(body, coding, limit=BODY_LIMIT)
        if damage:
            return b"", f"body: {damage}", None
    if not body or body.isspace():
        return b"", "body: empty", None
    try:
        return body, "", read_json(body)
    except JSONProblem as problem:
        return body, f"body: {problem}", None

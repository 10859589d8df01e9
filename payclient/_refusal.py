"""Which error an answer is that is not a transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from attrs import frozen

from payclient import errors
from payclient._json import is_list, is_object, kind
from payclient._retry_after import retry_after

_Error = TypeVar("_Error", bound=errors.ResponseError)

NOT_FOUND_MESSAGES = frozenset(
    {
        "transaction not found",
        "reference not found",
        "transaction reference not found",
        "data not found",
        "transaction does not exist",
        "transaksi tidak ditemukan",
        "data tidak ditemukan",
        "data transaksi tidak ditemukan",
    }
)
"""Messages that are believed to mean "no such transaction" when the status does not say so."""

REFUSED_KEY_MESSAGES = frozenset(
    {
        "invalid api key",
        "api key is invalid",
        "api key not found",
        "invalid token",
        "unauthenticated",
        "unauthorized",
        "authentication failed",
        "api key tidak valid",
    }
)
"""Messages that are believed to mean "the key is refused" when the status does not say so."""

_KEPT_HEADERS = frozenset(
    {
        "cf-cache-status",
        "cf-mitigated",
        "cf-ray",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "location",
        "ratelimit",
        "ratelimit-policy",
        "ratelimit-reset",
        "request-id",
        "retry-after",
        "server",
        "via",
        "x-correlation-id",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "x-request-id",
    }
)
_REQUEST_IDS = ("x-request-id", "request-id", "x-correlation-id", "cf-ray")
_RATE_LIMITED_PAGE = re.compile(r"error code:\s*1015|you are being rate limited", re.IGNORECASE)
_PAYMENT_CODE = re.compile(r'("payment_code"\s*:\s*)(?:"(?:[^"\\]|\\.)*+"?|[^,}\s]+)')
"""One can pay with it, and the body of an answer that cannot be read may hold it all the same."""
_EXCERPT = 400
_WORDS = 200
_MOST_TEXTS = 20


@frozen
class Answer:
    """
    An answer that becomes an error.

    Attributes:
        status_code: The HTTP status.
        headers: All of them, names in lower case.
        text: The beginning of the body.
        problem: What is wrong with the body as JSON; empty when it is JSON.
        redact: Removes the API key from text.
        now: The wall clock.
    """

    status_code: int
    headers: Mapping[str, str]
    text: str
    problem: str
    redact: Callable[[str], str]
    now: Callable[[], datetime]

    def error(self, kind: type[_Error], meaning: str, **more: Any) -> _Error:
        """Make an error of *kind* that holds the plain values of this answer."""
        kept = {name: self.clean(value, _WORDS) for name, value in self.headers.items() if name in _KEPT_HEADERS}
        return kind(
            f"{self.clean(meaning, _EXCERPT)} (HTTP {self.status_code})",
            status_code=self.status_code,
            headers=kept,
            body=self.clean(_PAYMENT_CODE.sub(r'\1"…"', self.text), _EXCERPT),
            request_id=next((kept[name] for name in _REQUEST_IDS if kept.get(name)), None),
            retry_after=retry_after(self.headers, now=self.now),
            **more,
        )

    def unexpected(
        self, problem: str, *, kind: type[errors.UnexpectedResponseError] = errors.UnexpectedResponseError
    ) -> errors.UnexpectedResponseError:
        """Make the error for an answer that is not the documented shape."""
        return self.error(kind, f"unexpected answer: {problem}", problem=self.clean(problem, _EXCERPT))

    def clean(self, text: str, length: int) -> str:
        """Return *text* on one line: without the key, control and direction characters, shortened."""
        shown = self.redact(text[: length * 8])
        shown = "".join(c if c.isprintable() else " " for c in shown)
        shown = " ".join(shown.split())
        return shown if len(shown) <= length else shown[: length - 1] + "…"


def refuse(answer: Answer, value: object, reference: str) -> errors.ResponseError:
    """
    Return the error that *answer* means; it is known not to be a transaction.

    Args:
        answer: What came.
        value: Its body as JSON, or None where it is not JSON.
        reference: The one that was sent.
    """
    # Neither a redirect nor a failure of the server is the service speaking about a transaction.
    is_envelope = is_object(value) and value.get("success") is False and answer.status_code // 100 in (2, 4)
    words = _words(value) if is_object(value) else ""
    if is_envelope and (error := _from_message(answer, words)):
        return error
    if error := _from_status(answer, words, is_about_reference=is_envelope and _is_about(reference, value, words)):
        return error
    if is_envelope:
        if answer.status_code == 404:
            return answer.error(errors.TransactionNotFoundError, f"no such transaction: {words or 'no message'}")
        return answer.error(errors.RejectedError, f"the service declined: {words or 'no message'}")
    if is_object(value) and value.get("success") is not True and words and answer.status_code in (400, 409, 422):
        return answer.error(errors.RejectedError, f"the service declined: {words}")
    return answer.unexpected(_problem(answer, value))


def _from_message(answer: Answer, words: str) -> errors.ResponseError | None:
    if answer.status_code in (401, 403, 408, 425, 429):
        return None
    said = re.sub(r"[\W_]+", " ", words).strip().casefold()
    if said in NOT_FOUND_MESSAGES:
        return answer.error(errors.TransactionNotFoundError, f"no such transaction: {words}")
    if said in REFUSED_KEY_MESSAGES:
        return answer.error(errors.AuthenticationError, f"the service refuses the API key: {words}")
    return None


def _from_status(answer: Answer, words: str, *, is_about_reference: bool) -> errors.ResponseError | None:
    status, said = answer.status_code, f": {words}" if words else ""
    if status == 429 or _RATE_LIMITED_PAGE.search(answer.text):
        return answer.error(errors.RateLimitedError, f"the service asks for fewer requests{said}")
    if status == 401:
        return answer.error(errors.AuthenticationError, f"the service refuses the API key{said}")
    if status == 403:
        if is_about_reference:
            return answer.error(errors.RejectedError, f"the service declined{said}")
        if "cf-mitigated" in answer.headers:
            # Not the caller is refused but the moment: it wants a browser while it fears too many requests.
            return answer.error(errors.ServiceError, "a gateway in front of the service challenges this client")
        return answer.error(
            errors.PermissionDeniedError, f"access denied{said}; the key, this IP address or a gateway may be why"
        )
    if status in (408, 425) or 500 <= status < 600:
        return answer.error(errors.ServiceError, f"the service cannot answer now{said}")
    return None


def _problem(answer: Answer, value: object) -> str:
    status = answer.status_code
    if 300 <= status < 400:
        return f"redirect to {answer.headers.get('location', 'nowhere')}, which is not followed; check base_url"
    if status == 404:
        return "a 404 that is not from the transaction service; check base_url"
    if answer.problem:
        found = _looks_like(answer.text)
        return f"{answer.problem}{found}"
    if not is_object(value):
        return f"body: {kind(value)} where an object is needed"
    if "success" not in value:
        return "success: absent"
    found = json.dumps(value["success"], default=str)[:40]
    if isinstance(value["success"], bool):
        return f"success is {found}, but the status is {status}"
    return f"success: {found} is not true or false"


def _looks_like(text: str) -> str:
    start = text.lstrip("\ufeff \t\r\n")[:200].lower()
    if start.startswith(("<!doctype", "<html", "<head", "<?xml")):
        return " (a web page)"
    return " (a PHP message)" if re.search(r"(warning|notice|fatal error|deprecated)(</b>)?:", start) else ""


def _words(value: dict[str, Any]) -> str:
    """Return what the service said, from the places where services say it, and no more than could be shown."""
    places = ("message", "error", "errors", "detail")
    said = [text for place in places for text in islice(_strings(value.get(place), 4), _MOST_TEXTS)]
    # As an object, `data` is a transaction after all, with a code in it that one can pay with.
    return "; ".join(dict.fromkeys(said or _strings(value.get("data"), 0)))


def _strings(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if text := value[:_EXCERPT].strip():
            yield text
    elif depth and is_list(value):
        for item in value[:10]:
            yield from _strings(item, depth - 1)
    elif depth and is_object(value):
        for key, item in islice(value.items(), 10):
            for text in _strings(item, depth - 1):
                yield text if key == "message" else f"{key[:_WORDS]}: {text}"


def _is_about(reference: str, value: object, words: str) -> bool:
    """Say whether a refusal is about this one reference, rather than about the caller."""
    named = value.get("errors") if is_object(value) else None
    if is_object(named) and "reference" in named:
        return True
    return reference in words or re.search(r"\b(transaction|transaksi|reference)\b", words, re.IGNORECASE) is not None

"""
Map an unsuccessful response to an exception, by its status and its words, with the wait that the service asks for.

Design rules for the words:

- "Not found" is believed only if the text consists of a word for a transaction or a reference, a phrase for its
  absence, and filler words. With any other word it may mean something else.
- Words about the service, its address, the key or the merchant have priority.
- Anything else is unknown, and never "not found".
"""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from attrs import frozen

from payclient import errors
from payclient.protocol._json import is_list, is_object
from payclient.protocol._json import kind as json_type
from payclient.protocol._secret import REMOVED


class Meaning(Enum):
    NOT_FOUND = "not found"
    NO_DATA = "no data"  # the record is missing. Its kind is not named
    BARE = "bare"  # only "not found", or no message
    KEY = "key"
    DENIED = "denied"  # about a key, a merchant, an account or the caller
    DOWN = "down"  # the service, or its database
    ELSEWHERE = "elsewhere"  # wrong address: about a route, a path or a method
    REFERENCE = "reference"  # declined as a reference that the caller may not see
    UNKNOWN = "unknown"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SUBJECTS = _words(
    "transaction transactions trx transaksi payment payments pembayaran reference references referensi reff ref"
)
"""Words for a transaction or its reference. A message about an invoice, an order or a page is about something else."""

ABSENCES = frozenset(
    {
        *("not found", "not exist", "not exists", "not find", "not registered", "not recognized", "not known"),
        *("no found", "no exist", "no exists", "no such", "unknown", "no matches query"),
        *("no query results model", "no query results model app models", "no query results model app"),
        *("tidak ditemukan", "tidak ketemu", "tidak ada", "tidak terdaftar", "tidak dikenal", "tidak dikenali"),
        "no tidak ditemukan",
    }
)
"""Phrases for "does not exist", without the subject and without filler words."""

REFUSED_KEY_MESSAGES = frozenset(
    {
        *("invalid api key", "api key is invalid", "api key not found", "invalid token"),
        *("unauthenticated", "unauthorized", "authentication failed", "api key tidak valid"),
    }
)
"""Messages that are believed to mean "the key is refused" when the status is not clear."""

_RECORDS = _words("data detail details record records row rows")
_WEIGHTLESS = _words(
    "a an any the this that your our with for of by in is was were are be been has have had does do did can could "
    "given requested specified provided supplied matching id en code number error exception sorry system 404 "
    "kode nomor anda tersebut ini itu dengan di pada kami maaf dapat bisa sistem"
)
_EMPTY = _WEIGHTLESS | {"status", "fail", "failed", "gagal", "false"}
_CODE = re.compile(r"[a-z]{0,8}\d+")
_DOWN = re.compile(
    r"\b(?:maintenance|pemeliharaan|perbaikan|gangguan|unavailable|temporar(?:y|ily)|overloaded|busy|sibuk"
    r"|sqlstate|sql|mysqli?|mariadb|postgres\w*|pdo\w*|ora|redis|mongo\w*|database|db|basis data|deadlock"
    r"|tables?|column|relation|class|time ?d? ?out|try again|(?:again|back) later|coba (?:lagi|kembali)|beberapa saat"
    r"|upstream|gateway|backend|connections?|connect|koneksi|terhubung|getaddrinfo|econn\w+|socket"
    r"|(?:internal|server|unexpected|fatal) error|internal server|went wrong|whoops|terjadi kesalahan"
    r"|kesalahan (?:server|sistem|internal|pada)|not available|tidak (?:tersedia|dapat diakses|bisa diakses)"
    r"|undefined|memory|stack trace|null pointer|out of service|offline|shutting down|under construction)\b"
)
_ELSEWHERE = re.compile(
    r"\b(?:routes?|rute|endpoints?|urls?|uri|pages?|halaman|paths?|controller|handler|static resource|mapping"
    r"|(?<!payment )method (?:is )?not (?:allowed|supported)|(?<!payment )methods? (?:get|post|put|head)"
    r"|metode http|can not (?:get|post|put)|on this server"
    r"|no such app|application not found|deployment|tunnel|site|domain|host|bucket|api version)\b"
)
_DENIED = re.compile(
    r"\b(?:api ?keys?|(?:secret|access|client|server|merchant|private|public|invalid|wrong|missing|no|unknown) keys?"
    r"|keys? (?:is |was |has )?(?:not|invalid|expired|missing|unknown|revoked|tidak|salah|does)|kunci"
    r"|tokens?|credentials?|kredensial|signature|unauthenticated|unauthori[sz]ed|authenticat\w+|authori[sz]ation"
    r"|o?autentikasi|otentikasi|otorisasi|log ?in|log(?:ged)? in|bearer"
    r"|merchants? (?:\w+ ){0,2}(?:not|tidak|inactive|unknown|suspended|blocked|disabled|invalid|nonaktif|diblokir)"
    r"|(?:unknown|invalid|no such|no|inactive) merchants?|models (?:merchant|user|account|client)"
    r"|(?:account|akun|user|pengguna|client|partner|company|store|toko|project)s? (?:\w+ )?"
    r"(?:not|tidak|inactive|unknown|suspended|blocked|disabled|nonaktif)"
    r"|access denied|akses ditolak|forbidden|permissions?|ip (?:address )?(?:\w+ ){0,6}(?:not|blocked|tidak)"
    r"|whitelist\w*|allowlist\w*|suspended|tidak (?:memiliki|punya) (?:akses|izin)|subscription)\b"
)


def plain(text: str) -> str:
    """Return *text* in lower case, with one space between its words and no punctuation."""
    spread = re.sub(r"n['\u2019]t\b", " not", text.replace("annot", "an not"))
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", spread)  # TransactionNotFound
    return " ".join(re.sub(r"[\W_]+", " ", spread).casefold().split())


def meaning(
    texts: Iterable[str], reference: str, believed: frozenset[str] = frozenset(), *, beside: Iterable[str] = ()
) -> Meaning:
    named = plain(reference) if any(map(str.isdigit, reference)) else ""  # without a digit it may be a word of theirs
    said, all_said = ([text for given in part if (text := _plain(given, named))] for part in (texts, beside))
    said = said or all_said
    others = [text for text in said if text not in believed]
    if REFUSED_KEY_MESSAGES.intersection(others):
        return Meaning.KEY
    whole = " | ".join(text for text in (*others, *all_said) if text not in believed)
    for words, subject in ((_DOWN, Meaning.DOWN), (_ELSEWHERE, Meaning.ELSEWHERE), (_DENIED, Meaning.DENIED)):
        if words.search(whole):
            return subject
    found = {*map(_absence, others), *[Meaning.NOT_FOUND] * (len(others) < len(said))}
    ranks = (Meaning.UNKNOWN, Meaning.NOT_FOUND, Meaning.NO_DATA)
    return next((each for each in ranks if each in found), Meaning.BARE)


def _plain(text: str, reference: str) -> str:
    text = plain(text.replace(REMOVED, " "))
    return " ".join(f" {text} ".replace(f" {reference} ", " ").split())


def _absence(text: str) -> Meaning:
    if all(word in _EMPTY or _CODE.fullmatch(word) for word in text.split()):
        return Meaning.BARE
    words = [word for word in text.split() if word not in _WEIGHTLESS]
    if " ".join(word for word in words if word not in SUBJECTS and word not in _RECORDS) not in ABSENCES:
        return Meaning.UNKNOWN
    if not SUBJECTS.isdisjoint(words):
        return Meaning.NOT_FOUND
    return Meaning.BARE if _RECORDS.isdisjoint(words) else Meaning.NO_DATA


_NUMBER = re.compile(r"\d{1,13}(?:\.\d{1,9})?", re.ASCII)
_RESET = re.compile(r"(?:^|[;,\s])(?:reset|t)\s*=\s*(\d{1,13}(?:\.\d{1,9})?)(?![\d.])", re.ASCII)
_LEFT = re.compile(r"(?:^|[;,\s])(?:remaining|r)\s*=\s*0*[1-9]", re.ASCII)
_LIMITS = ("x-ratelimit", "x-rate-limit", "ratelimit")
_EPOCH = 1_000_000_000
"""A number from here on is a Unix time, even in `Retry-After`, where it is a mistake. Below, it is seconds."""


def retry_after(headers: Mapping[str, str], *, is_throttled: bool, now: Callable[[], datetime]) -> float | None:
    """Return the seconds to wait before the next request, or None if no header asks for a wait."""
    # `Retry-After` has priority over the reset of the rate-limit headers, which ask for a wait only if the response
    # *is_throttled*: gateways describe the state of a limit in every response. If it has requests left, the refusal is
    # of another limit. A time in the past means now. Unreadable values (negative, thousands of digits) are ignored.
    # RFC 9110, 10.2.3; draft-ietf-httpapi-ratelimit-headers. The `X-RateLimit-*` family in use.
    values, structured = [headers.get("retry-after", "").strip()], headers.get("ratelimit", "")
    left = [*(f"r={headers.get(f'{limit}-remaining', '').strip()}" for limit in _LIMITS), structured]
    if is_throttled and not any(map(_LEFT.search, left)):
        values += [headers.get(f"{limit}-reset", "").strip() for limit in _LIMITS] + _RESET.findall(structured)
    if (moment := _date(values[0])) is None:
        if (moment := next(map(float, filter(_NUMBER.fullmatch, values)), None)) is None or moment < _EPOCH:
            return moment
        moment /= 1000 if moment >= _EPOCH * 1000 else 1  # milliseconds
    return max(moment - (_date(headers.get("date", "")) or now().timestamp()), 0.0)


def _date(value: str) -> float | None:
    """Return the Unix time of an HTTP date, or None."""
    # An HTTP date has 29 characters. The parser is slow, and not strict, on much longer ones.
    if not 8 <= len(value) <= 64:
        return None
    try:
        moment = parsedate_to_datetime(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


_Error = TypeVar("_Error", bound=errors.ResponseError)
_Unexpected: TypeAlias = errors.UnexpectedResponseError

_REQUEST_IDS = ("x-request-id", "request-id", "x-correlation-id", "cf-ray")
_KEPT_HEADERS = frozenset(
    {
        *_REQUEST_IDS,
        *("ratelimit", "ratelimit-policy", "ratelimit-reset", "retry-after"),
        *("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
        *("cf-cache-status", "cf-mitigated", "content-encoding", "content-length", "content-type", "date"),
        *("location", "server", "via"),
    }
)
_RATE_LIMITED_PAGE = re.compile(r"error code:\s*1015|you are being rate limited", re.IGNORECASE)
_CERTIFICATE_PAGE = re.compile(r"no required ssl certificate was sent|the ssl certificate error", re.IGNORECASE)
"""The answers of nginx to a client whose certificate is missing or not accepted."""
_NEEDS_CERTIFICATE = "the service wants a client certificate that it accepts: pass client_cert and client_key"
_CHALLENGED = "a gateway in front of the service challenges this client"
"""As browsers are, when there are too many requests: about load, not about the caller."""
_WHY_DENIED = ": the key, this IP address or a gateway may be the reason"
_PAYMENT_CODE = re.compile(r'("payment_code"\s*:\s*)(?:"(?:[^"\\]|\\.)*+"?|[^,}\s]+)')
"""Removed from excerpts: a payment code is enough to pay with."""
_EVIDENT = frozenset({200, 400, 404, 410, 422})
_BELIEVED_WITH = {Meaning.NOT_FOUND: _EVIDENT, Meaning.NO_DATA: _EVIDENT, Meaning.BARE: frozenset({404})}
"""The statuses where words for "not found" are believed. Any other contradicts them."""
_UNKNOWN_WORDS = 'message: a 404 in words that may not mean "no such transaction": if they do, pass not_found_messages'
_NOT_THE_OPERATION = "message: about an address or a method, not about a transaction: check base_url"
_MAX_PARTIAL = 256
"""Characters that the first few characters of a key can take up when escaped."""
_EXCERPT = 400
_WORDS = 200
_MAX_TEXTS = 20
_MAX_BESIDE = 200
_PLACES = ("message", "error", "errors", "detail", "msg", "title", "description", "reason", "pesan", "keterangan")


@frozen
class ErrorResponse:
    status_code: int
    headers: Mapping[str, str]
    text: str
    problem: str
    redact: Callable[[str], str]
    now: Callable[[], datetime]
    not_found_messages: frozenset[str] = frozenset()

    def error(self, kind: type[_Error], meaning: str, words: str = "", **more: Any) -> _Error:
        kept = {
            name: _clean(value, _WORDS, self.redact) for name, value in self.headers.items() if name in _KEPT_HEADERS
        }
        return kind(
            f"{_clean(meaning, _EXCERPT, self.redact)} (HTTP {self.status_code})",
            status_code=self.status_code,
            headers=kept,
            body=_clean(_PAYMENT_CODE.sub(r'\1"…"', self.text), _EXCERPT, self.redact),
            request_id=request_id_of(self.headers, self.redact),
            asked_pause=retry_after(self.headers, is_throttled=kind is errors.RateLimitedError, now=self.now),
            service_message=_clean(words, _EXCERPT, self.redact),
            **more,
        )

    def unexpected(
        self, problem: str, kind: type[_Unexpected] = errors.UnexpectedResponseError, **more: Any
    ) -> _Unexpected:
        """Return the error for a response of an undocumented shape."""
        return self.error(kind, f"unexpected answer: {problem}", problem=_clean(problem, _EXCERPT, self.redact), **more)


def _clean(text: str, length: int, redact: Callable[[str], str]) -> str:
    """Return *text* on one line: without the key, control and direction characters, shortened."""
    window = length * 8
    shown = redact(text[:window])
    if len(text) > window:  # the end may be a part of the key too short to be redacted
        shown = shown[:-_MAX_PARTIAL]
    spaced = shown if shown.isprintable() else "".join(c if c.isprintable() else " " for c in shown)
    shown = " ".join(spaced.split())
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def request_id_of(headers: Mapping[str, str], redact: Callable[[str], str]) -> str | None:
    """Return the service's identifier of a request, cleaned."""
    return next(filter(None, (_clean(headers[name], _WORDS, redact) for name in _REQUEST_IDS if name in headers)), None)


def search_for_key(text: str, headers: Mapping[str, str], redact: Callable[[str], str]) -> tuple[bool, str | None]:
    """Return whether a body is without the API key, and the service's identifier of the request, redacted."""
    request_id = next(filter(None, map(headers.get, _REQUEST_IDS)), None)
    return redact(text) == text, None if request_id is None else request_id_of(headers, redact)


def refuse(response: ErrorResponse, value: object, reference: str) -> errors.ResponseError:
    """Return the error for *response*, which is not a transaction."""
    status = response.status_code
    # Neither a redirect nor a failure of the server is the service speaking about a transaction.
    is_answer, said = status // 100 in (2, 4), Meaning.UNKNOWN
    fields = value if is_object(value) else {}
    is_retried = status in (408, 425, 429)
    if is_answer and not is_retried and (other := _other_reference(fields, reference)):
        found = f"the answer is about {other[:80]!r}, asked for {reference!r}"
        return response.unexpected(found, kind=errors.ReferenceMismatchError)
    is_envelope = is_answer and fields.get("success") is False
    is_declined = is_envelope or (fields.get("success") is not True and status in (400, 409, 422))
    texts = _texts(fields)
    if is_declined and not is_retried and status not in (401, 403):  # its words are explicit
        # At any depth, because other fields may mention that the service is down.
        all_texts = (text[: _EXCERPT * 8] for _, text in _leaves(fields, ("reference",)) if isinstance(text, str))
        said = meaning(texts, reference, response.not_found_messages, beside=islice(all_texts, _MAX_BESIDE))
    words = "; ".join(texts)
    if is_envelope and status == 403 and _is_about(reference, fields, words):
        said = Meaning.REFERENCE
    kind, text = _error_for(response, value, said, words, is_envelope=is_envelope, is_declined=is_declined)
    is_elsewhere = said is Meaning.ELSEWHERE
    if kind is errors.UnexpectedResponseError:
        is_unknown = is_envelope and not is_elsewhere
        shown = (words or "no message" * is_unknown) if is_declined and not is_elsewhere else ""
        return response.unexpected(text, words=shown, is_about_reference=is_unknown)
    more = {"is_conclusive": said is Meaning.NOT_FOUND} if kind is errors.TransactionNotFoundError else {}
    return response.error(kind, text, words if is_declined else "", **more)


def _error_for(
    response: ErrorResponse, value: object, said: Meaning, words: str, *, is_envelope: bool, is_declined: bool
) -> tuple[type[errors.ResponseError], str]:
    """Return the class of an error and its text. The first row that applies decides."""
    status, then, found = response.status_code, f": {words}" if words else "", words or "no message"
    success = value.get("success") if is_object(value) else None
    shown = json.dumps(success, default=str)[:40]
    location = response.headers.get("location", "nowhere")
    is_believed = is_envelope and status in _BELIEVED_WITH.get(said, ())
    is_limited = status == 429 or bool(_RATE_LIMITED_PAGE.search(response.text))
    is_paged = bool(_CERTIFICATE_PAGE.search(response.text)) and bool(response.problem)
    rows: tuple[tuple[object, type[errors.ResponseError], str], ...] = (
        # The words of the service
        (is_believed, errors.TransactionNotFoundError, f"no such transaction: {found}"),
        (said is Meaning.DOWN, errors.ServiceError, f"the service cannot answer now: {found}"),
        (said is Meaning.KEY, errors.AuthenticationError, f"the service refuses the API key: {found}"),
        (said is Meaning.DENIED, errors.PermissionDeniedError, f"access denied: {found}"),
        (said is Meaning.ELSEWHERE, _Unexpected, f"{_NOT_THE_OPERATION}: {found}"),  # a gateway
        # The status, or the page of a gateway
        (is_limited, errors.RateLimitedError, f"the service asks for fewer requests{then}"),
        (status in (400, 495, 496) and is_paged, errors.PermissionDeniedError, _NEEDS_CERTIFICATE),
        (status == 401, errors.AuthenticationError, f"the service refuses the API key{then}"),
        (said is Meaning.REFERENCE, errors.RejectedError, f"the service declined{then}"),
        (status == 403 and "cf-mitigated" in response.headers, errors.ServiceError, _CHALLENGED),
        (status == 403, errors.PermissionDeniedError, f"access denied{then}{_WHY_DENIED}"),
        (status in (408, 425) or status // 100 == 5, errors.ServiceError, f"the service cannot answer now{then}"),
        # Both without a reason
        (is_envelope and status == 404, _Unexpected, f"{_UNKNOWN_WORDS}: {found}"),
        (is_envelope or (is_declined and words), errors.RejectedError, f"the service declined: {found}"),
        (status // 100 == 3, _Unexpected, f"redirect to {location}, which is not followed: check base_url"),
        (status == 404, _Unexpected, "a 404 that is not from the transaction service: check base_url"),
        (response.problem, _Unexpected, f"{response.problem}{_looks_like(response.text)}"),
        (not is_object(value), _Unexpected, f"body: {json_type(value)} where an object is needed"),
        (is_object(value) and "success" not in value, _Unexpected, "success: absent"),
        (isinstance(success, bool), _Unexpected, f"success is {shown}, but the status is {status}"),
        (True, _Unexpected, f"success: {shown} is not true or false"),
    )
    return next((kind, text) for holds, kind, text in rows if holds)


def _leaves(value: object, without: Container[str], depth: int = 32, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield each value inside *value*, except lists and objects, with its name, and skip the names in *without*."""
    if depth >= 0 and is_object(value):
        for key, inner in value.items():
            if key not in without:
                yield from _leaves(inner, without, depth - 1, key)
    elif depth >= 0 and is_list(value):
        for item in value:
            yield from _leaves(item, without, depth - 1)
    else:
        yield name, value


def _other_reference(value: object, reference: str) -> str:
    """Return a different `reference` in *value*, outside of messages, or an empty text."""
    named = (each for name, each in _leaves(value, _PLACES, 4) if name.casefold() == "reference")
    return next((str(each) for each in named if each and type(each) in (str, int) and str(each) != reference), "")


def _looks_like(text: str) -> str:
    start = text.lstrip("\ufeff \t\r\n")[:200].lower()
    if start.startswith(("<!doctype", "<html", "<head", "<?xml")):
        return " (a web page)"
    return " (a PHP message)" if re.search(r"(warning|notice|fatal error|deprecated)(</b>)?:", start) else ""


def _texts(value: dict[str, Any]) -> list[str]:
    """Return the service's messages, from the usual fields, shortened."""
    said = [text for place in _PLACES for text in islice(_strings(value.get(place), 4), _MAX_TEXTS)]
    # If `data` is an object, it is a transaction, and may contain a payment code.
    return list(dict.fromkeys(said or _strings(value.get("data"), 0)))


def _strings(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if text := " ".join(value.split())[:_EXCERPT]:
            yield text
    elif depth and is_list(value):
        for item in value[:10]:
            yield from _strings(item, depth - 1)
    elif depth and is_object(value):
        for key, item in islice(value.items(), 10):
            for text in _strings(item, depth - 1):
                yield text if key == "message" else f"{key[:_WORDS]}: {text}"


def _is_about(reference: str, fields: dict[str, Any], words: str) -> bool:
    named = fields.get("errors")
    is_named = (is_object(named) and "reference" in named) or reference in words
    return is_named or re.search(r"\b(transaction|transaksi|reference)\b", words, re.IGNORECASE) is not None

"""What one answer adds to a profile, as raw cells: their marked parts are decided upon when the profile is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from payclient._transaction import is_object
from payclient.drift._relations import RELATIONS
from payclient.drift._table import Key
from payclient.drift._words import marked, pattern, phrase, shape
from payclient.protocol import Response, Transaction

Traits: TypeAlias = tuple[Any, ...]
"""What answers have in common that add the same cells."""

NOT_FOUND = "(not found)"
ANY_METHOD = "any method"
DOCUMENTED = (
    *("reference", "merchant_reff", "payment_method", "payment_name", "amount", "fee", "amount_received"),
    *("payment_code", "expdate", "status"),
)
LATENCIES = ("under 0.1 s", "under 0.5 s", "under 2 s", "under 10 s", "10 s or more")
_LIMITS = (0.1, 0.5, 2.0, 10.0)
TIMES = ("under a minute", "under an hour", "under a day", "under a week", "a week or more")
"""That a transition took."""

_TIME_LIMITS = (1, 60, 1_440, 10_080)  # minutes
_SHOWN_LENGTHS = ("reference", "payment_code")
_MESSAGES = ("message", "error", "msg", "detail")
_MAX_FIELDS = 40


def latency_class(seconds: float) -> int:
    """Return the position in `LATENCIES`."""
    return sum(seconds >= limit for limit in _LIMITS)


def envelope_names(value: Any) -> str:
    """Return the names and types of a body's outermost object, as far as they are documented."""
    if not is_object(value):
        return json_type(value)
    known = [f"{name} {json_type(value[name])}" for name in ("success", "data") if name in value]
    more = len(value) - len(known)
    return ", ".join((*known, *([f"{more} more"] if more else [])))


def json_type(value: object) -> str:
    """Return the type of a JSON value in one word."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text" if value else "empty"
    if is_object(value):
        return "object"
    return "list" if isinstance(value, list) else "integer" if isinstance(value, int) else "decimal"


def envelope_cells(response: Response, names: str, redact: Callable[[str], str]) -> Iterator[Key]:
    """Yield the cells for all that is around the data of *response*, whose outermost object has *names*."""
    kind, _, parameters = redact(response.headers.get("content-type", "none")).partition(";")
    charset = parameters.strip().lower()
    is_known = charset in ("", "charset=utf-8", "charset=iso-8859-1")
    yield (
        *("envelope", str(response.status_code), names, marked(kind.strip().lower())),
        *(charset or "no charset" if is_known else marked(charset),),
        marked(redact(response.headers.get("content-encoding", "identity"))),
    )
    for name in response.headers:
        yield "header", marked(redact(name))


def field_cells(raw: Mapping[str, Any]) -> Iterator[Key]:
    """Yield the cells for the fields of the data: name, and type or shape."""
    for name in DOCUMENTED:
        yield "field", name, form_of(name, raw[name]) if name in raw else "absent"
    unknown = [name for name in raw if name not in DOCUMENTED]
    for name in unknown[:_MAX_FIELDS]:
        yield "name", marked(name), json_type(raw[name])


def form_of(name: str, value: object) -> str:
    """Return type, format or shape of one field."""
    if not isinstance(value, str) or not value:
        return json_type(value)
    if name == "expdate":
        return pattern(value)
    return shape(value) if name in _SHOWN_LENGTHS else "text"


def transaction_cells(traits: Traits, transaction: Transaction) -> Iterator[Key]:
    """Yield the cells for a transaction and its relations, with the *traits* that `Recorder` took."""
    hour, truth, latency = str(traits[0]), traits[1], traits[2]
    status = marked(transaction.status)
    method = marked(transaction.payment_method) if transaction.payment_method else "no method"
    yield ("answers",)
    yield "state", method, status
    yield "word", "status", status
    yield "word", "payment_method", method
    yield "latency", LATENCIES[latency]
    yield from field_cells(transaction.raw)
    for name in {text.partition(":")[0] for text in transaction.deviations}:
        yield "deviation", name if name in (*DOCUMENTED, "body") else "unknown field"
    for relation, holds in zip(RELATIONS, truth, strict=True):
        if holds is not None:
            for state in ("any state", status):
                yield "relation", relation, state, "held" if holds else "broken"
    yield from _share_cells(hour, method, latency, transaction)


def _share_cells(hour: str, method: str, latency: int, transaction: Transaction) -> Iterator[Key]:
    yield "share", hour, method, "answers"
    for name in DOCUMENTED:
        form = json_type(transaction.raw[name]) if name in transaction.raw else "absent"
        expected = "integer" if name in ("amount", "fee", "amount_received") else "text"
        if form != expected:
            yield "share", hour, method, f"{name} is {form}"
    if latency >= 2:
        yield "share", hour, method, "slower than 0.5 s"
    if latency >= 3:
        yield "share", hour, method, "slower than 2 s"


def failure_cells(hour: int, error: str, response: Response | None, value: Any, text: str) -> Iterator[Key]:
    """Yield the cells for an attempt that gave no transaction, but the *error*, and perhaps a *text* for people."""
    status = "none" if response is None else str(response.status_code)
    yield ("answers",)
    yield "failure", error, status
    if text:
        yield "text", status, *phrase(text)
    elif response is not None:
        yield "text", status, "no message, " + envelope_names(value) if is_object(value) else "no JSON object"
    yield "share", str(hour), ANY_METHOD, "answers"
    if error != "TransactionNotFoundError":  # how many references are unknown depends on the ledger
        yield "share", str(hour), ANY_METHOD, f"ends with {error}"


def message_of(value: Any) -> str:
    """Return the text for people in the body of a refusal; "" if there is none."""
    if not is_object(value):
        return ""
    found = (value.get(name) for name in _MESSAGES)
    texts = (each.get("message") if is_object(each) else each for each in found)
    return next((text for text in texts if isinstance(text, str)), "")


def transition_cells(before: str, after: str, minutes: int) -> Iterator[Key]:
    """Yield the cells for a change of state that was seen *minutes* after the state before."""
    took = TIMES[sum(minutes >= limit for limit in _TIME_LIMITS)]
    yield "transition", _state(before), _state(after)
    yield "took", _state(before), _state(after), took


def _state(name: str) -> str:
    return name if name == NOT_FOUND else marked(name)

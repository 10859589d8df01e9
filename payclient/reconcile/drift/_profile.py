"""
The profile of what one client is answered: counts of words or their shapes, and of relations between fields.

An answer adds raw cells, in which some parts are marked. Which of these may be kept in the clear is decided when the
profile is taken. A relation is remembered while it holds in every answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from hashlib import blake2s
from typing import Any, TypeAlias

from attrs import define, field, frozen

from payclient.protocol import JSONProblem, Response, Transaction, is_object, read_json

Key: TypeAlias = tuple[str, ...]
"""The kind of a cell, and what it counts."""

Cell: TypeAlias = tuple[int, int]
"""How often, and first when, in minutes since 1970."""

MAX_BYTES = 60_000
"""Of the cells as JSON; what else a run keeps has the rest of 64 KiB."""

KINDS = (
    *("answers", "envelope", "header", "state", "word", "transition", "took", "relation", "field", "share", "latency"),
    *("deviation", "failure", "name", "text"),
)
"""The last ones are the first to be left out: an object keyed by reference has a name for each payment."""

_ORDER = {kind: f"{index:x}" for index, kind in enumerate(KINDS)}
_NO_CUT = "~"
_OVERHEAD = 28  # brackets, commas and both numbers


@frozen
class Table:
    """
    Counts by cell.

    Attributes:
        cells: By kind and parts.
        cut: The rank from which cells are left out; those before it have exact counts.
    """

    cells: Mapping[Key, Cell] = field(factory=dict[Key, Cell])
    cut: str = _NO_CUT

    def __add__(self, other: Table) -> Table:
        cells = dict(self.cells)
        for key, (count, first) in other.cells.items():
            if (mine := cells.get(key)) is not None:
                count, first = count + mine[0], min(first, mine[1])  # noqa: PLW2901  the sum of both
            cells[key] = count, first
        return bounded(cells, min(self.cut, other.cut))

    def of(self, kind: str) -> Iterator[tuple[Key, int, int]]:
        """Yield parts, count and first time of each cell of *kind*."""
        return ((key[1:], *cell) for key, cell in self.cells.items() if key[0] == kind)

    @property
    def is_cut(self) -> bool:
        """Whether cells are left out."""
        return self.cut != _NO_CUT

    @property
    def answers(self) -> int:
        """Responses and failures that it counts."""
        return self.cells.get(("answers",), (0, 0))[0]

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"cells": [[*key, *cell] for key, cell in sorted(self.cells.items())], "cut": self.cut}


def bounded(cells: Mapping[Key, Cell], cut: str = _NO_CUT) -> Table:
    """
    Return a table of the first *cells* by rank, as many as fit.

    The rank depends on the key alone, and where the cut is, is kept. So whatever is merged first, the same cells stay.
    """
    size = sum(map(_size, cells))
    if size <= MAX_BYTES and cut == _NO_CUT:
        return Table(cells)
    left: dict[Key, Cell] = {}
    size = 0
    for rank, key in sorted((_rank(key), key) for key in cells):
        size += _size(key)
        if size > MAX_BYTES or rank >= cut:
            cut = min(cut, rank)
            break
        left[key] = cells[key]
    return Table(left, cut)


def table_from_json(value: Any) -> Table:
    return bounded({tuple(map(str, row[:-2])): (int(row[-2]), int(row[-1])) for row in value["cells"]}, value["cut"])


def _size(key: Key) -> int:
    return sum(map(len, key)) + 3 * len(key) + _OVERHEAD


def _rank(key: Key) -> str:
    return _ORDER.get(key[0], "f") + blake2s("\n".join(key).encode(), digest_size=8).hexdigest()


MIN_REFERENCES = 3
"""References for which a word must have been seen: what is said of one payment may be the name of its payer."""

_MAX_LENGTH = 32
_MAX_WORDS = 12
_WORD = re.compile(r"[A-Za-z]+(?:[-_/+][A-Za-z]+)*")
_MARK = "\0"
_OTHER = re.compile(r"[^A-Za-z0-9:. TZ+-]")


def marked(text: str) -> str:
    """Return *text* as a part of a raw cell that `cleared` decides upon."""
    return _MARK + text


def cleared(part: str, known: Collection[str]) -> str:
    """Return *part* of a raw cell as it may be kept: in the clear if it is a word and among the *known*."""
    if part[:1] != _MARK:
        return part
    return part[1:] if part in known and len(part) <= _MAX_LENGTH + 1 and _WORD.fullmatch(part, 1) else shape(part[1:])


def shape(text: str) -> str:
    """Return kind and length of *text*, such as `<digits:12>`."""
    if not text:
        return "<empty>"
    kind = "digits" if text.isdigit() else "letters" if text.isalpha() else "mixed"
    return f"<{kind}:{len(text)}>" if len(text) <= _MAX_LENGTH else f"<{kind}:33+>"


def pattern(text: str) -> str:
    """Return the format of a time, with 9 for each digit and a for each letter."""
    if len(text) > _MAX_LENGTH:
        return shape(text)
    return re.sub(r"[A-Za-z]", "a", re.sub(r"[0-9]", "9", _OTHER.sub("?", text))) or "<empty>"


def phrase(text: str) -> tuple[str, ...]:
    return tuple(marked(word.strip(".,;:!?'\"()[]")) for word in text.split()[:_MAX_WORDS])


def shape_of(part: str) -> str:
    return part if part[:1] in "<(" or " " in part else shape(part)


_OPTIONAL = ("merchant_reff", "payment_method", "payment_name", "fee", "amount_received", "payment_code", "expdate")
RELATIONS = (
    "amount = fee + amount_received",
    "amount = amount_received",
    "amount = fee",
    "amount > 0",
    "amount_received > 0",
    "amount_received = 0",
    "amount_received ≤ amount",
    "fee ≥ 0",
    "fee = 0",
    "fee ≤ amount",
    "fee ≤ amount_received",
    "expdate lies ahead",
    "expdate has passed",
    "expdate is within 2 days",
    "expdate is within 40 days",
    "payment_code is of digits",
    "reference is of digits",
    "merchant_reff = reference",
    "merchant_reff ≠ reference",
    *(f"{name} is given" for name in _OPTIONAL),
)
"""Each is asked of all answers, and of those of each state."""

_NEEDED = tuple(
    frozenset() if " is given" in relation else frozenset(_OPTIONAL).intersection(relation.split())
    for relation in RELATIONS
)
_ALL_GIVEN = (True,) * len(_OPTIONAL)
_EPOCH = date(1970, 1, 1).toordinal()


def relations_of(transaction: Transaction, today: int) -> tuple[bool | None, ...]:
    """Return for each relation whether it holds, and None where a field is missing; *today* is in days since 1970."""
    amount, expdate = transaction.amount, transaction.expdate
    fee, received = transaction.fee or 0, transaction.amount_received or 0
    days = 0 if expdate is None else expdate.toordinal() - today - _EPOCH
    is_same = transaction.merchant_reff == transaction.reference
    truth = (
        amount == fee + received,
        amount == received,
        amount == fee,
        amount > 0,
        received > 0,
        received == 0,
        received <= amount,
        fee >= 0,
        fee == 0,
        fee <= amount,
        fee <= received,
        days >= 0,
        days <= 0,
        days <= 2,
        days <= 40,
        (transaction.payment_code or "").isdigit(),
        transaction.reference.isdigit(),
        is_same,
        not is_same,
    )
    if not transaction.deviations:
        return truth + _ALL_GIVEN
    missing = {name for name in _OPTIONAL if getattr(transaction, name) in (None, "")}
    given = tuple(name not in missing for name in _OPTIONAL)
    return tuple(None if needed & missing else holds for needed, holds in zip(_NEEDED, truth + given, strict=True))


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


def envelope_names(value: Any) -> str:
    """Return the names and types of a body's outermost object, as far as they are documented."""
    if not is_object(value):
        return json_type(value)
    known = [f"{name} {json_type(value[name])}" for name in ("success", "data") if name in value]
    more = len(value) - len(known)
    return ", ".join((*known, *([f"{more} more"] if more else [])))


def json_type(value: object) -> str:
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
    """Yield the cells for the envelope of *response*, whose outermost object has *names*."""
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
    for name in DOCUMENTED:
        yield "field", name, form_of(name, raw[name]) if name in raw else "absent"
    unknown = [name for name in raw if name not in DOCUMENTED]
    for name in unknown[:_MAX_FIELDS]:
        yield "name", marked(name), json_type(raw[name])


def form_of(name: str, value: object) -> str:
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
    states = [name if name == NOT_FOUND else marked(name) for name in (before, after)]
    yield "transition", *states
    yield "took", *states, took


_MAX_TRAITS = 1_000
_MAX_RAW_CELLS = 20_000
_MAX_STATES = 200_000
_MAX_ENVELOPE_BYTES = 64
_MAX_ERROR_BYTES = 8 * 1024
_ENDED_HERE = ("cancelled", "DeadlineExceededError", "OutageError")
"""Attempts that this side gave up say nothing of the service."""


def _words(known: Iterable[str]) -> frozenset[str]:
    return frozenset(known)


@define
class _Tally:
    """How often, since when, and a few of the references, hashed."""

    count: int
    first: int
    references: set[int]

    def add(self, other: _Tally) -> None:
        self.count += other.count
        self.first = min(self.first, other.first)
        if len(self.references) < MIN_REFERENCES:
            self.references |= other.references


@define(eq=False)
class Recorder:
    """
    Counts what a service answers: types, shapes and words, never values.

    Pass it to `AsyncClient(profile=…)`, to one client or several of one event loop, and take the `profile` at any time.

    Args:
        known: Words that may be in the clear at once, because an earlier profile has them so.
        now: Tells the time in seconds since 1970.

    Note:
        A word is in the clear if it has letters only, at most 32, and was seen for at least three references.
        An answer takes about 3 µs. Memory is bounded.
    """

    _known: frozenset[str] = field(factory=frozenset[str], converter=_words, alias="known")
    _now: Callable[[], float] = field(default=time.time, alias="now")
    _common: dict[Traits, tuple[_Tally, tuple[Key, ...]]] = field(factory=dict, init=False)
    _raw: dict[Key, _Tally] = field(factory=dict, init=False)
    _states: dict[int, tuple[str, int]] = field(factory=dict, init=False)
    _envelopes: dict[tuple[bytes, bytes], str] = field(factory=dict, init=False)
    answers: int = field(default=0, init=False)
    """Attempts that were counted."""

    def add(
        self,
        reference: str,
        response: Response | None,
        seconds: float,
        *,
        transaction: Transaction | None,
        error: str,
        redact: Callable[[str], str],
    ) -> None:
        """Count one attempt; called by the client."""
        if error in _ENDED_HERE:
            return
        self.answers += 1
        if response is not None and (transaction is not None or error == "TransactionNotFoundError"):
            self._keep(reference, response, transaction)
        now = self._now()
        if transaction is None or response is None:
            self._add_failure(reference, response, int(now), error, redact)
            return
        headers, names = response.headers, self._envelope(response)
        code, status = transaction.payment_code or "", transaction.status
        traits: Traits = (
            int(now) // 3600 % 24,
            relations_of(transaction, int(now) // 86_400),
            sum(seconds >= limit for limit in _LIMITS),
            status,
            transaction.payment_method,
            len(reference),
            reference.isalpha(),
            len(code),
            code.isalpha(),
            response.status_code,
            names,
            headers.get("content-type"),
            headers.get("content-encoding"),
            *headers,
            *(_forms(transaction) if transaction.deviations else ()),
        )
        if traits not in self._common:
            if len(self._common) >= _MAX_TRAITS:
                self._fold()
            cells = (*transaction_cells(traits, transaction), *envelope_cells(response, names, redact))
            self._common[traits] = _Tally(0, 1 << 40, set()), cells
        tally, _ = self._common[traits]
        tally.count += 1
        if len(tally.references) < MIN_REFERENCES:
            tally.references.add(hash(reference))
            tally.first = min(tally.first, int(now) // 60)
        self._enter(reference, status, int(now) // 60)

    def _keep(self, reference: str, response: Response, transaction: Transaction | None) -> None:
        """Keep an answer beside the counts, which a recorder of contracts does."""

    def seed(self, reference: str, status: str, at: float) -> None:
        """Note the state that *reference* had in an earlier run, at a time in seconds since 1970."""
        self._keep_state(hash(reference), status, int(at) // 60)

    @property
    def profile(self) -> Table:
        """The profile up to now, safe to keep."""
        known = self._words()
        cells: dict[Key, tuple[int, int]] = {}
        for key, tally in self._raw.items():
            safe = tuple(cleared(part, known) for part in key)
            count, first = cells.get(safe, (0, tally.first))
            cells[safe] = count + tally.count, min(first, tally.first)
        return bounded(cells)

    def _words(self) -> set[str]:
        """Return the words that may be in the clear, marked."""
        self._fold()
        words: dict[str, set[int]] = {}
        for key, tally in self._raw.items():
            for part in key:
                if part[:1] == _MARK:
                    words.setdefault(part, set()).update(tally.references)
        known = {word for word, references in words.items() if len(references) >= MIN_REFERENCES}
        return known | set(map(marked, self._known))

    def _add_failure(
        self, reference: str, response: Response | None, now: int, error: str, redact: Callable[[str], str]
    ) -> None:
        value = None if response is None or len(response.body) > _MAX_ERROR_BYTES else _json(response)
        text = redact(message_of(value)).replace(reference, "…")
        cells = [*failure_cells(now // 3600 % 24, error, response, value, text)]
        if response is not None:
            cells += envelope_cells(response, envelope_names(value), redact)
            if error == "TransactionNotFoundError" and response.is_fresh:
                self._enter(reference, NOT_FOUND, now // 60)
        self._count(cells, _Tally(1, now // 60, {hash(reference)}))

    def _enter(self, reference: str, status: str, minute: int) -> None:
        key = hash(reference)
        before, since = self._states.get(key, ("", 0))
        if before == status:
            return
        self._keep_state(key, status, minute)
        if before:
            self._count(transition_cells(before, status, minute - since), _Tally(1, minute, {key}))

    def _keep_state(self, key: int, status: str, minute: int) -> None:
        if len(self._states) >= _MAX_STATES and key not in self._states:
            del self._states[next(iter(self._states))]
        self._states[key] = status, minute

    def _fold(self) -> None:
        for tally, cells in self._common.values():
            self._count(cells, tally)
        self._common.clear()

    def _count(self, cells: Iterable[Key], tally: _Tally) -> None:
        for key in cells:
            if key not in self._raw and len(self._raw) >= _MAX_RAW_CELLS:  # a flood of names: their shapes are few
                key = tuple(cleared(part, ()) for part in key)  # noqa: PLW2901  what is counted instead
            self._raw.setdefault(key, _Tally(0, tally.first, set())).add(tally)

    def _envelope(self, response: Response) -> str:
        """Return the names of the outermost object; it is parsed only if its beginning or end is new."""
        body = response.body
        begin, end = body.find(b'"data"') + 6, body.rfind(b"}", 0, -1)
        around = body[:begin], body[end:]
        names = self._envelopes.get(around)
        if names is None:
            names = envelope_names(_json(response))
            if begin + len(body) - end <= 2 * _MAX_ENVELOPE_BYTES and len(self._envelopes) < _MAX_TRAITS:
                self._envelopes[around] = names
        return names


def _forms(transaction: Transaction) -> Iterator[Any]:
    """Yield the other facts that decide the cells of an undocumented response."""
    for name, value in transaction.raw.items():
        yield name
        yield form_of(name, value)
    yield from (text.partition(":")[0] for text in transaction.deviations)


def _json(response: Response) -> Any:
    if response.headers.get("content-encoding"):
        return None
    try:
        return read_json(response.body)
    except JSONProblem:
        return None

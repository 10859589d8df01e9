"""Records the profile of what one client is answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import define, field

from payclient._transaction import JSONProblem, read_json
from payclient.drift._profile import (
    MIN_REFERENCES,
    NOT_FOUND,
    Traits,
    cleared,
    envelope_cells,
    envelope_names,
    failure_cells,
    form_of,
    is_marked,
    latency_class,
    marked,
    message_of,
    relations_of,
    transaction_cells,
    transition_cells,
)
from payclient.drift._table import Key, Table, bounded
from payclient.protocol import Response, Transaction

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


@define
class _Common:
    """The answers with the same traits."""

    tally: _Tally
    cells: tuple[Key, ...]


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
    _common: dict[Traits, _Common] = field(factory=dict, init=False)
    _raw: dict[Key, _Tally] = field(factory=dict, init=False)
    _states: dict[int, tuple[str, int]] = field(factory=dict, init=False)
    _envelopes: dict[tuple[bytes, bytes], str] = field(factory=dict, init=False)

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
        now = self._now()
        if transaction is None or response is None:
            self._add_failure(reference, response, int(now), error, redact)
            return
        headers = response.headers
        names = self._envelope(response)
        code, status = transaction.payment_code or "", transaction.status
        traits: Traits = (
            int(now) // 3600 % 24,
            relations_of(transaction, int(now) // 86_400),
            latency_class(seconds),
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
        if (common := self._common.get(traits)) is None:
            common = self._learn(traits, transaction, response, names, redact)
        tally = common.tally
        tally.count += 1
        if len(tally.references) < MIN_REFERENCES:
            tally.references.add(hash(reference))
            tally.first = min(tally.first, int(now) // 60)
        self._enter(reference, status, int(now) // 60)

    def seed(self, reference: str, status: str, at: float) -> None:
        """Note the state that *reference* had in an earlier run, at a time in seconds since 1970."""
        self._keep_state(hash(reference), status, int(at) // 60)

    @property
    def answers(self) -> int:
        """Attempts that were counted."""
        counted = sum(common.tally.count for common in self._common.values())
        return counted + (self._raw[("answers",)].count if ("answers",) in self._raw else 0)

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
            for part in filter(is_marked, key):
                words.setdefault(part, set()).update(tally.references)
        known = {word for word, references in words.items() if len(references) >= MIN_REFERENCES}
        return known | set(map(marked, self._known))

    def _learn(
        self, traits: Traits, transaction: Transaction, response: Response, names: str, redact: Callable[[str], str]
    ) -> _Common:
        if len(self._common) >= _MAX_TRAITS:
            self._fold()
        cells = (*transaction_cells(traits, transaction), *envelope_cells(response, names, redact))
        found = self._common[traits] = _Common(_Tally(0, 1 << 40, set()), cells)
        return found

    def _add_failure(
        self, reference: str, response: Response | None, now: int, error: str, redact: Callable[[str], str]
    ) -> None:
        value = None if response is None else _small_json(response)
        text = redact(message_of(value)).replace(reference, "…")
        cells = [*failure_cells(now // 3600 % 24, error, response, value, text)]
        if response is not None:
            cells += envelope_cells(response, envelope_names(value), redact)
            if error == "TransactionNotFoundError" and response.is_fresh:
                self._enter(reference, NOT_FOUND, now // 60)
        self._count(cells, _Tally(1, now // 60, {hash(reference)}))

    def _enter(self, reference: str, status: str, minute: int) -> None:
        key = hash(reference)
        before = self._states.get(key)
        if before is None or before[0] == status:
            if before is None:
                self._keep_state(key, status, minute)
            return
        self._keep_state(key, status, minute)
        self._count(transition_cells(before[0], status, minute - before[1]), _Tally(1, minute, {key}))

    def _keep_state(self, key: int, status: str, minute: int) -> None:
        if len(self._states) >= _MAX_STATES and key not in self._states:
            del self._states[next(iter(self._states))]
        self._states[key] = status, minute

    def _fold(self) -> None:
        for common in self._common.values():
            self._count(common.cells, common.tally)
        self._common.clear()

    def _count(self, cells: Iterable[Key], tally: _Tally) -> None:
        for key in cells:
            if (known := self._raw.get(key)) is not None:
                known.add(tally)
                continue
            if len(self._raw) >= _MAX_RAW_CELLS:  # a flood of names: their shapes are few
                key = tuple(cleared(part, ()) for part in key)  # noqa: PLW2901  what is counted instead
            mine = self._raw.setdefault(key, _Tally(0, tally.first, set()))
            mine.add(tally)

    def _envelope(self, response: Response) -> str:
        """Return the names of the outermost object, which is parsed only where its beginning or end is new."""
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
    """Yield what else decides upon the cells of an answer that is not as documented."""
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


def _small_json(response: Response) -> Any:
    return _json(response) if len(response.body) <= _MAX_ERROR_BYTES else None

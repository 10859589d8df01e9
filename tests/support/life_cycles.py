"""Three nights of breaks with planted life cycles, and the check that exactly these are found."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from random import Random
from typing import TypeAlias

from attrs import define, field, frozen

from payclient import AsyncClient, Environment
from payclient.cli._demo import Fields, agreed_transactions, changed, plus, write_ledger
from payclient.cli._progress import ProgressMode
from payclient.cli._reconcile import Reconciliation
from payclient.cli._streams import Streams
from payclient.ledger import open_ledger
from payclient.reconcile import STRICT, Accepted, Row, Rules
from payclient.reconcile.values import utc_now
from payclient.report import PastRun, open_past_run
from payclient.testing import serve

MAX_NIGHTS = 3
_COLUMNS: tuple[str, ...] = ("reference", "merchant_reff", "amount", "status")
_ROWS_PER_CYCLE = 500
_MAX_SHOWN = 20

Found: TypeAlias = tuple[str, str, str]
"""Reference, code, and the state with what resolved it; on the first night, the state is empty."""


@frozen(kw_only=True)
class Cycle:
    """
    The life of one row over the nights.

    Attributes:
        ledger: What to change in the ledger, by night; None where it does not list the row.
        service: What to change at the service, by night.
        code: The code of its breaks.
        states: State of its break, by night; None where it has none, and "" on the first night, which knows no state.
    """

    ledger: tuple[Fields | None, ...] = ({}, {}, {})
    service: tuple[Fields, ...] = ({}, {}, {})
    code: str = "underpaid"
    states: tuple[str | None, ...] = (None, None, None)


_LESS = {"amount": plus(-1000), "amount_received": plus(-1000)}
_MUCH_LESS = {"amount": plus(-2000), "amount_received": plus(-2000)}
_MORE = {"amount": plus(1000)}
_GONE = {"status": "Canceled"}
_WORD = "Settled"

CYCLES: Mapping[str, Cycle] = {
    "always matched": Cycle(),
    "new on the third night": Cycle(service=({}, {}, _LESS), states=(None, None, "new")),
    "still open": Cycle(ledger=(_MORE, _MORE, _MORE), states=("", "still_open", "still_open")),
    "changed": Cycle(service=(_LESS, _MUCH_LESS, _MUCH_LESS), states=("", "changed", "still_open")),
    "reopened": Cycle(service=(_LESS, {}, _LESS), states=("", "resolved by service", "reopened")),
    "resolved by the ledger": Cycle(ledger=(_MORE, {}, {}), states=("", "resolved by ledger", None)),
    "resolved by the service": Cycle(service=(_LESS, {}, {}), states=("", "resolved by service", None)),
    "resolved by a rule": Cycle(
        service=({"status": _WORD},) * 3, code="unknown_status", states=("", "resolved by rule", None)
    ),
    "resolved by an acceptance": Cycle(service=(_LESS, _LESS, _LESS), states=("", "resolved by acceptance", None)),
    "reversed": Cycle(
        ledger=({}, _GONE, _GONE),
        service=({}, _GONE, _GONE),
        code="reversed",
        states=(None, "new", "still_open"),
    ),
    "carried over": Cycle(
        ledger=({}, None, None), service=(_LESS, _LESS, {}), states=("", "still_open", "resolved by service")
    ),
}
"""The lives that a row can have. A rule for the word, and the acceptance, come on the second night."""

_ACCEPTED = "resolved by an acceptance"
MIN_ROWS = len(CYCLES)


@define
class NightCheck:
    """Compares the breaks of one night with the planted ones."""

    expected: frozenset[Found]
    found: set[Found] = field(factory=set)

    def add(self, row: Row) -> None:
        """Take one row."""
        for finding in row.findings:
            if finding.is_decisive:
                state = "" if finding.history is None else finding.history.state.value
                self.found.add((row.reference or "", finding.code.value, state))

    def add_memory(self, run: PastRun) -> None:
        """Take the breaks of earlier nights that are gone."""
        for reference, text in run.memory():
            line = json.loads(text)
            if not line["is_old"]:
                by = f" by {line['resolved_by']}" if line["resolved_by"] else ""
                self.found.add((reference, line["code"], line["state"] + by))

    def lines(self) -> Iterator[str]:
        """Yield what is not as planted."""
        for what, breaks in (("missing", self.expected - self.found), ("not planted", self.found - self.expected)):
            for reference, code, state in sorted(breaks)[:_MAX_SHOWN]:
                yield f"  {what}: {reference}: {code}, {state.replace('_', ' ') or 'no state'}"


@frozen(kw_only=True)
class Planted:
    """One night's two sides, the breaks that are to be found, and the rules by which it is judged."""

    ledger: tuple[Fields, ...]
    transactions: tuple[Fields, ...]
    expected: frozenset[Found]
    rules: Rules


def plant(rows: int, *, seed: int) -> tuple[Planted, ...]:
    """Return the nights of a dataset with this number of rows; the same seed gives the same nights."""
    random = Random(seed)
    agreed = agreed_transactions(random)
    times = max(1, rows // _ROWS_PER_CYCLE)
    lives = [(name, next(agreed)) for name in CYCLES for _ in range(times)]
    lives += [("always matched", next(agreed)) for _ in range(rows - len(lives))]
    random.shuffle(lives)
    return tuple(_night(lives, number) for number in range(MAX_NIGHTS))


def _night(lives: list[tuple[str, Fields]], number: int) -> Planted:
    ledger: list[Fields] = []
    transactions: list[Fields] = []
    expected: set[Found] = set()
    for name, fields in lives:
        cycle = CYCLES[name]
        if (changes := cycle.ledger[number]) is not None:
            ledger.append(changed(fields, changes))
        transactions.append(changed(fields, cycle.service[number]))
        if (state := cycle.states[number]) is not None:
            expected.add((fields["reference"], cycle.code, state))
    accepted = [_acceptance(fields["reference"]) for name, fields in lives if name == _ACCEPTED]
    rules = Rules(statuses={_WORD: "paid"}, accepted=accepted) if number else STRICT
    return Planted(ledger=tuple(ledger), transactions=tuple(transactions), expected=frozenset(expected), rules=rules)


def _acceptance(reference: str) -> Accepted:
    return Accepted(
        code="underpaid",
        reference=reference,
        largest_difference=1000,
        reason="agreed with the customer",
        owner="the law",
        expires=date.max,
    )


async def run_nights(nights, folder, service):
    """Reconcile night after night, each after the one before, and return what is not as planted, by night."""
    previous, wrong = None, []
    options = {"api_key": service.api_key, "environment": Environment.SANDBOX}
    async with serve(service) as base_url, AsyncClient(base_url=base_url, **options) as client:
        for number, planted in enumerate(nights, 1):
            service.load(planted.transactions)
            ledger, out = folder / f"ledger-{number}.csv", folder / f"night-{number}"
            write_ledger(planted.ledger, ledger, _COLUMNS)
            check = NightCheck(planted.expected)
            with open_ledger(ledger) as entries:
                job = Reconciliation(
                    ledger=entries,
                    out=out,
                    client=client,
                    environment=Environment.SANDBOX,
                    concurrency=32,
                    rules=planted.rules,
                    previous=previous,
                    progress=ProgressMode.NONE,
                    streams=Streams(stdin=io.BytesIO(), stdout=io.StringIO(), stderr=io.StringIO()),
                    clock=_clock(len(nights) - number),
                )
                await job.run(check.add)
            previous = open_past_run(out)
            check.add_memory(previous)
            wrong.append(list(check.lines()))
    return wrong


def _clock(days: int) -> Callable[[], datetime]:
    """Return a clock that is some days behind, so that the nights are a day apart."""
    return lambda: utc_now() - timedelta(days=days)

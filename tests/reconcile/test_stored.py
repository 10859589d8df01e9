"""Entries and answers as columns of the journal."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from payclient import ConnectionFailedError, ServiceError, Transaction
from payclient.reconcile import Answer, Observation
from payclient.reconcile._journal.tables import (
    ANSWER_COLUMNS,
    ENTRY_COLUMNS,
    entry_cells,
    entry_from,
    observation_cells,
    observation_from,
)
from payclient.reconcile._judgement.sides import observe
from payclient.reconcile.ledger import ABSENT, COMPARED, Entry, RejectedEntry

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
NUMBERS = st.integers(-(10**30), 10**30) | st.sampled_from([2**63, 2**63 - 1, -(2**63), -(2**63) - 1])
TIMES = st.datetimes()
ZONED = st.datetimes(timezones=st.just(timezone(timedelta(hours=5, minutes=45))))
KINDS = dict.fromkeys(COMPARED, TEXTS) | dict.fromkeys(("amount", "fee", "amount_received"), NUMBERS)
KINDS |= {"expdate": TIMES}
OPTIONAL = {name: st.none() | kind | st.just(ABSENT) for name, kind in KINDS.items()}
OPTIONAL |= {"created_at": st.none() | TIMES | ZONED | st.just(ABSENT), "amount": NUMBERS | st.just(ABSENT)}

ENTRIES = st.builds(Entry, line=st.integers(0, 2**40), reference=NAMES, **OPTIONAL)
REJECTED = st.builds(
    RejectedEntry, line=st.integers(0, 2**40), reason=TEXTS, reference=st.none() | TEXTS, amount=st.none() | NUMBERS
)
TRANSACTIONS = st.builds(
    Transaction,
    reference=NAMES,
    status=NAMES,
    payment_name=st.none() | TEXTS,
    deviations=st.lists(TEXTS, max_size=3).map(tuple),
    **{name: (KINDS[name] if name == "amount" else st.none() | KINDS[name]) for name in COMPARED if name != "status"},
)
MOMENTS = st.datetimes(timezones=st.just(UTC))
OBSERVATIONS = st.builds(Observation, answer=st.just(Answer.FOUND), at=MOMENTS, transaction=TRANSACTIONS) | st.builds(
    Observation,
    answer=st.sampled_from([answer for answer in Answer if answer is not Answer.FOUND]),
    at=MOMENTS,
    error=NAMES,
    message=TEXTS,
)


def through_sqlite(cells):
    """Return what SQLite gives back for *cells*, in columns without a type as those of the journal are."""
    marks = ", ".join("?" * len(cells))
    with closing(sqlite3.connect(":memory:")) as database:
        return database.execute(f"SELECT {marks}", cells).fetchone()


@given(entry=ENTRIES | REJECTED)
def test_entries(entry):
    """A ledger row comes back equal, an absent column apart from an empty cell and from an empty text."""
    cells = entry_cells(entry)
    assert (entry_from(through_sqlite(cells)), len(cells)) == (entry, 2 + len(ENTRY_COLUMNS))


@given(observation=OBSERVATIONS)
def test_observations(observation):
    """An answer comes back equal, with what was tolerated in it."""
    cells = observation_cells(observation)
    back = observation_from(through_sqlite(cells))
    assert (back, len(cells)) == (observation, len(ANSWER_COLUMNS))
    tolerated = [None if each.transaction is None else each.transaction.deviations for each in (back, observation)]
    assert tolerated[0] == tolerated[1]


def test_raw_is_left_out():
    """What the service sent beyond the ten fields is not kept."""
    transaction = Transaction(reference="A", amount=1, status="Paid", raw={"customer": "Ana"})
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    cells = observation_cells(Observation(answer=Answer.FOUND, at=noon, transaction=transaction))
    assert (dict(observation_from(cells).transaction.raw), "Ana" in repr(cells)) == ({}, False)


def test_seconds_are_not_kept():
    """What is kept of a failed attempt does not say how long it took: a resumed run writes the same report."""
    error = ConnectionFailedError("it broke", step="waiting", address="10.0.0.1:443", seconds=1.25)
    assert observe(error, at=datetime(2026, 11, 21, tzinfo=UTC)).message == "it broke"
    refusal = ServiceError("down", request_id="r-1")
    assert observe(refusal, at=datetime(2026, 11, 21, tzinfo=UTC)).message == "down [request id r-1]"


def test_times_are_numbers():
    """A time without a zone, and that of an answer, are numbers in order; one with a zone keeps it."""
    naive = datetime.fromisoformat("2026-11-21T10:00:00.000001")
    zoned = datetime(2026, 11, 21, tzinfo=timezone(timedelta(hours=7)))
    entry = Entry(line=1, reference="T1", expdate=naive, created_at=zoned)
    *_, expdate, created_at, _ = entry_cells(entry)
    assert (expdate, created_at) == (1795255200000001, "2026-11-21T00:00:00+07:00")
    before, after = (datetime(year, 1, 1, tzinfo=UTC) for year in (1969, 2026))
    cells = [observation_cells(Observation(answer=Answer.NOT_FOUND, at=at))[1] for at in (before, after)]
    assert cells == [-31536000 * 10**6, 1767225600 * 10**6]

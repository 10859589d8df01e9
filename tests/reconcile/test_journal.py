"""The journal of a reconciliation: nothing that was answered is lost, and nothing of another run is taken."""

import asyncio
import shutil
import sqlite3
import tempfile
import tracemalloc
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import errors
from payclient.reconcile import (
    Answer,
    Bucket,
    Journal,
    JournalError,
    JournalWriteError,
    Observation,
    Phase,
    StoppedError,
    reconcile,
    replay,
)
from payclient.reconcile.ledger import Entry, RejectedEntry
from support.chance import examples
from support.reconciling import NOON, NOT_FOUND, entry, paid

REFUSED = errors.PermissionDeniedError("no")


class Cut(Exception):  # noqa: N818  it is no error
    """What ends a run in the middle of a lookup; no error of ours."""


class Lookup:
    """Answers each reference always alike, and breaks off at its n-th question: with an error, or with a killed run."""

    def __init__(self, answers, *, cut_at=None, on_cut=None):
        self._answers, self._cut_at, self._on_cut = answers, cut_at, on_cut
        self.asked = []

    async def __call__(self, reference):
        self.asked.append(reference)
        await asyncio.sleep(0)
        if self._cut_at is not None and len(self.asked) > self._cut_at:
            if self._on_cut is not None:
                self._on_cut()
            raise Cut
        answer = self._answers.get(reference, NOT_FOUND)
        if isinstance(answer, Exception):
            raise answer
        return answer


def ledger_of(references):
    return [entry(line, reference) for line, reference in enumerate(references, 2)]


async def rows_of(ledger, lookup, journal, **options):
    rows = reconcile(ledger, lookup, journal=journal, **({"concurrency": 3, "clock": lambda: NOON} | options))
    return [row async for row in rows]


def as_killed(path, folder):
    """Copy what a process that is killed at this instant leaves behind; return the journal among it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(path.parent, folder)
    return folder / path.name


def stored(path):
    """Return how many answers are kept."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT count(*) FROM answers").fetchone()[0]


# Going on

REFERENCES = "ABCDEFGH"
ENTRIES = st.lists(
    st.builds(
        lambda reference, fields: entry(1, reference, **fields),
        st.sampled_from(REFERENCES),
        st.fixed_dictionaries({}, optional={"amount": st.sampled_from([100, 90]), "merchant_reff": st.just("M")}),
    )
    | st.builds(RejectedEntry, line=st.just(1), reason=st.just("x")),
    max_size=14,
).map(lambda rows: [attrs.evolve(row, line=line) for line, row in enumerate(rows, 2)])
ANSWERS = st.fixed_dictionaries(
    {
        reference: st.sampled_from(
            [
                *(paid(reference), paid(reference, amount=90), paid(reference, merchant_reff="M")),
                *(paid(reference, status="pending"), NOT_FOUND, REFUSED, errors.InvalidReferenceError("bad")),
            ]
        )
        for reference in REFERENCES
    }
)
STATEMENTS = st.none() | st.lists(st.tuples(st.sampled_from(REFERENCES), st.sampled_from([100, 90])), max_size=5).map(
    lambda rows: [Entry(line=line, reference=name, amount=amount) for line, (name, amount) in enumerate(rows, 2)]
)
CUTS = st.lists(st.tuples(st.sampled_from(["error", "cancel", "kill"]), st.integers(0, 20)), max_size=3)


async def cut_run(ledger, statement, answers, path, folder, how, at):
    """Break a run off at its n-th question; return what was asked, and the journal that is left."""
    task, left = asyncio.current_task(), [path]

    def on_cut():
        if how == "kill" and left == [path]:
            left.append(as_killed(path, folder))
        if how == "cancel":
            task.cancel()

    lookup = Lookup(answers, cut_at=at, on_cut=on_cut)
    with Journal(path) as journal:
        try:
            await rows_of(ledger, lookup, journal, statement=statement)
        except Cut:
            pass
        except asyncio.CancelledError:
            task.uncancel()
    return lookup.asked, left[-1]


@examples(80)
@given(ledger=ENTRIES, statement=STATEMENTS, answers=ANSWERS, cuts=CUTS)
async def test_resumed(ledger, statement, answers, cuts):
    """A run that is interrupted anywhere, any number of times, and resumed equals an uninterrupted one."""
    whole = Lookup(answers)
    with Journal() as journal:
        expected = await rows_of(ledger, whole, journal, statement=statement)
    asked = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "0", "journal.sqlite")
        for number, (how, at) in enumerate(cuts, 1):
            some, path = await cut_run(ledger, statement, answers, path, Path(folder, str(number)), how, at)
            asked.update(some)
        last = Lookup(answers)
        with Journal(path) as journal:
            rows = await rows_of(ledger, last, journal, statement=statement)
            again = list(replay(journal))
    asked.update(last.asked)
    repeats = asked - Counter(whole.asked)
    assert (rows, again) == (expected, expected)
    assert sum(number for name, number in repeats.items() if answers[name] is not REFUSED) <= 3 * len(cuts)


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_committed_in_time(path, tmp_path, concurrency):
    """At any instant, a kill loses no answer but those of the lookups under way."""
    ledger = ledger_of([f"T{number}" for number in range(25)])
    lacking = []

    async def lookup(reference):
        lacking.append(len(lacking) - stored(as_killed(path, tmp_path / "copy")))  # those that began before this one
        return paid(reference, amount=90)

    with Journal(path) as journal:
        await rows_of(ledger, lookup, journal, concurrency=concurrency)
    assert (len(lacking), max(lacking) < concurrency) == (50, True)


async def test_failures_are_asked_again(path):
    """The next run looks up the unanswered references only."""
    ledger, answers = ledger_of("ABC"), {"A": paid("A"), "B": REFUSED, "C": NOT_FOUND}
    with Journal(path) as journal:
        first = await rows_of(ledger, Lookup(answers), journal)
    lookup = Lookup(answers | {"B": paid("B")})
    with Journal(path) as journal:
        second = await rows_of(ledger, lookup, journal)
    assert [row.bucket.value for row in first] == ["matched", "unresolved", "break"]
    assert ([row.bucket.value for row in second], lookup.asked) == (["matched", "matched", "break"], ["B"])


async def test_known_of_answers(path):
    """A journal knows which references have a usable answer, and how many differ, with their money at any size."""
    large = 3 * 10**12 + 7
    answers = {"A": paid("A"), "B": REFUSED, "D": errors.RejectedError("no"), "E": paid("E", amount=1)}
    ledger = [*ledger_of("ABCD"), entry(7, "E", amount=large), RejectedEntry(line=8, reason="x", reference="F")]
    with Journal(path) as journal:
        await rows_of(ledger, Lookup(answers), journal)
    with Journal(path) as journal:
        assert [journal.is_judged(name) for name in "ABCDEF"] == [True, False, True, False, True, False]
        assert journal.answers.count_differences() == (3, large + 200)


async def test_stopped(path):
    """A stopped run starts no lookup, and keeps the answers of those in flight."""
    stop, names = asyncio.Event(), [f"T{number}" for number in range(50)]
    lookup, progress = Lookup({name: paid(name) for name in names}), []

    async def stopping(reference):
        if len(lookup.asked) == 10:
            stop.set()
        return await lookup(reference)

    with Journal(path) as journal:
        with pytest.raises(StoppedError, match="its answers are kept"):
            await rows_of(ledger_of(names), stopping, journal, stop=stop)
        assert len(lookup.asked) - stored_in(journal) == 0
        rest = Lookup({name: paid(name) for name in names})
        rows = await rows_of(ledger_of(names), rest, journal, on_progress=progress.append)
    assert [row.bucket for row in rows] == [Bucket.MATCHED] * 50
    assert Counter(lookup.asked + rest.asked) == Counter(names)
    asking = next(told for told in progress if told.phase is Phase.ASKING)
    assert (asking.done, asking.total) == (len(lookup.asked), 50)


def stored_in(journal):
    return journal.count_references() - journal.answers.count_to_ask()


async def test_stopped_while_reading(path):
    """A run that is stopped while reading looks up nothing."""
    stop, lookup = asyncio.Event(), Lookup({})
    stop.set()
    with Journal(path) as journal, pytest.raises(StoppedError):
        await rows_of(ledger_of(map(str, range(1000))), lookup, journal, stop=stop)
    assert lookup.asked == []


async def test_ended_early(path):
    """The journal holds the error that ended the run, until the next run starts."""
    ledger, refused = ledger_of("ABC"), errors.AuthenticationError("the service refuses the API key", status_code=401)
    with Journal(path) as journal, pytest.raises(errors.AuthenticationError):
        await rows_of(ledger, Lookup({"A": paid("A"), "B": refused}), journal, concurrency=1)
    with Journal(path) as journal:
        ended_by, rows = journal.ended_by, list(replay(journal))
        with pytest.raises(Cut):
            await rows_of(ledger, Lookup({}, cut_at=0), journal)
        assert journal.ended_by is None
        lookup = Lookup({name: paid(name) for name in "ABC"})
        again = await rows_of(ledger, lookup, journal)
    assert (ended_by.error, ended_by.message) == ("AuthenticationError", str(refused))
    assert [row.error for row in rows] == [None, "AuthenticationError", "AuthenticationError"]
    assert ([row.bucket for row in again], lookup.asked) == ([Bucket.MATCHED] * 3, ["B", "C"])


async def test_canary_is_remembered(path):
    """That the canary was found counts in a replay too, and no longer when a later run does not find it."""
    ledger, known = ledger_of("A"), {"CANARY": paid("CANARY")}
    with Journal(path) as journal:
        await rows_of(ledger, Lookup(known), journal, canary="CANARY")
    with Journal(path) as journal:
        (first,) = replay(journal)
        with pytest.raises(errors.ConfigurationError):
            await rows_of(ledger, Lookup({}), journal, canary="CANARY")
        (second,) = replay(journal)
    assert [row.bucket for row in (first, second)] == [Bucket.BREAK, Bucket.UNRESOLVED]


# The ledger

MANY = 25_000


def many(rows=MANY):
    return [Entry(line=line, reference=f"T{line}", amount=line) for line in range(2, rows + 2)]


@pytest.mark.slow
def test_reading_goes_on(path):
    """A ledger that was read in part is read on, and is complete only with its end."""
    with Journal(path) as journal:
        for each in many()[:15_000]:
            journal.add(each)
    with Journal(path) as journal:
        assert (journal.rows, journal.is_ledger_complete) == (10_000, False)
        for each in many():
            journal.add(each)
        journal.finish_ledger()
        assert (journal.rows, journal.is_ledger_complete, journal.answers.count_to_ask()) == (MANY, True, MANY)


BEGUN = [entry(2, "A"), entry(3, "B", fee=1), RejectedEntry(line=4, reason="bad")]


OTHERS = (
    (BEGUN[:2], "it has 3 rows, and this one 2"),
    ([], "it has 3 rows, and this one 0"),
    ([*BEGUN, entry(5, "C")], "it has 3 rows, and this one has more"),
    ([*BEGUN, *many(10_000 - 3)], "it has 3 rows, and this one has more"),
    ([entry(2, "A", amount=7, status="x"), *BEGUN[1:]], "on line 2, amount and status were different"),
    ([BEGUN[0], entry(3, "B"), BEGUN[2]], "on line 3, fee was different"),
    ([BEGUN[1], BEGUN[0], BEGUN[2]], "on line 3, line and reference and fee were different"),
    ([*BEGUN[:2], entry(4, "C")], "on line 4, the row was rejected, and is not now"),
    ([RejectedEntry(line=2, reason="bad"), *BEGUN[1:]], "on line 2, the row was usable, and is not now"),
)


async def test_other_ledger(path):
    """A journal refuses another ledger, says where they differ, and is unchanged."""
    with Journal(path) as journal:
        rows = await rows_of(BEGUN, Lookup({"A": paid("A")}), journal)
    lookup, told = Lookup({}), []
    for ledger, _ in OTHERS:
        with Journal(path) as journal, pytest.raises(JournalError) as caught:
            await rows_of(ledger, lookup, journal)
        told.append(str(caught.value))
    assert told == [
        f"the journal {path} began with another ledger: {found}: choose another folder" for _, found in OTHERS
    ]
    with Journal(path) as journal:
        assert (await rows_of(BEGUN, lookup, journal), lookup.asked) == (rows, [])


def test_shorter_than_what_was_read(path):
    """A ledger that is shorter than what an unfinished run has read already is another one."""
    with Journal(path) as journal:
        for each in many(10_000):
            journal.add(each)
    with Journal(path) as journal, pytest.raises(JournalError, match="it has 10,000 rows, and this one 1"):
        journal.add(many(1)[0])
        journal.finish_ledger()


def test_ledger_begun_again(path):
    """Nothing is kept of a ledger that broke off while it was read, if another one is read in the open journal."""
    with Journal(path) as journal:
        for each in BEGUN:
            journal.add(each)
        journal.begin_ledger()
        journal.add(BEGUN[1])
        journal.finish_ledger()
        assert journal.rows == 1


async def test_statement_begun_again(path):
    """Of a statement that could not be read to its end nothing is kept, so a corrected one may follow."""

    def broken():
        yield from many(10_001)
        raise Cut

    with Journal(path) as journal, pytest.raises(Cut):
        await rows_of(BEGUN[:2], Lookup({}), journal, statement=broken())
    with Journal(path) as journal:
        rows = await rows_of(BEGUN[:2], Lookup({}), journal, statement=[entry(2, "A")])
    assert [row.reference for row in rows] == ["A", "B"]


# Whose it is

SERVICE = {"service": "https://pay.example/api", "rules": "ab12"}


async def test_other_identity(path):
    """A journal of another service, or with answers by other rules, is refused, and the difference is named."""
    with Journal(path, identity=SERVICE) as journal:
        await rows_of([entry(2, "T1")], Lookup({"T1": paid("T1")}), journal)
    for identity, found in (
        ({"service": "https://pay.example/api-sandbox"}, "service was {0}, and is {0}-sandbox now"),
        ({"rules": "cd34"}, "rules was ab12, and is cd34 now"),
        ({"zone": "UTC"}, "zone was none, and is UTC now"),
    ):
        with pytest.raises(JournalError) as caught:
            Journal(path, identity=SERVICE | identity)
        named = found.format(SERVICE["service"])
        assert str(caught.value) == f"the journal {path} belongs to another run: {named}"
    with Journal(path, identity=SERVICE):  # and it is free again
        pass
    empty = path.with_name("empty.sqlite")
    with Journal(empty, identity=SERVICE):
        pass
    with pytest.raises(JournalError, match="service was"):  # also before the first answer
        Journal(empty, identity=SERVICE | {"service": "https://other.example"})
    with Journal(empty, identity=SERVICE) as journal:
        journal.add(BEGUN[0])
        journal.finish_ledger()
    with Journal(empty, identity=SERVICE | {"rules": "cd34"}) as journal:  # by other rules, all is read again
        assert (journal.rows, journal.is_ledger_complete) == (0, False)
    with Journal(path):  # who does not say what he expects gets it too
        pass


def test_notes(path):
    """A note stays in the journal until it is removed."""
    with Journal(path) as journal:
        journal.set_note("a", "1")
        journal.set_note("b", "2")
        journal.set_note("a", None)
        journal.set_note("b", "3")
    with Journal(path) as journal:
        assert [journal.note(name) for name in "abc"] == [None, "3", None]


# Disks


async def test_disk(path, tmp_path, full_after):
    """When no file may grow any more, a run ends at once, loses no more than was in flight, and is resumed."""
    names = [f"T{number}" for number in range(600)]
    ledger, answers = ledger_of(names), {name: paid(name, amount=100 + (name[-1] == "7")) for name in names}
    first, rest = Lookup(answers), Lookup(answers)
    with ExitStack() as disk, Journal(path) as journal:

        async def lookup(reference):
            if len(first.asked) == 100:
                disk.enter_context(full_after(max(file.stat().st_size for file in path.parent.iterdir())))
            return await first(reference)

        with pytest.raises(JournalWriteError) as caught:
            await rows_of(ledger, lookup, journal)
    assert str(caught.value).endswith(
        "cannot be written (disk I/O error); all earlier answers are kept: fix that, and run the same command again"
    )
    kept = stored(as_killed(path, tmp_path / "copy"))
    assert 0 <= len(first.asked) - kept <= 3
    with Journal(path) as journal, Journal() as other:
        resumed = await rows_of(ledger, rest, journal)
        assert resumed == await rows_of(ledger, Lookup(answers), other)
    assert len(rest.asked) == 660 - kept


# Memory


def peak_mib(path, rows):
    tracemalloc.start()
    with Journal(path) as journal:
        for line in range(2, rows + 2):
            journal.add(Entry(line=line, reference=f"T{line}", amount=line))
        journal.finish_ledger()
        for question in journal.answers.to_ask():
            found = paid(question.reference)
            journal.answers.add(
                question.position, Observation(answer=Answer.FOUND, at=NOON, transaction=found), is_second=False
            )
        journal.answers.commit()
        for _ in replay(journal):
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20


@pytest.mark.slow
def test_memory(tmp_path):
    """Memory does not grow with the ledger once a batch is full, neither reading, nor asking, nor judging."""
    small, large = (peak_mib(tmp_path / str(rows), rows) for rows in (10_000, 20_000))
    assert large - small < 0.5

"""Laws of several nights: other ledgers, answers and rules each night, outages, and kills in the middle of a run."""

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from payclient import errors
from payclient.protocol import Transaction
from payclient.reconcile import BreakState, Bucket, Journal, Lines, Rules, Tolerance, break_changes, judge_again, replay
from payclient.reconcile._journal.journal import Reuse
from payclient.reconcile._journal.tables import copy_journal
from payclient.reconcile.folders import JOURNAL, RunDiff
from payclient.reconcile.ledger import Entry
from support.chance import examples
from support.nights import FIRST, FORMATS, Nights, paid
from support.reconciling import NOT_FOUND, Service

REFUSED = errors.AuthenticationError("bad key")
WORDS = st.sampled_from(["Paid", "Paid", "Refunded", "Pending", "Canceled", "Odd"])
REFERENCES = "ABCD"
RULES = st.sampled_from(
    [
        Rules(),
        Rules(tolerances={"amount": Tolerance(above=1, below=1)}),
        Rules(statuses={"odd": "paid"}, final_statuses=["paid", "canceled"]),
        Rules(lines=Lines(of_one_reference="sum")),
    ]
)


class KilledError(BaseException):
    """The process is gone."""


class Mortal:
    """
    A service, and all else that a run asks for step by step, until it is killed.

    Args:
        answers: By reference.
        folder: Of the run; its journal is kept as a killed process would leave it.
        steps: After which it is killed; None to live.
    """

    def __init__(self, answers, folder, steps):
        known = {reference: [each] for reference, each in answers.items()}
        self._service = Service(known | {"CANARY": [paid("CANARY")]})
        self._folder, self._left = folder, steps

    def step(self):
        if self._left is None:
            return
        self._left -= 1
        if self._left < 0:
            kept = self._folder.with_name("kept")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(self._folder, kept)
            raise KilledError

    async def __call__(self, reference):
        self.step()
        return await self._service(reference)

    def each(self, values):
        """Yield *values*, each of them a step."""
        for value in values:
            self.step()
            yield value


def entries():
    return st.builds(
        Entry,
        line=st.just(2),
        reference=st.sampled_from(REFERENCES),
        amount=st.integers(1, 2),
        status=WORDS,
        merchant_reff=st.sampled_from([None, "m"]),
    )


def answers():
    found = st.builds(
        lambda amount, word, reff: Transaction(reference="?", amount=amount, status=word, merchant_reff=reff),
        st.integers(1, 2),
        WORDS,
        st.sampled_from(["m", "n"]),
    )
    return found | found | found | found | st.just(NOT_FOUND)


def services(*more):
    return st.fixed_dictionaries(dict.fromkeys(REFERENCES, st.one_of(answers(), *map(st.just, more))))


@st.composite
def nights(draw, *, size, more=()):
    """Draw some nights: ledger, answers, rules, whether answers are reused, and the steps after which it is killed."""
    one = st.tuples(
        st.lists(entries(), max_size=4), services(*more), RULES, st.booleans(), st.lists(st.integers(0, 9), max_size=2)
    )
    return draw(st.lists(one, min_size=2, max_size=size))


async def reconciled(run, folder, name, night, *, previous, day, kills=()):
    """Return the night, after as many kills, each followed by the same run again; the clock stands still in it."""
    ledger, known, rules, is_reusing, _ = night
    for steps in (*kills, None):
        mortal = Mortal(known, folder / name, steps)
        options = {"service": mortal, "rules": rules, "clock": lambda: FIRST + timedelta(days=day)}
        if previous is not None and is_reusing:
            earlier = previous.run.answers
            options["reuse"] = Reuse(
                max_age=timedelta(days=2), answers=lambda each=mortal.each, earlier=earlier: each(earlier())
            )
        try:
            return await run(mortal.each(ledger), {}, previous=previous, name=name, **options)
        except KilledError:
            shutil.rmtree(folder / name)
            (folder / "kept").rename(folder / name)
    return None


def content(folder, name):
    paths = (folder / name / each for each in (*FORMATS, "history.jsonl"))
    return {path.name: path.read_bytes() for path in paths if path.exists()}


@examples(10)
@given(drawn=nights(size=3))
async def test_kills(drawn):
    """Nights that are killed at any steps and resumed make the same bytes as nights that nothing interrupts."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run, before, smooth = Nights(folder), None, None
        for day, night in enumerate(drawn):
            name = f"night-{day}"
            options = {"day": day, "previous": before}
            broken = await reconciled(run, folder, name, night, kills=night[-1], **options)
            (folder / name).rename(folder / f"broken-{day}")
            smooth = await reconciled(run, folder, name, night, **options)
            assert content(folder, f"broken-{day}") == content(folder, name)
            assert broken.rows == smooth.rows
            before = smooth


@examples(10)
@given(drawn=nights(size=4, more=(REFUSED,)))
async def test_states(drawn):
    """
    Over any nights the report ties, and each earlier break is in exactly one state.

    None is resolved while its reference has no usable answer. A run says nothing new about itself, and a second
    judgement by the same rules says the same.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run, before, known = Nights(folder), None, {}
        for day, night in enumerate(drawn):
            done = await reconciled(run, folder, f"night-{day}", night, previous=before, day=day)
            assert done.summary.tie_out.residual == 0
            ledger = [row for row in done.rows if not row.carried_from]
            assert {row.reference for row in ledger} == {entry.reference for entry in night[0]}
            check_states(done, known)
            check_itself(done)
            check_second_judgement(done, folder, night[2])
            known, before = known_after(done), done


def known_after(done):
    """Return the breaks that the night has, or does not know about."""
    return {key for key, state in done.states.items() if state != "resolved"} | {
        (row.reference, finding.code.value)
        for row in done.rows
        if row.bucket is Bucket.BREAK
        for finding in row.findings
        if finding.is_decisive
    }


def check_states(done, known):
    states = done.states
    if done.summary.since is None:
        assert not known
        return
    assert known <= states.keys()
    assert not [key for key in known if states[key] in ("new", "reopened")]
    unresolved = {row.reference for row in done.rows if row.bucket is Bucket.UNRESOLVED}
    assert not [key for key, state in states.items() if state == "resolved" and key[0] in unresolved]
    assert {reference for reference, _ in known} <= {row.reference for row in done.rows}
    assert {row.bucket for row in done.rows if row.reused_from} <= {Bucket.MATCHED, Bucket.UNRESOLVED}


def check_itself(done):
    with RunDiff(done.run, done.run) as diff:
        assert {state for state, count in diff.counts.items() if count} <= {BreakState.STILL_OPEN, BreakState.NOT_KNOWN}
        assert diff.exit_status() in (0, 75)


def check_second_judgement(done, folder, rules):
    path = folder / "copy.sqlite"
    with path.open("wb") as file:
        copy_journal(done.run.folder / JOURNAL, file)
    with Journal(path) as journal:
        judge_again(journal, rules=rules)
        assert tuple(replay(journal, rules=rules)) == done.rows
        changes = {(change.reference, change.now.code.value): change for change in break_changes(journal, rules=rules)}
    assert {key: change.history.state.value for key, change in changes.items() if not change.now.is_present} == {
        key: line["state"] for key, line in done.memory.items()
    }

"""A run that knows the run before it: carried rows, the age of breaks, reversals, and what the rules changed."""

import asyncio
import tempfile
import threading
from datetime import timedelta
from itertools import product
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import errors
from payclient.protocol import Transaction
from payclient.reconcile import (
    STRICT,
    Accepted,
    BreakState,
    Bucket,
    Code,
    Journal,
    Lines,
    ResolvedBy,
    Rules,
    Settled,
    StatementRules,
    Step,
    Tolerance,
    break_changes,
    reconcile,
)
from payclient.reconcile._journal.journal import Reuse
from payclient.reconcile._judgement.records import PreviousRun, ReferenceRecord, record_cell, record_from
from payclient.reconcile.folders import JOURNAL
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.report import Report
from payclient.reconcile.report.wording import rules_sentences
from support.chance import examples
from support.misses import check_each
from support.nights import FIRST as DAY
from support.nights import Nights, entry, paid
from support.reconciling import DOWN, NOT_FOUND, Clock, Service
from support.ruling import accepted

REFUSED = errors.AuthenticationError("bad key")


def step(night, name):
    return next(each for each in night.summary.tie_out.steps if each.step is name)


async def test_states(night):
    """Each break says what became of it: new, still open, changed, or resolved in the memory of the run."""
    ledger = [entry(reference) for reference in "ABC"]
    first = await night(ledger, {"A": paid("A", 5), "B": paid("B", 5), "C": paid("C", 5)})
    assert [row.history for row in first.rows] == [None, None, None]
    later = [*ledger, entry("D")]
    second = await night(
        later, {"A": paid("A", 5), "B": paid("B", 6), "C": paid("C"), "D": paid("D", 1)}, previous=first
    )
    underpaid = Code.UNDERPAID.value
    assert second.states == {
        ("A", underpaid): "still_open",
        ("B", underpaid): "changed",
        ("C", underpaid): "resolved",
        ("D", underpaid): "new",
    }
    assert second.memory["C", underpaid]["resolved_by"] == "service"
    history = second["A"].history
    assert (history.first_run, history.age_days, history.first_seen.date()) == (
        "night-1",
        1,
        first.rows[0].observed_at.date(),
    )
    assert Report(second.summary).says == (
        "amount and status of 4 ledger rows: 1 matched, 3 breaks; "
        "open findings: 3 + 1 new + 0 reopened - 1 resolved = 3, changed (1): -1 at stake."
    )


@pytest.mark.parametrize(("runs", "lines", "state"), [(399, 1, BreakState.REOPENED), (400, 0, BreakState.NEW)])
async def test_forgotten(night, runs, lines, state):
    """A resolved break is remembered for 400 runs after the one that resolved it; then it is new if it comes back."""
    first = await night([entry("A")], {"A": paid("A", 5)})
    second = await night([entry("A")], {"A": paid("A")}, previous=first)
    memory = second.run.folder / "history.jsonl"
    memory.write_text(memory.read_text().replace('"gone_for":0', f'"gone_for":{runs}'))
    third = await night([entry("A")], {"A": paid("A")}, previous=second)
    assert len(third.memory) == lines
    fourth = await night([entry("A")], {"A": paid("A", 5)}, previous=third)
    assert fourth["A"].history.state is state


async def test_carried(night):
    """Rows that the ledger does not list any more are asked again if they were no match; they are not in its total."""
    answers = {"A": paid("A", 5), "B": paid("B", status="Pending"), "D": paid("D")}
    first = await night(
        [
            entry("A"),
            entry("B", status="Pending"),
            entry("C"),
            entry("D"),
            RejectedEntry(line=9, reason="bad", reference="R"),
        ],
        {**answers, "C": REFUSED},
    )
    assert [row.bucket for row in first.rows] == ["unresolved", "open", "unresolved", "unresolved", "rejected"]
    second = await night(
        [entry("E", 7)], {**answers, "B": paid("B"), "C": paid("C"), "E": paid("E", 7)}, previous=first
    )
    assert [(row.reference, row.carried_from, row.bucket) for row in second.rows] == [
        ("E", "", "matched"),
        ("A", "night-1", "break"),
        ("B", "night-1", "break"),
        ("C", "night-1", "matched"),
        ("D", "night-1", "matched"),
        ("R", "night-1", "break"),
    ]
    tie_out, carried = second.summary.tie_out, step(second, Step.CARRIED)
    assert (tie_out.ledger_paid_total, tie_out.service_paid_total, tie_out.residual) == (7, 7 + 5 + 9 + 9 + 9, 0)
    assert (carried.rows, carried.added, carried.taken_off) == (5, 32, 0)
    assert (second.summary.rows, second.summary.since.carried[Bucket.BREAK]) == (1, 3)
    assert second.summary.buckets[Bucket.BREAK].ledger_amount == 18
    assert "3 matched, 3 breaks; open findings: 0 + 4 new + 0 reopened - 0 resolved = 4." in Report(second.summary).says
    assert [each.code.value for each in second["R"].findings] == ["missing_at_service", "left_the_ledger"]


async def test_accepted_event_that_ended(night):
    """A decision about a break ends when it is gone: the same break later needs another decision, in a later run."""
    runs = [f"2026112{number}T020000Z-{number}" for number in range(6)]

    def decided(number):
        decision = accepted("A", ledger=9, service=5)
        return Rules(accepted=[attrs.evolve(decision, run=runs[number])])

    first = await night([A], {"A": LESS}, name=runs[0])
    before = await night([A], {"A": LESS}, previous=first, name=runs[1], rules=decided(0))
    assert before["A"].bucket is Bucket.MATCHED
    before = await night([A], {"A": SAME}, previous=before, name=runs[2], rules=decided(0))
    assert before.memory["A", "underpaid"]["resolved_by"] == "service"
    for number, state in ((3, "reopened"), (4, "still_open")):
        before = await night([A], {"A": LESS}, previous=before, name=runs[number], rules=decided(0))
        assert before.states == {("A", "underpaid"): state}
    again = await night([A], {"A": LESS}, previous=before, name=runs[5], rules=decided(3))
    assert (again["A"].bucket, again.states) == (Bucket.MATCHED, {("A", "underpaid"): "resolved"})


async def test_accepted_reversal(night):
    """An accepted payment that is not paid any more is known as that on each night, and a break again after it."""
    agreed = Rules(accepted=[accepted("A", code, ledger="Paid", service="Canceled") for code in GONE])
    before = await night([A], {"A": SAME})
    before = await night([A], {"A": CANCELED}, previous=before)
    for _ in range(2):
        before = await night([A], {"A": CANCELED}, previous=before, rules=agreed)
        assert [each.code.value for each in before["A"].findings if each.is_accepted] == list(GONE)
    last = await night([A], {"A": CANCELED}, previous=before)
    assert last.states == {("A", code): "reopened" for code in GONE}


async def test_accepted_in_an_outage(night):
    """A finding that is accepted while the rest of its row is not known stays as open as it was."""
    agreed = Rules(accepted=[accepted("A", "duplicate_reference", ledger=2, service="")])
    twice = [entry("A"), entry("A", line=3)]
    first = await night(twice, {"A": NOT_FOUND})
    second = await night(twice, {"A": DOWN}, previous=first, rules=agreed, stall_timeout=0.01)
    third = await night([], {"A": NOT_FOUND}, previous=second)
    opening = second.summary.open_findings.closing
    assert (third.summary.open_findings.opening, set(third.states.values())) == (opening, {"still_open"})


async def test_not_carried(night):
    """A row that today's ledger has, even as one that cannot be used, is not carried over."""
    first = await night([entry("A"), entry("B")], {"A": paid("A", 5), "B": paid("B", 5)})
    second = await night(
        [entry("A"), RejectedEntry(line=3, reason="bad", reference="B")], {"A": paid("A", 5)}, previous=first
    )
    assert [(row.reference, row.carried_from) for row in second.rows] == [("A", ""), ("B", "")]
    assert second.states == {("A", "underpaid"): "still_open", ("B", "underpaid"): "not_known"}


# Reversed


def of(status, amount=9):
    return entry("A", status=status), paid("A", amount, status=status)


A, LESS, SAME, CANCELED = entry("A"), paid("A", 5), paid("A"), paid("A", status="Canceled")
GONE = ("reversed", "recorded_not_paid")
AGREED = accepted("accepted", ledger=9, service=5)
LIVES = {
    "still open": ([(A, LESS), (A, LESS)], "- still_open"),
    "changed": ([(A, LESS), (A, paid("A", 6)), (entry("A", 8), paid("A", 6))], "- changed changed"),
    "reopened after a night without it": ([(A, LESS), (A, SAME), (None, SAME), (A, LESS)], "- service - reopened"),
    "carried until it matches": ([(A, LESS), (None, LESS), (None, SAME), (None, SAME)], "- still_open service -"),
    "corrected in the ledger": ([(A, LESS), (entry("A", 5), LESS)], "- ledger"),
    "corrected on both sides": ([(A, LESS), (entry("A", 7), paid("A", 7))], "- both"),
    "within a tolerance": ([(A, LESS), (A, LESS, Rules(tolerances={"amount": Tolerance(below=4)}))], "- rule"),
    "accepted": ([(A, LESS), (A, LESS, Rules(accepted=[AGREED])), (A, LESS)], "- acceptance reopened"),
    "not within it": ([(A, LESS), (A, paid("A", 6), Rules(tolerances={"amount": Tolerance(below=4)}))], "- service"),
    "another field too": ([(A, LESS), (entry("A", merchant_reff="N"), paid("A", merchant_reff="N"))], "- service"),
    "without an answer": ([(A, LESS), (A, REFUSED), (A, LESS)], "- not_known still_open"),
    "reversed": ([(A, SAME), of("Canceled")], "- new"),
    "reversed, and pending": ([(A, SAME), of("Pending")], "- new"),
    "reversed, and expired": ([(A, SAME), of("Expired")], "- new"),
    "reversed, and not known any more": ([(A, SAME), (A, NOT_FOUND)], "- new"),
    "refunded": ([(A, SAME), of("Refunded")], "- -"),
    "an unknown word": ([(A, SAME), (A, paid("A", status="Settled"))], "- -"),
    "reversed until the ledger follows": ([(A, SAME), (A, CANCELED), of("Canceled")], "- new ledger"),
    "reversed, followed and other again": (
        [(A, SAME), (A, CANCELED), of("Canceled"), (entry("A", status="Pending"), CANCELED)],
        "- new ledger -",
    ),
    "reversed until it is paid": ([(A, SAME), (A, CANCELED), (A, CANCELED), (A, SAME)], "- new still_open service"),
    "reversed while nothing changes": (
        [(A, SAME), *[of("Canceled")] * 3, (entry("A", status="Canceled"), SAME)],
        "- new still_open still_open service",
    ),
    "reversed in one lookup only": ([(A, SAME), (A, [CANCELED, SAME])], "- -"),
    "paid in one lookup only": ([(A, [LESS, REFUSED]), (A, CANCELED)], "- -"),
}


def ends_or_has_rules(life):
    """Return whether one day of a life cannot be a day of all others."""
    return len(life) > 2 or REFUSED in (life[1] if isinstance(life[1], list) else [life[1]])


async def test_lives(tmp_path):
    """Over some nights a break of a lower amount, or a reversal, has its state, or what resolved it, each night."""
    found, alone = {}, {name for name, (lives, _) in LIVES.items() if any(map(ends_or_has_rules, lives))}
    for place, names in enumerate([LIVES.keys() - alone, *([name] for name in sorted(alone))]):
        night, before = Nights(tmp_path / str(place)), None
        for day in range(max(len(LIVES[name][0]) for name in names)):
            today = {name: LIVES[name][0][day] for name in names if day < len(LIVES[name][0])}
            ledger = [attrs.evolve(life[0], reference=name) for name, life in sorted(today.items()) if life[0]]
            answers = {name: LIVES[name][0][min(day, len(LIVES[name][0]) - 1)][1] for name in names}
            rules = next((life[2] for life in today.values() if len(life) > 2), STRICT)
            before = await night(ledger, answers, previous=before, rules=rules)
            for name in today:
                key = name, "underpaid" if LIVES[name][0][0][1] is LESS else "reversed"
                state = before.states.get(key, "-")
                said = before.memory[key]["resolved_by"] if state == "resolved" else state
                found[name] = f"{found.get(name, '')} {said}"
    check_each({name: f" {expected}" for name, (_, expected) in LIVES.items()}, found.get)


async def test_reversed(night):
    """A reversal is critical, even if the ledger follows, and was looked up twice."""
    first = await night([A], {"A": SAME})
    second = await night([entry("A", status="Canceled")], {"A": CANCELED}, previous=first)
    row = second["A"]
    assert (row.bucket, row.primary.code, row.primary.severity.word) == (Bucket.BREAK, Code.REVERSED, "critical")
    assert (row.confirmed_at is not None, row.primary.ledger, row.primary.service) == (True, "Paid", "Canceled")
    third = await night([A], {"A": SAME}, previous=second)
    assert third.memory["A", "reversed"]["resolved_by"] == "both"


@pytest.mark.parametrize("nights", [1, 2])
@pytest.mark.parametrize("is_down", [True, False], ids=["down", "rejected"])
async def test_reversed_behind_a_gap(night, nights, is_down):
    """A night without an answer, or with a row that cannot be used, does not forget that a payment was paid."""
    done, unusable = await night([A], {"A": SAME}), RejectedEntry(line=2, reason="bad", reference="A")
    for _ in range(nights):
        done = await night([A if is_down else unusable], {"A": REFUSED if is_down else SAME}, previous=done)
        assert done.rows[0].bucket is (Bucket.UNRESOLVED if is_down else Bucket.REJECTED)
    last = await night([entry("A", status="Canceled")], {"A": CANCELED}, previous=done)
    assert [each.code for each in last["A"].findings] == [Code.REVERSED]


# Several rows, and rules


async def test_other_rows_count(night):
    """Rows with the same reference that are no breaks are known too, so they have not changed by themselves."""
    known = {"code": "duplicate_reference", "reference": "A", "largest_difference": 100}
    accepted = [Accepted(**known, reason="two parts", owner="Ana", expires="2030-01-01")]
    ledger, answers = [entry("A"), entry("A", 5, line=3)], {"A": paid("A", 5)}
    first = await night(ledger, answers, rules=Rules(accepted=accepted))
    loose = Rules(accepted=accepted, tolerances={"amount": Tolerance(below=4)})
    second = await night(ledger, answers, rules=loose, previous=first)
    assert second.memory["A", "underpaid"]["resolved_by"] == "rule"


async def test_several_rows(night):
    """Of rows with one reference, each break says what it is by itself, whatever the order of the rows."""
    rows = [entry("A", 8, line=2), entry("A", 7, line=3)]
    first = await night(rows, {"A": paid("A", 5)})
    second = await night(list(reversed(rows)), {"A": paid("A", 5)}, previous=first)
    assert {finding.history.state for row in second.rows for finding in row.findings} == {BreakState.STILL_OPEN}
    third = await night([entry("A", 5, line=line) for line in (2, 3)], {"A": paid("A", 5)}, previous=second)
    fourth = await night(rows, {"A": paid("A", 5)}, previous=third)
    found = {(finding.code.value, finding.history.state.value) for row in fourth.rows for finding in row.findings}
    assert found == {("duplicate_reference", "changed"), ("underpaid", "reopened")}


async def test_summed_lines(night):
    """The lines of a payment that is put together are all carried over."""
    rules = Rules(lines=Lines(of_one_reference="sum"))
    rows = [entry("A", 4, line=2), entry("A", 3, line=3)]
    first = await night(rows, {"A": paid("A", 5)}, rules=rules)
    second = await night([], {"A": paid("A", 7)}, rules=rules, previous=first)
    assert [(row.lines, row.bucket) for row in second.rows] == [((2, 3), Bucket.MATCHED)]
    assert second.states == {("A", "overpaid" if first.rows[0].ledger_amount < 5 else "underpaid"): "resolved"}


async def test_rules_that_changed(night):
    """Rules that changed are named; the break was resolved by a rule."""
    ledger, answers = [entry("A"), entry("B")], {"A": paid("A", 8), "B": paid("B", 1)}
    first = await night(ledger, answers)
    second = await night(ledger, answers, rules=Rules(tolerances={"amount": Tolerance(below=2)}), previous=first)
    assert rules_sentences(second.summary.since)[0] == "Rules that changed since the previous run: tolerances."
    assert second.memory["A", "underpaid"]["resolved_by"] == "rule"
    third = await night(ledger, answers, previous=second)
    assert third["A"].history.state is BreakState.REOPENED


@pytest.mark.parametrize(("sha256", "by"), [("ab", ResolvedBy.RULE), ("cd", ResolvedBy.LEDGER)])
async def test_same_ledger(night, sha256, by):
    """What the same file does not say any more was resolved by the rules, which read or judge it otherwise."""
    first = await night([entry("A")], {"A": paid("A", 5)})
    run = attrs.evolve(first.run, note=attrs.evolve(first.run.note, ledger_sha256="ab"))
    second = await night([entry("A", 5)], {"A": paid("A", 5)}, previous=attrs.evolve(first, run=run))
    with Journal(second.run.folder / JOURNAL) as journal:
        (change,) = break_changes(journal, ledger_sha256=sha256)
    assert change.now.by is by


async def test_only_news_count(night):
    """With only news, breaks that are still open leave the status 0, and a severe new finding beside them does not."""
    first = await night([entry("A")], {"A": paid("A", 5)})
    same = await night([entry("A")], {"A": paid("A", 5)}, previous=first)
    assert (same.summary.exit_status(), same.summary.exit_status(only_news=True)) == (1, 0)
    worse = await night([entry("A")], {"A": paid("A", 5, status="Canceled")}, previous=same)
    assert [worse.summary.exit_status(each, only_news=True) for each in ("high", "critical")] == [1, 1]
    assert worse["A"].history.state is BreakState.NEW


def test_trend():
    """A run knows the number of breaks of the last runs before it, and no more of them than fit on a page."""
    before = PreviousRun(run="30", folder="30", last_observed_at=None, buckets={"break": 7})
    trend = attrs.evolve(before, trend=tuple((str(number), 1) for number in range(30))).trend_with_itself
    assert (len(trend), trend[0], trend[-1]) == (29, ("2", 1), ("30", 7))


# The journal


async def test_other_tasks_go_on(night):
    """While the previous run is read and its answers are taken over, the event loop runs other tasks."""
    first = await night([entry("A")], {"A": paid("A")})
    loop, waits = asyncio.get_running_loop(), []

    def wait_for_loop():
        reached = threading.Event()
        loop.call_soon_threadsafe(reached.set)
        waits.append(reached.wait(60))

    def records(is_listed, on_row):
        wait_for_loop()
        yield from first.run.records(is_listed, on_row)

    def answers():
        wait_for_loop()
        yield from first.run.answers()

    reuse = Reuse(max_age=timedelta(days=1000), answers=answers)
    previous, clock = (first.run.note, records), Clock(first.run.note.last_observed_at + timedelta(days=1))
    rows = reconcile([entry("A")], Service({}), previous=previous, reuse=reuse, clock=clock)
    assert [(row.bucket, row.reused_from) async for row in rows] == [("matched", "night-1")]
    assert waits == [True, True]


# Laws

WORDS = st.sampled_from(["Paid", "Paid", "Pending", "Canceled"])


def ledgers():
    rows = st.builds(entry, st.sampled_from("ABC"), st.integers(1, 2), WORDS)
    return st.lists(rows, max_size=4)


def services():
    found = st.builds(
        lambda amount, word: Transaction(reference="?", amount=amount, status=word), st.integers(1, 2), WORDS
    )
    answer = found | found | found | st.just(NOT_FOUND) | st.just(REFUSED)
    return st.fixed_dictionaries(dict.fromkeys("ABC", answer))


# Statements


def line(reference, amount, number=2, **fields):
    return Entry(line=number, reference=reference, amount=amount, **fields)


def codes(night):
    return {row.reference: row.primary.code.value for row in night.rows if row.bucket is Bucket.BREAK}


def settlement(night):
    return {each.step.value: each.amount for each in night.summary.settlement.steps if each.rows}


ANSWERS = {**{name: paid(name) for name in "ABDX"}, **{name: paid(name, status="Canceled") for name in "CY"}}
LEDGER = [entry("A"), entry("B"), entry("C", status="Canceled"), entry("D")]
STATEMENT = [line("A", 9), line("C", 9), line("D", 8), line("X", 9), line("Y", 9)]
FIRST = {
    "B": "not_settled",
    "C": "settled_not_paid",
    "D": "settled_differently",
    "X": "not_in_ledger",
    "Y": "settled_not_paid",
}


@pytest.mark.parametrize("ledger", [[], LEDGER], ids=["new rows alone", "all rows"])
async def test_statement_follows(night, ledger):
    """What a statement lists holds in the runs after it: a break stays open, with its age, until something changes."""
    first = await night(LEDGER, ANSWERS, statement=STATEMENT)
    assert codes(first) == FIRST
    rules, answers = Rules(may_leave=True), ANSWERS | {"E": paid("E")}
    second = await night([*ledger, entry("E")], answers, previous=first, rules=rules, statement=[line("B", 9)])
    states = {reference: state for (reference, _), state in second.states.items()}
    assert states == {"E": "new", "B": "resolved"} | dict.fromkeys("CDXY", "still_open")
    assert second.memory["B", "not_settled"]["resolved_by"] == "statement"
    assert codes(second) == {"E": "not_settled"} | {name: FIRST[name] for name in "CDXY"}
    assert second["X"].history.age_days == 1
    assert second.summary.settlement.residual == 0
    assert settlement(second)["settled_before"] == -(44 if ledger else 35)
    assert second.summary.settlement.not_in_ledger == 0
    third = await night(
        [entry("X"), *ledger],
        ANSWERS | {"Y": paid("Y", status="Canceled"), "C": paid("C"), "D": paid("D", 8), "E": paid("E")},
        previous=second,
        statement=[line("E", 9)],
    )
    gone = {reference: each["resolved_by"] for (reference, _), each in third.memory.items() if not each["is_old"]}
    assert gone == {"C": "service", "D": "service", "E": "statement", "X": "ledger"}
    assert third.states["Y", "settled_not_paid"] == "still_open"


async def test_new_in_statement(night):
    """What only the statement of tonight has is not carried over from a run before."""
    first = await night(LEDGER, ANSWERS, statement=STATEMENT)
    second = await night([], ANSWERS | {"N": paid("N")}, previous=first, statement=[line("N", 9)])
    assert (second["N"].carried_from, second["N"].origin, second["B"].carried_from) == ("", "statement", "night-1")
    assert second.summary.settlement.not_in_ledger == 1


async def test_clean_beside_not_known(night):
    """A break that is not known leaves no verdict clean, and has an exit status on the night that loses sight of it."""
    ledger, answers = [entry("B"), entry("D")], {"B": paid("B"), "D": paid("D")}
    first = await night(ledger, answers, statement=[line("D", 9)])
    second = await night(ledger, answers, previous=first)
    third = await night(ledger, answers, previous=second)
    said = [
        (each.summary.verdict, each.summary.exit_status(only_news=True), each.summary.exit_status("partial"))
        for each in (second, third)
    ]
    assert said == [("partial", 1, 1), ("partial", 0, 1)]
    assert second.summary.to_act_upon == ("not_known",)
    down = await night(ledger, dict.fromkeys("BD", DOWN), previous=first, statement=[line("D", 9)], stall_timeout=0.01)
    assert (down.summary.verdict, down.summary.exit_status("partial")) == ("incomplete", 75)
    fourth = await night(ledger, answers, previous=third, statement=[line("B", 9)])
    assert (fourth.summary.verdict, fourth.states) == ("clean", {("B", "not_settled"): "resolved"})


async def test_waits_for_a_statement(night):
    """A payment that isn't due in a statement yet stays open through nights without one, and is a break when it is."""
    at = DAY.replace(tzinfo=None)
    rules = Rules(statement=StatementRules(settles_within="3d"), may_leave=True)
    first = await night([entry("A", created_at=at)], ANSWERS, statement=[], rules=rules)
    before = first
    for verdict, status in (("partial", 1), ("clean", 0)):  # the night before compared more, or as much
        before = await night([entry("B", created_at=at)], ANSWERS, previous=before, rules=rules)
        assert (before["A"].bucket, before.summary.verdict) == (Bucket.OPEN, verdict)
        assert before.summary.exit_status() == status
    listed = await night([], ANSWERS, previous=before, statement=[line("A", 9)], rules=rules)
    assert [(row.reference, row.bucket.value) for row in listed.rows] == [("A", "matched")]
    due = await night([], ANSWERS, previous=before, statement=[], rules=rules)
    assert due.states == {("A", "not_settled"): "new"}


async def test_waits_beside_a_break(night):
    """A payment that was also underpaid waits for its statement once that is corrected on a night without one."""
    at = DAY.replace(tzinfo=None)
    rules = Rules(statement=StatementRules(settles_within="3d"), may_leave=True)
    first = await night([entry("A", 12, created_at=at)], ANSWERS, statement=[], rules=rules)
    assert codes(first) == {"A": "underpaid"}
    before = await night([entry("A", created_at=at)], ANSWERS, previous=first, rules=rules)
    for _ in range(2):
        assert before["A"].bucket is Bucket.OPEN
        before = await night([], ANSWERS, previous=before, rules=rules)
    due = await night([], ANSWERS, previous=before, statement=[], rules=rules)
    assert due.states["A", "not_settled"] == "new"


async def test_accepted_without_a_statement(night):
    """What a statement found is followed while it is accepted, also on nights without one, and reopens after that."""
    rules = Rules(accepted=[accepted("A", "not_settled", ledger="", service=9)], may_leave=True)
    first = await night([entry("A")], ANSWERS, statement=[])
    second = await night([entry("B")], ANSWERS, previous=first, statement=[line("B", 9)], rules=rules)
    assert second["A"].bucket is Bucket.MATCHED
    third = await night([], ANSWERS, previous=second, rules=rules)
    assert third["A"].bucket is Bucket.OPEN
    fourth = await night([], ANSWERS, previous=third, statement=[], rules=Rules(may_leave=True))
    assert fourth.states == {("A", "not_settled"): "reopened"}


@pytest.mark.parametrize("assumed", ["paid", "none"])
@pytest.mark.parametrize(
    ("code", "with_column", "without", "right"),
    [
        ("fee_differs", entry("A", fee=1), entry("A"), entry("A", fee=2)),
        ("late_payment", entry("A", status="Canceled"), Entry(line=2, reference="A", amount=9), entry("A")),
    ],
)
async def test_column_that_left(night, code, with_column, without, right, assumed):
    """A break about a column that the ledger has lost is not known until the column is back, whatever is assumed."""
    answers, rules = {"A": paid("A", fee=2)}, Rules(may_leave=True, assume_status=assumed)
    first = await night([with_column], answers, rules=rules)
    second = await night([without], answers, previous=first, rules=rules)
    assert (second.states, second["A"].bucket) == ({("A", code): "not_known"}, Bucket.OPEN)
    third = await night([], answers, previous=second, rules=rules)
    assert third.states == {("A", code): "not_known"}
    back = await night([right], answers, previous=third, rules=rules)
    assert back.states == {("A", code): "resolved"}


async def test_known_from_a_ledger(night):
    """A later statement may repeat a payment that an earlier ledger had; one that no ledger had is still a break."""
    rules, answers = Rules(may_leave=True), {name: paid(name) for name in "ABX"}
    first = await night([entry("A")], answers, statement=[line("A", 9)], rules=rules)
    before = await night([entry("B")], answers, previous=first, statement=[line("B", 9)], rules=rules)
    month = [line("A", 9), line("B", 9), line("X", 9)]
    for _ in range(2):
        before = await night([], answers, previous=before, statement=month, rules=rules)
        assert codes(before) == {"X": "not_in_ledger"}
        assert (before.summary.settlement.residual, before.summary.tie_out.residual) == (0, 0)
    refunded = answers | {"A": paid("A", status="Canceled")}
    after = await night([], refunded, previous=before, statement=[line("A", 9)], rules=rules)
    assert codes(after) == {"A": "settled_not_paid", "X": "not_in_ledger"}


async def test_no_statement_after(night):
    """Without a statement, a run cannot tell what became of the breaks of one, but of those that it alone had."""
    first = await night(LEDGER, ANSWERS, statement=STATEMENT)
    second = await night(LEDGER, ANSWERS, previous=first)
    known = {"X": "still_open", "Y": "still_open"}
    assert {name: state for (name, _), state in second.states.items()} == dict.fromkeys("BCD", "not_known") | known
    assert codes(second) == {name: FIRST[name] for name in "XY"}
    third = await night(LEDGER, ANSWERS, previous=second, statement=[line("B", 9)])
    assert third.states["B", "not_settled"] == "resolved"
    assert third.states["X", "not_in_ledger"] == "still_open"


@pytest.mark.parametrize(
    ("second", "new_lines_only", "expected"),
    [
        (9, False, {}),
        (9, True, {"A": "settled_differently"}),
        (-9, False, {"A": "settled_differently"}),
        (-4, True, {"A": "settled_differently"}),
    ],
)
async def test_listed_again(night, second, new_lines_only, expected):
    """A reference that two statements list counts once, unless they have no line in common or money is taken back."""
    rules = Rules(statement=StatementRules(new_lines_only=new_lines_only))
    first = await night([entry("A")], ANSWERS, statement=[line("A", 9)], rules=rules)
    again = await night([entry("A")], ANSWERS, previous=first, statement=[line("A", second)], rules=rules)
    assert codes(again) == expected
    assert again.summary.settlement.statement.total == second
    assert again.summary.settlement.residual == 0
    if expected:
        assert "on line 2 of the statement and on an earlier one" in again["A"].primary.sentence


async def test_paid_out_in_parts(night):
    """What was paid, and what was paid out, is summed over statements with new lines only."""
    rules = Rules(statement=StatementRules(new_lines_only=True))
    answers = {"A": paid("A", 9, amount_received=7)}
    first = await night([entry("A")], answers, statement=[line("A", 4, amount_received=3)], rules=rules)
    assert codes(first) == {"A": "settled_differently"}
    rest = [line("A", 5, amount_received=4)]
    second = await night([entry("A")], answers, previous=first, statement=rest, rules=rules)
    assert (codes(second), settlement(second)) == ({}, {"settled": 0, "fees": -2, "settled_before": -3})
    settled = second["A"].other_side.settled
    assert (settled.amount, settled.amount_received, settled.money, settled.before) == (9, 7, 7, 3)


async def test_taken_back(night):
    """A payment that is refunded at the service may be taken back by a later statement."""
    first = await night([entry("A")], ANSWERS, statement=[line("A", 9, amount_received=8)])
    refunded = {"A": paid("A", status="Refunded")}
    ledger = [entry("A", status="Refunded")]
    back = [line("A", -9, amount_received=-8)]
    again = await night(ledger, refunded, previous=first, statement=back)
    steps = {"fees": -1, "refund_fees": 1, "refunded": 0, "settled_before": -8}  # the fee came back, too
    assert (codes(again), settlement(again)) == ({}, steps)
    alone = await night(ledger, refunded, statement=back)
    assert (codes(alone), settlement(alone)) == ({}, {"refund_fees": 1, "refunded": -9})
    for other in ([], [line("B", 9)]):
        kept = await night(ledger, refunded, previous=first, statement=other)
        assert codes(kept)["A"] == "settled_not_paid"


def test_settled_cells(subtests):
    """What the journal stores about an earlier statement is read back as it was."""
    cases = (
        None,
        Settled(lines=(), amount=5, amount_received=None, money=5),
        Settled(lines=(), amount=None, amount_received=4, money=4),
    )
    for settled, is_in_ledger in product(cases, (True, False)):
        with subtests.test(settled=settled, is_in_ledger=is_in_ledger):
            record = ReferenceRecord(reference="A", is_paid=True, settled=settled, is_in_ledger=is_in_ledger)
            assert record_from("A", record_cell(record)) == record
            assert (record_cell(record) == "") == (settled is None and is_in_ledger)


def statements():
    lines = st.builds(line, st.sampled_from("ABCD"), st.sampled_from([-1, 1, 2]), st.integers(2, 9))
    return st.none() | st.lists(lines, max_size=4)


@pytest.mark.slow
@examples(40)
@given(
    nights=st.lists(st.tuples(ledgers(), services(), statements()), min_size=2, max_size=3),
    new_lines_only=st.booleans(),
)
async def test_any_statements(nights, new_lines_only):
    """
    Over any nights with and without a statement: both bridges tie, the total is that of the statement's own lines, and
    each break about a statement is still there, resolved in a run with a statement, or not known.
    """
    rules = Rules(statement=StatementRules(new_lines_only=new_lines_only))
    with tempfile.TemporaryDirectory() as folder:
        run, before = Nights(Path(folder), formats=("summary.json", "rows.jsonl")), None
        known = set()
        for ledger, answers, statement in nights:
            done = await run(ledger, answers, previous=before, rules=rules, statement=statement)
            assert done.summary.tie_out.residual == 0
            assert (done.summary.settlement is None) == (statement is None)
            if statement is not None:
                assert done.summary.settlement.residual == 0
                assert done.summary.settlement.statement.total == sum(each.amount for each in statement)
            states = done.states
            assert known <= states.keys()
            if statement is None:
                assert {states[key] for key in known} <= {"not_known"}
            known = {key for key, state in states.items() if key[1] in OF_STATEMENT and state != "resolved"}
            before = done


OF_STATEMENT = {"not_in_ledger", "not_settled", "settled_differently", "settled_not_paid"}

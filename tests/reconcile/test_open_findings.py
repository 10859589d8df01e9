"""The roll-forward, the sums and the states of random nights against an oracle that shares no code with the package."""

import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from attrs import evolve

from payclient import errors
from payclient.reconcile import BreakState, Bucket, Code, Finding, Row, Tally, TieOutError
from payclient.reconcile._judgement.findings import FindingTotal
from payclient.reconcile._judgement.records import PreviousRun, breaks_of
from payclient.reconcile.folders import RunDiff
from payclient.reconcile.ledger import ABSENT, Entry
from payclient.reconcile.report import Report
from support.nights import FIRST, Nights, paid
from support.reconciling import Clock

WORDS = ("Paid", "Paid", "Pending", "Canceled")
REFERENCES = "ABCDEF"
DOWN = "down"
NIGHTS_PER_WORLD = 4


class Oracle:
    """
    What a run must say, by the documentation alone, with plain values.

    It keeps, of the night before, the rows, who was paid, and each finding by reference and code: whether it is open,
    the amount at stake, and what both sides say.
    """

    def __init__(self):
        self.rows, self.paid, self.known, self.words = [], set(), {}, {}
        self.left, self.listed = set(), set()

    def night(self, ledger, service):
        """Take the rows of a ledger (reference, amount, word) and what the service says; return the figures."""
        listed = {reference for reference, *_ in ledger}
        gone = {row[0] for row in self.rows} - listed
        was_fine = {row[0] for row in self.rows if row[3] == "unresolved"} & self.paid  # before its outage
        unfinished = {row[0] for row in self.rows if row[3] != "matched"} - self.left - was_fine
        self.left, self.listed = gone & (self.left | self.listed) - unfinished, listed
        carried = [row[:3] for row in self.rows if row[0] in self.left or (row[3] != "matched" and row[0] in gone)]
        times = Counter(reference for reference, *_ in (*ledger, *carried))
        rows, found, sums, totals = [], {}, Counter(), Counter()
        for number, (reference, amount, word) in enumerate((*ledger, *carried)):
            answer, is_carried = service[reference], number >= len(ledger)
            findings = self.findings(reference, amount, word, answer, times[reference])
            if is_carried and reference in self.left:
                theirs = answer[0] if type(answer) is tuple else 0
                findings.append(("left_the_ledger", max(amount, theirs), amount))
            bucket = self.bucket(word, answer, findings)
            rows.append((reference, amount, word, bucket))
            for code, at_stake, said in findings if bucket == "break" else ():
                money, values = found.get((reference, code), (0, []))
                found[reference, code] = (max(money, at_stake), sorted({*values, said}, key=repr))
            sums[bucket] += 1
            is_first = reference not in [each[0] for each in rows[:-1]]
            totals["ledger"] += amount if word == "Paid" and not is_carried else 0
            totals["service"] += answer[0] if is_first and type(answer) is tuple and answer[1] == "Paid" else 0
        for reference, code in found:
            if code == "duplicate_reference":
                listed = [amount for each, amount, *_ in rows if each == reference]
                found[reference, code] = (sum(listed) - min(listed), [len(listed)])
        states = self.roll(found, service)
        for reference in {each for each, code in found if code == "reversed"}:
            self.words[reference] = {row[2] for row in rows if row[0] == reference}
        self.rows = rows
        unknown = {row[0] for row in rows if service[row[0]] == DOWN}  # who was paid before a night without answer
        self.paid = self.paid & unknown | {
            row[0] for row in rows if type(service[row[0]]) is tuple and service[row[0]][1] == "Paid"
        }
        return sums, totals, states

    def findings(self, reference, amount, word, answer, times):
        if answer == DOWN:
            return []
        theirs, said = answer or (None, None)
        most = max(amount, theirs or 0)
        found = [("duplicate_reference", 0, times)] if times > 1 else []
        if answer is None:
            found.append(("missing_at_service", amount, amount))
        elif theirs != amount:
            found.append(("underpaid" if theirs < amount else "overpaid", abs(theirs - amount), (amount, theirs)))
        if answer is not None and said != word:
            if word == "Paid":
                code = "recorded_not_paid"
            elif said == "Paid":
                code = "paid_not_recorded" if word == "Pending" else "late_payment"
            else:
                code = "pending_on_one_side"
            found.append((code, most, (word, said)))
        was_reversed = self.known.get((reference, "reversed"), ("", 0))[0] == "open"
        is_followed = was_reversed and said == word and self.words[reference] != {word}
        if (reference in self.paid or was_reversed) and said != "Paid" and not is_followed:
            found.append(("reversed", most, said))
        return found

    def bucket(self, word, answer, findings):
        if answer == DOWN:
            return "unresolved"
        if findings:
            return "break"
        return "open" if word == "Pending" else "matched"

    def roll(self, found, service):
        """Return number and money of each step, and remember what is open."""
        before = {key: said for key, (state, said) in self.known.items() if state == "open"}
        gone = {key: said for key, said in before.items() if key not in found and service[key[0]] != DOWN}
        after = {key: said for key, said in {**before, **found}.items() if key not in gone}
        changed = {key: said for key, said in found.items() if before.get(key, said) != said}
        parts = {
            "opening": before,
            "new": {key: said for key, said in found.items() if key not in self.known},
            "reopened": {key: said for key, said in found.items() if self.known.get(key, ("open",))[0] != "open"},
            "resolved": gone,
            "changed": {key: (said[0] - before[key][0], said[1]) for key, said in changed.items()},
            "closing": after,
        }
        self.known |= {key: ("gone", said) for key, said in gone.items()}
        self.known |= {key: ("open", said) for key, said in after.items()}
        return {name: (len(part), sum(money for money, _ in part.values())) for name, part in parts.items()}

    def once(self):
        """Return the number of payments with something open, and the sum of the largest amount of each."""
        largest = Counter()
        open_ones = [(key[0], said[0]) for key, (state, said) in self.known.items() if state == "open"]
        for reference, money in open_ones:
            largest[reference] = max(largest[reference], money)
        return len(largest), sum(largest.values())


def world(random):
    """Yield the ledger and the service of each night; references come, go, repeat, change and fail."""
    service = {each: (random.randint(1, 9), random.choice(WORDS)) for each in REFERENCES}
    for _ in range(NIGHTS_PER_WORLD):
        for each in REFERENCES:
            if random.random() < 0.3:
                service[each] = random.choice([None, DOWN, (random.randint(1, 9), random.choice(WORDS))])
        ledger = []
        for each in random.choices(REFERENCES, k=random.randint(1, 7)):
            known = service[each] if type(service[each]) is tuple and random.random() < 0.6 else None
            ledger.append((each, *(known or (random.randint(1, 9), random.choice(WORDS)))))
        yield ledger, dict(service)


async def check(seed):
    """Compare a world of some nights with the oracle."""
    with tempfile.TemporaryDirectory() as folder:
        run, oracle, before = Nights(Path(folder)), Oracle(), None
        for number, (ledger, service) in enumerate(world(Random(seed))):
            which = seed, number, ledger, service
            entries = [Entry(line=line, reference=r, amount=a, status=w) for line, (r, a, w) in enumerate(ledger, 2)]
            done = await run(entries, {each: answer(each, said) for each, said in service.items()}, previous=before)
            sums, totals, parts = oracle.night(ledger, service)
            summary, found = done.summary, done.summary.open_findings
            assert {each.value: total.rows for each, total in summary.buckets.items() if total.rows} == sums, which
            paid_totals = {"ledger": summary.tie_out.ledger_paid_total, "service": summary.tie_out.service_paid_total}
            assert paid_totals == totals, which
            said = {name: (getattr(found, name).count, getattr(found, name).amount) for name in parts}
            assert said == parts, which
            count, money = ({name: each[place] for name, each in parts.items()} for place in (0, 1))
            closing = (each["opening"] + each["new"] + each["reopened"] - each["resolved"] for each in (count, money))
            assert (next(closing), next(closing) + money["changed"]) == (count["closing"], money["closing"]), which
            assert (found.payments.count, found.payments.amount) == oracle.once(), which
            steps = {each.step.value: each.rows for each in summary.tie_out.steps}
            assert steps["unresolved"] == sums["unresolved"], which
            if before is not None:
                with RunDiff(before.run, done.run) as diff:
                    compared = evolve(summary, open_findings=diff.open_findings)
                    assert Report(compared).movement == Report(summary).movement, which
                    assert diff.open_findings.payments == found.payments, which
                    assert diff.counts[BreakState.RESOLVED] == count["resolved"], which
                    assert diff.counts[BreakState.CHANGED] == count["changed"], which
                    for name in parts:
                        assert getattr(diff.open_findings, name) == getattr(found, name), which
            before = done


def answer(reference, said):
    if said is None:
        return errors.TransactionNotFoundError("no such transaction: not found")
    return errors.PermissionDeniedError("no") if said == DOWN else paid(reference, *said)


def test_at_stake_once():
    """Any finding of a reference is at stake once, with the largest amount of its rows, in every total."""
    for code in (code for code in Code if not code.is_soft):
        for amounts in ((7,), (7, 7), (5, 7, 3), (7, 2**70, 7)):
            entries = [Entry(line=line, reference="A", amount=9) for line in range(2, 2 + len(amounts))]
            found = [(Finding(code, "", at_stake=amount),) for amount in amounts]
            rows = [Row(entry=e, bucket=Bucket.BREAK, findings=f) for e, f in zip(entries, found, strict=True)]
            total, tally = FindingTotal(1, max(amounts)), Tally()
            for row in rows:
                tally.add(row)
            summed = tally.open_findings()
            assert {summed.new, summed.closing, summed.by_code[code], summed.payments} == {total}
            (known,) = breaks_of(rows, run="").values()
            assert known.at_stake == total.amount


async def test_one_payment_stands(tmp_path):
    """Of several payments of one invoice the smallest stands, in any order of the ledger; the others are at stake."""
    run = Nights(tmp_path)
    answers = {each: paid(each, amount, merchant_reff="INV") for each, amount in (("A", 70), ("B", 40), ("C", 40))}
    rows = [Entry(line=line, reference=each, amount=answers[each].amount) for line, each in enumerate("ABC", 2)]
    one = await run(rows, answers)
    other = await run(rows[::-1], answers, previous=one)
    for night in (one, other):
        stakes = {row.reference: row.findings[0].at_stake for row in night.rows}
        assert stakes == {"A": 70, "B": 0, "C": 40}
        assert night.summary.open_findings.by_code["paid_twice"] == FindingTotal(3, 110)


async def test_what_it_owes(tmp_path):
    """What a reference owes is followed from its own ledger after it left, with the line that it had there."""
    run, rows = Nights(tmp_path), [Entry(line=4, reference="C", amount=5)]
    before = await run(rows, {"C": paid("C", 4)})
    for _ in range(2):
        before = await run(
            [Entry(line=2, reference="B", amount=9)], {"C": paid("C", 4), "B": paid("B")}, previous=before
        )
    assert before.summary.open_findings.closing == FindingTotal(1, 1)
    assert before["C"].place == "line 4 of the ledger of night-1"


async def test_age_without_answer(tmp_path):
    """An old finding stays old in a run that ends before it is looked up: its age counts to the previous run."""
    run, rows = Nights(tmp_path), [Entry(line=2, reference="A", amount=9), Entry(line=3, reference="B", amount=9)]
    answers = {"A": paid("A", 5), "B": paid("B")}
    one = await run(rows, answers)
    two = await run(rows, answers, previous=one, clock=Clock(FIRST + timedelta(days=60)))
    ended = answers | {"B": errors.AuthenticationError("bad key")}
    three = await run(rows[::-1], ended, previous=two, clock=Clock(FIRST + timedelta(days=61)))
    assert [night.summary.open_findings.old for night in (two, three)] == [FindingTotal(1, 4)] * 2
    assert three.memory["A", "underpaid"]["age_days"] == 59


async def test_amounts_not_stated(tmp_path):
    """Rows without an amount count with that of the service, and an amount of any size is exact."""
    run, large = Nights(tmp_path), 10**30 + 1
    for amounts, service, at_stake in (
        ((ABSENT, ABSENT, ABSENT), 9, 18),
        ((ABSENT, 7), 9, 7),
        ((large, large, large), 9, 2 * large),
        ((-5, 3), 9, 5),
    ):
        rows = [Entry(line=line, reference="A", amount=amount) for line, amount in enumerate(amounts, 2)]
        done = await run(rows, {"A": paid("A", service)})
        assert done.summary.open_findings.by_code["duplicate_reference"] == FindingTotal(1, at_stake)


def test_does_not_tie():
    """No report is written where findings or money of the run before are missing."""
    for before in (FindingTotal(1, 0), FindingTotal(0, 5)):
        with pytest.raises(TieOutError, match="the roll-forward does not tie"):
            Tally(previous=PreviousRun(run="", folder="", last_observed_at=None, open_findings=before)).summary()


async def test_oracle():
    """States, sums and the roll-forward of some random nights are those of the oracle."""
    for seed in range(4):
        await check(seed)


@pytest.mark.slow
async def test_oracle_of_300_nights():
    """The same over 300 nights."""
    for seed in range(4, 4 + 300 // NIGHTS_PER_WORLD):
        await check(seed)

"""Nights of a shop against what was planted in them: each payment's fate is written down before the first night."""

from datetime import date, datetime, timedelta
from random import Random

import attrs
import pytest

from payclient import errors
from payclient.reconcile import Decision, Resolution, Rules, Verdict
from payclient.reconcile.ledger import Entry
from payclient.reconcile.nights import RowTotal, with_decisions
from payclient.reconcile.report import MANIFEST
from payclient.reconcile.rules import Meta
from payclient.reconcile.values import FindingTotal
from support.nights import FIRST, Nights, paid
from support.reports import rows_of, summary_of

NEVER = 99
SHORT, MONTH = (6, 40), (22, 300)
"""The number of nights, and of payments."""


@attrs.frozen(kw_only=True)
class Payment:
    """
    The fate of one payment, in numbers of nights.

    Its figures at a night follow from these alone, and not from those of the night before.
    """

    reference: str
    amount: int
    day: int  # of its creation
    enters: int = 1
    leaves: int = NEVER
    short_by: int = 0
    short: range = range(0)  # the service has less
    wrong_by: int = 0
    wrong: range = range(0)  # the ledger has more
    canceled: int = NEVER
    accepted: int = NEVER
    down: int = NEVER

    def is_listed(self, night):
        return self.enters <= night < self.leaves

    def ours(self, night):
        return self.amount + (self.wrong_by if night in self.wrong else 0)

    def theirs(self, night):
        return self.amount - (self.short_by if night in self.short else 0)

    def findings(self, night):
        """Return the amount at stake by code, of what nobody accepted; None where the service cannot be asked."""
        if night == self.down:
            return None
        found, night_of_ours = {}, min(night, self.leaves - 1)
        ours, theirs = self.ours(night_of_ours), self.theirs(night)
        if ours != theirs:
            found["underpaid"] = ours - theirs
        if night >= self.canceled:
            found |= dict.fromkeys(("recorded_not_paid", "reversed"), max(ours, theirs))
        return {} if night > self.accepted else found

    def is_followed(self, night):
        """Whether a run knows of it: the ledger lists it, or it left as a break that every night since had."""
        if self.is_listed(night):
            return True
        return self.leaves <= night and all(self.findings(each) for each in range(self.leaves - 1, night))

    def open(self, night):
        """Return the amount at stake by code of what is open after a night: what is not known stays."""
        if night < self.enters:
            return {}
        found = self.findings(night) if self.is_followed(night) else {}
        return self.open(night - 1) if found is None else found


def planted(seed, nights, count):
    """Return payments with one event each, and some without any."""
    random, end = Random(seed), nights + 1
    for number in range(count):
        day = random.randint(1, 9)
        start = random.randint(2, nights - 1)
        stop = random.randint(start + 1, end)
        few = random.randint(1, 500)
        event = random.choice(
            [
                {},
                {},
                {"enters": start},
                {"leaves": start},
                {"short_by": few, "short": range(start, stop)},
                {"short_by": few, "short": range(1, end), "accepted": start},
                {"short_by": few, "short": range(start - 1, end), "leaves": start},
                {"short_by": few, "short": range(start - 1, stop), "leaves": start},
                {"wrong_by": few, "wrong": range(1, start)},
                {"short_by": few, "short": range(1, end), "down": start},
                {"canceled": start},
                {"down": start},
            ]
        )
        yield Payment(reference=f"P{number:03}", amount=random.randint(1_000, 9_000), day=day, **event)


def total(amounts):
    amounts = list(amounts)
    return FindingTotal(len(amounts), sum(amounts))


def rows(payments, night):
    found = [each for each in payments if each.is_listed(night)]
    return RowTotal(len(found), sum(each.ours(night) for each in found))


@pytest.fixture
def run(tmp_path):
    """Run one night after the other."""
    return Nights(tmp_path)


@pytest.mark.parametrize(
    ("seed", "length"),
    [
        *((seed, SHORT) for seed in range(4)),
        *(pytest.param(seed, MONTH, marks=pytest.mark.slow) for seed in range(4, 7)),
    ],
)
async def test_nights(run, seed, length):
    """After each night, the folder says what was planted: states, ages, totals, completeness, payouts and rules."""
    nights, _ = length
    payments, before, decisions, rules = list(planted(seed, *length)), None, [], Rules()
    for night in range(1, nights + 1):
        entries = [
            Entry(line=line, reference=each.reference, amount=each.ours(night), status="Paid", created_at=created(each))
            for line, each in enumerate((each for each in payments if each.is_listed(night)), 2)
        ]
        if night == nights // 2:
            rules = attrs.evolve(rules, material_from=400, meta=Meta(changed_by="Bea"))
        answers = {each.reference: answer(each, night) for each in payments}
        done = await run(entries, answers, previous=before, rules=with_decisions(rules, decisions))
        check_findings(payments, night, done)
        if before is not None:
            check_ledger(payments, night, done.summary.since.ledger)
        check_result(payments, night, done.summary)
        check_questions(payments, night, done, before, has_changed=night == nights // 2, material=rules.material_from)
        decisions += decided([each for each in payments if each.accepted == night], done)
        before = done


def check_questions(payments, night, done, before, *, has_changed, material):
    """Compare what an auditor asks the folder: the rule that changed and by whom, what is material, and the chain."""
    summary = summary_of(done.run.folder)
    stakes = [max(found.values()) for each in payments if each.is_followed(night) and (found := each.findings(night))]
    assert summary["material"] == (0 if material is None else sum(each >= material for each in stakes))
    written = rows_of(done.run.folder)
    assert sum(row["is_material"] for row in written) == summary["material"]
    if before is not None:
        since = summary["since"]
        changes = [each for each in since["rule_changes"] if each["key"] == "material_from"]
        assert [(each["before"], each["now"]) for each in changes] == ([(None, 400)] if has_changed else [])
        assert since["changed_by"] == ("" if material is None else "Bea")
        assert since["manifest_sha256"] == summary_of(before.run.folder, MANIFEST)["sha256"]
        new = {row["reference"] for row in written if row["history"] and row["history"]["state"] == "new"}
        states = history(payments, night)[-1]
        assert new == {reference for (reference, _), state in states.items() if state == "new"}


def created(payment):
    return datetime.fromisoformat("2026-11-01") + timedelta(days=payment.day)


def answer(payment, night):
    if night == payment.down:
        return errors.PermissionDeniedError("no")
    status = "Canceled" if night >= payment.canceled else "Paid"
    return paid(payment.reference, payment.theirs(night), status=status)


def decided(payments, done):
    """Return what a person decides about the whole rows of some payments."""
    for each in payments:
        for finding in done[each.reference].findings:
            said = {"code": finding.code.value, "ledger": finding.ledger, "service": finding.service}
            who = {"owner": "Ana", "comment": "agreed", "by": "ana", "evidence": "", "run": done.run.note.run}
            yield Decision(
                reference=each.reference,
                resolution=Resolution.ACCEPTED,
                until=date(2027, 1, 1),
                at=FIRST,
                **said,
                **who,
            )


def history(payments, night):
    """Return what is open after the night before and after this one, the first night of each, and its state."""
    was, now, first, states = {}, {}, {}, {}
    for each in payments:
        for earlier in range(1, night + 1):
            found = {(each.reference, code): at_stake for code, at_stake in each.open(earlier).items()}
            first |= {key: first.get(key, earlier) for key in found}
            was |= found if earlier == night - 1 else {}
            now |= found if earlier == night else {}
        still = "not_known" if each.findings(night) is None else "still_open"
        states |= {key: "new" if first[key] == night else still for key in now if key[0] == each.reference}
    return was, now, first, states


def check_findings(payments, night, done):
    """Compare states, ages, the roll-forward and what is at stake."""
    was, now, ever, states = history(payments, night)
    states |= {key: "resolved" for key in was if key not in now}
    found = done.summary.open_findings
    assert (found.opening, found.closing) == (total(was.values()), total(now.values()))
    assert found.new == total(at_stake for key, at_stake in now.items() if ever[key] == night)
    assert found.resolved == total(at_stake for key, at_stake in was.items() if key not in now)
    assert (found.reopened, found.changed) == (FindingTotal(), FindingTotal())
    by_payment = {}
    for (reference, _), at_stake in now.items():
        by_payment[reference] = max(at_stake, by_payment.get(reference, 0))
    assert found.payments == total(by_payment.values())
    if night > 1:
        assert done.states == states
        for row in done.rows:
            for finding in row.findings:
                if finding.history is not None:
                    assert finding.history.age_days == night - ever[row.reference, finding.code.value]


def check_ledger(payments, night, change):
    """Compare *before + new - left = now*, and the rows that the ledger lost."""
    new = [each for each in payments if each.enters == night]
    left = [each for each in payments if each.leaves == night]
    stayed = [each for each in payments if each.is_listed(night) and each.is_listed(night - 1)]
    assert (change.before, change.now) == (rows(payments, night - 1), rows(payments, night))
    assert change.new == RowTotal(len(new), sum(each.ours(night) for each in new))
    assert change.left == RowTotal(len(left), sum(each.ours(night - 1) for each in left))
    assert change.changed == sum(each.ours(night) - each.ours(night - 1) for each in stayed)
    assert set(change.references) == {each.reference for each in lost(payments, night)}
    assert change.missing.rows == len(change.references)


def lost(payments, night):
    starts = min(each.day for each in payments if each.is_listed(night))
    return [each for each in payments if each.leaves == night and each.findings(night - 1) == {} and each.day >= starts]


def check_result(payments, night, summary):
    """Compare the buckets, the verdict and the exit status."""
    followed = [each.findings(night) for each in payments if each.is_followed(night)]
    breaks, unresolved = sum(map(bool, followed)), followed.count(None)
    counts = {bucket.value: each.rows for bucket, each in summary.buckets.items() if each.rows}
    matched = followed.count({})
    assert counts == {
        name: count for name, count in (("matched", matched), ("break", breaks), ("unresolved", unresolved)) if count
    }
    is_off = bool(breaks or (night > 1 and lost(payments, night)))
    verdict = Verdict.INCOMPLETE if unresolved else Verdict.BREAKS if is_off else Verdict.CLEAN
    assert (summary.verdict, summary.exit_status()) == (verdict, 1 if is_off else 75 if unresolved else 0)
    paid_now = [each for each in payments if each.is_followed(night) and night < each.canceled and night != each.down]
    assert summary.tie_out.service_paid_total == sum(each.theirs(night) for each in paid_now)
    assert summary.tie_out.ledger_paid_total == rows(payments, night).amount

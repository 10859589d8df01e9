"""The rows of the ledger from night to night: before + new - left = now, and those that it lost."""

import hashlib
from collections import Counter
from datetime import date, datetime, timedelta
from random import Random

import attrs

from payclient.reconcile import Accepted, Meta, Rules, Tolerance, Verdict
from payclient.reconcile._judgement.findings import FindingTotal
from payclient.reconcile._judgement.records import RowTotal
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry
from payclient.reconcile.report import Report
from payclient.reconcile.report.wording import origin_sentence, rules_sentences
from support.nights import paid
from support.reports import summary_of

DAY = datetime.fromisoformat("2026-11-20")
"""Of a ledger, whose times have no zone."""


def ledger_of(references, *, days=None):
    """Return a row of 9 for each reference, created on the day of this number; undated without one."""
    created = [ABSENT if days is None else DAY + timedelta(days=day) for day in days or references]
    return [
        Entry(line=line, reference=each, amount=9, created_at=at)
        for line, (each, at) in enumerate(zip(references, created, strict=True), 2)
    ]


ANSWERS = {each: paid(each) for each in "ABCDEFGH"}
HALF = (
    "Rows of the ledger: 8 before + 0 new - 5 left = 3; amounts in all states: 72 before + 0 new - 45 left = 27. "
    "5 rows that matched before, with 45, left the ledger, although it still covers their time (no row has its time of "
    "creation): 'D', 'E', 'F', 'G', 'H'. Export it again, or declare may_leave = true in the rules."
)


async def test_half_an_export(night):
    """Rows that matched and are gone are breaks, and named in a sentence, unless the rules say that they may go."""
    first = await night(ledger_of("ABCDEFGH"), ANSWERS)
    half = await night(ledger_of("ABC"), ANSWERS, previous=first)
    assert (half.summary.verdict, half.summary.exit_status(only_news=True)) == (Verdict.BREAKS, 1)
    assert half.summary.open_findings.new == FindingTotal(5, 45)
    assert HALF in Report(half.summary).completeness
    declared = await night(ledger_of("ABC"), ANSWERS, previous=first, rules=Rules(may_leave=True))
    assert (declared.summary.verdict, declared.summary.exit_status()) == (Verdict.CLEAN, 0)
    assert HALF.partition(" 5 rows")[0] in Report(declared.summary).completeness
    nothing = await night([], ANSWERS, previous=first)
    assert (nothing.summary.verdict, nothing.summary.exit_status()) == (Verdict.BREAKS, 1)


async def test_period(night):
    """What is older than the ledger may leave it; what is lost in its middle or at its end may not."""
    first = await night(ledger_of("ABCDEF", days=[1, 2, 3, 4, 5, 6]), ANSWERS)
    for kept, missing in (("DEF", ""), ("BDEF", "C"), ("ABC", "DEF"), ("CDEFG", "")):
        days = [1 + "ABCDEFG".index(each) for each in kept]
        done = await night(ledger_of(kept, days=days), ANSWERS, previous=first)
        assert "".join(done.summary.since.ledger.references) == missing
        assert done.summary.since.ledger.missing == RowTotal(len(missing), 9 * len(missing))
    same = await night(ledger_of("DA", days=[4, 4]), ANSWERS)  # what was created at the first time that is covered
    assert (await night(ledger_of("D", days=[4]), ANSWERS, previous=same)).summary.since.ledger.references == ("A",)


async def test_followed(night):
    """A break that leaves the ledger is carried over, and so is not missed; nor is one of two rows of a reference."""
    first = await night([*ledger_of("AAB"), Entry(line=9, reference="C", amount=5)], ANSWERS)
    second = await night(ledger_of("AB"), ANSWERS, previous=first)
    change = second.summary.since.ledger
    assert (change.left, change.missing, second.summary.since.carried_rows) == (RowTotal(2, 14), RowTotal(), 1)


async def test_oracle(night):
    """Of random ledgers with repeated, changed and unusable rows, all figures are those that counting gives."""
    random, before, rows = Random(7), None, Counter()
    for _ in range(6):
        kept = [each for each in "ABCDEFGH" for _ in range(random.choice([0, 1, 1, 1, 2]))]
        entries = [Entry(line=line, reference=each, amount=random.choice([9, 9, 7])) for line, each in enumerate(kept)]
        entries += [RejectedEntry(line=99, reason="bad", amount=4)] * random.randint(0, 2)
        now = Counter((each.reference, each.amount, number) for number, each in enumerate(entries))
        done = await night(entries, ANSWERS, previous=before)
        if before is not None:
            change, count = done.summary.since.ledger, lambda found: Counter(each for each, _, _ in found)
            new, left = count(now) - count(rows), count(rows) - count(now)
            assert (change.new.rows, change.left.rows) == (new.total(), left.total())
            for total, found in ((change.before, rows), (change.now, now)):
                assert total == RowTotal(len(found), sum(amount for _, amount, _ in found))
            money = change.before.amount + change.new.amount - change.left.amount + change.changed
            assert (change.before + change.new - change.left).rows == change.now.rows == done.summary.lines
            assert money == change.now.amount
        before, rows = done, now


async def test_chain(night, tmp_path):
    """A report names the checksums of the report that its opening balance came from."""
    await night(ledger_of("A"), ANSWERS, name="one")
    first = await night(ledger_of("A"), ANSWERS, name="two")
    await night(ledger_of("A"), ANSWERS, previous=first, name="three")
    manifest, since = summary_of(tmp_path / "two", "manifest.json"), summary_of(tmp_path / "three")["since"]
    rows = hashlib.sha256((tmp_path / "two" / "rows.jsonl").read_bytes()).hexdigest()
    assert (since["manifest_sha256"], since["rows_sha256"]) == (manifest["sha256"], rows)
    assert all(since[name] in origin_sentence(first.run.note) for name in ("manifest_sha256", "rows_sha256"))


async def test_changed_rules(night):
    """A change of rules shows the old value, the new value and who decided, except for what a person notes."""
    first = await night(ledger_of("A"), ANSWERS, rules=Rules(tolerances={"amount": Tolerance(below=500)}))
    rules = Rules(tolerances={"amount": Tolerance(below=1000)}, grace="2d", meta=Meta(changed_by="Ana"))
    since = (await night(ledger_of("A"), ANSWERS, previous=first, rules=rules)).summary.since
    assert since.changed_rules == ("grace", "tolerances")
    assert rules_sentences(since)[1] == (
        'grace was "0s", and is "2d" now; tolerances.amount.below was 500, and is 1000 now (by Ana).'
    )
    again = await night(ledger_of("A"), ANSWERS, previous=first, rules=attrs.evolve(rules, meta=Meta()))
    assert rules_sentences(again.summary.since)[1].endswith("(by whom is not in the rules: [meta] changed_by).")
    owned = Accepted(
        code="underpaid", reference="A", largest_difference=5, reason="agreed", owner="Ana", expires=date(2999, 12, 31)
    )
    before = Rules(tolerances={"amount": Tolerance(below=500)})
    taken = await night(ledger_of("A"), ANSWERS, previous=first, rules=attrs.evolve(before, accepted=[owned]))
    assert rules_sentences(taken.summary.since)[1] == (
        "accepted.underpaid of A was nothing, and is accepted by Ana until 2999-12-31 (agreed) now."
    )
    assert (rules_sentences(again.summary.since) == (), Rules(meta=Meta(changed_by="Ana")).fingerprint) == (
        False,
        Rules().fingerprint,
    )

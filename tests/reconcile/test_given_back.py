"""Money that a statement takes back: as much as was paid is agreement, and more is a loss, whatever the nights."""

import pytest

from payclient.reconcile import Kinds, Rules, StatementRules, Verdict
from payclient.reconcile.ledger import Entry
from support.misses import check_table
from support.nights import entry, paid

KINDS = Kinds(column="Type", charge=["payment"], refund=["refund", "chargeback"], fee=["fee"])
REPEATED = Rules(statement=StatementRules(kind=KINDS))
NEW_ONLY = Rules(statement=StatementRules(kind=KINDS, new_lines_only=True))


def lines_of(*stated):
    """Return the lines of a statement about A: kind, amount and the money paid out, the amount if not given."""
    cells = [(kind, amount, *(more or [amount])) for kind, amount, *more in stated]
    return [
        Entry(line=number, reference="A", kind=kind, amount=amount, amount_received=net)
        for number, (kind, amount, net) in enumerate(cells, 2)
    ]


CHARGE, REFUND, CHARGEBACK = ("payment", 20_000), ("refund", -20_000), ("chargeback", -20_000)
SOME, DISPUTED = ("refund", -5_000), ("chargeback", -20_000, -35_000)

FORMS = (
    # statements night by night, the service's word, what is lost and the bridge of the last night, without its zeros
    ([[CHARGE, REFUND]], "Refunded", 0, {}),
    ([[CHARGE, REFUND, CHARGEBACK]], "Refunded", 20_000, {"over_refunded": -20_000}),
    ([[CHARGE, REFUND, CHARGEBACK]], "Canceled", 20_000, {"over_refunded": -20_000}),
    ([[CHARGE, REFUND, CHARGEBACK]], "Chargeback", 20_000, {"over_refunded": -20_000}),
    ([[CHARGE, REFUND, REFUND]], "Refunded", 20_000, {"over_refunded": -20_000}),
    ([[CHARGE, SOME, REFUND]], "Refunded", 5_000, {"over_refunded": -5_000}),
    ([[CHARGE, ("refund", -20_001)]], "Refunded", 1, {"over_refunded": -1}),
    ([[("payment", 500), REFUND]], "Refunded", 19_500, {"over_refunded": -19_500}),
    ([[REFUND]], "Refunded", 0, {"refunded": -20_000}),
    *(([[REFUND]], never, 20_000, {"over_refunded": -20_000}) for never in ("Pending", "Expired", "Failed")),
    ([[CHARGE, REFUND]], "Expired", 0, {}),
    ([[CHARGEBACK]], "Canceled", 0, {"refunded": -20_000}),
    ([[REFUND, REFUND]], "Refunded", 20_000, {"refunded": -20_000, "over_refunded": -20_000}),
    ([[CHARGE, DISPUTED]], "Refunded", 0, {"refund_fees": -15_000}),
    ([[("payment", 20_000, 19_500), DISPUTED]], "Refunded", 0, {"fees": -500, "refund_fees": -15_000}),
    ([[CHARGE, DISPUTED, CHARGE]], "Paid", 0, {"refund_fees": -15_000}),
    ([[CHARGE], [REFUND]], "Refunded", 0, {"settled_before": -20_000}),
    ([[CHARGE], [REFUND], [CHARGEBACK]], "Refunded", 20_000, {"over_refunded": -20_000}),
    ([[CHARGE], [REFUND], []], "Refunded", 0, {}),
    ([[CHARGE], [SOME], [REFUND]], "Refunded", 5_000, {"settled_before": -15_000, "over_refunded": -5_000}),
    ([[CHARGE], [REFUND], [CHARGEBACK], []], "Refunded", 20_000, {"settled_before": 20_000, "over_refunded": -20_000}),
    ([[CHARGE], [], [REFUND], [DISPUTED]], "Refunded", 20_000, {"refund_fees": -15_000, "over_refunded": -20_000}),
)
ONLY_NEW = (
    ([[CHARGE], [REFUND], [REFUND]], "Refunded", 20_000, {"over_refunded": -20_000}),
    ([[CHARGE], *[[REFUND]] * 3], "Refunded", 40_000, {"settled_before": 20_000, "over_refunded": -40_000}),
    ([[CHARGE], [CHARGE, REFUND]], "Refunded", 20_000, {"settled_before": -20_000, "settled_not_paid": 20_000}),
)
ALL_AGAIN = (
    ([[CHARGE], [CHARGE, REFUND], [CHARGE, REFUND, CHARGEBACK]], "Refunded", 20_000, {"over_refunded": -20_000}),
    ([*[[CHARGE, REFUND, CHARGEBACK]] * 3], "Refunded", 20_000, {"over_refunded": -20_000}),
    ([[CHARGE, REFUND], [REFUND], [REFUND]], "Refunded", 0, {"settled_before": -20_000}),
    ([[CHARGE], [DISPUTED], [DISPUTED]], "Refunded", 0, {"settled_before": -20_000, "refund_fees": -15_000}),
    ([[CHARGE], [("fee", -900)], [("fee", -900)]], "Paid", 0, {"settled_before": -20_000, "fees": -900}),
    ([[REFUND], [REFUND]], "Refunded", 0, {"refunded": -20_000}),
)


@pytest.mark.parametrize(
    ("rules", "forms"), [(NEW_ONLY, FORMS + ONLY_NEW), (REPEATED, FORMS + ALL_AGAIN)], ids=["new lines", "all lines"]
)
async def test_forms(night, rules, forms):
    """More taken back than was paid is lost, in each form; the same lines in a later statement change nothing."""
    found = {}
    for place, (statements, word, _, _) in enumerate(forms):
        before = None
        for lines in statements:
            known, answer = entry("A", 20_000, word), paid("A", 20_000, word)
            before = await night([known], {"A": answer}, previous=before, rules=rules, statement=lines_of(*lines))
        findings = [each for each in before["A"].findings if each.code.is_of_statement]
        steps = {each.step.value: each.amount for each in before.summary.settlement.steps if each.amount}
        found[place] = sum(each.at_stake for each in findings), steps
    check_table([(place, (lost, steps)) for place, (*_, lost, steps) in enumerate(forms)], lambda place: found[place])


async def test_without_amounts(night):
    """If a statement has the money paid out alone, the fee that was held back from the charge is not lost again."""
    cases = ((-20_000, 0), (-20_001, 1), (-35_000, 15_000), (-19_500, 0))
    for taken, lost in cases:
        lines = [Entry(line=2, reference="A", amount_received=net) for net in (19_500, taken)]
        known, answer = entry("A", 20_000, "Refunded"), paid("A", 20_000, "Refunded")
        done = await night([known], {"A": answer}, statement=lines)
        assert sum(each.at_stake for each in done["A"].findings) == lost
        assert done.summary.settlement.statement.total == 19_500 + taken


async def test_sentence(night):
    """The finding says by how much more was taken back, and it is a break like any other."""
    known, answer = entry("A", 20_000, "Refunded"), paid("A", 20_000, "Refunded")
    first = await night([known], {"A": answer}, rules=NEW_ONLY, statement=lines_of(CHARGE, REFUND, CHARGEBACK))
    assert (first.summary.verdict, first.summary.exit_status()) == (Verdict.BREAKS, 1)
    assert first["A"].primary.sentence == (
        "'A' is 'Refunded' at the service, and 20,000 more was taken back than was paid: the sum is -20,000 on lines "
        "2, 3 and 4 of the statement"
    )
    second = await night([known], {"A": answer}, previous=first, rules=NEW_ONLY, statement=[])
    assert second.states == {("A", "settled_differently"): "still_open"}
    back = await night([known], {"A": answer}, previous=second, rules=NEW_ONLY, statement=lines_of(CHARGE))
    assert back.states == {("A", "settled_differently"): "resolved"}
    assert back.memory["A", "settled_differently"]["resolved_by"] == "statement"


async def test_left_the_ledger(night):
    """What was settled is remembered after its row is gone: by ledgers, by nights without a statement, by a refund."""
    monthly = Rules(statement=NEW_ONLY.statement, may_leave=True)
    others, known = [entry("B", 5)], {"B": paid("B", 5), "A": paid("A", 20_000)}
    first = await night([entry("A", 20_000), *others], known, rules=monthly, statement=lines_of(CHARGE))
    quiet = await night(others, known, previous=first, rules=monthly, statement=[])
    assert [row.reference for row in quiet.rows] == ["B"]
    blind = await night(others, known, previous=quiet, rules=monthly)
    known["A"] = paid("A", 20_000, "Canceled")
    back = await night(others, known, previous=blind, rules=monthly, statement=lines_of(CHARGEBACK))
    assert (back["A"].findings, back.summary.settlement.residual) == ((), 0)
    assert {each.step.value: each.amount for each in back.summary.settlement.steps if each.amount} == {
        "not_settled": -5,
        "settled_before": -20_000,
    }
    again = await night(others, known, previous=back, rules=monthly, statement=lines_of(CHARGEBACK))
    assert [(each.code.value, each.at_stake) for each in again["A"].findings] == [("settled_differently", 20_000)]


async def test_without_a_statement(night):
    """A night without a statement forgets nothing: the next one knows what was settled before."""
    first = await night([entry("A", 20_000)], {"A": paid("A", 20_000)}, rules=NEW_ONLY, statement=lines_of(CHARGE))
    blind = await night([entry("A", 20_000)], {"A": paid("A", 20_000)}, previous=first, rules=NEW_ONLY)
    last = await night([entry("A", 20_000)], {"A": paid("A", 20_000)}, previous=blind, rules=NEW_ONLY, statement=[])
    assert last["A"].findings == ()


async def test_bounded(night, monkeypatch):
    """What was settled for a reference without a row is kept for a number of runs, and then forgotten."""
    monkeypatch.setattr("payclient.reconcile._judgement.records.MAX_GONE_FOR", 2)
    monthly = Rules(statement=NEW_ONLY.statement, may_leave=True)
    done = await night([entry("A", 20_000)], {"A": paid("A", 20_000)}, rules=monthly, statement=lines_of(CHARGE))
    kept = []
    for _ in range(4):
        done = await night([], {}, previous=done, rules=monthly, statement=[])
        kept.append((done.run.folder / "history.jsonl").read_text().count('"settled":'))
    assert kept == [1, 1, 0, 0]

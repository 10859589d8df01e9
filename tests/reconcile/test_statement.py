"""What a statement lists for a reference, and what that means beside the service's answer."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from payclient import Transaction
from payclient.reconcile import FeeSchedule, Kinds, Rules, Settled, StatementRules, StatementSide, Tolerance
from payclient.reconcile._judgement.compare import StatementSum, settled_by, statement_findings, usable_line
from payclient.reconcile.ledger import Dialect, Entry, RejectedEntry
from support.misses import check_table
from support.reconciling import NOON

KINDS = Kinds(column="Type", charge=["charge"], refund=["refund"], fee=["fee"])
BY_KIND = Rules(statement=StatementRules(kind=KINDS))
PLAIN = Rules()


def line(number, **fields):
    return Entry(line=number, reference="T", **fields)


def settled(*lines, rules=PLAIN):
    found = settled_by([line(number, **fields) for number, fields in enumerate(lines, 2)], rules)
    return None if found is None else (found.amount, found.amount_received, found.money)


def test_settled_by():
    """The lines of a reference are summed by their kind; those that do not say paid settle nothing."""
    cases = (
        ([{"amount": 100}], PLAIN, (100, None, 100)),
        ([{"amount": 100, "amount_received": 97}], PLAIN, (100, 97, 97)),
        ([{"amount_received": 97}], PLAIN, (None, 97, 97)),
        ([{}], PLAIN, (None, None, 0)),
        ([{"amount": 100}, {"amount": -40}], PLAIN, (60, None, 60)),
        ([{"amount": 100, "kind": "charge"}, {"amount": 40, "kind": "refund"}], BY_KIND, (60, None, 60)),
        ([{"amount": 100, "kind": "charge"}, {"amount": -3, "kind": "fee"}], BY_KIND, (100, 97, 97)),
        ([{"amount": -3, "kind": "fee"}, {"amount_received": -2, "kind": "fee"}], BY_KIND, (0, -5, -5)),
        ([{"amount": 100, "status": "Paid"}, {"amount": 5, "status": "Expired"}], PLAIN, (100, None, 100)),
        ([{"amount": 100, "status": "Failed"}], PLAIN, None),
        ([{"amount": 100, "status": "Refunded"}], PLAIN, None),
        ([{"amount_received": 97, "status": "Refunded"}], PLAIN, None),
        ([{"amount": -100, "status": "Refunded"}], PLAIN, (-100, None, -100)),
        ([{"amount": 100, "status": "Paid"}, {"amount": -9, "status": "Refunded"}], PLAIN, (91, None, 91)),
        ([{"amount": 100, "status": "Refunded", "kind": "refund"}], BY_KIND, (-100, None, -100)),
        ([], PLAIN, None),
    )
    check_table(cases, lambda lines, rules: settled(*lines, rules=rules))


def test_earlier_alone():
    """What an earlier statement settled stays as it is, with no line, and with the same refund listed once more."""
    net = Settled(lines=(), amount_received=97, money=97, charged=97)
    back = settled_by([line(2, amount=-9)], PLAIN)
    for earlier, lines in ((net, []), (net, [line(2, amount=5, status="Failed")]), (back, [line(2, amount=-9)])):
        again = settled_by(lines, PLAIN, earlier)
        assert attrs.evolve(again, lines=earlier.lines, before=None) == earlier
        assert again.before == earlier.money - sum(each.amount for each in lines if each.amount < 0)


def totals(*lines, rules=BY_KIND):
    total = StatementSum(rules)
    for each in lines:
        total.add(each)
    return total.totals()


def test_total():
    """The total is the sum of all lines in any order, with what those state that cannot be used, by their kind."""
    lines = [line(2, amount=100, amount_received=97), line(3, amount=50), RejectedEntry(line=4, reason="x", amount=7)]
    for ordered in (lines, lines[::-1]):
        found = totals(*ordered, rules=PLAIN)
        assert (found.lines, found.total, found.rejected_lines, found.rejected_amount) == (3, 154, 1, 7)
        assert (found.is_net, found.problems) == (True, ("line 4: x",))
    found = totals(
        RejectedEntry(line=2, reason="x", reference="T", amount=100, amount_received=97, kind="charge"),
        RejectedEntry(line=3, reason="x", reference="T", amount=40, kind="refund"),
        usable_line(line(4, amount=9, amount_received=8, kind="Reserve"), BY_KIND),
        RejectedEntry(line=5, reason="x"),
    )
    assert (found.total, found.rejected_lines, found.rejected_amount, found.is_net) == (65, 4, 65, True)
    found = totals(*(RejectedEntry(line=number, reason="x") for number in range(9)))  # the first few are named
    assert (found.rejected_lines, len(found.problems)) == (9, 5)


def test_payouts():
    """Each payout is its payments, less refunds and fees, whatever the order of its lines; together they are all."""
    lines = [
        line(2, amount=100, amount_received=97, payout="P1", created_at=datetime(2026, 11, 2, tzinfo=UTC)),
        line(3, amount=50, amount_received=48, payout="P2", created_at=datetime(2026, 11, 3, 9, tzinfo=UTC)),
        line(
            4, amount=30, amount_received=30, kind="refund", payout="P1", created_at=datetime(2026, 11, 1, tzinfo=UTC)
        ),
        line(5, amount_received=-4, kind="fee", payout="P1"),
        RejectedEntry(line=6, reason="x", amount=-5, kind="fee", payout="P2"),
        RejectedEntry(line=7, reason="x", reference="T", amount=7, payout="P2"),
        line(8, amount=9, status="Failed"),
    ]
    for ordered in (lines, lines[::-1]):
        found = totals(*ordered)
        assert {each.name: attrs.astuple(each)[1:] for each in found.payouts} == {
            "P1": ("2026-11-02", 3, 100, -30, -7, 0, 0, 63),
            "P2": ("2026-11-03", 3, 50, 0, -7, 0, 7, 50),
            "": ("", 1, 0, 0, 0, 0, 0, 0),
        }
        assert {each.residual for each in found.payouts} == {0}
        assert sum(each.net for each in found.payouts) == found.total
    many = totals(*(line(number, amount=1, payout=f"P{number}") for number in range(1_005)), rules=PLAIN)
    assert (len(many.payouts), many.payouts[-1].name, many.payouts[-1].net) == (1_001, "(other)", 5)


def test_fee_alone():
    """A fee without a reference belongs to no payment; it is counted as a fee, and is no problem."""
    for fields, is_fee in (
        ({"amount_received": -5}, True),
        ({"amount": 5}, True),
        ({"amount": 5, "reference": "T"}, False),
        ({"amount": 5, "kind": "charge"}, False),
        ({}, False),
    ):
        found = totals(RejectedEntry(line=2, reason="reference: the cell is empty", **({"kind": "fee"} | fields)))
        assert (found.fee_lines, found.fee_amount) == ((1, -5) if is_fee else (0, 0)), fields
        assert (found.rejected_lines, len(found.problems)) == ((0, 0) if is_fee else (1, 1)), fields


def test_sign_of_fees():
    """A fee is taken off whatever its sign, unless columns for debit and credit give it one."""
    lines = [line(2, amount=100, kind="charge"), line(3, amount_received=-5, kind="fee")]
    lines += [line(4, amount_received=2, kind="fee")]
    signed = Dialect(debit_columns={"amount_received": "Debit"})
    for reading, money in ((Dialect(), 93), (signed, 97)):
        rules = Rules(statement=StatementRules(kind=KINDS, reading=reading))
        assert settled_by(lines, rules).money == money


def test_unusable():
    """A line whose kind or status is not known is rejected, with the rule that helps."""
    odd = usable_line(line(2, amount=5, kind="Reserve"), BY_KIND)
    assert odd.reason == "kind: 'Reserve' is not listed in the rules: add it under [statement.kind]"
    assert (odd.amount, odd.reference) == (5, "T")
    assert "give it a meaning under [statuses]" in usable_line(line(2, status="Lunas"), PLAIN).reason
    fine = line(2, amount=5, status="Paid")
    assert usable_line(fine, PLAIN) is fine


def codes(side, found, *, entry=None, rules=PLAIN):
    entry = entry or Entry(line=2, reference="T")
    return [
        (each.code.value, bool(each.waived)) for each in statement_findings(side, entry, found, at=NOON, rules=rules)
    ]


def paid(amount=100, **fields):
    return Transaction(**({"reference": "T", "amount": amount, "status": "Paid"} | fields))


HUNDRED = Settled(lines=(7,), amount=100, money=100)
BACK = Settled(lines=(7,), amount=-100, money=-100)
LISTED = Settled(lines=(7,))
NET = Settled(lines=(7,), amount_received=97, money=97)


FINDINGS = (
    (HUNDRED, True, paid(), []),
    (LISTED, True, paid(), []),
    (HUNDRED, False, paid(), ["not_in_ledger"]),
    (HUNDRED, False, paid(90), ["not_in_ledger", "settled_differently"]),
    (None, False, paid(), ["not_in_ledger"]),
    (None, True, paid(), ["not_settled"]),
    (None, True, paid(status="Expired"), []),
    (None, True, None, []),
    (HUNDRED, True, paid(90), ["settled_differently"]),
    (attrs.evolve(HUNDRED, amount_received=97), True, paid(amount_received=96), ["settled_differently"]),
    (attrs.evolve(HUNDRED, amount_received=97), True, paid(amount_received=None), []),
    (NET, True, paid(fee=3, amount_received=None), []),
    (NET, True, paid(fee=-3), []),
    (NET, True, paid(fee=2), ["settled_differently"]),
    (NET, True, paid(97, fee=3), []),
    (NET, True, paid(96), ["settled_differently"]),
    (NET, True, paid(status="Pending"), ["settled_not_paid"]),
    (Settled(lines=(7,), amount_received=-97, money=-97), True, paid(status="Refunded"), []),
    (HUNDRED, True, paid(status="Pending"), ["settled_not_paid"]),
    (HUNDRED, True, None, ["settled_not_paid"]),
    (LISTED, False, None, ["settled_not_paid"]),
    (BACK, True, paid(status="Refunded"), []),
    (Settled(lines=(7, 8), amount=0), True, paid(status="Canceled"), []),
    (BACK, True, paid(), ["settled_differently"]),
    (BACK, True, paid(99, status="Refunded"), ["settled_differently"]),
    (BACK, True, paid(status="Canceled"), []),
    (attrs.evolve(BACK, charged=100), True, paid(status="Canceled"), ["settled_differently"]),
    (attrs.evolve(BACK, charged=100), True, None, ["settled_not_paid"]),
    (BACK, False, None, ["settled_not_paid"]),
    (Settled(lines=(7,), amount_received=-97, money=-97), False, None, ["settled_not_paid"]),
    (Settled(lines=(7,), amount=0, amount_received=-3, money=-3), False, None, []),
)


def test_findings():
    """Each pair of a statement and an answer has its finding, and one that agrees has none."""

    def found_by(listed, in_ledger, found):
        side = StatementSide(settled=listed, is_in_ledger=in_ledger)
        assert not any(is_waived for _, is_waived in codes(side, found))
        return [code for code, _ in codes(side, found)]

    check_table(FINDINGS, found_by)


def test_fee_of_another():
    """A net amount is short of the fee that the ledger or the schedule has, if the service has none."""
    short = StatementSide(settled=Settled(lines=(7,), amount_received=90, money=90))
    ours, scheduled = Entry(line=2, reference="T", fee=3), Rules(fees={"va": FeeSchedule(flat=3)})
    for entry, rules in ((ours, PLAIN), (None, scheduled)):
        assert codes(short, paid(payment_method="VA"), entry=entry, rules=rules) == [("settled_differently", False)]
    assert codes(short, paid(), entry=attrs.evolve(ours, fee=10)) == []
    for above, is_waived in ((6, False), (7, True)):
        tolerant = Rules(tolerances={"fee": Tolerance(above=above)})
        assert codes(short, paid(), entry=ours, rules=tolerant) == [("settled_differently", is_waived)]


@pytest.mark.parametrize(("days", "is_waived"), [(2, True), (4, False), (-2, True), (-4, False)])
def test_in_time(days, is_waived):
    """A payment that is not settled yet is waived while its row is young, and a row without an age never is."""
    rules = Rules(statement=StatementRules(settles_within="3d"), time_zone="UTC")
    created = (NOON - timedelta(days=days)).replace(tzinfo=None)
    entry = Entry(line=2, reference="T", created_at=created)
    assert codes(StatementSide(settled=None), paid(), entry=entry, rules=rules) == [("not_settled", is_waived)]
    assert codes(StatementSide(settled=None), paid(), rules=rules) == [("not_settled", False)]
    odd = Entry(line=2, reference="T", created_at=datetime.max)  # noqa: DTZ901  a mistyped year
    assert codes(StatementSide(settled=None), paid(), entry=odd, rules=PLAIN) == [("not_settled", False)]


def test_sentences():
    """A finding names both sides, and the lines of the statement."""

    def said(side, found):
        entry = Entry(line=2, reference="T")
        return [each.sentence for each in statement_findings(side, entry, found, at=NOON, rules=PLAIN)]

    different = "amount is 90 at the service and 100 on line 7 of the statement"
    assert said(StatementSide(settled=HUNDRED), paid(90)) == [different]
    assert said(StatementSide(settled=HUNDRED), None) == [
        "'T' is on line 7 of the statement with 100, and the service knows no such transaction"
    ]
    assert said(StatementSide(settled=None, unusable_line=9), paid()) == [
        "'T' is paid at the service, 100, and the statement lists it only on line 9, which cannot be used"
    ]


def test_lines():
    """Lines are named as people write them, and of very many the first twenty."""
    assert Settled(lines=(2,)).where == "line 2 of the statement"
    assert Settled(lines=(2, 7)).where == "lines 2 and 7 of the statement"
    assert Settled(lines=tuple(range(2, 32))).where.endswith("20, 21 and 10 more of the statement")

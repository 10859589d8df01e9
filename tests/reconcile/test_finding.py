"""Facts about findings, each in one place."""

from datetime import date

from payclient.protocol import Transaction
from payclient.reconcile import (
    Accepted,
    Answer,
    Bucket,
    Case,
    Code,
    FeeSchedule,
    Observation,
    Rules,
    Settled,
    StatementSide,
    judge,
)
from payclient.reconcile.ledger import Entry
from support.reconciling import NOON

FEES = {"VA": FeeSchedule(flat=2000)}


def judged(ours, theirs, *, rules=None, settled=None):
    """Return the row of an entry and of a transaction that was seen twice; both are paid if nothing else is said."""
    entry = Entry(line=2, reference="A", **{"status": "Paid", **ours})
    found = (
        None if theirs is None else Transaction(**{"reference": "A", "status": "Paid", "merchant_reff": "", **theirs})
    )
    seen = Observation(answer=Answer.NOT_FOUND if found is None else Answer.FOUND, at=NOON, transaction=found)
    side = None if settled is None else StatementSide(settled=Settled(lines=(2,), amount=settled, money=settled))
    case = Case(entry=entry, first=seen, second=seen, other_found=1, other_side=side)
    return judge(case, rules=rules or Rules(fees=FEES))


AT_STAKE = [
    ({"amount": 90}, {"amount": 100}, {}, Code.OVERPAID, 10),
    ({"amount": 100}, {"amount": 90}, {}, Code.UNDERPAID, 10),
    ({"amount": 100}, None, {}, Code.MISSING_AT_SERVICE, 100),
    ({"amount": 100}, {"amount": 100, "status": "Pending"}, {}, Code.RECORDED_NOT_PAID, 100),
    ({"amount": 100, "merchant_reff": "M"}, {"amount": 100, "merchant_reff": "N"}, {}, Code.MERCHANT_REFF_DIFFERS, 100),
    ({"fee": 2000}, {"amount": 9, "fee": 2500}, {}, Code.FEE_DIFFERS, 500),
    ({}, {"amount": 10**6, "fee": 2500, "payment_method": "VA"}, {}, Code.FEE_OFF_SCHEDULE, 500),
    ({}, {"amount": 10**5, "fee": 0, "amount_received": 99_500}, {}, Code.SHORT_RECEIVED, 500),
    ({}, {"amount": 10**5}, {"settled": 99_500}, Code.SETTLED_DIFFERENTLY, 500),
    ({}, None, {"settled": 70}, Code.SETTLED_NOT_PAID, 70),
    ({"amount_received": 5}, {"amount": 9, "amount_received": 8}, {}, Code.NET_DIFFERS, 3),
    ({}, None, {}, Code.MISSING_AT_SERVICE, None),
]


def test_at_stake():
    """One amount at stake for each kind of finding, and an acceptance holds up to it, not below."""
    for ours, theirs, more, code, at_stake in AT_STAKE:
        row = judged(ours, theirs, **more)
        (found,) = (each for each in row.findings if each.code is code)
        assert (row.bucket, found.at_stake) == (Bucket.BREAK, at_stake), code
        for most in (at_stake, at_stake - 1) if at_stake else (10**9,):
            fields = {"reason": "agreed", "owner": "Ana", "expires": date(2030, 1, 1), "largest_difference": most}
            rules = Rules(fees=FEES, accepted=[Accepted(code=code, reference="A", **fields)])
            (found,) = (each for each in judged(ours, theirs, rules=rules, **more).findings if each.code is code)
            assert bool(found.waived) is (most == at_stake), (code, most)

"""
A month of a shop, and an oracle of its report that shares no code with the judgement.

The shop is a list of payments; each says what ledger, service and statement have of it on a night. The oracle reads
these facts alone, by the sentences of the documentation, and keeps what a controller would note from night to night.
"""

from collections import Counter
from random import Random

import attrs

NEVER = 99
DISPUTE_FEE = 15_000
MONTHLY_FEE = 700


@attrs.frozen(kw_only=True)
class Payment:
    """
    A payment of the shop; each attribute from *settled* on is a night, or NEVER.

    Attributes:
        short: The ledger expects this much more than was paid.
        settled: The statement lists it.
        refunded: Service and statement have it refunded.
        recorded: The ledger says so, too.
        charged_back: The statement takes it back, with a dispute fee; the service has it canceled, if not refunded.
        parts: Nights on which the statement takes a tenth back, although the service has it as paid.
        twice: The ledger lists it twice from then on, for three nights.
        lost: The ledger does not list it from then on.
        found: It does again.
    """

    reference: str
    amount: int
    fee: int
    created: int
    short: int = 0
    settled: int = NEVER
    refunded: int = NEVER
    recorded: int = NEVER
    charged_back: int = NEVER
    parts: tuple[int, ...] = ()
    twice: int = NEVER
    lost: int = NEVER
    found: int = NEVER

    def rows(self, night, start):
        """Return amount and status of its rows in a ledger that begins with the payments of a day."""
        if not start <= self.created <= night or self.lost <= night < self.found:
            return []
        word = "Paid"
        if self.recorded <= night:
            word = "Refunded" if self.refunded != NEVER else "Canceled"
        return [(self.amount + self.short, word)] * (2 if self.twice <= night < self.twice + 3 else 1)

    def status(self, night):
        """Return the service's word."""
        if self.refunded <= night:
            return "Refunded"
        return "Canceled" if self.charged_back <= night else "Paid"

    def lines(self, night):
        """Return kind, amount and money of its lines in the statement of a night."""
        found = [("sale", self.amount, self.amount - self.fee)] if night == self.settled else []
        found += [("refund", -self.amount, -self.amount)] if night == self.refunded else []
        found += [("refund", -self.amount // 10, -self.amount // 10)] if night in self.parts else []
        if night == self.charged_back:
            found.append(("chargeback", -self.amount, -self.amount - DISPUTE_FEE))
        return found


def shop(seed, nights, count):
    """Yield payments with all fates, most of them plain ones."""
    random = Random(seed)
    for number in range(count):
        created = random.randint(1, max(nights - 4, 2))
        later = random.randint(created + 1, nights)
        fates = (
            {"settled": later},
            {"settled": NEVER},
            {"refunded": later, "recorded": later},
            {"refunded": later, "recorded": later + random.randint(1, 3)},
            {"charged_back": later, "recorded": later},
            {"charged_back": later, "recorded": later + random.randint(1, 3)},
            {"refunded": later, "recorded": later, "charged_back": later + random.randint(1, 3)},
            {"parts": (later, later + 1)},
            {"short": random.choice([300, 400, 9_000])},
            {"twice": later},
            {"lost": later, "found": later + random.choice([1, 2, NEVER])},
            {"lost": later, "found": later + 2, "charged_back": later + 1, "recorded": later + 3},
            {"created": NEVER, "settled": created},
            {"created": later, "settled": created},
        )
        fate = {"created": created, "settled": created}
        fate |= random.choice(fates) if random.random() < 0.6 else {}
        amount, fee = random.randrange(20_000, 900_000, 10), random.randint(100, 900)
        yield Payment(reference=f"P{number:03}", amount=amount, fee=fee, **fate)


def total(lines, place=1):
    return sum(line[place] for line in lines)


@attrs.define
class Noted:
    """What the controller has noted of one reference."""

    row: tuple | None = None  # its last row in the ledger: amount and status
    count: int = 1  # of its rows in that ledger
    is_in_ledger: bool = False
    is_followed: bool = False  # it is looked up again when the ledger does not list it
    was_paid: bool = False
    was_listed: bool = False  # in a ledger
    has_left: bool = False
    matched: bool = False
    reversed_by: str = ""  # the ledger's word when it was no longer paid
    lines: list = attrs.field(factory=list)
    stake: dict = attrs.field(factory=dict)  # of each finding that is open
    value: dict = attrs.field(factory=dict)
    since: dict = attrs.field(factory=dict)  # the first night of each finding, also of one that is resolved


@attrs.define
class Controller:
    """
    The oracle: told the facts of each night, it says what the report must have.

    Attributes:
        tolerance: How much less the service may have.
        accepted: Reference and code of accepted findings, with the last night on which each holds.
    """

    payments: list
    tolerance: int = 0
    accepted: dict = attrs.field(factory=dict)
    noted: dict = attrs.field(init=False, factory=dict)

    def night(self, night, start, statement, *, is_down=False):
        """Return the expected report; *statement* has the lines by reference, *start* is the ledger's first day."""
        report = Expected()
        for each in self.payments:
            known = self.noted.setdefault(each.reference, Noted())
            self._one(report, each, known, night, start, statement.get(each.reference, []), is_down)
        report.tie_steps = {name: amount for name, amount in report.tie_steps.items() if amount}
        report.steps["fees"] -= MONTHLY_FEE
        report.steps = {name: amount for name, amount in report.steps.items() if amount}
        return report

    def _one(self, report, payment, known, night, start, lines, is_down):
        rows = payment.rows(night, start)
        has_left = not rows and (
            known.has_left or (known.matched and known.row is not None and payment.created >= start)
        )
        is_followed = not rows and (known.is_followed or has_left)
        before = known.lines
        known.lines = before + lines
        if not rows and not is_followed and not lines:
            known.row, known.matched, known.was_paid = None, False, False
            self._states(report, payment, known, {}, {}, night, is_known=False)
            return
        is_in_ledger = bool(rows) or (is_followed and known.is_in_ledger)
        known.has_left = has_left
        known.row = rows[0] if rows else known.row
        known.count = len(rows) or (known.count if is_followed else 1)
        known.is_in_ledger = is_in_ledger
        found, waived = {}, False
        if known.count > 1:  # until the ledger lists it once
            found["duplicate_reference"] = known.row[0], known.count
        if has_left:
            found["left_the_ledger"] = max(known.row[0], 0 if is_down else payment.amount), known.row[0]
        if not is_down:
            found |= self._findings(payment, known, night, is_in_ledger)
            waived = found.pop("tolerated", None) is not None
        for code in [*found]:
            if not is_down and self.accepted.get((payment.reference, code), 0) >= night:
                found.pop(code)
                waived = True
        bucket = "unresolved" if is_down else "break" if found else "matched"
        report.rows[payment.reference] = [(bucket, frozenset(found))] * known.count
        self._bridges(report, payment, known, rows, found, before, lines, is_down, is_in_ledger, waived, night)
        self._states(report, payment, known, found, rows, night, is_known=not is_down)
        known.is_followed = bucket != "matched"
        known.matched = bool(rows) and (not known.is_followed or (is_down and known.was_paid))
        known.was_listed = is_in_ledger or known.was_listed
        if not is_down:
            known.was_paid = payment.status(night) == "Paid"

    def _findings(self, payment, known, night, is_in_ledger):
        status, amount, found = payment.status(night), payment.amount, {}
        if is_in_ledger:
            ours, word = known.row
            most = max(ours, amount)
            if ours - amount > self.tolerance:
                found["underpaid"] = ours - amount, ours
            elif ours != amount:
                found["tolerated"] = True
            if word == "Paid" != status:
                code = "refund_not_recorded" if status == "Refunded" else "recorded_not_paid"
                found[code] = most, status
            was = known.reversed_by
            has_followed = was and word != was and word == status
            if (known.was_paid or was) and status == "Canceled" and not has_followed:
                found["reversed"] = most, status
        else:
            most = amount
            if status == "Paid" and not known.was_listed:
                found["not_in_ledger"] = amount, amount
        known.reversed_by = (known.reversed_by or known.row[1]) if "reversed" in found else ""
        return found | self._of_statement(known.lines, status, amount, payment.fee, most, is_in_ledger)

    def _of_statement(self, lines, status, amount, fee, most, is_in_ledger):
        stated, money = total(lines), total(lines, 2)
        if status == "Paid":
            if not lines:
                return {"not_settled": (most, amount)} if is_in_ledger else {}
            if stated != amount:
                return {"settled_differently": (abs(stated - amount), stated)}
            short = amount - fee - money
            return {"settled_differently": (abs(short), money)} if short else {}
        if stated > 0:
            return {"settled_not_paid": (max(most, stated), stated)}
        excess = lowest(lines, amount) - stated
        return {"settled_differently": (excess, stated)} if lines and excess > 0 else {}

    def _bridges(self, report, payment, known, rows, found, before, lines, is_down, is_in_ledger, waived, night):
        is_paid = not is_down and payment.status(night) == "Paid"
        ours = [amount if word == "Paid" else 0 for amount, word in rows] or [0]
        theirs = payment.amount if is_paid else 0
        report.ledger_paid += sum(ours)
        report.service_paid += theirs
        if is_down:
            step = "unresolved"
        elif not rows:
            step = "carried" if known.is_followed or known.has_left else "not_in_ledger"
        elif step := next((each for each in ("recorded_not_paid", "refund_not_recorded") if each in found), ""):
            pass
        elif theirs != ours[0]:
            step = "tolerated" if not found else "underpaid"
        else:
            step = "matched"
        report.tie_steps[step] += theirs - ours[0]
        report.tie_steps["unresolved" if is_down else "duplicates"] -= sum(ours[1:])
        report.statement += total(lines, 2)
        if known.lines or is_paid:
            report.steps.update(self._settlement(payment, known.lines, found, is_paid, is_down))
            report.steps["settled_before"] -= total(before, 2)

    def _settlement(self, payment, lines, found, is_paid, is_down):
        """Return the steps of the second bridge."""
        stated, money, amount = total(lines), total(lines, 2), payment.amount
        disputes = sum(net - gross for kind, gross, net in lines if kind != "sale")
        if is_down:
            return {"unresolved": money}
        if is_paid and not lines:
            return {"not_settled": -amount}
        if is_paid:
            rest = money - disputes - amount + payment.fee
            return {"fees": -payment.fee, "refund_fees": disputes, "settled_differently": rest}
        if stated > 0:
            return {"settled_not_paid": money}
        excess = min(stated - lowest(lines, amount), 0)
        fees = money - stated - disputes
        return {"fees": fees, "refund_fees": disputes, "over_refunded": excess, "refunded": stated - excess}

    def _states(self, report, payment, known, found, rows, night, *, is_known):
        """Compare with the findings that were open, and note the new ones."""
        for code in {*found, *known.stake}:
            key = payment.reference, code
            if not is_known and code in known.stake:
                report.states[key] = "not_known", known.stake[code], night - known.since[code]
                report.closing[code] += known.stake[code]
                report.opening[code] += known.stake[code]
            elif not is_known:
                continue
            elif code not in found:
                report.states[key] = "resolved", known.stake[code], night - known.since[code]
                report.opening[code] += known.stake.pop(code)
            else:
                stake, value = found[code]
                if code in known.stake:
                    is_same = (stake, value) == (known.stake[code], known.value[code])
                    state = "still_open" if is_same else "changed"
                    report.opening[code] += known.stake[code]
                else:
                    state = "reopened" if code in known.since else "new"
                known.since.setdefault(code, night)
                known.stake[code], known.value[code] = stake, value
                report.states[key] = state, stake, night - known.since[code]
                report.closing[code] += stake


def lowest(lines, amount):
    return 0 if any(kind == "sale" for kind, *_ in lines) else -amount


@attrs.define
class Expected:
    """What a report must have: rows by reference, the state of each finding with stake and age, and both bridges."""

    rows: dict = attrs.field(factory=dict)
    states: dict = attrs.field(factory=dict)
    opening: Counter = attrs.field(factory=Counter)
    closing: Counter = attrs.field(factory=Counter)
    tie_steps: Counter = attrs.field(factory=Counter)
    steps: Counter = attrs.field(factory=Counter)
    ledger_paid: int = 0
    service_paid: int = 0
    statement: int = -MONTHLY_FEE

    @property
    def counts(self):
        """The number of findings by state."""
        return Counter(state for state, *_ in self.states.values())

    def status(self, *, only_news=False):
        buckets = {bucket for rows in self.rows.values() for bucket, _ in rows}
        news = any(self.counts[state] for state in ("new", "changed", "reopened"))
        if news if only_news else "break" in buckets:
            return 1
        return 75 if "unresolved" in buckets else 0

"""What a controller may be told each night, by the sentences of the documentation. It shares no code with payclient."""

from collections import Counter
from datetime import timedelta

import attrs

from support.chain import LIMIT, MOVES

OF_STATUS = {
    ("Paid", "Pending"): "recorded_not_paid",
    ("Paid", "Canceled"): "recorded_not_paid",
    ("Paid", "Refunded"): "refund_not_recorded",
    ("Pending", "Paid"): "paid_not_recorded",
    ("Pending", "Canceled"): "pending_on_one_side",
    ("Pending", "Refunded"): "refund_not_recorded",
}
OF_STATEMENT = {"not_in_ledger", "settled_not_paid", "settled_differently", "not_settled"}


@attrs.define
class Noted:
    """
    What the controller has noted of one reference.

    Attributes:
        row: Amount and word of its last row, the amount None if it could not be read.
        count: The number of its rows.
        may_go_missing: The last ledger had it, and nothing was wrong with it.
        lines: What statements have of it.
        open: By code, sides and money of each finding that is open.
        gone: By code, the night on which the finding was gone.
    """

    row: tuple | None = None
    count: int = 1
    may_go_missing: bool = False
    has_left: bool = False
    was_unusable: bool = False
    is_followed: bool = False
    is_in_ledger: bool = False
    was_in_ledger: bool = False
    is_waiting: bool = False
    was_paid: bool = False
    reversed_from: str = ""
    lines: list = attrs.field(factory=list)
    open: dict = attrs.field(factory=dict)
    present: set = attrs.field(factory=set)
    unknown: set = attrs.field(factory=set)
    seen: set = attrs.field(factory=set)
    gone: dict = attrs.field(factory=dict)


@attrs.define
class Expected:
    """What the report must say."""

    found: set = attrs.field(factory=set)
    accepted: set = attrs.field(factory=set)
    unresolved: set = attrs.field(factory=set)
    rejected: set = attrs.field(factory=set)
    not_known: set = attrs.field(factory=set)
    newly_unknown: bool = False
    is_less: bool = False  # the night before had a statement, and this one has none
    counts: Counter = attrs.field(factory=Counter)
    money: Counter = attrs.field(factory=Counter)

    def items(self, *, is_first):
        """Return names and values, as `told_by` has them."""
        are_breaks = bool(self.found or self.rejected)
        verdicts = {
            "incomplete": self.unresolved,
            "breaks": are_breaks,
            "partial": self.not_known or self.is_less,
            "clean": True,
        }
        yield "verdict", next(name for name, holds in verdicts.items() if holds)
        yield "status", 1 if are_breaks or self.is_less else 75 if self.unresolved else int(self.newly_unknown)
        for name in ("found", "accepted", "unresolved", "rejected", "not_known"):
            yield name, getattr(self, name)
        for name in () if is_first else MOVES:
            yield name, (self.counts[name], self.money[name])


@attrs.define
class Auditor:
    """
    The oracle.

    Attributes:
        found: For each night, sides and money by code of what counted against each reference.
        decisions: By reference and code, the last one: night, resolution, sides and money at stake.
    """

    world: object
    noted: dict = attrs.field(factory=dict)
    found: list = attrs.field(factory=list)
    decisions: dict = attrs.field(factory=dict)
    had_statement: bool = False

    def night(self, facts):
        """Yield what the report of tonight must say of these facts."""
        for night, name, resolution in (*facts.decided, *facts.decided_meanwhile):
            for code, seen in self.found[night].get(name, {}).items():
                self.decisions[name, code] = night, resolution, *seen
        report = Expected(is_less=self.had_statement and facts.statement is None)
        self.had_statement = facts.statement is not None
        self.found.append({})
        usable = [facts.created[name] for name, (amount, *_) in facts.rows.items() if amount is not None]
        start = min([*usable, facts.today])
        for name in sorted({*facts.rows, *facts.service, *facts.stated, *self.noted}):
            known = self.noted.setdefault(name, Noted())
            is_covered = self.world.ledger != "day" and (
                not self.world.has_times or facts.created.get(name, facts.today) >= start
            )
            self._one(report, name, known, facts, is_covered)
        at_stake = [max(stake for _, stake in known.open.values()) for known in self.noted.values() if known.open]
        report.counts["payments"], report.money["payments"] = len(at_stake), sum(at_stake)
        return report.items(is_first=len(self.found) == 1)

    def _one(self, report, name, known, facts, is_covered):
        row, lines = facts.rows.get(name), (facts.statement or {}).get(name, [])
        known.lines += [line for line in lines if line not in known.lines]
        if is_unusable := row is not None and row[0] is None:
            report.rejected.add(name)
            row, known.row, known.count, known.was_unusable = None, row[:2], 1, True
        known.has_left = row is None and (known.has_left or (known.may_go_missing and is_covered))
        known.may_go_missing = False
        if row is not None:
            known.row, known.count, known.is_in_ledger = row[:2], row[2], True
            known.was_unusable = False
        elif not (known.has_left or known.is_followed or known.was_unusable):
            known.row, known.count, known.is_in_ledger = None, 1, False
        is_asked = row or known.has_left or known.is_followed or lines
        if is_unusable:
            known.is_followed = True
            self._count(report, name, known, {}, {*known.open})
        elif not is_asked:
            known.was_paid = False
            self._count(report, name, known, {}, set())
        elif name in facts.failing:
            report.unresolved.add(name)
            known.is_followed, known.may_go_missing = True, row is not None and known.was_paid
            self._count(report, name, known, {}, {*known.open})
        else:
            self._answered(report, name, known, facts, row is not None)

    def _answered(self, report, name, known, facts, is_listed):
        word = facts.service.get(name, ("", 0))[0]
        found = self._found(name, known, facts)
        accepted = {code for code, each in found.items() if self._is_accepted(name, code, known, facts, *each)}
        counting = {code: each for code, each in found.items() if code not in accepted}
        is_without = facts.statement is None and known.is_in_ledger
        hidden = OF_STATEMENT & known.present if is_without else set()
        unknown = hidden & {*known.open}
        unknown |= {"underpaid", "overpaid"} & {*known.open} if known.was_unusable else set()
        may_settle = word == "Paid" and known.is_in_ledger and not known.lines and self._may_settle(name, facts)
        known.is_waiting = may_settle or (known.is_waiting and is_without and word == "Paid")
        is_open = known.is_waiting or (known.row is not None and known.row[1] == word == "Pending") or hidden | unknown
        report.found |= {(name, code) for code in counting}
        report.accepted |= {(name, code) for code in accepted}
        self.found[-1][name] = counting
        known.gone |= dict.fromkeys(known.present - {*found} - hidden - unknown, len(self.found) - 1)
        known.present = {*found} | hidden | unknown
        known.seen |= accepted
        self._count(report, name, known, counting, unknown)
        known.may_go_missing = not counting and not is_open and is_listed
        known.is_followed = bool(found or is_open)
        known.was_paid = word == "Paid"
        known.was_in_ledger |= known.is_in_ledger and facts.statement is not None and bool(known.lines)

    def _is_accepted(self, name, code, known, facts, sides, stake):
        if (name, code) not in self.decisions:
            return stake <= LIMIT and facts.accepted.get((name, code), "") >= f"{facts.today:%Y-%m-%d}"
        night, resolution, then, most = self.decisions[name, code]
        until = resolution.removeprefix("accepted until ")
        is_in_force = until != resolution and until >= f"{facts.today:%Y-%m-%d}" and night >= known.gone.get(code, 0)
        return is_in_force and then == sides and stake <= most

    def _may_settle(self, name, facts):
        is_young = facts.today < facts.created.get(name, facts.today) + timedelta(days=3)
        return facts.statement is not None and self.world.may_settle and is_young

    def _found(self, name, known, facts):
        """Return sides and money at stake of each finding."""
        word, theirs = facts.service.get(name, (None, None))
        found, ours, said = {}, *(known.row if known.is_in_ledger or known.was_unusable else (None, None))
        most = max(ours or 0, theirs or 0)
        is_in_ledger = said is not None
        if is_in_ledger and word is None:
            found["missing_at_service"] = (ours,), most
        elif is_in_ledger:
            if ours not in (None, theirs):
                found["underpaid" if ours > theirs else "overpaid"] = (ours, theirs), abs(ours - theirs)
            if code := OF_STATUS.get((said, word)):
                found[code] = (said, word), most
        was, is_back = known.reversed_from, word in ("Paid", "Refunded")
        if is_in_ledger and not is_back and (known.was_paid or was) and not (was not in ("", said) and said == word):
            found["reversed"] = (word,), most
        known.reversed_from = said if "reversed" in found else ""
        if is_in_ledger and known.count > 1:
            found["duplicate_reference"] = (known.count,), ours * (known.count - 1)
        if known.has_left or known.was_unusable:
            found["left_the_ledger"] = (ours,), most
        if facts.statement is not None or not is_in_ledger:
            found |= self._of_statement(name, known, facts, word, theirs, ours)
        return found

    def _of_statement(self, name, known, facts, word, theirs, ours):
        stated, found = sum(amount for _, amount in known.lines), {}
        most = max(ours or 0, theirs or 0, stated)
        if word == "Paid":
            if not (known.is_in_ledger or known.was_in_ledger):
                found["not_in_ledger"] = (theirs,), most
            if known.lines and stated != theirs:
                found["settled_differently"] = (theirs, stated), abs(theirs - stated)
            if not known.lines and known.is_in_ledger and not self._may_settle(name, facts):
                found["not_settled"] = (theirs,), most
        elif stated > 0:
            found["settled_not_paid"] = (word, stated), most
        return found

    def _count(self, report, name, known, found, unknown):
        """Move the findings from open before to open now."""

        def add(what, stake):
            report.counts[what] += 1
            report.money[what] += stake

        for code in {*found, *known.open}:
            before, now = known.open.get(code), found.get(code)
            if before is not None:
                add("opening", before[1])
            if now is not None:
                known.open[code] = now
                if before is None:
                    add("reopened" if code in known.seen else "new", now[1])
                elif before != now:
                    add("changed", now[1] - before[1])
                known.seen.add(code)
                add("closing", now[1])
            elif code in unknown:
                report.not_known.add((name, code))
                report.newly_unknown |= code not in known.unknown
                add("closing", before[1])
            else:
                add("resolved", before[1])
                del known.open[code]
        known.unknown = {*unknown}

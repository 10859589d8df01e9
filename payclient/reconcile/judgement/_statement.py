"""Comparison of a statement with the service's answer, for one reference."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256

from attrs import define, field

from payclient._shared.escape import quote
from payclient.protocol import Transaction
from payclient.reconcile.judgement._compare import is_younger
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.rules import IgnoredLines, Kind, Rules, limit_text
from payclient.reconcile.values import (
    Code,
    Finding,
    Payout,
    Settled,
    StatementSide,
    StatementTotals,
    Status,
    stated_sum,
)

_MAX_PROBLEMS = 5
_MAX_PAYOUTS = 1_000


def usable_line(entry: Entry | RejectedEntry, rules: Rules) -> Entry | RejectedEntry:
    if isinstance(entry, RejectedEntry):
        return entry
    problem = ""
    if rules.statement.kind_of(entry.kind) is None:
        problem = f"kind: {quote(entry.kind)} is not listed in the rules; add it under [statement.kind]"
    elif isinstance(entry.status, str) and rules.read_status(entry.status) is None:
        problem = f"status: {quote(entry.status)} is not known; give it a meaning under [statuses]"
    if not problem:
        return entry
    amount, net = _stated(entry)
    return RejectedEntry(
        line=entry.line,
        reason=problem,
        reference=entry.reference,
        amount=amount,
        amount_received=net,
        kind=entry.kind,
        payout=entry.payout,
    )


@define
class StatementSum:
    _rules: Rules
    _payouts: dict[str, Payout] = field(init=False, factory=dict)
    _sums: Counter[str] = field(init=False, factory=Counter)
    _is_net: bool = field(init=False, default=False)
    _problems: list[str] = field(init=False, factory=list)

    def add(self, line: Entry | RejectedEntry) -> None:
        part, name = _part(line, self._rules), line.payout or ""
        name = name if name in self._payouts or len(self._payouts) < _MAX_PAYOUTS else "(other)"
        self._payouts[name] = self._payouts.get(name, Payout(name=name)) + part
        self._sums.update(lines=1, total=part.net)
        self._is_net = self._is_net or isinstance(line.amount_received, int)
        if isinstance(line, RejectedEntry) and _is_fee_alone(line, self._rules):
            self._sums.update(fee_lines=1, fee_amount=part.net)
        elif isinstance(line, RejectedEntry):
            self._sums.update(rejected_lines=1, rejected_amount=part.net)
            if len(self._problems) < _MAX_PROBLEMS:
                self._problems.append(f"line {line.line}: {line.reason}")

    def totals(self, ignored: Sequence[IgnoredLines] = ()) -> StatementTotals:
        return StatementTotals(
            **self._sums,
            ignored_lines=sum(each.lines for each in ignored),
            ignored_amount=sum(each.amount for each in ignored),
            is_net=self._is_net,
            problems=tuple(self._problems),
            payouts=tuple(self._payouts.values()),
        )


def _part(line: Entry | RejectedEntry, rules: Rules) -> Payout:
    """Return what one line adds to its payout."""
    gross, money = _gross(line, rules), _money(line, rules)[2]
    created = None if isinstance(line, RejectedEntry) else line.created_at
    date = f"{created:%Y-%m-%d}" if isinstance(created, datetime) else ""
    if isinstance(line, RejectedEntry) and not _is_fee_alone(line, rules):
        return Payout(lines=1, unusable=money, net=money)
    if rules.statement.kind_of(line.kind) is Kind.FEE:
        return Payout(lines=1, date=date, fees=money, net=money)
    if _is_charge(line, rules):
        return Payout(lines=1, date=date, gross=gross, fees=money - gross, net=money)
    return Payout(lines=1, date=date, refunds=gross, refund_fees=money - gross, net=money)


def settled_by(lines: Sequence[Entry], rules: Rules, earlier: Settled | None = None) -> Settled | None:
    """Return the sum of the *lines* of one reference, with the statements of *earlier* runs where it has no charge."""
    # A statement with the charge has all of the payment, unless each statement has only new lines.
    claims = [line for line in lines if _is_claim(line, rules)]
    found = _summed(claims, rules) if claims else None
    is_whole = found is not None and found.charged is not None and not rules.statement.new_lines_only
    if earlier is None or is_whole:
        return found
    listed = new = found or Settled(lines=())
    if not rules.statement.new_lines_only:
        known, unknown = list(earlier.others), list[Entry]()
        for line in claims:
            if (checksum := _checksum(line)) in known:
                known.remove(checksum)
            else:
                unknown.append(line)
        new = _summed(unknown, rules) if unknown else Settled(lines=())
    return new.with_earlier(earlier, listed)


def _summed(claims: Sequence[Entry], rules: Rules) -> Settled:
    amounts, nets, moneys = zip(*(_money(line, rules) for line in claims), strict=True)
    charges = [line for line in claims if _is_charge(line, rules)]
    others = [line for line in claims if not _is_charge(line, rules)]
    refunds = [line for line in others if rules.statement.kind_of(line.kind) is not Kind.FEE]
    return Settled(
        lines=tuple(line.line for line in claims),
        amount=stated_sum(amounts) if charges or refunds else 0,
        amount_received=None if stated_sum(nets) is None else sum(moneys),
        money=sum(moneys),
        charged=sum(_gross(line, rules) for line in charges) if charges else None,
        refund_fees=sum(_money(line, rules)[2] - _gross(line, rules) for line in refunds),
        others=tuple(_checksum(line) for line in others),
    )


def _gross(line: Entry | RejectedEntry, rules: Rules) -> int:
    amount, _, money = _money(line, rules)
    return money if amount is None else amount


def _is_charge(line: Entry | RejectedEntry, rules: Rules) -> bool:
    return rules.statement.kind_of(line.kind) not in (Kind.REFUND, Kind.FEE) and _gross(line, rules) >= 0


def _checksum(line: Entry) -> str:
    """Return a checksum of what stays the same when a later statement repeats the line."""
    return sha256(repr([line.kind, line.amount, line.amount_received, line.created_at]).encode()).hexdigest()[:12]


def _is_claim(line: Entry, rules: Rules) -> bool:
    status = rules.read_status(line.status) if isinstance(line.status, str) else Status.PAID
    is_back = (stated_money(line) or 0) < 0 or rules.statement.kind_of(line.kind) is Kind.REFUND
    return status is Status.PAID or (status is Status.REFUNDED and is_back)


def _is_fee_alone(line: RejectedEntry, rules: Rules) -> bool:
    """Return whether a line is a fee that belongs to no payment, such as a monthly one. Its money is known."""
    is_fee = rules.statement.kind_of(line.kind) is Kind.FEE
    return is_fee and line.reference is None and _stated(line) != (None, None)


def _stated(line: Entry | RejectedEntry) -> tuple[int | None, int | None]:
    amount = line.amount if isinstance(line.amount, int) else None
    return amount, line.amount_received if isinstance(line.amount_received, int) else None


def stated_money(line: Entry | RejectedEntry) -> int | None:
    """Return the amount received of a line or, without one, the amount."""
    amount, net = _stated(line)
    return amount if net is None else net


def _money(line: Entry | RejectedEntry, rules: Rules) -> tuple[int | None, int | None, int]:
    """Return the part of a line in the amount, in the amount received, and in the statement's total."""
    if isinstance(line, Entry) and not _is_claim(line, rules):
        return None, None, 0
    kind = rules.statement.kind_of(line.kind)
    amount, net = _stated(line)
    is_signed = kind is Kind.FEE and bool(rules.statement.reading.debit_columns)
    if kind in (Kind.REFUND, Kind.FEE) and not is_signed:
        amount, net = (None if number is None else -abs(number) for number in (amount, net))
    money = (amount if net is None else net) or 0
    if kind is Kind.FEE:  # a fee is not part of the payment, and all of it is taken off the payout
        return None, money, money
    return amount, net, money


def statement_findings(
    side: StatementSide, entry: Entry, found: Transaction | None, *, at: datetime, rules: Rules
) -> Iterator[Finding]:
    settled, name = side.settled, quote(entry.reference)
    is_paid = found is not None and rules.read_status(found.status) is Status.PAID
    said = "the service knows no such transaction" if found is None else f"it is {quote(found.status)} at the service"
    if found is not None and is_paid and not side.is_in_ledger:
        sentence = f"{name} is paid at the service, {found.amount:,}, and no usable row of the ledger has it"
        yield Finding(Code.NOT_IN_LEDGER, sentence, service=found.amount)
    if settled is None:
        if found is not None and is_paid and side.is_in_ledger:
            only = f"lists it only on line {side.unusable_line}, which cannot be used"
            listed = "does not list it as settled" if side.unusable_line is None else only
            sentence = f"{name} is paid at the service, {found.amount:,}, and the statement {listed}"
            yield Finding(Code.NOT_SETTLED, sentence, service=found.amount, waived=_is_young(entry, at, rules))
    elif found is not None and is_paid:
        yield from _differs(settled, found)
    elif found is not None and settled.stated is not None and settled.stated <= 0:
        yield from _over_refunded(settled, found, name)
    elif settled.stated != 0:
        money = "" if settled.stated is None else f" with {settled.stated:,}"
        sentence = f"{name} is on {settled.where}{money}, and {said}"
        yield Finding(
            Code.SETTLED_NOT_PAID, sentence, ledger=settled.stated, service=None if found is None else found.status
        )


def _is_young(entry: Entry, at: datetime, rules: Rules) -> str:
    within = rules.statement.settles_within
    return f"the row is younger than {limit_text(within)}" if is_younger(entry, at, within, rules) else ""


def _over_refunded(settled: Settled, found: Transaction, name: str) -> Iterator[Finding]:
    lowest, stated = settled.lowest(found.amount), settled.stated or 0
    if stated < lowest:
        paid = f"the service has, {found.amount:,}" if settled.charged is None else "was paid"
        sentence = (
            f"{name} is {quote(found.status)} at the service, and {lowest - stated:,} more was taken back than {paid}: "
            f"it comes to {stated:,} on {settled.where}"
        )
        yield Finding(Code.SETTLED_DIFFERENTLY, sentence, ledger=stated, service=lowest)


def _differs(settled: Settled, found: Transaction) -> Iterator[Finding]:
    for name, ours, theirs in (
        ("amount", settled.amount, found.amount),
        ("amount_received", settled.amount_received, found.amount_received),
    ):
        if ours is not None and theirs is not None and ours != theirs:
            sentence = f"{name} is {theirs:,} at the service and {ours:,} on {settled.where}"
            yield Finding(Code.SETTLED_DIFFERENTLY, sentence, ledger=ours, service=theirs)
            return
    least = None if found.fee is None else found.amount - abs(found.fee)
    net = None if found.amount_received is not None else settled.amount_received
    if net is not None and (net > found.amount or (least is not None and net < least)):
        less = "" if least is None else f" less a fee of {found.fee:,}"
        sentence = f"amount_received is {net:,} on {settled.where}, and the service has {found.amount:,}{less}"
        yield Finding(Code.SETTLED_DIFFERENTLY, sentence, ledger=net, service=found.amount if least is None else least)

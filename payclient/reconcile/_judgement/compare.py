"""Internal: one ledger entry, or the lines of a statement, compared with one transaction. Pure functions."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from hashlib import sha256
from operator import attrgetter
from typing import TypeAlias

from attrs import define, evolve, field

from payclient._shared.escape import escape_unprintable, quote
from payclient.protocol import Transaction, missing_amount, text_stated
from payclient.reconcile._fields import COMPARED_FIELDS, Field, Text
from payclient.reconcile._judgement.codes import CLOSED, OF_TEXTS, Assumed, Code, Severity, Status, folded, states_none
from payclient.reconcile._judgement.findings import Finding, Side, in_order
from payclient.reconcile._judgement.rules import (
    LAST_ON_EARTH,
    STRICT,
    FeeSchedule,
    IgnoredLines,
    Kind,
    Rules,
    limit_text,
)
from payclient.reconcile._judgement.sides import Payout, Settled, StatementSide, StatementTotals
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry


def excuse(entry: Entry, at: datetime, rules: Rules) -> str:
    """Return the reason why a row may still be missing, or pending on one side. Empty without one."""
    # A row without an age is not excused. One from the future is excused within the grace, because clocks
    # differ, and not beyond, because a mistyped year would hide it for good.
    is_young = rules.is_younger(entry, at, rules.grace)
    return f"the row is younger than the grace of {limit_text(rules.grace)}" if is_young else ""


def _status(entry: Entry, transaction: Transaction, at: datetime, rules: Rules) -> Iterator[Finding]:
    if entry.status is ABSENT and rules.assume_status is Assumed.NONE:
        return
    ours, theirs = rules.status_of(entry), rules.read_status(transaction.status)
    code, remark = _meaning(ours, theirs, entry.status, transaction.status)
    is_pending = code is Code.PENDING_ON_ONE_SIDE or (code is None and theirs is Status.PENDING)
    if is_pending and is_expired(entry, transaction, at, rules.time_zone):
        what = "although it" if code is None else f"{remark}, and it"
        code, remark = Code.STALE_PENDING, f"{what} expired at {transaction.expdate or entry.expdate}"
    if code is None:
        return
    said = quote(transaction.status or None)
    sides = (
        f"status is assumed to be paid, because the ledger lacks a status column, and is {said} at the service"
        if entry.status is ABSENT
        else f"status is {quote(entry.status)} in the ledger and {said} at the service"
    )
    is_lag = code is not Code.UNKNOWN_STATUS and (ours is Status.PENDING) is not (theirs is Status.PENDING)
    waived = excuse(entry, at, rules) if is_lag else ""
    word = Status.PAID if entry.status is ABSENT else entry.status
    yield Finding(code, f"{sides}: {remark}", ledger=word, service=transaction.status, waived=waived)


def _meaning(ours: Status | None, theirs: Status | None, our_word: Text, word: str) -> tuple[Code | None, str]:
    if theirs is None:
        what = "gives no status" if states_none(word) else "uses a word that is not known"
        return Code.UNKNOWN_STATUS, f"the service {what}, so the two are not compared"
    if ours is None and (our_word is ABSENT or not states_none(our_word)):
        return Code.UNKNOWN_STATUS, "the ledger uses a word that is not known, so the two are not compared"
    if ours is theirs:
        return None, ""
    return next((code, remark) for one, other, code, remark in _STATES if ours in one and theirs in other)


_ANY, _PAID, _BACK = (*Status, None), (Status.PAID,), (Status.REFUNDED,)
_GIVEN_UP = (Status.EXPIRED, Status.CANCELED)
_STATES: tuple[tuple[Collection[Status | None], Collection[Status | None], Code, str], ...] = (
    (_PAID, _BACK, Code.REFUND_NOT_RECORDED, "refunded at the service, and the ledger records no refund"),
    (
        _ANY,
        _BACK,
        Code.REFUND_NOT_RECORDED,
        "refunded at the service, and the ledger records neither payment nor refund",
    ),
    (_BACK, _PAID, Code.REFUND_NOT_MADE, "refunded in the ledger, and it is still paid at the service"),
    (_BACK, _ANY, Code.REFUND_NOT_MADE, "refunded in the ledger, and the service shows no refund"),
    (_PAID, _ANY, Code.RECORDED_NOT_PAID, "not paid at the service"),
    (_GIVEN_UP, _PAID, Code.LATE_PAYMENT, "paid at the service, although the ledger has closed it"),
    ((None,), _PAID, Code.PAID_NOT_RECORDED, "paid at the service, and the ledger records no status"),
    (_ANY, _PAID, Code.PAID_NOT_RECORDED, "paid at the service, and the ledger records no payment"),
    ((None,), _ANY, Code.UNKNOWN_STATUS, "the ledger records no status to compare"),
    (CLOSED, CLOSED, Code.CLOSED_DIFFERENTLY, "closed on both sides, for different reasons"),
    (CLOSED, _ANY, Code.PENDING_ON_ONE_SIDE, "closed in the ledger, and still pending at the service"),
    (_ANY, _ANY, Code.PENDING_ON_ONE_SIDE, "still pending in the ledger, and closed at the service"),
)
"""The findings about two states that differ, the ledger's and the service's. The first that applies counts."""


def is_expired(entry: Entry, transaction: Transaction, at: datetime, time_zone: tzinfo | None) -> bool:
    """Return whether the expiry has certainly passed: the service's, or else the ledger's."""
    expiry = transaction.expdate or entry.expdate
    return isinstance(expiry, datetime) and expiry.replace(tzinfo=time_zone or LAST_ON_EARTH) < at


def expiry_rule(time_zone: tzinfo | None) -> str:
    """Return the sentence of the report about the judgement of expiry."""
    if time_zone is None:
        return "no time zone was given: an expiry counts as passed only when it has passed everywhere (UTC-12)"
    return f"expiry times were read in the time zone {time_zone}"


_PLACEHOLDERS = frozenset({"0", "n/a", "na", "nil", "none", "null"})


def compare(entry: Entry, transaction: Transaction, *, at: datetime, rules: Rules = STRICT) -> tuple[Finding, ...]:
    """
    Return the differences between the two sides.

    Args:
        entry: The ledger row. Columns that the ledger lacks are not compared. Without a status column, the row
            counts as *paid* by default.
        transaction: The service's answer.
        at: Aware time of the answer. Decides whether an expiry has passed.
        rules: For the judgement of differences.

    Returns:
        The findings, the most severe first and waived ones last. Empty when everything compared agrees. `judge`
        applies the accepted differences.
    """
    schedule = rules.schedule(transaction.payment_method) if rules.fees else None
    findings = [
        *_identity(entry, transaction, rules),
        *_money(entry, transaction, rules, schedule),
        *_arithmetic(entry, transaction, rules, schedule),
        *_contract(entry, transaction, rules),
        *_status(entry, transaction, at, rules),
    ]
    return in_order(findings) if len(findings) > 1 else tuple(findings)


def _identity(entry: Entry, transaction: Transaction, rules: Rules) -> Iterator[Finding]:
    # Nearly all texts are the same on both sides as they are, and need no look at case or spacing.
    for compared, ours, theirs in zip(_TEXTS, _texts_of(entry), _texts_at_service(transaction), strict=True):
        if ours is not ABSENT and ours != theirs:
            yield from _text(compared, rules, ours, *(getattr(transaction, name) for name in compared.at_service))


_TEXTS = tuple(column for column in COMPARED_FIELDS if column.is_text and column.name != "status")
_texts_of = attrgetter(*(column.name for column in _TEXTS))
_texts_at_service = attrgetter(*(column.at_service[0] for column in _TEXTS))


def _text(field: Field, rules: Rules, cell: str | None, *said: str | None) -> Iterator[Finding]:
    ours, theirs = text_stated(cell), text_stated(said[0])
    if ours is None:
        if theirs is not None:
            yield _not_compared(field.name, theirs)
        return
    same = rules.fold(ours, field.name) in [folded(text_stated(word) or "", field.name) for word in said]
    if not same:
        yield _differs(OF_TEXTS[field.name], field.name, ours, theirs, rules)
    elif field.is_exact and ours != theirs:
        also = ": only letter case or spacing differs"
        yield evolve(_differs(OF_TEXTS[field.name], field.name, ours, theirs, rules, also), severity=Severity.MEDIUM)


def _not_compared(name: str, theirs: str | int) -> Finding:
    sentence = f"{name} is empty in the ledger and {_shown(theirs)} at the service: not compared"
    return Finding(Code.NOT_COMPARED, sentence, service=theirs)


def _money(entry: Entry, transaction: Transaction, rules: Rules, schedule: FeeSchedule | None) -> Iterator[Finding]:
    ours, theirs = entry.amount, transaction.amount
    if ours is not ABSENT and ours != theirs:
        code, word = (Code.UNDERPAID, "less") if theirs < ours else (Code.OVERPAID, "more")
        yield _differs(code, "amount", ours, theirs, rules, f", which is {abs(theirs - ours):,} {word}")
    is_left_to_schedule = entry.fee is None and schedule is not None
    fee, their_fee = 0 if entry.fee is None else entry.fee, transaction.fee or 0  # an empty fee is a fee of 0
    if fee is not ABSENT and not is_left_to_schedule and fee != their_fee:
        yield _differs(Code.FEE_DIFFERS, "fee", fee, their_fee, rules)
    elif schedule is not None:
        yield from _off_schedule(entry, transaction, rules, schedule)
    net, their_net = entry.amount_received, transaction.amount_received
    if net is None and their_net:
        yield _not_compared("amount_received", their_net)
    elif net is not ABSENT and (net or 0) != (their_net or 0):
        yield _differs(Code.NET_DIFFERS, "amount_received", net, their_net, rules)


def _off_schedule(entry: Entry, transaction: Transaction, rules: Rules, schedule: FeeSchedule) -> Iterator[Finding]:
    fee = transaction.fee or 0
    if not (fee or rules.read_status(transaction.status) is Status.PAID):
        return
    if fee != (expected := schedule.fee_of(transaction.amount)):
        side = "on both sides" if isinstance(entry.fee, int) else "at the service"
        wanted = f"{quote(transaction.payment_method)} expects {expected:,} on an amount of {transaction.amount:,}"
        sentence = f"fee is {fee:,} {side}; the schedule of {wanted}"
        ours, waived = None if entry.fee is ABSENT else entry.fee, rules.waiver("fee", expected, fee)
        yield Finding(Code.FEE_OFF_SCHEDULE, sentence, ledger=ours, service=fee, leakage=fee - expected, waived=waived)


def _known_fee(entry: Entry, transaction: Transaction, schedule: FeeSchedule | None) -> tuple[int | None, str]:
    """Return the fee of the service or, without one, of the ledger or the schedule, and in words whose it is."""
    if transaction.fee is not None:
        return transaction.fee, ""
    if isinstance(entry.fee, int):
        return entry.fee, " of the ledger"
    return (None, "") if schedule is None else (schedule.fee_of(transaction.amount), " of the schedule")


def _arithmetic(
    entry: Entry, transaction: Transaction, rules: Rules, schedule: FeeSchedule | None
) -> Iterator[Finding]:
    amount, received = transaction.amount, transaction.amount_received
    fee, whose = _known_fee(entry, transaction, schedule)
    due = amount - (fee or 0)
    if received is None or received == due:
        return
    is_paid = rules.read_status(transaction.status) is Status.PAID
    less = "" if fee is None else f" less fee {fee:,}{whose} is {due:,}"
    said = f"amount {amount:,}{less}, and amount_received is {received:,}"
    if is_paid and (missing := missing_amount(amount, fee, received)):
        sentence = f"paid at the service, {said}: {missing:,} did not arrive"
        yield Finding(Code.SHORT_RECEIVED, sentence, ledger=due, service=received, leakage=missing)
    elif fee is None and is_paid and received < due:
        sentence = f"paid at the service, {said}: no fee is known, so up to {due - received:,} may be lacking"
        yield Finding(Code.SERVICE_ARITHMETIC, sentence, service=received, leakage=due - received)
    elif transaction.fee is not None:
        yield Finding(Code.SERVICE_ARITHMETIC, f"the service's own numbers do not add up: {said}", service=received)


def _contract(entry: Entry, transaction: Transaction, rules: Rules) -> Iterator[Finding]:
    if entry.expdate is None and transaction.expdate is not None:
        yield _not_compared("expdate", transaction.expdate.isoformat(" "))
    elif entry.expdate is not ABSENT and entry.expdate != transaction.expdate:
        ours, theirs = (None if time is None else time.isoformat(" ") for time in (entry.expdate, transaction.expdate))
        yield _differs(Code.EXPIRY_DIFFERS, "expdate", ours, theirs, rules)
    if transaction.deviations:
        said = escape_unprintable("; ".join(transaction.deviations), max_length=400)
        yield Finding(Code.TOLERATED_DEVIATION, f"the answer was not quite as documented: {said}", service=said)


def _differs(code: Code, name: str, ours: Side, theirs: Side, rules: Rules, also: str = "") -> Finding:
    waived = rules.waiver(name, ours, theirs)
    sentence = f"{name} is {_shown(ours)} in the ledger and {_shown(theirs)} at the service{also}"
    return Finding(code, sentence, ledger=ours, service=theirs, waived=waived)


def _shown(value: Side) -> str:
    return f"{value:,}" if isinstance(value, int) else quote(value)


def reff_key(merchant_reff: str | None) -> str | None:
    """Return a `merchant_reff` normalised for case, width and spacing. None if it names no invoice."""
    text = text_stated(merchant_reff)
    key = None if text is None else folded(text, "merchant_reff")
    return None if key in _PLACEHOLDERS else key


_MAX_PROBLEMS = 5
_MAX_PAYOUTS = 1_000


def usable_line(entry: Entry | RejectedEntry, rules: Rules) -> Entry | RejectedEntry:
    if isinstance(entry, RejectedEntry):
        return entry
    problem = ""
    if rules.statement.kind_of(entry.kind) is None:
        problem = f"kind: {quote(entry.kind)} is not listed in the rules: add it under [statement.kind]"
    elif isinstance(entry.status, str) and rules.read_status(entry.status) is None:
        problem = f"status: {quote(entry.status)} is not known: give it a meaning under [statuses]"
    if not problem:
        return entry
    amount, net = _stated(entry)
    kept = {name: getattr(entry, name) for name in ("line", "reference", "kind", "payout")}
    return RejectedEntry(reason=problem, amount=amount, amount_received=net, **kept)


def _stated(line: Entry | RejectedEntry) -> list[int | None]:
    return [number if isinstance(number, int) else None for number in (line.amount, line.amount_received)]


def stated_money(line: Entry | RejectedEntry) -> int | None:
    """Return the amount received of a line or, without one, the amount."""
    amount, net = _stated(line)
    return amount if net is None else net


_Claim: TypeAlias = tuple[Settled, Mapping[str, int], bool]
"""What a line of a statement settles, its parts in a payout, and whether it is a fee."""


def _claim(line: Entry | RejectedEntry, rules: Rules) -> _Claim | None:
    """Return what *line* claims. None if it is not paid."""
    kind, (amount, net) = rules.statement.kind_of(line.kind), _stated(line)
    is_fee, is_refund = kind is Kind.FEE, kind is Kind.REFUND
    if isinstance(line, Entry) and isinstance(line.status, str):
        is_back = is_refund or (stated_money(line) or 0) < 0
        if rules.read_status(line.status) not in ((Status.PAID, Status.REFUNDED) if is_back else (Status.PAID,)):
            return None
    if is_refund or (is_fee and not rules.statement.reading.debit_columns):
        amount, net = (None if number is None else -abs(number) for number in (amount, net))
    money = (amount if net is None else net) or 0
    gross = 0 if is_fee else money if amount is None else amount
    is_charge, withheld = not is_refund and not is_fee and gross >= 0, money - gross
    settled = Settled(
        lines=(line.line,),
        amount=None if is_fee else amount,
        amount_received=money if is_fee else net,
        money=money,
        charged=gross if is_charge else None,
        refund_fees=0 if is_charge or is_fee else withheld,
        others=() if is_charge else (_checksum(line),),
    )
    parts = {"gross": gross, "fees": withheld} if is_charge or is_fee else {"refunds": gross, "refund_fees": withheld}
    return settled, parts, is_fee


def _checksum(line: Entry | RejectedEntry) -> str:
    """Return a checksum of what stays the same when a later statement repeats the line."""
    created = line.created_at if isinstance(line, Entry) else None
    return sha256(repr([line.kind, line.amount, line.amount_received, created]).encode()).hexdigest()[:12]


@define
class StatementSum:
    """The lines of a statement, summed by payout."""

    _rules: Rules
    _payouts: dict[str, Payout] = field(init=False, factory=dict)
    _sums: Counter[str] = field(init=False, factory=Counter)
    _is_net: bool = field(init=False, default=False)
    _problems: list[str] = field(init=False, factory=list)

    def add(self, line: Entry | RejectedEntry) -> None:
        settled, parts, is_fee = _claim(line, self._rules) or (Settled(lines=()), dict[str, int](), False)
        money, name = settled.money, line.payout or ""
        self._sums.update(lines=1, total=money)
        self._is_net = self._is_net or isinstance(line.amount_received, int)
        if isinstance(line, RejectedEntry):
            # A fee that belongs to no payment, such as a monthly one, has no reference.
            if is_fee and line.reference is None and _stated(line) != [None, None]:
                self._sums.update(fee_lines=1, fee_amount=money)
            else:
                parts = {"unusable": money}
                self._sums.update(rejected_lines=1, rejected_amount=money)
                self._problems += [f"line {line.line}: {line.reason}"][: _MAX_PROBLEMS - len(self._problems)]
        created = line.created_at if isinstance(line, Entry) else None
        date = f"{created:%Y-%m-%d}" if isinstance(created, datetime) else ""
        name = name if name in self._payouts or len(self._payouts) < _MAX_PAYOUTS else "(other)"
        payout = Payout(name=name, lines=1, date=date, net=money, **parts)
        self._payouts[name] = self._payouts[name] + payout if name in self._payouts else payout

    def totals(self, ignored: Sequence[IgnoredLines] = ()) -> StatementTotals:
        return StatementTotals(
            **self._sums,
            ignored_lines=sum(kind.lines for kind in ignored),
            ignored_amount=sum(kind.amount for kind in ignored),
            is_net=self._is_net,
            problems=tuple(self._problems),
            payouts=tuple(self._payouts.values()),
        )


def settled_by(lines: Sequence[Entry], rules: Rules, earlier: Settled | None = None) -> Settled | None:
    """Return the sum of the *lines* of one reference, with the statements of *earlier* runs if it lacks the charge."""
    # A statement with the charge has all of the payment, unless each statement has only new lines.
    claims = [claim for line in lines if (claim := _claim(line, rules)) is not None]
    settled = _summed(claims)
    if earlier is None or (settled.charged is not None and not rules.statement.new_lines_only):
        return settled if claims else None
    known, new = Counter[str]() if rules.statement.new_lines_only else Counter(earlier.others), list[_Claim]()
    for claim in claims:
        known.subtract(claim[0].others)
        if all(known[checksum] < 0 for checksum in claim[0].others):
            new.append(claim)
    total = earlier + _summed(new)
    return evolve(total, lines=settled.lines, before=total.money - settled.money)


def _summed(claims: Sequence[_Claim]) -> Settled:
    total = sum((settled for settled, _, _ in claims), Settled(lines=()))
    return evolve(total, amount=0) if claims and all(is_fee for _, _, is_fee in claims) else total


def statement_findings(
    side: StatementSide, entry: Entry, found: Transaction | None, *, at: datetime, rules: Rules
) -> Iterator[Finding]:
    settled, name = side.settled, quote(entry.reference)
    is_paid = found is not None and rules.read_status(found.status) is Status.PAID
    said = "the service knows no such transaction" if found is None else f"it is {quote(found.status)} at the service"
    if found is not None and is_paid and not (side.is_in_ledger or side.was_in_ledger):
        sentence = f"{name} is paid at the service, {found.amount:,}, and no usable row of the ledger has it"
        yield Finding(Code.NOT_IN_LEDGER, sentence, service=found.amount)
    if settled is None:
        if found is not None and is_paid and side.is_in_ledger:
            only = f"lists it only on line {side.unusable_line}, which cannot be used"
            listed = "does not list it as settled" if side.unusable_line is None else only
            sentence = f"{name} is paid at the service, {found.amount:,}, and the statement {listed}"
            within = rules.statement.settles_within
            is_young = rules.is_younger(entry, at, within)
            waived = f"the row is younger than {limit_text(within)}" if is_young else ""
            yield Finding(Code.NOT_SETTLED, sentence, service=found.amount, waived=waived)
    elif found is not None and is_paid:
        yield from _settled_otherwise(settled, entry, found, rules)
    elif found is not None and settled.stated is not None and settled.stated <= 0:
        is_unpaid = settled.charged is None and rules.read_status(found.status) in _NEVER_PAID
        yield from _over_refunded(settled, found, name, settled.lowest(0 if is_unpaid else found.amount))
    elif settled.stated != 0:
        money = "" if settled.stated is None else f" with {settled.stated:,}"
        sentence = f"{name} is on {settled.where}{money}, and {said}"
        yield Finding(
            Code.SETTLED_NOT_PAID, sentence, ledger=settled.stated, service=None if found is None else found.status
        )


_NEVER_PAID = (Status.PENDING, Status.EXPIRED, Status.FAILED)


def _over_refunded(settled: Settled, found: Transaction, name: str, lowest: int) -> Iterator[Finding]:
    stated = settled.stated or 0
    if stated < lowest:
        paid = f"the service has, {found.amount:,}" if settled.charged is None and lowest else "was paid"
        sentence = (
            f"{name} is {quote(found.status)} at the service, and {lowest - stated:,} more was taken back than {paid}: "
            f"the sum is {stated:,} on {settled.where}"
        )
        yield Finding(Code.SETTLED_DIFFERENTLY, sentence, ledger=stated, service=lowest)


def _settled_otherwise(settled: Settled, entry: Entry, found: Transaction, rules: Rules) -> Iterator[Finding]:
    for name, ours, theirs in (
        ("amount", settled.amount, found.amount),
        ("amount_received", settled.amount_received, found.amount_received),
    ):
        if ours is not None and theirs is not None and ours != theirs:
            sentence = f"{name} is {theirs:,} at the service and {ours:,} on {settled.where}"
            yield Finding(Code.SETTLED_DIFFERENTLY, sentence, ledger=ours, service=theirs)
            return
    net = settled.amount_received
    if net is None or found.amount_received is not None:
        return
    fee, whose = _known_fee(entry, found, rules.schedule(found.payment_method))
    least = found.amount if fee is None else found.amount - abs(fee)
    if net > found.amount or (fee is not None and net < least):
        less = "" if fee is None else f" less a fee of {fee:,}{whose}"
        sentence = f"amount_received is {net:,} on {settled.where}, and the service has {found.amount:,}{less}"
        waived = rules.waiver("fee", found.amount - least, found.amount - net) if whose else ""
        yield Finding(Code.SETTLED_DIFFERENTLY, sentence, ledger=net, service=least, waived=waived)

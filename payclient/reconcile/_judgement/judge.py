"""
Internal: decide the bucket of a row, from the ledger entry and the answers of the service.

Design rules:

- A pure function of values that a journal stores, so a report can be written again at any time.
- A difference counts when it was seen twice. Seen once, it is unresolved.
- "Not found", and an answer that cannot be used, count when another reference was found: a wrong key finds none.
- A difference that a tolerance or the grace waives needs no second lookup. An accepted one does, because only a
  confirmed difference can be accepted.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import evolve, frozen

from payclient._shared.escape import escape_unprintable, quote
from payclient.protocol import Transaction
from payclient.reconcile._fields import COMPARED_FIELDS, Cell
from payclient.reconcile._judgement.codes import OF_TEXTS, Code, Status, folded, normalise
from payclient.reconcile._judgement.compare import compare, excuse, reff_key, statement_findings
from payclient.reconcile._judgement.findings import Bucket, Finding, Row, as_list, in_order
from payclient.reconcile._judgement.records import ReferenceRecord, reversal
from payclient.reconcile._judgement.rules import STRICT, Kind, Rules, in_zone
from payclient.reconcile._judgement.sides import Answer, Observation, StatementSide, named_lines
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry


def judged_entries(entries: Sequence[Entry], transaction: Transaction | None, rules: Rules) -> Sequence[Entry]:
    if not are_parts(entries, rules) or why_not_summed(entries, rules):
        return entries
    return [payment_of(entries, rules, transaction)]


def are_parts(entries: Sequence[Entry], rules: Rules) -> bool:
    """Return whether the rows of one reference are summed. A single charge is the payment already."""
    return rules.lines.are_summed and (len(entries) > 1 or rules.lines.kind is not None)


def why_not_summed(lines: Iterable[Entry], rules: Rules) -> str:
    """Return the reason why *lines* of one reference are not one payment. Empty if they are. Read lazily."""
    # Only the status must be the same, on all charges or, without a charge, on all lines: money that is paid and money
    # that is not cannot be summed.
    firsts: dict[bool, Entry] = {}
    problems: dict[bool, str] = {}
    for line in lines:
        is_charge = rules.lines.kind_of(line.kind) in (Kind.CHARGE, None)
        first = firsts.setdefault(is_charge, line)
        if is_charge not in problems and _state(line, rules) != _state(first, rules):
            problems[is_charge] = f"status is {_said(first)} on line {first.line} and {_said(line)} on line {line.line}"
    return problems.get(True in firsts, "")


def _state(line: Entry, rules: Rules) -> object:
    if not isinstance(line.status, str):
        return line.status
    return rules.read_status(line.status) or normalise(line.status)


def _said(line: Entry) -> str:
    return "not given" if line.status is ABSENT else quote(line.status)


def unknown_kind(lines: Iterable[Entry], rules: Rules) -> str:
    problems = {
        Kind.IGNORE: "left out by rules that changed after the ledger was read",
        None: "not listed in the rules: add it to charge, refund, fee or ignore under [lines.kind]",
    }
    for line in lines:
        if problem := problems.get(rules.lines.kind_of(line.kind)):
            word = quote(line.kind) if isinstance(line.kind, str) else "an empty cell"
            return f"kind: {word} on line {line.line} is {problem}"
    return ""


def payment_of(lines: Sequence[Entry], rules: Rules, transaction: Transaction | None = None) -> Entry:
    # The result does not depend on the order of the lines, but for its line and for texts that differ: of these, a row
    # that agrees with the service counts, else the first. A payment whose refunds add up to its charges is refunded,
    # with the numbers of these.
    by_kind: dict[Kind, list[Entry]] = {kind: [] for kind in Kind}
    for line in lines:
        by_kind[rules.lines.kind_of(line.kind) or Kind.CHARGE].append(line)
    charges, refunds, fees = by_kind[Kind.CHARGE], by_kind[Kind.REFUND], by_kind[Kind.FEE]
    charged, stated = _sum(charges, "amount"), charges or lines
    is_refunded = isinstance(charged, int) and charged > 0 and charged == _sum(refunds, "amount", abs)
    if is_refunded:
        refunds = []
    nets = ("amount" if fee.amount_received is None else "amount_received" for fee in fees)
    taken_off = (_sum([fee], name, _taken) for fee, name in zip(fees, nets, strict=True))
    received = [_sum(charges, "amount_received"), _sum(refunds, "amount_received", _taken), *taken_off]
    amount = _of_stated([charged, _sum(refunds, "amount", _taken)])
    return evolve(
        lines[0],
        kind=ABSENT,
        status=Status.REFUNDED.value if is_refunded else stated[0].status,
        amount=ABSENT if amount is None else amount,
        fee=_of_stated([_sum([*charges, *fees, *refunds], "fee"), _sum(fees, "amount", abs)]),
        amount_received=_of_stated(received),
        created_at=_of_stated(  # a payment is as old as its first line
            [line.created_at for line in stated], lambda times: min(times, key=lambda at: in_zone(at, rules.time_zone))
        ),
        **{name: _agreeing(stated, name, transaction, rules) for name in _MAY_DIFFER},
    )


_MAY_DIFFER = {column.name: column.at_service for column in COMPARED_FIELDS if column.may_differ}


def _taken(number: int) -> int:
    return -abs(number)


def _sum(lines: Iterable[Entry], name: str, sign: Callable[[int], int] = int) -> Any:
    values = [getattr(line, name) for line in lines]
    return _of_stated([sign(value) if isinstance(value, int) else value for value in values])


def _of_stated(values: Sequence[Any], choose: Callable[[list[Any]], Any] = sum) -> Any:
    """Return what *choose* makes of the *values* that are stated. Without any, None for empty cells, else ABSENT."""
    stated = [value for value in values if value is not None and value is not ABSENT]
    return choose(stated) if stated else None if None in values else ABSENT


def _agreeing(lines: Sequence[Entry], name: str, transaction: Transaction | None, rules: Rules) -> Any:
    theirs = [] if transaction is None else [getattr(transaction, attribute) for attribute in _MAY_DIFFER[name]]
    keys = [folded(word, name) for word in theirs if isinstance(word, str)]

    def agreeing(stated: list[Any]) -> Any:
        same = [value for value in stated if value in theirs]
        same = same or [value for value in stated if isinstance(value, str) and rules.fold(value, name) in keys]
        return (same or stated)[0]

    return _of_stated([getattr(line, name) for line in lines], agreeing)


@frozen
class PendingLookup:
    """A reference to look up, once for all ledger rows that have it. Its position is the first row's, from 1."""

    reference: str
    position: int
    entries: tuple[Entry, ...]
    earlier: ReferenceRecord | None = None  # the record of the previous run about it


@frozen(kw_only=True)
class Case:
    """
    Everything known about one row.

    Attributes:
        entry: The ledger's side.
        first: The answer to the first lookup. None without one.
        second: The answer to the second lookup.
        rows: The number of ledger rows with this reference.
        duplicated: The sum of their amounts without the smallest. None if the ledger lacks amounts.
        is_repeat: A row before this one has the same reference.
        paid_with: Other references paid under the same merchant_reff. The first few.
        stands: It is the smallest of the payments under this merchant_reff, so the others are at stake.
        other_found: The number of other references found in the same run.
        ended_by: The failure that ended the run early. None when it did not.
        parts: The lines of one payment, to be summed. Empty if each row is for itself. The entry is the first.
        apart: Reason for not summing the rows with this reference. Empty if they are summed, or never are.
        earlier: The record of the previous run about the reference. None without a previous run.
        carried_from: The run that listed it last, for a row that the ledger does not list any more. Empty otherwise.
        other_side: The statement's lines for the reference. None without a statement.
        unusable_line: A line of the same payment that cannot be used, so that the sum is not known.
    """

    entry: Entry | RejectedEntry
    first: Observation | None = None
    second: Observation | None = None
    rows: int = 1
    duplicated: int | None = None
    is_repeat: bool = False
    paid_with: tuple[str, ...] = ()
    stands: bool = False
    other_found: int = 0
    ended_by: Observation | None = None
    parts: tuple[Entry, ...] = ()
    apart: str = ""
    unusable_line: int | None = None
    other_side: StatementSide | None = None
    earlier: ReferenceRecord | None = None
    carried_from: str = ""


_CODES = tuple(column for column in COMPARED_FIELDS if column.cell is Cell.CODE)
_MAX_REASON = 400
NO_PROBE = (
    "no other reference was found in this run, so the key or environment may be wrong: "
    "name an existing reference with --canary"
)


def judge(case: Case, *, rules: Rules = STRICT) -> Row:
    """Return the row that *case* makes."""
    if case.first and case.second and case.first.answer is Answer.UNUSABLE and case.second.is_usable:
        case = evolve(case, first=case.second, second=None)
    entry, last = case.entry, case.second or case.first
    if case.parts:
        entry = payment_of(case.parts, rules, last.transaction if last else None)
    if isinstance(entry, RejectedEntry):
        row = Row(entry=entry, bucket=Bucket.REJECTED, reason=entry.reason, ledger_status=rules.status_of(entry))
    else:
        row = _Judgement(case, entry, last, rules).row()
    if case.earlier is None:
        return row
    is_unknown, before = row.bucket in (Bucket.UNRESOLVED, Bucket.REJECTED), case.earlier.state
    more: dict[str, Any] = {
        "carried_from": case.carried_from,
        "was_paid": is_unknown and case.earlier.is_paid,
        "was_rejected": case.earlier.was_rejected,
        "state_before": "" if row.state in ("", before) else before,
    }
    return evolve(row, **more) if any(more.values()) else row


def needs_confirmation(entry: Entry, first: Observation, *, rules: Rules = STRICT, **sides: Any) -> bool:
    """Return whether *first* differs from the ledger by more than is waived, so a second lookup must confirm it."""
    # *known* is more of what `_differences` compares with.
    if first.answer not in (Answer.FOUND, Answer.NOT_FOUND):
        return first.answer is Answer.UNUSABLE
    findings = _differences(entry, first, rules, **sides)
    return bool(findings) and any(finding.is_decisive for finding in findings)


def _differences(
    entry: Entry,
    answer: Observation,
    rules: Rules,
    earlier: ReferenceRecord | None = None,
    side: StatementSide | None = None,
) -> list[Finding]:
    """Return the findings about a usable *answer*, before anything is accepted."""
    findings, transaction = list[Finding](), answer.transaction
    if side is None or side.is_in_ledger:
        if transaction is not None:
            findings += compare(entry, transaction, at=answer.at, rules=rules)
        else:
            amount = entry.amount if isinstance(entry.amount, int) else None
            expected = "" if amount is None else f", but the ledger has an amount of {amount:,}"
            sentence = f"the service knows no transaction {quote(entry.reference)}{expected}"
            ledger, waived = entry.reference if amount is None else amount, excuse(entry, answer.at, rules)
            findings.append(Finding(Code.MISSING_AT_SERVICE, sentence, ledger=ledger, waived=waived))
        if earlier is not None and (reversed_ := reversal(earlier, entry, answer, rules)):
            findings.append(reversed_)
    if side is not None:
        findings += statement_findings(side, entry, transaction, at=answer.at, rules=rules)
    return findings


def differing(lookup: PendingLookup, answer: Observation, side: StatementSide | None, rules: Rules) -> list[Entry]:
    """Return the entries of *lookup* that differ from its first *answer*, so that a second one must confirm it."""
    judged, earlier = judged_entries(lookup.entries, answer.transaction, rules), lookup.earlier
    return [entry for entry in judged if needs_confirmation(entry, answer, rules=rules, earlier=earlier, side=side)]


def paid_reff_of(answer: Observation, *, rules: Rules = STRICT) -> str | None:
    """Return the normalised merchant_reff of an answer with the meaning *paid*. None for any other."""
    transaction = answer.transaction
    if transaction is None or rules.read_status(transaction.status) is not Status.PAID:
        return None
    return reff_key(transaction.merchant_reff)


@frozen
class _Judgement:
    case: Case
    entry: Entry
    last: Observation | None
    rules: Rules

    def row(self) -> Row:
        case, last = self.case, self.last
        if case.unusable_line is not None:
            problem = f"line {case.unusable_line} has the same reference and cannot be used, so the sum is not known"
            return self._row(Bucket.REJECTED, reason=problem)
        if case.parts and (problem := unknown_kind(case.parts, self.rules)):
            return self._row(Bucket.REJECTED, reason=problem)
        if last is None:
            return self._row(Bucket.UNRESOLVED, reason=f"not looked up: {self._ended_early}")
        if last.answer is Answer.UNASKABLE:
            return self._row(Bucket.MATCHED if self._was_rejected else Bucket.REJECTED, reason=last.message)
        if last.answer is Answer.FAILED or self._is_half_usable:
            what = "a difference was seen once, and asking again failed: " if case.second else ""
            return self._row(Bucket.UNRESOLVED, reason=f"{what}{last.message}")
        if last.answer is not Answer.FOUND and not case.other_found:
            what = f"{NO_PROBE}: {last.message}" if last.answer is Answer.UNUSABLE else NO_PROBE
            return evolve(self._row(Bucket.UNRESOLVED, reason=what), lacks_probe=True)
        return self._unusable(last) if last.answer is Answer.UNUSABLE else self._answered(last)

    @property
    def _is_half_usable(self) -> bool:
        """Whether only the first answer is usable, so that the difference was seen once."""
        first, second = self.case.first, self.case.second
        return second is not None and second.answer is Answer.UNUSABLE and first is not None and first.is_usable

    @property
    def _is_in_ledger(self) -> bool:
        return self.case.other_side is None or self.case.other_side.is_in_ledger

    @property
    def _was_rejected(self) -> bool:
        return self.case.earlier is not None and self.case.earlier.was_rejected

    @property
    def _ended_early(self) -> str:
        ended_by = self.case.ended_by
        return f"the run ended early, because {ended_by.message}" if ended_by else "the run ended first"

    def _unusable(self, last: Observation) -> Row:
        if self.case.second is None:
            reason = f"the answer cannot be used, and was not looked up again: {last.message}"
            return self._row(Bucket.UNRESOLVED, reason=reason)
        sentence = f"the service answered about {quote(self.entry.reference)}, and the answer cannot be used: "
        sentence += escape_unprintable(last.message, max_length=_MAX_REASON)
        return self._row(Bucket.MATCHED, [Finding(Code.UNUSABLE_ANSWER, sentence, ledger=self.entry.reference)])

    def _answered(self, last: Observation) -> Row:
        case, entry = self.case, self.entry
        side = None if case.is_repeat else case.other_side
        findings = _differences(entry, last, self.rules, case.earlier, side)
        if last.transaction is not None and case.paid_with:
            reff, others = last.transaction.merchant_reff, ", ".join(map(quote, case.paid_with))
            sentence = f"merchant_reff {quote(reff)} is paid under other references too: {others}"
            sides = Finding(Code.PAID_TWICE, sentence, ledger=as_list(case.paid_with), service=reff)
            findings.append(evolve(sides, at_stake=0) if case.stands else sides)
        if last.transaction is not None and case.second and (damage := self._lost_zeros(last.transaction, findings)):
            return self._row(Bucket.REJECTED, findings, damage)
        is_open = self._is_in_ledger and self._is_open(last, findings)
        if findings and case.second is None and any(finding.is_decisive for finding in findings):
            why = self._ended_early if case.ended_by else "it was not looked up again"
            return self._row(Bucket.UNRESOLVED, reason=f"a difference was seen once and is not confirmed: {why}")
        return self._row(Bucket.OPEN if is_open else Bucket.MATCHED, findings)

    def _is_open(self, last: Observation, findings: list[Finding]) -> bool:
        """Return whether both sides are pending in time, or the grace excuses that one only is, or is missing."""
        if last.transaction is None:
            return bool(findings[0].waived)
        if differences := [each for each in findings if each.code.is_of_status or each.code is Code.NOT_SETTLED]:
            return all(finding.waived for finding in differences)
        # Without a difference, a state in the ledger is the same one.
        return self.rules.read_status(last.transaction.status) is Status.PENDING and isinstance(self.entry.status, str)

    def _lost_zeros(self, transaction: Transaction, findings: list[Finding]) -> str:
        """Return the ledger's code that has lost leading zeros, in words. Empty if none has, or it is waived."""
        decisive = {finding.code for finding in map(self._weighed, findings) if finding.is_decisive}
        for column in _CODES:
            ours, theirs = getattr(self.entry, column.name), getattr(transaction, column.at_service[0])
            is_text = isinstance(ours, str) and isinstance(theirs, str) and theirs.isdecimal()
            if OF_TEXTS[column.name] in decisive and is_text and ours == theirs.lstrip("0"):
                return (
                    f"{column.name}: {quote(ours)} is {quote(theirs)} at the service; "
                    "the leading zeros were lost in a spreadsheet, so export the column as text"
                )
        return ""

    def _weighed(self, finding: Finding) -> Finding:
        """Return *finding* with the amount at stake. A finding accepted at that time is waived."""
        last, rules = self.last, self.rules
        theirs = None if last is None or last.transaction is None else last.transaction.amount
        finding = finding.weighed(self._amount, theirs)
        accepted = rules.acceptance(finding.code, self.entry.reference)
        is_valid = accepted and last and accepted.days_left(last.at, rules.time_zone) >= 0
        before = self.case.earlier.by_code.get(finding.code) if accepted and self.case.earlier else None
        if (
            accepted
            and is_valid
            and not finding.waived
            and accepted.covers(finding, before.since_run if before else "")
        ):
            return evolve(finding, waived=accepted.waiver, is_accepted=True)
        return finding

    @property
    def _amount(self) -> int | None:
        return self.entry.amount if isinstance(self.entry.amount, int) else None

    def _duplicate(self) -> Finding:
        case, at_stake = self.case, self.case.duplicated
        sentence = f"{case.rows} rows of the ledger have the reference {quote(self.entry.reference)}"
        sentence += f" and are not summed: {case.apart}" if case.apart else ""
        if at_stake is None and self.last is not None and self.last.transaction is not None:
            at_stake = self.last.transaction.amount * (case.rows - 1)
        return Finding(Code.DUPLICATE_REFERENCE, sentence, ledger=case.rows, at_stake=at_stake)

    def _left(self) -> Finding:
        amount = self._amount
        had = "" if amount is None else f" with an amount of {amount:,}"
        what = "could not be used" if self._was_rejected else "matched"
        sentence = f"{quote(self.entry.reference)} {what} in an earlier run{had}, and has left the ledger"
        return Finding(Code.LEFT_THE_LEDGER, sentence, ledger=self.entry.reference if amount is None else amount)

    def _row(self, bucket: Bucket, findings: Iterable[Finding] = (), reason: str = "") -> Row:
        """Return the row with the values common to all buckets. A decisive finding makes it a break."""
        case, first, last, rules = self.case, self.case.first, self.last, self.rules
        is_answered = last is not None and last.answer is not Answer.FAILED and not self._is_half_usable
        if case.rows > 1:
            findings = [*findings, self._duplicate()]
        has_left = case.carried_from and case.earlier and case.earlier.has_left and not rules.may_leave
        if has_left or self._was_rejected:
            findings = [*findings, self._left()]
        found = list(map(self._weighed, findings))
        if len(case.parts) > 1:
            suffix = f"; the ledger's side is the sum of {named_lines([part.line for part in case.parts])}"
            found = [evolve(finding, sentence=f"{finding.sentence}{suffix}") for finding in found]
        is_agreed = bucket in (Bucket.MATCHED, Bucket.OPEN)
        # The first findings are still worth showing if asking again failed. An unusable answer hides its own.
        seen = last if is_answered else first
        row = Row(
            entry=self.entry,
            bucket=Bucket.BREAK if found and is_agreed and any(finding.is_decisive for finding in found) else bucket,
            findings=in_order(found) if found else (),
            transaction=seen.transaction if seen else None,
            reason=escape_unprintable(reason, max_length=_MAX_REASON) if reason else "",
            error=why.error if (why := last or case.ended_by) else None,
            observed_at=first.at if first else None,
            confirmed_at=case.second.at if case.second and is_answered else None,
            is_changed_during_run=bool(first and case.second and is_answered and case.second.differs_from(first)),
            is_repeat=case.is_repeat,
            ledger_status=rules.status_of(self.entry) if self._is_in_ledger else None,
            service_status=rules.read_status(seen.transaction.status) if seen and seen.transaction else None,
            parts=case.parts,
            other_side=case.other_side,
            reused_from=seen.reused_from if seen else "",
        )
        least = rules.material_from
        is_material = least is not None and row.bucket is Bucket.BREAK and row.at_stake >= least
        return evolve(row, is_material=True) if is_material else row

"""
Decide the bucket of a row, from the ledger entry and the answers of the service.

Design rules:

- A pure function of values that a journal stores, so a report can be written again at any time.
- A difference counts when it was seen twice. Seen once, it is unresolved.
- "Not found", and an answer that cannot be used, count when another reference was found: a wrong key finds none.
- A difference that a tolerance or the grace waives needs no second lookup. An accepted one does, because only a
  confirmed difference can be accepted.
"""

from collections.abc import Iterable, Iterator

from attrs import evolve, frozen

from payclient._shared.escape import escape_unprintable, quote
from payclient.protocol import Transaction
from payclient.reconcile.judgement._case import Case, PendingLookup, judged_entries, payment_of, unknown_kind
from payclient.reconcile.judgement._compare import compare, excuse, reff_key
from payclient.reconcile.judgement._statement import statement_findings
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.nights import reversal
from payclient.reconcile.rules import STRICT, Rules
from payclient.reconcile.values import (
    Answer,
    Bucket,
    Code,
    Finding,
    Observation,
    Row,
    StatementSide,
    Status,
    as_list,
    in_order,
    named_lines,
)

_MAX_REASON = 400
NO_PROBE = (
    "no other reference was found in this run, so the answer may come from a wrong key or environment; "
    "name a reference that exists with --canary"
)


def judge(case: Case, *, rules: Rules = STRICT) -> Row:
    """Return the row that *case* makes."""
    if case.first and case.second and case.first.answer is Answer.UNUSABLE and case.second.is_usable:
        case = evolve(case, first=case.second, second=None)
    entry, last = case.entry, case.second or case.first
    if case.parts:
        entry = payment_of(case.parts, rules, last.transaction if last else None)
    if isinstance(entry, RejectedEntry):
        status = rules.status_of(entry)
        return Row(entry=entry, bucket=Bucket.REJECTED, reason=entry.reason, ledger_status=status)
    return _Judgement(case, entry, last, rules).row()


def needs_confirmation(entry: Entry, first: Observation, *, rules: Rules = STRICT) -> bool:
    """Return whether *first* differs from the ledger by more than is waived, so a second lookup must confirm it."""
    if first.answer is Answer.UNUSABLE:
        return True
    if first.transaction is None:
        return first.answer is Answer.NOT_FOUND and not excuse(entry, first.at, rules)
    return any(finding.is_decisive for finding in compare(entry, first.transaction, at=first.at, rules=rules))


def differing(
    lookup: PendingLookup, answer: Observation, *, rules: Rules, other_side: StatementSide | None = None
) -> list[Entry]:
    """Return the entries of *lookup* that differ from its first *answer*, so that a second one must confirm it."""
    if answer.answer in (Answer.FAILED, Answer.UNASKABLE):
        return []
    judged = judged_entries(lookup.entries, answer.transaction, rules)
    if other_side is not None and answer.is_usable:
        findings = statement_findings(other_side, judged[0], answer.transaction, at=answer.at, rules=rules)
        if any(finding.is_decisive for finding in findings):
            return list(judged)
        if not other_side.is_in_ledger:
            return []
    return [
        entry
        for entry in judged
        if needs_confirmation(entry, answer, rules=rules)
        or (lookup.earlier is not None and answer.is_usable and reversal(lookup.earlier, entry, answer, rules))
    ]


def paid_reff_of(answer: Observation, *, rules: Rules = STRICT) -> str | None:
    """Return the normalised merchant_reff of an answer with the meaning *paid*. None for any other."""
    found = answer.transaction
    if found is None or rules.read_status(found.status) is not Status.PAID:
        return None
    return reff_key(found.merchant_reff)


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
            return self._row(Bucket.REJECTED, reason=last.message)
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
    def _ended_early(self) -> str:
        ended_by = self.case.ended_by
        return f"the run ended early, because {ended_by.message}" if ended_by else "the run ended first"

    def _unusable(self, last: Observation) -> Row:
        if self.case.second is None:
            reason = f"the answer cannot be used, and there was no second lookup: {last.message}"
            return self._row(Bucket.UNRESOLVED, reason=reason)
        sentence = f"the service answered about {quote(self.entry.reference)}, and the answer cannot be used: "
        sentence += escape_unprintable(last.message, max_length=_MAX_REASON)
        return self._row(Bucket.MATCHED, [Finding(Code.UNUSABLE_ANSWER, sentence, ledger=self.entry.reference)])

    def _answered(self, last: Observation) -> Row:
        case, entry, side = self.case, self.entry, self.case.other_side
        is_in_ledger = self._is_in_ledger
        findings = list(self._of_ledger(last)) if is_in_ledger else []
        if side is not None and not case.is_repeat:
            findings += statement_findings(side, entry, last.transaction, at=last.at, rules=self.rules)
        if last.transaction is not None and case.paid_with:
            findings.append(_paid_twice(case, last.transaction))
        if last.transaction is not None and case.second and (damage := self._lost_zeros(last.transaction, findings)):
            return self._row(Bucket.REJECTED, findings, damage)
        is_open = is_in_ledger and self._is_open(last, findings)
        if findings and case.second is None and any(finding.is_decisive for finding in findings):
            why = self._ended_early if case.ended_by else "there was no second lookup"
            reason = f"a difference was seen once and is not confirmed: {why}"
            return self._row(Bucket.UNRESOLVED, reason=reason)
        return self._row(Bucket.OPEN if is_open else Bucket.MATCHED, findings)

    def _of_ledger(self, last: Observation) -> Iterator[Finding]:
        entry, rules = self.entry, self.rules
        if last.transaction is not None:
            yield from compare(entry, last.transaction, at=last.at, rules=rules)
        else:
            expected = f"; the ledger has an amount of {entry.amount:,}" if isinstance(entry.amount, int) else ""
            sentence = f"the service knows no transaction {quote(entry.reference)}{expected}"
            ledger = entry.amount if isinstance(entry.amount, int) else entry.reference
            yield Finding(Code.MISSING_AT_SERVICE, sentence, ledger=ledger, waived=excuse(entry, last.at, rules))
        if self.case.earlier is not None and (found := reversal(self.case.earlier, entry, last, rules)):
            yield found

    def _is_open(self, last: Observation, findings: list[Finding]) -> bool:
        """Return whether both sides are pending in time, or the grace excuses that one only is, or is missing."""
        if last.transaction is None:
            return bool(findings[0].waived)
        if differences := [each for each in findings if each.code.is_of_status or each.code is Code.NOT_SETTLED]:
            return all(each.waived for each in differences)
        # Without a difference, a state in the ledger is the same one.
        is_pending = self.rules.read_status(last.transaction.status) is Status.PENDING
        return is_pending and isinstance(self.entry.status, str)

    def _lost_zeros(self, transaction: Transaction, findings: list[Finding]) -> str:
        """Return the ledger's code that has lost leading zeros, in words. Empty if none has, or it is waived."""
        decisive = {finding.code for finding in self._weighed(findings) if finding.is_decisive}
        for name, code in (("merchant_reff", Code.MERCHANT_REFF_DIFFERS), ("payment_code", Code.PAYMENT_CODE_DIFFERS)):
            ours, theirs = getattr(self.entry, name), getattr(transaction, name)
            is_text = isinstance(ours, str) and isinstance(theirs, str) and theirs.isdecimal()
            if code in decisive and is_text and ours == theirs.lstrip("0"):
                return (
                    f"{name}: {quote(ours)} is {quote(theirs)} at the service; "
                    "the leading zeros were lost in a spreadsheet, so export the column as text"
                )
        return ""

    def _weighed(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return *findings* with the amount at stake in each. Those accepted at that time are waived."""
        theirs = None if self.last is None or self.last.transaction is None else self.last.transaction.amount
        ours = self.entry.amount if isinstance(self.entry.amount, int) else None
        weighed = [finding.weighed(ours, theirs) for finding in findings]
        return [
            evolve(each, waived=waiver, is_accepted=True) if (waiver := self._acceptance(each)) else each
            for each in weighed
        ]

    def _acceptance(self, finding: Finding) -> str:
        accepted = self.rules.acceptance(finding.code, self.entry.reference)
        if finding.waived or self.last is None or accepted is None:
            return ""
        is_valid = accepted.days_left(self.last.at, self.rules.time_zone) >= 0 and accepted.covers(finding)
        return accepted.waiver if is_valid else ""

    def _duplicate(self) -> Finding:
        case, at_stake = self.case, self.case.duplicated
        sentence = f"{case.rows} rows of the ledger have the reference {quote(self.entry.reference)}"
        sentence += f" and are not summed: {case.apart}" if case.apart else ""
        if at_stake is None and self.last is not None and self.last.transaction is not None:
            at_stake = self.last.transaction.amount * (case.rows - 1)
        return Finding(Code.DUPLICATE_REFERENCE, sentence, ledger=case.rows, at_stake=at_stake)

    def _left(self) -> Finding:
        amount = self.entry.amount if isinstance(self.entry.amount, int) else None
        had = "" if amount is None else f" with an amount of {amount:,}"
        sentence = f"{quote(self.entry.reference)} matched in an earlier run{had}, and has left the ledger"
        return Finding(Code.LEFT_THE_LEDGER, sentence, ledger=self.entry.reference if amount is None else amount)

    def _row(self, bucket: Bucket, findings: Iterable[Finding] = (), reason: str = "") -> Row:
        """Return the row with the values common to all buckets. A decisive finding makes it a break."""
        case, first, last, rules = self.case, self.case.first, self.last, self.rules
        is_answered = last is not None and last.answer is not Answer.FAILED and not self._is_half_usable
        if case.rows > 1:
            findings = [*findings, self._duplicate()]
        if case.has_left and not rules.may_leave:
            findings = [*findings, self._left()]
        found = self._weighed(findings) if findings else []
        if len(case.parts) > 1:
            suffix = f"; the ledger's side is the sum of {named_lines([part.line for part in case.parts])}"
            found = [evolve(finding, sentence=f"{finding.sentence}{suffix}") for finding in found]
        is_agreed = bucket in (Bucket.MATCHED, Bucket.OPEN)
        # The first findings are still worth showing if asking again failed. An unusable answer hides its own.
        seen = last if is_answered else first
        row = Row(
            entry=self.entry,
            bucket=Bucket.BREAK if found and is_agreed and any(each.is_decisive for each in found) else bucket,
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
        return (
            row if least is None or row.bucket is not Bucket.BREAK else evolve(row, is_material=row.at_stake >= least)
        )


def _paid_twice(case: Case, transaction: Transaction) -> Finding:
    reff, others, at_stake = transaction.merchant_reff, case.paid_with, 0 if case.stands else None
    sentence = f"merchant_reff {quote(reff)} is paid under other references too: {', '.join(map(quote, others))}"
    return Finding(Code.PAID_TWICE, sentence, ledger=as_list(others), service=reff, at_stake=at_stake)

"""
Decide the bucket of a row, from the ledger entry and the answers of the service.

Design rules:

- A pure function of values that a journal stores, so a report can be made again at any time.
- A difference counts when it was seen twice. Seen once, it is unresolved.
- "Not found", and an answer that cannot be used, count when another reference was found: a wrong key finds none.
- What a tolerance or the grace waives needs no second lookup. What was accepted does, because only a
  confirmed difference can be accepted.
"""

from __future__ import annotations

from attrs import evolve

from payclient._escape import escape_unprintable, quote
from payclient.ledger import Entry, RejectedEntry
from payclient.protocol import Transaction
from payclient.reconcile.judge._case import Case, PendingLookup, judged_entries, payment_of, unknown_kind
from payclient.reconcile.judge._compare import compare, excuse, reff_key
from payclient.reconcile.judge._statement import statement_findings
from payclient.reconcile.nights import reversal
from payclient.reconcile.rules import STRICT, InvoiceAmount, Invoices, Rules
from payclient.reconcile.values import (
    Answer,
    Bucket,
    Code,
    Finding,
    Observation,
    OtherSide,
    Row,
    Status,
    in_order,
    named_lines,
)

_MAX_REASON = 400
_PARTS = Invoices(sum=True, amount=InvoiceAmount.PART)
NO_PROBE = (
    "no other reference was found in this run, so the answer may come from a wrong key or environment; "
    "name a reference that exists with --canary"
)


def judge(case: Case, *, rules: Rules = STRICT) -> Row:
    """Return the row that *case* makes."""
    case = _without_unusable_first(case)
    entry, first, last = case.entry, case.first, case.second or case.first
    if case.parts:
        entry = payment_of(case.parts, rules, last.transaction if last else None)
    if isinstance(entry, RejectedEntry):
        return Row(
            entry=entry,
            bucket=Bucket.REJECTED,
            reason=entry.reason,
            ledger_status=rules.status_of(entry),
        )
    if problem := _without_sum(case, rules):
        return _row(case, entry, rules, Bucket.REJECTED, reason=problem)
    if first is None or last is None:
        return _row(case, entry, rules, Bucket.UNRESOLVED, reason=f"not looked up: {_ended_early(case)}")
    if last.answer is Answer.UNASKABLE:
        return _row(case, entry, rules, Bucket.REJECTED, reason=last.message)
    if last.answer is Answer.FAILED or _is_half_usable(case):
        what = "a difference was seen once, and asking again failed: " if case.second else ""
        return _row(case, entry, rules, Bucket.UNRESOLVED, reason=f"{what}{last.message}")
    if last.answer in (Answer.NOT_FOUND, Answer.UNUSABLE) and not case.other_found:
        what = f"{NO_PROBE}: {last.message}" if last.answer is Answer.UNUSABLE else NO_PROBE
        return evolve(_row(case, entry, rules, Bucket.UNRESOLVED, reason=what), lacks_probe=True)
    return _answered(case, entry, last, rules)


def _answered(case: Case, entry: Entry, last: Observation, rules: Rules) -> Row:
    if last.answer is Answer.UNUSABLE:
        return _unusable(case, entry, last, rules)
    if case.other_side is not None and not case.other_side.is_in_ledger:
        return _judged_without_ledger(case, entry, last, rules)
    if last.answer is Answer.NOT_FOUND:
        return _missing(case, entry, last, rules)
    return _found(case, entry, last, rules)


def _without_sum(case: Case, rules: Rules) -> str:
    """Return the reason why the sum of a payment's lines is not known; empty if it is."""
    if case.unusable_line is not None:
        return f"line {case.unusable_line} has the same reference and cannot be used, so the sum is not known"
    return unknown_kind(case.parts, rules)


def _is_half_usable(case: Case) -> bool:
    """Return whether only the first answer is usable, so that the difference was seen once."""
    first, second = case.first, case.second
    return first is not None and first.is_usable and second is not None and second.answer is Answer.UNUSABLE


def _without_unusable_first(case: Case) -> Case:
    """Return *case* with its usable second answer alone, if the first is unusable."""
    if case.first is None or case.second is None or case.first.answer is not Answer.UNUSABLE:
        return case
    return evolve(case, first=case.second, second=None) if case.second.is_usable else case


def needs_confirmation(entry: Entry, first: Observation, *, rules: Rules = STRICT) -> bool:
    """Return whether *first* differs from the ledger by more than is waived, so a second lookup must confirm it."""
    if first.answer is Answer.UNUSABLE:
        return True
    if first.transaction is None:
        return first.answer is Answer.NOT_FOUND and not excuse(entry, first.at, rules)
    findings = compare(entry, first.transaction, at=first.at, rules=rules)
    return any(finding.is_decisive for finding in findings)


def differing(
    lookup: PendingLookup, answer: Observation, *, rules: Rules, other_side: OtherSide | None = None
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


def _of_statement(case: Case, entry: Entry, last: Observation, rules: Rules) -> list[Finding]:
    if case.other_side is None or case.is_repeat:
        return []
    return list(statement_findings(case.other_side, entry, last.transaction, at=last.at, rules=rules))


def _judged_without_ledger(case: Case, entry: Entry, last: Observation, rules: Rules) -> Row:
    """Judge a reference that only the statement has."""
    findings = _of_statement(case, entry, last, rules)
    if last.transaction is not None:
        findings = _with_invoice(findings, case, last.transaction, rules)
    return _confirmed(case, entry, rules, Bucket.MATCHED, findings)


def paid_reff_of(answer: Observation, *, rules: Rules = STRICT) -> str | None:
    """Return the normalised merchant_reff of an answer that says paid; None for any other."""
    found = answer.transaction
    if found is None or rules.read_status(found.status) is not Status.PAID:
        return None
    return reff_key(found.merchant_reff)


def _unusable(case: Case, entry: Entry, last: Observation, rules: Rules) -> Row:
    if case.second is None:
        reason = f"the answer cannot be used, and there was no second lookup: {last.message}"
        return _row(case, entry, rules, Bucket.UNRESOLVED, reason=reason)
    sentence = f"the service answered about {quote(entry.reference)}, and the answer cannot be used: "
    sentence += escape_unprintable(last.message, max_length=_MAX_REASON)
    finding = Finding(Code.UNUSABLE_ANSWER, sentence, ledger=entry.reference)
    return _row(case, entry, rules, Bucket.MATCHED, findings=[finding])


def _missing(case: Case, entry: Entry, last: Observation, rules: Rules) -> Row:
    waived = excuse(entry, last.at, rules)
    expected = f"; the ledger has an amount of {entry.amount}" if isinstance(entry.amount, int) else ""
    sentence = f"the service knows no transaction {quote(entry.reference)}{expected}"
    ledger = entry.amount if isinstance(entry.amount, int) else entry.reference
    missing = Finding(Code.MISSING_AT_SERVICE, sentence, ledger=ledger, waived=waived)
    findings = [missing, *_reversed(case, entry, last, rules), *_of_statement(case, entry, last, rules)]
    return _confirmed(case, entry, rules, Bucket.OPEN if waived else Bucket.MATCHED, findings)


def _reversed(case: Case, entry: Entry, last: Observation, rules: Rules) -> list[Finding]:
    found = None if case.earlier is None else reversal(case.earlier, entry, last, rules)
    return [] if found is None else [found]


def _found(case: Case, entry: Entry, last: Observation, rules: Rules) -> Row:
    transaction = last.transaction
    assert transaction is not None  # noqa: S101  FOUND means that there is one
    findings = [*compare(entry, transaction, at=last.at, rules=rules), *_reversed(case, entry, last, rules)]
    findings += _of_statement(case, entry, last, rules)
    findings = _with_invoice(findings, case, transaction, rules)
    if case.second and (damage := _lost_zeros(entry, last, _accepted(findings, entry, last, rules))):
        return _row(case, entry, rules, Bucket.REJECTED, findings=findings, reason=damage)
    is_waiting = _is_waiting(entry, last, findings, rules)
    return _confirmed(case, entry, rules, Bucket.OPEN if is_waiting else Bucket.MATCHED, findings)


def _with_invoice(findings: list[Finding], case: Case, transaction: Transaction, rules: Rules) -> list[Finding]:
    """Return *findings* with those about an invoice that is paid under several references."""
    if not case.paid_with:
        return findings
    due = None if case.invoice is None else case.invoice.due(rules.invoices)
    reff, others = quote(transaction.merchant_reff), ", ".join(map(quote, case.paid_with))
    if due is None or case.invoice is None or case.invoice.paid > due:
        sentence = f"merchant_reff {reff} is paid under other references too: {others}"
        if due is not None and case.invoice is not None:
            sentence += f"; that is {case.invoice.paid} in all for an invoice of {due}"
            if rules.invoices.amount is not InvoiceAmount.PART and case.invoice.due(_PARTS) == case.invoice.paid:
                sentence += '; if each row states a part of it, amount = "part" under [invoices] says so'
        sides = ", ".join(case.paid_with), transaction.merchant_reff
        return [*findings, Finding(Code.PAID_TWICE, sentence, ledger=sides[0], service=sides[1])]
    if case.invoice.paid < due:
        return findings
    waiver = escape_unprintable(f"the invoice {reff} is paid in full under several references: {due}", max_length=400)
    return [
        evolve(each, waived=waiver) if each.code in (Code.UNDERPAID, Code.OVERPAID) and not each.waived else each
        for each in findings
    ]


def _is_waiting(entry: Entry, last: Observation, findings: list[Finding], rules: Rules) -> bool:
    """Return whether both sides are pending in time, or the grace waives that one of them is."""
    differences = [finding for finding in findings if finding.code.is_of_status or finding.code is Code.NOT_SETTLED]
    if differences:
        return all(finding.waived for finding in differences)
    # Where there is no difference and the ledger has a state, it has the same one.
    is_pending = last.transaction is not None and rules.read_status(last.transaction.status) is Status.PENDING
    return is_pending and isinstance(entry.status, str)


def _accepted(findings: list[Finding], entry: Entry, last: Observation | None, rules: Rules) -> list[Finding]:
    """Return *findings* with the amount at stake in each; those accepted at that time are waived."""
    theirs = None if last is None or last.transaction is None else last.transaction.amount
    weighed = [finding.weighed(entry.amount if isinstance(entry.amount, int) else None, theirs) for finding in findings]
    if last is None or not rules.accepted:
        return weighed
    return [_if_accepted(finding, entry, last, rules) for finding in weighed]


def _if_accepted(finding: Finding, entry: Entry, last: Observation, rules: Rules) -> Finding:
    accepted = rules.acceptance(finding.code, entry.reference)
    if finding.waived or accepted is None or not accepted.is_valid(last.at, rules.time_zone):
        return finding
    return evolve(finding, waived=accepted.waiver) if accepted.covers(finding) else finding


def _lost_zeros(entry: Entry, last: Observation, findings: list[Finding]) -> str:
    """Return the ledger's code that has lost leading zeros, in words; empty if none has, or it is waived."""
    decisive = {finding.code for finding in findings if finding.is_decisive}
    for name, code in (
        ("merchant_reff", Code.MERCHANT_REFF_DIFFERS),
        ("payment_code", Code.PAYMENT_CODE_DIFFERS),
    ):
        ours, theirs = getattr(entry, name), getattr(last.transaction, name)
        is_text = isinstance(ours, str) and isinstance(theirs, str) and theirs.isdecimal()
        if code in decisive and is_text and ours == theirs.lstrip("0"):
            return (
                f"{name}: {quote(ours)} is {quote(theirs)} at the service; "
                "the leading zeros were lost in a spreadsheet, so export the column as text"
            )
    return ""


def _confirmed(case: Case, entry: Entry, rules: Rules, bucket: Bucket, findings: list[Finding]) -> Row:
    """Make the row of confirmed findings; a difference that was seen once is unresolved."""
    if case.second is None and any(finding.is_decisive for finding in findings):
        why = _ended_early(case) if case.ended_by else "there was no second lookup"
        reason = f"a difference was seen once and is not confirmed: {why}"
        return _row(case, entry, rules, Bucket.UNRESOLVED, reason=reason)
    return _row(case, entry, rules, bucket, findings=findings)


def _ended_early(case: Case) -> str:
    return f"the run ended early, because {case.ended_by.message}" if case.ended_by else "the run ended first"


def _row(
    case: Case,
    entry: Entry,
    rules: Rules,
    bucket: Bucket,
    *,
    findings: list[Finding] | None = None,
    reason: str = "",
) -> Row:
    """Make the row with the values common to all buckets; a decisive finding makes it a break."""
    found = findings or []
    first, last = case.first, case.second or case.first
    if case.rows > 1:
        sentence = f"{case.rows} rows of the ledger have the reference {quote(entry.reference)}"
        sentence += f" and are not summed: {case.apart}" if case.apart else ""
        at_stake = case.duplicated
        if at_stake is None and last is not None and last.transaction is not None:
            at_stake = last.transaction.amount * (case.rows - 1)
        found.append(Finding(Code.DUPLICATE_REFERENCE, sentence, ledger=case.rows, at_stake=at_stake))
    is_answered = last is not None and last.answer is not Answer.FAILED and not _is_half_usable(case)
    found = _accepted(found, entry, last, rules)
    if len(case.parts) > 1:
        suffix = f"; the ledger's side is the sum of {named_lines([part.line for part in case.parts])}"
        found = [evolve(finding, sentence=f"{finding.sentence}{suffix}") for finding in found]
    is_agreed = bucket in (Bucket.MATCHED, Bucket.OPEN)
    # What was seen before asking again failed is still worth showing; what an unusable answer hides is unknown.
    seen = last if is_answered else first
    return Row(
        entry=entry,
        bucket=Bucket.BREAK if is_agreed and any(each.is_decisive for each in found) else bucket,
        findings=in_order(found),
        transaction=seen.transaction if seen else None,
        reason=escape_unprintable(reason, max_length=_MAX_REASON),
        error=why.error if (why := last or case.ended_by) else None,
        observed_at=first.at if first else None,
        confirmed_at=case.second.at if case.second and is_answered else None,
        is_changed_during_run=bool(first and last and is_answered and last.differs_from(first)),
        is_repeat=case.is_repeat,
        ledger_status=rules.status_of(entry) if case.other_side is None or case.other_side.is_in_ledger else None,
        service_status=rules.read_status(seen.transaction.status) if seen and seen.transaction else None,
        parts=case.parts,
        other_side=case.other_side,
        reused_from=seen.reused_from if seen else "",
    )

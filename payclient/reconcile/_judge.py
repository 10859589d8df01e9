"""
Decide in which bucket a row lands, from the ledger entry and what the service answered.

Design rules:

- A pure function of values that a journal can hold, so a report can be made again at any time.
- A difference counts when it was seen twice. What was seen once is unresolved.
- "Not found" counts when somebody else was found: a wrong key finds nobody.
- What a tolerance or the grace waives needs no second look. What somebody accepted does, because only a
  difference that is really there can be accepted.
"""

from __future__ import annotations

from datetime import datetime

from attrs import evolve, frozen

from payclient._visible import quoted, visible
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.reconcile._age import excuse
from payclient.reconcile._compare import compare
from payclient.reconcile._finding import STATUS_CODES, Code, Finding, in_order
from payclient.reconcile._observation import Answer, Observation
from payclient.reconcile._row import Bucket, Row
from payclient.reconcile._rules import STRICT, Rules
from payclient.reconcile._status import Status

_LONGEST_REASON = 400


@frozen(kw_only=True)
class Case:
    """
    All that is known about one row.

    Attributes:
        entry: What the ledger says.
        first: What the service answered; None when it was not asked.
        second: What it answered when it was asked again.
        rows: How many ledger rows have this reference.
        is_repeat: A row before this one has the same reference.
        paid_with: Other references that are paid under the same merchant_reff; the first few.
        witnesses: How many other references were found in the same run.
        ended_by: The failure that ended the run early; None when it did not.
    """

    entry: Entry | RejectedEntry
    first: Observation | None = None
    second: Observation | None = None
    rows: int = 1
    is_repeat: bool = False
    paid_with: tuple[str, ...] = ()
    witnesses: int = 0
    ended_by: Observation | None = None


def judge(case: Case, *, rules: Rules = STRICT) -> Row:
    """Return the row that *case* makes."""
    entry, first, last = case.entry, case.first, case.second or case.first
    if isinstance(entry, RejectedEntry):
        return Row(entry=entry, bucket=Bucket.REJECTED, reason=entry.reason)
    if first is None or last is None:
        return _row(case, entry, rules, Bucket.UNRESOLVED, reason=f"not asked: {_ended_early(case)}")
    if last.answer is Answer.UNASKABLE:
        return _row(case, entry, rules, Bucket.REJECTED, reason=last.message)
    if last.answer is Answer.FAILED:
        what = "a difference was seen once, and asking again failed: " if case.second else ""
        return _row(case, entry, rules, Bucket.UNRESOLVED, reason=f"{what}{last.message}")
    if last.answer is Answer.NOT_FOUND:
        return _missing(case, entry, last, rules)
    return _found(case, entry, last, rules)


def needs_confirmation(entry: Entry, first: Observation, *, rules: Rules = STRICT) -> bool:
    """Say whether *first* differs from the ledger by more than is waived, so that it has to be seen twice."""
    if first.transaction is None:
        return first.answer is Answer.NOT_FOUND and not excuse(entry, first.at, rules)
    findings = compare(entry, first.transaction, at=first.at, rules=rules)
    return any(finding.is_decisive for finding in findings)


def _missing(case: Case, entry: Entry, last: Observation, rules: Rules) -> Row:
    if not case.witnesses:
        reason = (
            "the service knows no such transaction, but no other reference was found in this run either, "
            "so the key or the environment may be wrong"
        )
        return _row(case, entry, rules, Bucket.UNRESOLVED, reason=reason)
    waived = excuse(entry, last.at, rules)
    if case.second is None and not waived:
        return _row(case, entry, rules, Bucket.UNRESOLVED, reason=_seen_once(case))
    expected = f"; the ledger has an amount of {entry.amount}" if isinstance(entry.amount, int) else ""
    sentence = f"the service knows no transaction {quoted(entry.reference)}{expected}"
    missing = Finding(Code.MISSING_AT_SERVICE, sentence, ledger=entry.reference, waived=waived)
    return _row(case, entry, rules, Bucket.OPEN if waived else Bucket.MATCHED, findings=[missing])


def _found(case: Case, entry: Entry, last: Observation, rules: Rules) -> Row:
    transaction = last.transaction
    assert transaction is not None  # noqa: S101  FOUND means that there is one
    findings = list(compare(entry, transaction, at=last.at, rules=rules))
    if case.paid_with:
        others = ", ".join(map(quoted, case.paid_with))
        sentence = f"merchant_reff {quoted(transaction.merchant_reff)} is paid under other references too: {others}"
        findings.append(Finding(Code.PAID_TWICE, sentence, service=transaction.merchant_reff))
    if case.second is None and any(finding.is_decisive for finding in findings):
        return _row(case, entry, rules, Bucket.UNRESOLVED, reason=_seen_once(case))
    is_waiting = _is_waiting(entry, last, findings, rules)
    findings = _accepted(findings, entry, last.at, rules)
    if damage := _lost_zeros(entry, last, findings):
        return _row(case, entry, rules, Bucket.REJECTED, findings=findings, reason=damage)
    return _row(case, entry, rules, Bucket.OPEN if is_waiting else Bucket.MATCHED, findings=findings)


def _is_waiting(entry: Entry, last: Observation, findings: list[Finding], rules: Rules) -> bool:
    """Say whether time may still settle it: both sides are pending in time, or the grace has waived that one is."""
    differences = [finding for finding in findings if finding.code in STATUS_CODES]
    if differences:
        return all(finding.waived for finding in differences)
    # Where there is no difference and the ledger has a state, it has the same one.
    is_pending = last.transaction is not None and rules.read_status(last.transaction.status) is Status.PENDING
    return is_pending and isinstance(entry.status, str)


def _accepted(findings: list[Finding], entry: Entry, at: datetime, rules: Rules) -> list[Finding]:
    """Waive what somebody answers for at that time."""
    return [_if_accepted(finding, entry, at, rules) for finding in findings] if rules.accepted else findings


def _if_accepted(finding: Finding, entry: Entry, at: datetime, rules: Rules) -> Finding:
    accepted = rules.acceptance(finding.code, entry.reference)
    if finding.waived or accepted is None or not accepted.is_valid(at, rules.time_zone):
        return finding
    return evolve(finding, waived=accepted.waiver)


def _lost_zeros(entry: Entry, last: Observation, findings: list[Finding]) -> str:
    """Say which code of the ledger is the service's without its leading zeros; empty if none is, or it is waived."""
    decisive = {finding.code for finding in findings if finding.is_decisive}
    for name, code in (
        ("merchant_reff", Code.MERCHANT_REFF_DIFFERS),
        ("payment_code", Code.PAYMENT_CODE_DIFFERS),
    ):
        ours, theirs = getattr(entry, name), getattr(last.transaction, name)
        is_text = isinstance(ours, str) and isinstance(theirs, str) and theirs.isdecimal()
        if code in decisive and is_text and ours == theirs.lstrip("0"):
            return (
                f"{name}: {quoted(ours)} is {quoted(theirs)} at the service; "
                "the leading zeros were lost in a spreadsheet, so export the column as text"
            )
    return ""


def _seen_once(case: Case) -> str:
    return f"a difference was seen once and is not confirmed: {_ended_early(case)}"


def _ended_early(case: Case) -> str:
    return f"the run ended early, because {case.ended_by.message}" if case.ended_by else "the run did not get there"


def _row(
    case: Case, entry: Entry, rules: Rules, bucket: Bucket, *, findings: list[Finding] | None = None, reason: str = ""
) -> Row:
    """Make the row, with what is true in every bucket; one that would be no break is one if a finding decides so."""
    found = findings or []
    if case.rows > 1:
        sentence = f"{case.rows} rows of the ledger have the reference {quoted(entry.reference)}"
        found.append(Finding(Code.DUPLICATE_REFERENCE, sentence, ledger=entry.reference))
    first, last = case.first, case.second or case.first
    is_answered = last is not None and last.answer is not Answer.FAILED
    if last is not None:
        found = _accepted(found, entry, last.at, rules)
    is_agreed = bucket in (Bucket.MATCHED, Bucket.OPEN)
    seen = last if is_answered else first  # what was seen before asking again failed is still worth showing
    return Row(
        entry=entry,
        bucket=Bucket.BREAK if is_agreed and any(each.is_decisive for each in found) else bucket,
        findings=in_order(found),
        transaction=seen.transaction if seen else None,
        reason=visible(reason, longest=_LONGEST_REASON),
        error=_error(case, last),
        observed_at=first.at if first else None,
        confirmed_at=case.second.at if case.second and is_answered else None,
        is_changed_during_run=bool(first and last and is_answered and not last.agrees_with(first)),
        is_repeat=case.is_repeat,
    )


def _error(case: Case, last: Observation | None) -> str | None:
    if last is None:
        return case.ended_by.error if case.ended_by else None
    return last.error

"""Judge what a journal holds, without any lookup: by its rules, and in a copy by others."""

from __future__ import annotations

import json
from collections.abc import Iterator

from attrs import evolve

from payclient.reconcile.journal import Journal
from payclient.reconcile.judge import Case, judge
from payclient.reconcile.nights import MAX_GONE_FOR, BreakChange, changes_of, seen_of
from payclient.reconcile.rules import STRICT, Rules
from payclient.reconcile.values import JournalError, ResolvedBy, Row


def replay(journal: Journal, *, rules: Rules = STRICT, reference: str | None = None) -> Iterator[Row]:
    """
    Judge every row of a journal again, without any lookup.

    Args:
        journal: Of a run that has read its whole ledger; rows that were not looked up are unresolved.
        rules: How differences are judged.
        reference: Only the rows that have it.

    Note:
        In the order of the ledger, lazily; the same rows each time.
    """
    before = None if journal.previous is None else journal.previous.rules
    if before is not None and (before.fingerprint == rules.fingerprint or _is_put_together(before, rules)):
        before = None
    rows = (_judged(case, rules, before) for case in journal.cases(reference, rules=rules))
    return rows if reference is not None else map(journal.counting_once(), rows)


def break_changes(journal: Journal, *, rules: Rules = STRICT, ledger_sha256: str = "") -> Iterator[BreakChange]:
    """Yield the change of each break of the previous run, by reference; nothing without one."""
    # Resolved breaks stay among them for 400 runs, so that one that comes back is not taken as new.
    # What the same ledger does not say any more, the rules have settled: hence its checksum.
    previous = journal.previous
    if previous is None:
        return
    unchanged = [ResolvedBy.LEDGER] if ledger_sha256 and ledger_sha256 == previous.ledger_sha256 else []
    for earlier, cases in journal.earlier_cases(rules=rules):
        rows = [judge(case, rules=rules) for case in cases]
        was = seen_of(earlier.reference, (), run=previous.run, remembered=earlier.breaks)
        now = seen_of(earlier.reference, rows, run=journal.run)
        beside = max((each.at_stake for each in now.breaks.values()), default=None)
        for change in changes_of(was, now, is_judged=journal.is_judged, unchanged=unchanged):
            if change.was is not None and change.now.gone_for <= MAX_GONE_FOR:
                yield evolve(change, beside=beside)


def _is_put_together(before: Rules, rules: Rules) -> bool:
    """Return whether the rules put other ledger rows together, so that the rows of both cannot be compared."""
    return before.lines != rules.lines or before.invoices != rules.invoices


def _judged(case: Case, rules: Rules, before: Rules | None) -> Row:
    row = judge(case, rules=rules)
    if before is None:
        return row
    bucket = judge(case, rules=before).bucket
    return row if bucket is row.bucket else evolve(row, earlier_bucket=bucket)


def judge_again(journal: Journal, *, rules: Rules) -> int:
    """Derive a copy of a journal again by other *rules*; return how many second lookups it lacks by them."""
    # The ledger and the answers stay as they are. What lacks its second lookup is unresolved.
    rules.check_zone()
    if not journal.is_ledger_complete:
        message = "the run has not read its whole ledger, so there is nothing to judge; run the same command again"
        raise JournalError(message)
    journal.answers.mark_again(rules, journal.side_of)
    identity = json.loads(journal.note("identity") or "{}")
    journal.set_note("identity", json.dumps({**identity, "rules": rules.fingerprint}))
    return journal.answers.count_to_confirm()

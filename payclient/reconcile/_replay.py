"""Judge a journal without any lookup: by its own rules, or a copy of it by others."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from attrs import evolve

from payclient._shared.escape import plural
from payclient.reconcile.journal import OpenJournal
from payclient.reconcile.judgement.errors import JournalError
from payclient.reconcile.judgement.findings import Bucket, ResolvedBy, Row
from payclient.reconcile.judgement.judge import Case, judge
from payclient.reconcile.judgement.records import MAX_GONE_FOR, BreakChange, changes_of, with_history
from payclient.reconcile.judgement.rule_values import KindGuard
from payclient.reconcile.judgement.rules import STRICT, Rules


def replay(journal: OpenJournal, *, rules: Rules = STRICT) -> Iterator[Row]:
    """Judge each row of a journal lazily, in the order of the ledger. Rows that were not looked up are unresolved."""
    return map(judging(journal, rules), journal.cases(rules=rules))


def judging(journal: OpenJournal, rules: Rules) -> Callable[[Case], Row]:
    """Return the judgement of a case, with the row's history from the previous run."""
    previous, run = journal.previous, journal.run
    if previous is None:
        return partial(judge, rules=rules)

    def judged(case: Case) -> Row:
        row = judge(case, rules=rules)
        if case.earlier is None:
            return row
        if case.is_carried:
            row = evolve(row, carried_from=case.earlier.carried_from or previous.run)
        if case.earlier.is_paid and row.bucket in (Bucket.UNRESOLVED, Bucket.REJECTED):
            row = evolve(row, was_paid=True)
        if case.earlier.state and row.state not in ("", case.earlier.state):
            row = evolve(row, state_before=case.earlier.state)
        return with_history(row, case.earlier, run=run)

    return judged


def break_changes(journal: OpenJournal, *, rules: Rules = STRICT, ledger_sha256: str = "") -> Iterator[BreakChange]:
    """Yield the change of each break of the previous run, by reference. Nothing without one."""
    # Resolved breaks stay among them for 400 runs, so that a returning break is not taken as new.
    # A break that the same ledger no longer shows was resolved by the rules: hence its checksum.
    previous = journal.previous
    if previous is None:
        return
    unchanged = [ResolvedBy.LEDGER] if ledger_sha256 and ledger_sha256 == previous.ledger_sha256 else []
    judged = judging(journal, rules)
    for earlier, cases in journal.earlier_cases(rules=rules):
        rows = list(map(judged, cases))
        for change in changes_of(
            *(earlier.reference, earlier.by_code, rows),
            run=journal.run,
            before=previous.last_observed_at,
            is_judged=journal.is_judged,
            unchanged=unchanged,
        ):
            if change.was is not None and change.now.gone_for <= MAX_GONE_FOR:
                yield change


def judge_again(journal: OpenJournal, *, rules: Rules) -> int:
    """Judge a copy of a journal by other *rules*. Return the number of second lookups that they need and it lacks."""
    # The ledger and the answers stay as they are. A difference without a second lookup is unresolved.
    rules.check_zone()
    guard = KindGuard(rules.lines.kind)
    for case in islice(journal.cases(rules=STRICT), 1):  # if one row has a kind, all have
        guard.check(case.entry)
    if not journal.is_ledger_complete:
        message = "the run has not read its whole ledger, so there is nothing to judge; run the same command again"
        raise JournalError(message)
    identity, change = json.loads(journal.note("identity") or "{}"), journal.ledger_change
    might_leave = json.loads(identity.get("rules", "{}")).get("may_leave")
    if might_leave and not rules.may_leave and change is not None and change.missing.rows:
        message = f"{plural(change.missing.rows, 'row')} left the ledger by may_leave = true, and was not looked up"
        raise JournalError(f"{message}; without may_leave, reconcile again")
    journal.answers.mark_again(rules, journal.side_of)
    journal.set_note("identity", json.dumps({**identity, "rules": rules.judging}))
    return journal.answers.count_to_confirm()

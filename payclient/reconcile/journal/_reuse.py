"""
Reuse answers of the previous run, instead of looking all references up again.

Design rules:

- Only of rows that matched then and match now, with a status that the rules list as final, and whose ledger row is the
  same. What is not certain is looked up.
- The age counts from the answer, and stays when an answer is reused again.
- A reused answer confirms nothing in this run: it is no probe, and no difference rests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from operator import attrgetter
from typing import TypeAlias

from attrs import frozen

from payclient.ledger import COMPARED, Entry
from payclient.reconcile.journal._journal import Journal
from payclient.reconcile.judge import Case, judge, judged_entries, paid_reff_of
from payclient.reconcile.rules import Rules
from payclient.reconcile.values import Bucket, Observation

EarlierAnswers: TypeAlias = Callable[[], Iterator[tuple[Sequence[Entry], Observation]]]
"""Yields the rows that matched in the previous run: the entries of each, and the answer with the run that asked."""

NOTE = "reused"
"""The note of a journal that answers were taken over into."""

_same = attrgetter(*COMPARED, "kind")
_ANSWERS_PER_STEP = 1_000


@frozen(kw_only=True)
class Reuse:
    """The answers of the previous run that stand, and the age of the oldest at the start of this run."""

    max_age: timedelta
    answers: EarlierAnswers


def take_over(journal: Journal, reuse: Reuse, *, rules: Rules, now: datetime) -> Iterator[int]:
    """Store the answers that can be reused, once for each journal; yield the number read, for a turn of the loop."""
    if journal.note(NOTE) is not None:
        return
    answers, previous = reuse.answers(), journal.previous
    last = 0 if previous is None else previous.rows  # those after it are of the run before, and looked up again
    while some := list(islice(answers, _ANSWERS_PER_STEP)):
        for entries, answer in some:
            if timedelta(0) <= now - answer.at <= reuse.max_age:
                _take(journal, entries, answer, rules, last=last)
        yield len(some)
    journal.answers.write()
    journal.set_note(NOTE, "done")


def _take(journal: Journal, entries: Sequence[Entry], answer: Observation, rules: Rules, *, last: int) -> None:
    found = answer.transaction
    if found is None or rules.read_status(found.status) not in rules.final_statuses:
        return
    pending = journal.answers.pending(entries[0].reference)
    if pending is None or (last and pending.position > last) or _fields(pending.entries) != _fields(entries):
        return
    judged = judged_entries(pending.entries, found, rules)
    if len(judged) > 1:
        return
    case = Case(entry=judged[0], first=answer, other_side=journal.side_of(pending, rules))
    if judge(case, rules=rules).bucket is Bucket.MATCHED:
        journal.answers.add(pending.position, answer, paid_reff=paid_reff_of(answer, rules=rules))


def _fields(entries: Sequence[Entry]) -> list[str]:
    return sorted(repr(_same(entry)) for entry in entries)

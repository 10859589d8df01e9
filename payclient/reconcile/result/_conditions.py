"""The conditions in which a reconciliation ends: one ordered table of verdict, exit status and remedies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, TypeAlias

from attrs import frozen

from payclient.reconcile.values import Bucket, Severity

if TYPE_CHECKING:
    from payclient.reconcile.result._summary import Summary

EXIT_STATUSES: Mapping[int, str] = MappingProxyType(
    {
        3: "nothing was found, so the key or the environment may be wrong; name a reference that exists with --canary",
        1: "breaks of at least medium severity, rejected rows, or columns newly left out (--fail-on moves the line)",
        75: "incomplete; the same command resumes",
        0: "nothing to do",
    }
)
"""The exit statuses of a run that has ended, in words; of several, the first one here counts."""


class Verdict(StrEnum):
    """
    The result of a reconciliation in one word.

    Attributes:
        EMPTY: Nothing was read, so nothing was compared.
        CLEAN: Every row matched, or is open.
        PARTIAL: Every row matched, or is open, but the amounts, the status, a sheet or a column that may decide what a
            row means were not compared, or a column that is ignored has a new word.
        BREAKS: Something differs, or a row was rejected.
        INCOMPLETE: Some rows have no trustworthy answer yet, whatever the others say.
    """

    EMPTY = "empty"
    CLEAN = "clean"
    PARTIAL = "partial"
    BREAKS = "breaks"
    INCOMPLETE = "incomplete"


class Remedy(StrEnum):
    """What leads on after a verdict; the command line makes a command of each."""

    DIAGNOSE = "diagnose"
    RESUME = "resume"
    EXPLAIN = "explain"
    SHOW = "show"
    READ_LEDGER = "read_ledger"
    CHOOSE_COLUMNS = "choose_columns"
    CHOOSE_SHEET = "choose_sheet"
    ASSUME_PAID = "assume_paid"


@frozen
class FailOn:
    """What gives exit status 1: breaks from a severity on, only new ones if a previous run is known, and *partial*."""

    least: Severity = Severity.MEDIUM
    only_news: bool = False
    partial: bool = False

    @classmethod
    def of(cls, word: Severity | str, *, only_news: bool = False) -> FailOn:
        """Return the limit for a severity, its word, or `partial`: as medium, and each *partial* verdict, too."""
        if word == Verdict.PARTIAL.value:
            return cls(only_news=only_news, partial=True)
        return cls(Severity[word.upper()] if isinstance(word, str) else word, only_news)


_Holds: TypeAlias = "Callable[[Summary], object]"
_Fails: TypeAlias = "Callable[[Summary, FailOn], object]"


def _always(_: Summary, __: FailOn) -> bool:
    return True


def _severe(summary: Summary, fail_on: FailOn) -> bool:
    is_news = fail_on.only_news and summary.since is not None
    breaks = summary.open_findings.news if is_news else summary.breaks
    return any(count for severity, count in breaks.items() if severity >= fail_on.least)


def _partial(_: Summary, fail_on: FailOn) -> bool:
    return fail_on.partial


class Condition(StrEnum):
    """
    What is the case after a run; the first one that holds gives the verdict and the advice.

    Attributes:
        verdict: The verdict if no condition before it holds.
        status: The exit status of such a run.
        remedies: What leads on, the best first.
        holds: Whether it is the case in a summary.
        fails: Whether it gives its exit status, for the limits of the caller; otherwise that is 0.
    """

    verdict: Verdict
    status: int
    remedies: tuple[Remedy, ...]
    holds: _Holds
    fails: _Fails

    def __new__(cls, name: str, verdict: Verdict, status: int, holds: _Holds, fails: _Fails, *remedies: Remedy) -> Self:
        condition = str.__new__(cls, name)
        condition._value_, condition.verdict, condition.status = name, verdict, status
        condition.holds, condition.fails, condition.remedies = holds, fails, remedies
        return condition

    NOTHING_READ = (
        *("nothing_read", Verdict.EMPTY, 0),
        *(lambda it: not any(each.rows for each in it.buckets.values()), _always),
        Remedy.READ_LEDGER,
    )
    NOTHING_FOUND = (*("nothing_found", Verdict.INCOMPLETE, 3, lambda it: it.lacking_probe, _always), Remedy.DIAGNOSE)
    NOTHING_ANSWERED = (
        *("nothing_answered", Verdict.INCOMPLETE, 75),
        *(lambda it: 0 < it.rows == it.buckets[Bucket.UNRESOLVED].rows and not it.lacking_probe, _always),
        *(Remedy.DIAGNOSE, Remedy.RESUME),
    )
    UNRESOLVED = (
        *("unresolved", Verdict.INCOMPLETE, 75),
        *(lambda it: it.buckets[Bucket.UNRESOLVED].rows > it.lacking_probe, _always),
        Remedy.RESUME,
    )
    BREAKS = (*("breaks", Verdict.BREAKS, 1, lambda it: it.buckets[Bucket.BREAK].rows, _severe), Remedy.EXPLAIN)
    REJECTED = (
        *("rejected", Verdict.BREAKS, 1, lambda it: it.buckets[Bucket.REJECTED].rows, _always),
        Remedy.READ_LEDGER,
    )
    NOT_TIED = (
        *("not_tied", Verdict.BREAKS, 1, lambda it: it.settlement is not None and it.settlement.is_off, _always),
        Remedy.SHOW,
    )
    AMOUNTS_LEFT_OUT = (
        *("amounts_left_out", Verdict.PARTIAL, 1, lambda it: it.compared.are_amounts_left_out, _partial),
        Remedy.CHOOSE_COLUMNS,
    )
    SHEETS_LEFT_OUT = (
        *("sheets_left_out", Verdict.PARTIAL, 1, lambda it: it.compared.unread_sheets, _partial),
        Remedy.CHOOSE_SHEET,
    )
    COLUMNS_LEFT_OUT = (
        *("columns_left_out", Verdict.PARTIAL, 1, lambda it: it.compared.unused, _partial),
        Remedy.CHOOSE_COLUMNS,
    )
    STATEMENT_LEFT_OUT = (
        *("statement_left_out", Verdict.PARTIAL, 1, lambda it: it.compared.unused_in_statement, _partial),
        Remedy.RESUME,
    )
    STATUS_LEFT_OUT = (
        *("status_left_out", Verdict.PARTIAL, 1, lambda it: it.compared.status_left_out),
        *(lambda it, fail_on: it.compared.not_paid or _partial(it, fail_on),),
        Remedy.ASSUME_PAID,
    )
    NEWLY_LEFT_OUT = (*("newly_left_out", Verdict.PARTIAL, 1, lambda it: it.compared.news, _always), Remedy.READ_LEDGER)
    CLEAN = "clean", Verdict.CLEAN, 0, lambda _: True, _always

"""Internal: the words of a report: sentences about figures, labels and explanations. All of them are safe to print."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import singledispatch
from typing import Any

from attrs import astuple

from payclient._shared.escape import escape_unprintable, plural, quote
from payclient.reconcile._judgement import summary
from payclient.reconcile._judgement.causes import SETTLED, Pattern
from payclient.reconcile._judgement.codes import BridgeStep, Code, PatternKind, Status
from payclient.reconcile._judgement.decisions import Decision, Resolution
from payclient.reconcile._judgement.findings import BreakState, Bucket, Finding, FindingTotal, ResolvedBy
from payclient.reconcile._judgement.records import FirstSeen, LedgerChange, PreviousRun, Sight, SincePrevious
from payclient.reconcile._judgement.rules import IgnoredLines, RuleChange, UnknownWord
from payclient.reconcile._judgement.sides import StatementTotals
from payclient.reconcile._judgement.summary import Condition
from payclient.reconcile.ledger import UnreadSheet, UnusedColumn

_AGAIN = "Run the same command again: it asks only about the unresolved rows. Until then, figures may change."

ADVICE: Mapping[Condition, str] = {
    Condition.NOTHING_READ: "Check that the right file was given, and that it has more than a header.",
    Condition.NOTHING_FOUND: "No transaction found: wrong key or environment? Name a known reference with --canary.",
    Condition.NOTHING_ANSWERED: _AGAIN,
    Condition.UNRESOLVED: _AGAIN,
    Condition.BREAKS: "Go through the breaks below, the most severe first.",
    Condition.REJECTED: "Correct the rejected rows in the ledger, and run again.",
    Condition.NOT_TIED: "No row differs, but the statement does not tie: see the bridge to it, and what is below.",
    Condition.AMOUNTS_LEFT_OUT: (
        "Amounts were not compared, so the money may differ. Name the column with --column amount=NAME, if "
        "there is one."
    ),
    Condition.SHEETS_LEFT_OUT: (
        "The first sheet was read, and others have rows: name the right one with --sheet NAME. A sheet of a "
        "statement is chosen by saving it as a file."
    ),
    Condition.STATUS_LEFT_OUT: (
        "The status was not compared, so a payment may be unpaid. Add a status column, or assume paid."
    ),
    Condition.NOT_KNOWN: "Breaks of earlier runs are not known now, because this run lacks what they are about.",
    Condition.NEWLY_LEFT_OUT: (
        "Something is not compared that the previous run had or compared, or did not have. Look at it before you sign: "
        "the next run does not name it."
    ),
    Condition.CLEAN: "No action is needed.",
}
"""The advice if the condition decides the verdict. About columns that are left out, see `columns_advice`."""


# What was compared

_MAX_UNUSED = 8  # columns of one kind that a sentence names


def _first(named: Sequence[str]) -> list[str]:
    return [*named[:_MAX_UNUSED], *([f"{len(named) - _MAX_UNUSED:,} more"] if named[_MAX_UNUSED:] else [])]


def not_compared(compared: summary.Compared) -> Iterator[str]:
    """Yield the unused columns, with sums of numbers and counts of texts, and those newly left out."""
    columns = defaultdict[str, list[str]](list)
    for of, unused in (("", compared.unused), (" in the statement", compared.unused_in_statement)):
        for column in unused:
            columns[f"not {'used' if column.amount is None else 'compared'}{of}"].append(in_words(column))
    yield from (f"{what}: {'; '.join(_first(named))}" for what, named in columns.items())
    if compared.unread_sheets:
        yield f"sheets not read: {', '.join(map(in_words, compared.unread_sheets))}"
    if named := ", ".join(f"{kind} {quote(name)}" for kind, name in compared.news[:_MAX_UNUSED]):
        more = len(compared.news) - _MAX_UNUSED
        yield f"new, and not compared: {named}{f' and {more:,} more' if more > 0 else ''}"


def ignored(compared: summary.Compared) -> list[str]:
    """Return the contents of the columns that are ignored by name, unless they are the same in all rows."""
    named = [in_words(each) for each in compared.ignored if each.words.keys() - {next(iter(each.words), "")}]
    return [f"Ignored by rule: {'; '.join(_first(named))}."] if named else []


def columns_advice(compared: summary.Compared) -> str:
    """Return how to decide about the columns that are not used. They are ignored only by name."""
    said = ["An unused column may change the result: use it with --column FIELD=NAME."]
    if compared.unused:
        said.append(
            "Or give its words a meaning in [lines.kind] of the rules. A column that isn't about the payments is "
            "ignored by name with --ignore-column NAME."
        )
    if compared.unused_in_statement:
        names = ", ".join(quote(each.name) for each in compared.unused_in_statement)
        said.append(f"If the statement's columns don't matter: ignore_columns = [{names}] in [statement] of the rules.")
    return " ".join(said)


def large_remarks(compared: summary.Compared) -> list[str]:
    """Return the remarks without which a verdict would mislead."""
    said = ["Amounts not compared: no column of the ledger is used as the amount."] * compared.are_amounts_left_out
    if compared.status_left_out:
        which = f"{compared.not_paid:,} of {compared.status_left_out:,} {'is' if compared.not_paid == 1 else 'are'}"
        said.append(f"Status not compared; {which} not paid at the service.")
    return said


_TO_REVIEW = {
    summary.AcceptanceState.MET_NO_ROW: "matches no row: remove it",
    summary.AcceptanceState.CHANGED: "doesn't fit the present difference: look at the row again",
    summary.AcceptanceState.ENDED: "has ended: settle the difference, or accept it again",
    summary.AcceptanceState.ENDS_SOON: "is about to end",
}


# Open findings


def at_stake_sentence(found: summary.OpenFindings) -> str:
    """Return the open findings, those older than 30 days, and those with money counted twice."""
    old, payments = found.old, plural(found.payments.count, "payment")
    said = f"{found.closing.count:,} open, with {found.closing.amount:,} at stake"
    said += f"; {old.count:,} of them for more than 30 days, with {old.amount:,}" if old.count else ""
    once = f"; {found.payments.amount:,} in {payments}, each counted once, by its largest finding"
    return said + (once if found.payments != found.closing else "")


BUCKETS: Mapping[Bucket, tuple[str, str]] = {
    Bucket.MATCHED: ("Matched", "Everything compared agrees."),
    Bucket.OPEN: ("Open", "Not paid or not settled yet, and not late."),
    Bucket.BREAK: ("Breaks", "The two sides differ."),
    Bucket.UNRESOLVED: ("Unresolved", "No trustworthy answer yet."),
    Bucket.REJECTED: ("Rejected", "The ledger row cannot be used."),
}
"""The heading of some rows, and a sentence about them."""


def roll_forward_lines(found: summary.OpenFindings) -> Iterator[tuple[str, int | None, int]]:
    """Yield the roll-forward of the open findings, without steps of nothing: label, number and amount at stake."""
    nothing, changed = FindingTotal(), found.changed
    steps = {"New": found.new, "Reopened": found.reopened, "Resolved": nothing - found.resolved}
    moved = [(label, total.count, total.amount) for label, total in steps.items() if total != nothing]
    if moved or changed != nothing or found.closing.count:
        yield ("Open before", found.opening.count, found.opening.amount)
        yield from moved
        yield from [(f"Changed ({changed.count:,})", None, changed.amount)] if changed != nothing else ()
        yield ("Open now", found.closing.count, found.closing.amount)


def open_lines(found: summary.OpenFindings) -> Iterator[tuple[str, int, int]]:
    """Yield the open findings by kind and by age, each list with its sum: label, number and amount at stake."""
    for code, total in found.by_code.items():
        yield (code.label, total.count, total.amount)
    yield ("All kinds", found.closing.count, found.closing.amount)
    if found.payments != found.closing:
        more, again = found.closing.count - found.payments.count, found.closing.amount - found.payments.amount
        yield ("Further findings of the same payments", -more, -again)
        yield ("Payments, each once", found.payments.count, found.payments.amount)
    yield from open_ages(found)


def open_ages(found: summary.OpenFindings) -> Iterator[tuple[str, int, int]]:
    for age, total in found.by_age.items():
        yield (f"Open {age}" if age != "older" else "Open for longer", total.count, total.amount)
    yield ("All ages", found.closing.count, found.closing.amount)


CASE_ONLY: tuple[str, str] = (
    "merchant_reff in other letters",
    "Only letter case or spacing differs: most likely one side changed it on the way.",
)
"""The heading and the advice of `merchant_reff_differs` if it is less severe than usual."""


# Two runs


def counted(counts: Mapping[BreakState, int], states: Iterable[BreakState]) -> str:
    """Return the number of breaks in each of the *states* that has any."""
    return ", ".join(f"{counts[each]:,} {in_words(each)}" for each in states if counts[each])


def moves(counts: Mapping[BreakState, int], since: str) -> str:
    """Return the number of breaks in each state since a run."""
    now = counted(counts, (BreakState.NEW, BreakState.STILL_OPEN, BreakState.CHANGED, BreakState.REOPENED))
    gone = counted(counts, (BreakState.RESOLVED, BreakState.NOT_KNOWN))
    return f"{now or 'no breaks'}; {gone or 'none resolved'} since {since}."


# Values in words


def when(time: datetime | None) -> str:
    """Return *time* in UTC, to the second. Empty for None."""
    return "" if time is None else time.astimezone(UTC).isoformat(" ", "seconds")[:19]


_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_MAX_CHANGES = 10
_MAX_SHOWN = 5
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TENS = frozenset(10**power for power in range(1, 7))


@singledispatch
def in_words(value: object) -> str:
    """Return a value as people read it. Safe to print. May be empty."""
    return str(value)


@in_words.register
def _(_: None) -> str:
    return ""


@in_words.register
def _(value: BreakState | BridgeStep) -> str:
    return value.replace("_", " ")


@in_words.register
def _(value: ResolvedBy) -> str:
    words = {ResolvedBy.BOTH: "both sides", ResolvedBy.RULE: "a rule", ResolvedBy.ACCEPTANCE: "an acceptance"}
    return words.get(value, f"the {value}")


@in_words.register
def _(value: Finding) -> str:
    return f"{value.sentence} ({value.waived})" if value.waived else value.sentence


@in_words.register
def _(value: UnusedColumn) -> str:
    name = escape_unprintable(value.name, max_length=80)
    if value.amount is not None:
        return f"{name} {value.amount:,}"
    shown = [f"{escape_unprintable(word, max_length=80)} {rows:,}" for word, rows in value.words.items()]
    return f"{name}: {', '.join(shown[:_MAX_SHOWN])}{' …' if shown[_MAX_SHOWN:] else ''}"


@in_words.register
def _(value: UnreadSheet) -> str:
    return f"{quote(value.name)} ({plural(value.rows, 'row')})"


@in_words.register
def _(value: IgnoredLines) -> str:
    return f"{plural(value.lines, 'line')} of the kind {quote(value.word)} left out by the rules: {value.amount:,}"


@in_words.register
def _(value: StatementTotals) -> str:
    lines = f"{plural(value.ignored_lines, 'line')} of the statement"
    return f"{lines} left out by the rules: {value.ignored_amount:,}" if value.ignored_lines else ""


@in_words.register
def _(value: UnknownWord) -> str:
    which = f"{quote(value.word)} of {plural(value.rows, 'row')}"
    key = f"{value.table}.{_key(value.word)}"
    if value.table == "statuses":
        said = f'status {which} is unknown, so none of them can match. Write the status that it means: {key} = "?"'
    else:
        said = f'payment_method {which} is not in the rules. If the service calls it VA, for example: {key} = "VA"'
    return escape_unprintable(said, max_length=300)


@in_words.register
def _(value: Decision) -> str:
    which, who = f"{value.code} of {quote(value.reference)}", value.owner or value.by
    said = f"{which} is still there, although {who} marked it on {value.at.date()} as {Resolution.CORRECTED}"
    return escape_unprintable(said, max_length=400)


@in_words.register
def _(value: summary.AcceptanceNotice) -> str:
    accepted = value.accepted
    which = f"{accepted.code} of {quote(accepted.reference)}"
    by = f"accepted by {accepted.owner} until {accepted.expires}"
    return escape_unprintable(f"{which}, {by}, {_TO_REVIEW[value.state]}", max_length=400)


@in_words.register
def _(value: summary.Leakage) -> str:
    method, off = escape_unprintable(value.method) or "no method", value.fee_off_schedule
    said = f"{method}: {plural(value.rows, 'row')}, {value.short_received:,} not received"
    said += f", fees {off:+,} against the schedule" if off else ""
    return said + (f", up to {value.possible:,} more where no fee is known" if value.possible else "")


@in_words.register
def _(value: summary.Period) -> str:
    if value.first is None or value.last is None:
        return "unknown: no row of the ledger has a time of creation"
    without = f"; {plural(value.without, 'row')} without a time" if value.without else ""
    first, last = (at.isoformat(" ", "seconds") for at in (value.first, value.last))
    return f"{first} to {last}, by the creation of {plural(value.lines, 'row')}{without}"


@in_words.register
def _(value: FirstSeen) -> str:
    shown = value.value if value.kind in (Sight.ERROR, Sight.TRANSITION) else quote(value.value)
    return escape_unprintable(f"{value.kind} {shown}: {plural(value.rows, 'row')}, {value.amount:,}", max_length=300)


@in_words.register
def _(value: RuleChange) -> str:
    was, now = (_rule_value(value.key, each) for each in (value.before, value.now))
    return escape_unprintable(f"{value.key} was {was}, and is {now} now", max_length=300)


def _rule_value(key: str, value: Any) -> str:
    if value and key.startswith("accepted."):
        return "accepted by {owner} until {expires} ({reason})".format(**value[0])
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


@in_words.register
def _(value: LedgerChange) -> str:
    sides = zip(*map(astuple, (value.before, value.new, value.left)), strict=True)
    rows, amounts = (f"{before:,} before + {new:,} new - {left:,} left" for before, new, left in sides)
    changed = f" {'+' if value.changed > 0 else '-'} {abs(value.changed):,} changed" if value.changed else ""
    now, amount = f"{value.now.rows:,}", f"{value.now.amount:,}"
    said = f"Rows of the ledger: {rows} = {now}; amounts in all states: {amounts}{changed} = {amount}."
    if not value.missing.rows:
        return said
    start = value.covers_from
    when = "no row has its time of creation" if start is None else f"it begins at {start:%Y-%m-%d %H:%M}"
    named = ", ".join(map(quote, value.references)) + (", …" if value.missing.rows > len(value.references) else "")
    missing = f"{plural(value.missing.rows, 'row')} that matched before, with {value.missing.amount:,},"
    left = f"{missing} left the ledger, although it still covers their time ({when}): {named}."
    way = "Export it again, or declare may_leave = true in the rules."
    return escape_unprintable(f"{said} {left} {way}", max_length=2200)


@in_words.register
def _(value: summary.JudgedAgain) -> str:
    rules = ", ".join(value.changed_rules)
    how = f"by other rules ({rules})" if rules else "by the same rules"
    which = f"the run {value.run}" if value.run else "the run"
    return f"The answers of {which} in {quote(value.folder)}, judged again {how}, without new lookups."


@in_words.register
def _(value: PreviousRun) -> str:
    at = value.last_observed_at
    return quote(value.folder) if at is None else f"{at.day} {_MONTHS[at.month - 1]}"


def origin_sentence(previous: PreviousRun) -> str:
    """Return the names and checksums of a run. They tie the opening balance of the next run to it."""
    return (
        f"of the run {previous.run or 'without a name'} in {quote(previous.folder)}; SHA-256 of its manifest "
        f"{previous.manifest_sha256 or 'not recorded'}, of its rows {previous.rows_sha256 or 'not recorded'}"
    )


def reused_sentence(since: SincePrevious) -> str:
    """Return the number of rows that were not looked up, and the age of their answers. Empty if all were."""
    reused = since.reused
    if reused.oldest_at is None or reused.newest_at is None:
        return ""
    first, last = (f"{at:%Y-%m-%d %H:%M}" for at in (reused.oldest_at, reused.newest_at))
    when = f"of {first}" if first == last else f"from {first} to {last}"
    were, answers = ("was", "its answer is") if reused.rows == 1 else ("were", "their answers are")
    return f"{plural(reused.rows, 'row')} that matched before {were} not looked up again: {answers} {when} UTC."


def rules_sentences(since: SincePrevious) -> tuple[str, ...]:
    """Return the rules that changed, and their old and new values with who decided. Nothing if none changed."""
    said = [f"Rules that changed since the previous run: {', '.join(since.changed_rules)}."] * bool(since.changed_rules)
    if since.rule_changes:
        values = [in_words(each) for each in since.rule_changes[:_MAX_CHANGES]]
        more = len(since.rule_changes) - len(values)
        values += [f"and {more:,} more, which summary.json has"] * bool(more)
        by = escape_unprintable(since.changed_by, max_length=100)
        are_all_owned = all(each.key.startswith("accepted.") for each in since.rule_changes)
        unnamed = "" if are_all_owned else " (by whom is not in the rules: [meta] changed_by)"
        said.append(f"{'; '.join(values)}{f' (by {by})' if by else unnamed}.")
    return tuple(said)


# Patterns


@in_words.register
def _(value: Pattern) -> str:
    return f"{plural(value.rows, 'row')} ({value.amount:,}): {'; '.join(pattern_words(value))}"


def pattern_words(pattern: Pattern) -> tuple[str, str]:
    """Return what the rows share, and the rule or option that would treat it. Both safe to print."""
    words = _PATTERNS[pattern.kind](*pattern.values)
    sentence, treatment = (escape_unprintable(text, max_length=300) for text in words)
    return sentence, treatment


def _factor(name: str, numerator: int, denominator: int) -> tuple[str, str]:
    factor = Fraction(numerator, denominator)
    ours = "the statement's" if name == SETTLED else "the ledger's"
    big, of_whom, other = (factor, "the service's", ours) if abs(factor) > 1 else (1 / factor, ours, "the service's")
    sentence = f"{of_whom} {name.removeprefix('settled ')} is {_number(big)} times {other}"
    if name == SETTLED:
        return sentence, "see how the statement is read: payclient ledger STATEMENT; [statement.reading] declares it"
    if big in _TENS:
        return sentence, "export both sides in the same unit, and see how the ledger is read: payclient ledger FILE"
    side = "above" if factor > 1 else "below"
    percent = abs(factor - 1) * 100
    if 0 < percent <= 100 and percent == round(percent, 6):
        return sentence, f"[tolerances.{name}] {side}_percent = {_number(percent)}, if the difference is expected"
    return sentence, "correct the export, because no rule allows such a factor"


def _number(value: Fraction) -> str:
    if value == round(value, 6):
        return f"{float(value):,.6f}".rstrip("0").rstrip(".")
    return f"{value.numerator}/{value.denominator}"


def _difference(name: str, difference: int) -> tuple[str, str]:
    side, more, less = ("above", "more", "less") if difference > 0 else ("below", "less", "more")
    if name == SETTLED:
        sentence = f"the statement's amount is {abs(difference):,} {less} than the service's"
        return sentence, "if its column is what was paid out: --statement-column amount_received=NAME"
    sentence = f"{name} is {abs(difference):,} {more} at the service"
    return sentence, f"[tolerances.{name}] {side} = {abs(difference)}, if the difference is expected"


def _fee_words(of: str, method: str, difference: int) -> tuple[str, str]:
    word, side = ("more", "above") if difference > 0 else ("less", "below")
    what = "the schedule expects" if of == "schedule" else "the ledger has"
    sentence = f"the fee of {quote(method or None)} is {abs(difference):,} {word} than {what}"
    tolerance = f"[tolerances.fee] {side} = {abs(difference)}"
    schedule = f"[fees.{_key(method)}] with the right schedule"
    return sentence, f"{schedule if of == 'schedule' else tolerance}, if that fee is right"


def _status_words(code: str, ours: str, theirs: str, meant: str | None, means: str | None) -> tuple[str, str]:
    sentence = f"status is {quote(ours or None)} in the ledger and {quote(theirs or None)} at the service"
    if code == Code.UNKNOWN_STATUS.value:
        word, meaning, side = (theirs, meant, "service") if meant else (ours, means, "ledger")
        sentence = f"unknown word {quote(word)} of the {side}: {sentence}"
        if not word:
            return sentence, "a status in the export, or --assume-status for a ledger without that column"
        return sentence, f'to map it: [statuses] {_key(word)} = "{"…" if meaning is None else meaning}"'
    if Status.PENDING in (meant, means):
        return sentence, 'grace = "36h", if such rows settle by themselves'
    return sentence, "correct the side that is wrong, because both words are known and no rule maps them"


def _pair_words(name: str, ours: str, theirs: str) -> tuple[str, str]:
    sentence = f"{name} is {quote(ours or None)} in the ledger and {quote(theirs or None)} at the service"
    if name == "payment_method" and ours and theirs:
        return sentence, f"if they are the same: methods.{_key(ours)} = {json.dumps(theirs, ensure_ascii=False)}"
    return sentence, "correct the export, because no rule maps such a pair"


def _key(word: str) -> str:
    return word if _BARE_KEY.fullmatch(word) else json.dumps(word, ensure_ascii=False)


_PATTERNS: Mapping[PatternKind, Callable[..., tuple[str, str]]] = {
    PatternKind.FACTOR: _factor,
    PatternKind.DIFFERENCE: _difference,
    PatternKind.FEE: _fee_words,
    PatternKind.STATUS: _status_words,
    PatternKind.WORDS: _pair_words,
}

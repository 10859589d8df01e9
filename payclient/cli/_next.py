"""What follows a refusal or a verdict: a command to paste, or what a person has to do before it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from payclient._shared.escape import escape_unprintable
from payclient._shared.options import OPTIONS
from payclient._shared.remedy import Remedy, Way
from payclient.cli._call import Call, new_path
from payclient.cli._options import LEDGER_ONLY, JudgingOptions, LedgerOptions, StatementOptions, option_name
from payclient.cli._streams import Exit, MissingRunError, RefusalError
from payclient.client import resolve_environment
from payclient.errors import ConfigurationError, PayClientError, TransportError
from payclient.protocol import endpoint
from payclient.reconcile import (
    DecisionError,
    FollowUp,
    Journal,
    JournalError,
    PastRunError,
    RulesError,
    Summary,
    Verdict,
    changed_rules,
    read_own,
    read_status,
    with_reading_of,
)
from payclient.reconcile.folders import JOURNAL, about_of
from payclient.reconcile.ledger import LedgerChangedError, LedgerError, UnusedColumn
from payclient.reconcile.report.integrity import MANIFEST

_MAX_WAYS = 4
_OF_LEDGER = {
    *("--allow-empty", "--rules", *LEDGER_ONLY),
    *(option_name(each.name) for each in attrs.fields(LedgerOptions)),
}
_OF_JUDGING = {"--rules", "--settles-within", *(option_name(each.name) for each in attrs.fields(JudgingOptions))}
_OF_SERVICE = {"--base-url", "--environment", "--api-key-file", "--proxy", "--ca-file", "--client-cert", "--client-key"}
_NEW_RULES = Path("rules.toml")
_MAX_RUNS = 5
_ONE_SHEET = "make sure that the other sheets give nothing of it back"
_ALL_PAID = "make sure that every row of the ledger is paid"


@frozen
class Step:
    """
    One way to go on.

    Attributes:
        call: The command; None if none is known, and *first* says what there is.
        first: What a person does before it; empty for nothing.
    """

    call: Call | None
    first: str = ""


def lines_of(steps: Iterable[Step], typed: Call) -> list[str]:
    """Return the lines that show *steps*, without a command that is the one *typed*, or that no shell takes safely."""
    texts: dict[str, str] = {}
    for step in steps:
        command = None if step.call is None or (step.call.is_same(typed) and not step.first) else step.call.text()
        if command is not None:
            texts.setdefault(f"{step.first}, then: {command}" if step.first else command, "")
        elif step.call is None:
            texts.setdefault(step.first, "")
    return [f"{'Or' if number else 'Next'}: {escape_unprintable(each)}" for number, each in enumerate(texts)]


def reading(call: Call) -> Call:
    """Return the command that shows how the ledger of *call* is read."""
    return attrs.evolve(call, name="ledger", words=call.words[:1]).only(_OF_LEDGER)


def reconciling(call: Call) -> Call:
    """Return the command that reconciles the ledger that *call* shows, with the options that it takes."""
    found = attrs.evolve(call, name="reconcile").only(_OF_LEDGER - LEDGER_ONLY.keys())
    return attrs.evolve(found, options=(("--out", "report"), *found.options))


def status_ways(unused: Iterable[UnusedColumn]) -> list[Way]:
    """Return the options that use one of the *unused* columns as the status: those with only words for a status."""
    found = [each.name for each in unused if each.texts and all(map(read_status, each.texts))]
    return [Way("column", name, "status") for name in found[:_MAX_WAYS]]


def rejudging(call: Call, folder: Path) -> Call:
    options = ("--out", new_path(folder, "-rejudged"))
    return attrs.evolve(call, name="rejudge", words=(str(folder),)).only(_OF_JUDGING).having(options)


def elsewhere(call: Call, out: Path) -> Call:
    return call.having(("--out", new_path(out)))


def about_folder(name: str, folder: Path, *more: str) -> Call:
    return Call(name, (str(folder), *more))


def diagnosis(call: Call) -> Call:
    return attrs.evolve(call, name="doctor", words=()).only(_OF_SERVICE)


def after_error(error: Exception, status: Exit, call: Call, bound: Mapping[str, Any]) -> list[Step]:
    """Return what follows a refusal of *call*, whose arguments are *bound*, or nothing if they were not understood."""
    if isinstance(error, RefusalError) and (error.is_last or error.first or error.ways):
        return [] if error.is_last else [Step(call.using(error.ways), error.first)]
    if not bound:
        return [Step(_saving(call) if call.name == "reconcile" and call.only(LEDGER_ONLY).options else _help(call))]
    if status is Exit.REFUSED or isinstance(error.__cause__ or error, TransportError):
        return [Step(diagnosis(call))]
    if isinstance(error, LedgerError) and "ledger" in bound:
        is_changed = isinstance(error, LedgerChangedError)
        return [Step(elsewhere(call, bound["out"]))] if is_changed else list(_after_reading(error, call))
    if isinstance(error, RulesError):
        return _after_rules(error, call, bound)
    return _after_folder(error, status, call, bound)


def _after_folder(error: Exception, status: Exit, call: Call, bound: Mapping[str, Any]) -> list[Step]:
    """Return what follows a folder that cannot be used, or another refusal."""
    if isinstance(error, MissingRunError):
        return _instead_of(error, call, bound)
    if isinstance(error, JournalError) and call.name == "reconcile":
        return [] if error.is_busy else [_after_other_run(error, call, bound)]
    if isinstance(error, JournalError | PastRunError) and call.name != "verify":
        folder = bound.get("folder") if isinstance(error, JournalError) else error.folder
        return [] if folder is None else [Step(about_folder("verify", folder))]
    if isinstance(error, DecisionError) and call.name == "decisions":
        return [Step(call, f"correct {bound['workbook']}")]
    is_usage = isinstance(error, ConfigurationError) and status is Exit.USAGE
    return [Step(_help(call))] if is_usage else []


def _help(call: Call) -> Call:
    return Call(call.name or "--help", (), (("--help", None),) if call.name else ())


def _saving(call: Call) -> Call:
    """Return the command that shows how the ledger is read, and writes a rules file; standard input is read once."""
    shown = reading(call)
    return shown if shown.words == ("-",) else shown.having(("--save-rules", new_path(_NEW_RULES)))


def _after_other_run(error: JournalError, call: Call, bound: Mapping[str, Any]) -> Step:
    out, changed = bound["out"], {*error.rules}
    with suppress(PayClientError), Journal(out / JOURNAL, must_exist=True) as journal:
        judging, other = bound.get("judging", JudgingOptions()), bound.get("other", StatementOptions())
        rules, before = other.declared(judging.rules()), about_of(journal).rules
        changed |= {*changed_rules(rules, with_reading_of(rules, before))}  # which takes another run
    may_rejudge = error.rules and changed == {*error.rules} and {"not_found_messages", "statement"}.isdisjoint(changed)
    return Step(rejudging(call, out) if may_rejudge else elsewhere(call, out))


def _after_reading(error: LedgerError, call: Call) -> Iterator[Step]:
    """Yield what follows a ledger or a statement that cannot be read."""
    is_statement = error.side == "statement"
    if error.remedies and all(each.is_decision for each in error.remedies):  # an empty file: look at it first
        yield Step(reading(call))
    if error.line > 1 and not (error.remedies or error.refused):
        yield Step(call, f"correct {error.file or call.words[0]}, line {error.line}")
    for remedy in [each for each in error.remedies if not each.is_decision][:_MAX_WAYS]:
        if not all(each.arguments(error.side) for each in remedy.ways):
            yield from _writing(remedy, call)
        elif is_statement or call.name == "ledger" or LEDGER_ONLY.keys().isdisjoint(way.flag for way in remedy.ways):
            yield Step(call.using(remedy.ways, error.side))
        else:
            yield Step(_saving(call.using(remedy.ways)))
    if error.refused is not None and not error.remedies:
        option = error.refused.arguments(error.side)
        if option and (option[0], option[1] if option[1:] else None) in call.options:
            rest = attrs.evolve(call, options=tuple(each for each in call.options if each[0] != option[0]))
            yield Step(rest if is_statement else reading(rest))


def _writing(remedy: Remedy, call: Call) -> Iterator[Step]:
    """Yield the same command with the rules file into which a person writes a remedy for the statement."""
    if words := remedy.words("statement"):
        rules = dict(call.options).get("--rules") or str(_NEW_RULES)
        yield Step(call.having(("--rules", rules)), f"write {words} {rules}")


def _after_rules(error: RulesError, call: Call, bound: Mapping[str, Any]) -> list[Step]:
    given = dict(call.options).get("--rules")
    if error.needs_column:
        return [Step(reading(call))] if "ledger" in bound else [Step(_help(call))]
    if given is None:
        is_table = bool(error.key) and "ledger" in bound and error.key[-1] == "kind"
        table = ".".join(map(str, error.key))
        step = Step(call.having(("--rules", str(_NEW_RULES))), f"write the table [{table}] into {_NEW_RULES}")
        return [step if is_table else Step(_help(call))]
    where = f", line {error.line}" if error.line else ""
    return [Step(call, f"edit {given}{where}")] if Path(given).is_file() else []


@frozen
class _Run:
    """A report, as its manifest and its summary describe it."""

    folder: Path
    of: tuple[str, str, str]
    """Name of the ledger, address and environment."""
    ended: str

    @classmethod
    def read(cls, folder: Path) -> _Run | None:
        with suppress(OSError, ValueError, LookupError, TypeError):
            manifest, summary = (json.loads(read_own(folder / name)) for name in (MANIFEST, "summary.json"))
            ledger, service = manifest["ledger"], manifest["service"]
            of = ledger["name"] if ledger else "", service["base_url"], service["environment"]
            return cls(folder, of, (summary["last_observed_at"] or "")[:16].replace("T", " "))
        return None


def _instead_of(error: MissingRunError, call: Call, bound: Mapping[str, Any]) -> list[Step]:
    """Return what follows a folder without a report: a command with the one that is meant, or the reports around."""
    missing = error.folder
    if missing.is_file() and (missing.parent / MANIFEST).exists():
        return [Step(_at(call, missing, missing.parent))]
    if call.name == "explain" and (Path(bound["reference"]) / MANIFEST).exists():
        return [Step(attrs.evolve(call, words=call.words[::-1]))]
    around = missing if missing.is_dir() else missing.parent
    found = [run for path in sorted(around.glob(f"*/{MANIFEST}")) if (run := _Run.read(path.parent)) is not None]
    if "ledger" in bound:
        options = dict(call.options)
        environment = resolve_environment(options.get("--environment"))
        url = endpoint(options.get("--base-url") or OPTIONS["base_url"].value(None), environment)
        same = [run for run in found if run.of == (Path(bound["ledger"]).name, url, environment)]
        if len(same) == 1:
            return [Step(_at(call, missing, same[0].folder))]
    if not found:
        return []
    newest = sorted(found, key=lambda run: run.ended, reverse=True)[:_MAX_RUNS]
    listed = ", ".join(f"{run.folder} ({run.of[0] or 'standard input'}, {run.ended})" for run in newest)
    return [Step(None, f"name the report that is meant: {listed}")]


def _at(call: Call, missing: Path, folder: Path) -> Call:
    """Return *call* with *folder* at the place of the one that is *missing*."""
    words = list(call.words)
    if call.name != "reconcile":
        place = next((place for place, word in enumerate(words) if Path(word) == missing), None)
        if place is not None:
            words[place] = str(folder)
            return attrs.evolve(call, words=tuple(words))
    flags = ("--previous", "--decisions", "--folder")
    options = tuple(
        (flag, str(folder) if flag in flags and value is not None and Path(value) == missing else value)
        for flag, value in call.options
    )
    return attrs.evolve(call, options=options)


def after_verdict(summary: Summary, references: Sequence[str], call: Call, out: Path) -> Iterator[Step]:
    """Yield what follows the run of *call* into *out*, which has breaks of these *references*."""
    of_statement = "decide about each unused column of the statement, in [statement] of the rules file"
    resumed = of_statement if summary.verdict is Verdict.PARTIAL else "wait until the service answers"
    following = {
        FollowUp.DIAGNOSE: Step(diagnosis(call)),
        FollowUp.RESUME: Step(call, resumed),
        FollowUp.READ_LEDGER: Step(reading(call)),
        FollowUp.EXPLAIN: Step(about_folder("explain" if references else "show", out, *references[:1])),
        FollowUp.SHOW: Step(about_folder("show", out)),
        FollowUp.ASSUME_PAID: Step(rejudging(call, out).having(("--assume-status", "paid")), _ALL_PAID),
        FollowUp.CHOOSE_COLUMNS: Step(reading(call)),
    }
    for follow_up in summary.follow_ups:
        if follow_up is FollowUp.CHOOSE_SHEET:
            sheets = (call.having(("--sheet", each.name)) for each in summary.compared.unread_sheets)
            yield from (Step(reading(each), _ONE_SHEET) for each in sheets)
        if follow_up is FollowUp.CHOOSE_COLUMNS and "status" not in summary.compared.stated:
            yield from (Step(_saving(call.using([way]))) for way in status_ways(summary.compared.unused))
        if follow_up in following:
            yield following[follow_up]

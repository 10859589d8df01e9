"""The next step after a refusal or a verdict: a command to paste, or what a person has to do before it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

from payclient import reconcile
from payclient._shared.options import OPTIONS
from payclient._shared.remedy import Way
from payclient.cli._options import LEDGER_ONLY, JudgingOptions, LedgerOptions, MissingRunError, StatementOptions
from payclient.cli._process import Call, Exit, RefusalError, new_path, shown
from payclient.client import resolve_environment
from payclient.errors import ConfigurationError, PayClientError, TransportError
from payclient.protocol import endpoint
from payclient.reconcile import Condition, JournalError, PastRunError, RulesError, Summary
from payclient.reconcile.folders import JOURNAL, about_of
from payclient.reconcile.ledger import LedgerChangedError, LedgerError, UnusedColumn
from payclient.reconcile.report.integrity import MANIFEST

_MAX_WAYS = 4
_OF_LEDGER = {"--rules", *LEDGER_ONLY, *(Way(option.name).flag for option in attrs.fields(LedgerOptions))}
_OF_JUDGING = {"--rules", "--settles-within", *(Way(option.name).flag for option in attrs.fields(JudgingOptions))}
_OF_SERVICE = {"--base-url", "--environment", "--api-key-file", "--proxy", "--ca-file", "--client-cert", "--client-key"}
_NEW_RULES = Path("rules.toml")
_MAX_RUNS = 5
_ONE_SHEET = "make sure that the other sheets give nothing of it back"
_ONE_MERCHANT = "make sure that both keys are of one merchant"
_ROOM = "make sure that the disk works and has room"
_ALL_PAID = "make sure that every row of the ledger is paid"


def reading(call: Call) -> Call:
    """Return the command that shows how the ledger of *call* is read."""
    return attrs.evolve(call, name="ledger", words=call.words[:1]).only(_OF_LEDGER)


def reconciling(call: Call) -> Call:
    """Return the command that reconciles the ledger that *call* shows, with the options that it takes."""
    proposed = attrs.evolve(call, name="reconcile").only(_OF_LEDGER - LEDGER_ONLY.keys())
    return attrs.evolve(proposed, options=(("--out", "report"), *proposed.options))


def status_ways(unused: Iterable[UnusedColumn]) -> list[Way]:
    """Return the options that use one of the *unused* columns as the status: columns with only words for a status."""
    names = [column.name for column in unused if column.texts and all(map(reconcile.read_status, column.texts))]
    return [Way("column", name, "status") for name in names[:_MAX_WAYS]]


def rejudging(call: Call, folder: Path) -> Call:
    options = ("--out", new_path(folder, "-rejudged"))
    return attrs.evolve(call, name="rejudge", words=(str(folder),)).only(_OF_JUDGING).having(options)


def about_folder(name: str, folder: Path, *more: str) -> Call:
    return Call(name, (str(folder), *more))


def explaining(folder: Path, references: Sequence[str]) -> list[Call]:
    """Return the command that shows the worst break of a report. None without one."""
    return [about_folder("explain", folder, reference) for reference in references[:1]]


def diagnosis(call: Call) -> Call:
    return attrs.evolve(call, name="doctor", words=()).only(_OF_SERVICE)


def after_error(error: Exception, status: Exit, call: Call, bound: Mapping[str, Any]) -> list[Call]:
    """Return what follows a refusal of *call*, whose arguments are *bound*, or nothing if they were not understood."""
    if isinstance(error, RefusalError) and (error.is_last or error.first or error.ways):
        return [] if error.is_last else [call.using(error.ways).after(error.first)]
    if isinstance(error, ConfigurationError) and error.option in OPTIONS:
        source = call.place_of(error.option)
        return [call.after(f"set {source}") if source and source[0] != "-" else _help(call)]
    if not bound:
        is_of_ledger = call.name == "reconcile" and call.words and call.only(LEDGER_ONLY).options
        return [_saving(call) if is_of_ledger else _help(call)]
    if status is Exit.REFUSED or isinstance(error.__cause__ or error, TransportError):
        return [diagnosis(call)]
    if isinstance(error, LedgerError) and "ledger" in bound:
        is_changed = isinstance(error, LedgerChangedError)
        return [call.having(("--out", new_path(bound["out"])))] if is_changed else list(_after_reading(error, call))
    if isinstance(error, RulesError):
        return _after_rules(error, call, bound)
    return _after_folder(error, status, call, bound)


def _after_folder(error: Exception, status: Exit, call: Call, bound: Mapping[str, Any]) -> list[Call]:
    """Return what follows a folder that cannot be used, or another refusal."""
    if isinstance(error, MissingRunError):
        return _instead_of(error, call, bound)
    if isinstance(error, JournalError) and call.name == "reconcile":
        return [] if error.is_busy else [_after_other_run(error, call, bound)]
    if isinstance(error, JournalError | PastRunError) and call.name != "verify":
        if isinstance(error, PastRunError) and error.canary and call.name == "reconcile":
            return [call.having(("--canary", error.canary)).after(_ONE_MERCHANT)]
        folder = bound.get("folder") if isinstance(error, JournalError) else error.folder
        return [] if folder is None else [about_folder("verify", folder)]
    if isinstance(error, reconcile.DecisionError):
        return []  # the sentence has the place, in the workbook or in the decisions before
    if isinstance(error, OSError) and status is Exit.AGAIN:
        return [call.after(_ROOM)]
    return [_help(call)] if isinstance(error, ConfigurationError) and status is Exit.USAGE else []


def _help(call: Call) -> Call:
    return Call(call.name or "--help", (), (("--help", None),) if call.name else ())


def _saving(call: Call) -> Call:
    """Return the command that shows how the ledger is read, and writes a rules file. Standard input is read once."""
    shown = reading(call)
    return shown if shown.words == ("-",) else shown.having(("--save-rules", new_path(_NEW_RULES)))


def _after_other_run(error: JournalError, call: Call, bound: Mapping[str, Any]) -> Call:
    out, changed = bound["out"], {*error.rules}
    with suppress(PayClientError), reconcile.Journal(out / JOURNAL, must_exist=True) as journal:
        judging, other = bound.get("judging", JudgingOptions()), bound.get("other", StatementOptions())
        rules, before = other.declared(judging.rules()), about_of(journal).rules
        changed |= {*reconcile.changed_rules(rules, reconcile.with_reading_of(rules, before))}  # these take another run
        previous = None if journal.previous is None else out.parent / journal.previous.folder
        if previous is not None and (previous / MANIFEST).exists() and "--previous" not in dict(call.options):
            return call.having(("--previous", str(previous)))  # else the next night would know nothing of those before
    may_rejudge = error.rules and changed == {*error.rules} and {"not_found_messages", "statement"}.isdisjoint(changed)
    return rejudging(call, out) if may_rejudge else call.having(("--out", new_path(out)))


def _after_reading(error: LedgerError, call: Call) -> Iterator[Call]:
    """Yield what follows a ledger or a statement that cannot be read."""
    is_statement = error.side == "statement"
    if error.remedies and all(remedy.is_decision for remedy in error.remedies):  # an empty file: look at it first
        yield reading(call)
    if error.line > 1 and not (error.remedies or error.refused):
        yield call.after(f"correct {shown(error.file or call.words[0])}, line {error.line}")
    for remedy in [remedy for remedy in error.remedies if not remedy.is_decision][:_MAX_WAYS]:
        if all(way.typed(error.side) for way in remedy.ways):
            proposed = call.using(remedy.ways, error.side)
            is_known = is_statement or call.name == "ledger" or not proposed.only(LEDGER_ONLY).options
            yield proposed if is_known else _saving(proposed)
        elif words := remedy.words("statement"):  # the rules file has them
            rules = dict(call.options).get("--rules") or str(_NEW_RULES)
            yield call.having(("--rules", rules)).after(f"write {words} {shown(rules)}")
    option = None if error.refused is None or error.remedies else error.refused.typed(error.side)
    if option in call.options:
        rest = attrs.evolve(call, options=tuple(other for other in call.options if other[0] != option[0]))
        yield rest if is_statement else reading(rest)


def _after_rules(error: RulesError, call: Call, bound: Mapping[str, Any]) -> list[Call]:
    rules, has_ledger = dict(call.options).get("--rules"), "ledger" in bound
    if error.needs_column and (rules is None or Way(str(error.key[0])).flag in dict(call.options)):
        return [reading(call) if has_ledger else _help(call)]
    if rules is not None:
        where = f", line {error.line}" if error.line else ""
        return [call.after(f"edit {shown(rules)}{where}")] if Path(rules).is_file() else []
    if not (has_ledger and error.key and error.key[-1] == "kind"):
        return [_help(call)]
    table = ".".join(map(str, error.key))
    return [call.having(("--rules", str(_NEW_RULES))).after(f"write the table [{table}] into {_NEW_RULES}")]


def _read_run(folder: Path) -> tuple[str, ...] | None:
    """Return the ledger, the address and the environment of a report, and when it ended. None if it is damaged."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        manifest, summary = (json.loads(reconcile.read_own(folder / name)) for name in (MANIFEST, "summary.json"))
        ledger, service, ended = manifest["ledger"], manifest["service"], summary["last_observed_at"]
        ended = f"{datetime.fromisoformat(ended):%Y-%m-%d %H:%M}" if ended else ""
        return ledger["name"] if ledger else "", service["base_url"], service["environment"], ended
    return None


def _instead_of(error: MissingRunError, call: Call, bound: Mapping[str, Any]) -> list[Call]:
    """Return what follows a folder without a report: a command with the folder that is meant, or the reports around."""
    missing = error.folder
    if missing.is_file() and (missing.parent / MANIFEST).exists():
        return [_at(call, missing, missing.parent)]
    if call.name == "explain" and (Path(bound["reference"]) / MANIFEST).exists():
        return [attrs.evolve(call, words=call.words[::-1])]
    folders = [path.parent for path in sorted((missing if missing.is_dir() else missing.parent).glob(f"*/{MANIFEST}"))]
    runs = [(folder, run) for folder in folders if (run := _read_run(folder)) is not None]
    if "ledger" in bound:
        options = dict(call.options)
        environment = resolve_environment(options.get("--environment"))
        url = endpoint(options.get("--base-url") or OPTIONS["base_url"].value(None), environment)
        same = [folder for folder, run in runs if run[:3] == (Path(bound["ledger"]).name, url, environment)]
        if len(same) == 1:
            return [_at(call, missing, same[0])]
    newest = sorted(runs, key=lambda run: run[1][3], reverse=True)[:_MAX_RUNS]
    names = [f"{shown(folder)} ({shown(run[0]) if run[0] else 'standard input'}, {run[3]})" for folder, run in newest]
    return [Call(first=f"name the report that is meant: {', '.join(names)}")] if names else []


def _at(call: Call, missing: Path, folder: Path) -> Call:
    """Return *call* with *folder* instead of *missing*."""

    def meant(text: str) -> str:
        return str(folder) if Path(text) == missing else text

    words = call.words if call.name == "reconcile" else tuple(map(meant, call.words))
    named = ("--previous", "--decisions", "--folder")  # another option may have the same word
    options = ((flag, meant(value) if value and flag in named else value) for flag, value in call.options)
    return attrs.evolve(call, words=words, options=tuple(options))


def after_verdict(summary: Summary, references: Sequence[str], call: Call, out: Path) -> Iterator[Call]:
    """Yield what follows the run of *call* into *out*, which has breaks of these *references*."""
    compared, again, reread = summary.compared, call.after("wait until the service answers"), reading(call)
    of_statement = call.after("decide about each unused column of the statement, in [statement] of the rules file")
    unused, sheets = compared.unused, [("--sheet", sheet.name) for sheet in compared.unread_sheets]
    ways = [] if "status" in compared.stated else status_ways(unused)
    columns, seen = [*(_saving(call.using([way])) for way in ways), *[reread] * bool(unused)], about_folder("show", out)
    following = {
        Condition.NOTHING_READ: [reread],
        Condition.NOTHING_FOUND: [diagnosis(call)],
        Condition.NOTHING_ANSWERED: [diagnosis(call), again],
        Condition.UNRESOLVED: [again],
        Condition.BREAKS: [about_folder("explain", out, references[0]) if references else seen],
        Condition.REJECTED: [reread],
        Condition.NOT_TIED: [seen],
        Condition.AMOUNTS_LEFT_OUT: columns,
        Condition.SHEETS_LEFT_OUT: [reading(call.having(sheet)).after(_ONE_SHEET) for sheet in sheets],
        Condition.COLUMNS_LEFT_OUT: columns,
        Condition.STATEMENT_LEFT_OUT: [of_statement],
        Condition.STATUS_LEFT_OUT: [rejudging(call, out).having(("--assume-status", "paid")).after(_ALL_PAID)],
        Condition.NOT_KNOWN: [seen],
        Condition.NEWLY_LEFT_OUT: [reread],
    }
    for condition in summary.to_act_upon:
        yield from following.get(condition, ())

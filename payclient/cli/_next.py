"""The commands that follow a refusal or a verdict, to be pasted as they are."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain, count
from pathlib import Path
from typing import Any

import attrs

from payclient._shared.escape import quote
from payclient.cli._options import LEDGER_ONLY, JudgingOptions, LedgerOptions, option_name
from payclient.cli._streams import Exit
from payclient.errors import ConfigurationError, TransportError
from payclient.reconcile import DecisionError, JournalError, PastRunError, Remedy, RulesError, Summary, read_status
from payclient.reconcile.folders import JOURNAL
from payclient.reconcile.ledger import LedgerChangedError, LedgerError, UnusedColumn, as_option, as_word
from payclient.reconcile.report import MANIFEST

_SWITCHES = ("--allow-empty", "--skip-totals", "--fees-below-zero", "--allow-edits", "--json", "--quiet")
_WORD = r"(?!(?:needs?|and|or|in|for|declares)\b)(?:(?:'[^']*'|\"[^\"]*\"|[^\s;,'\"…()])+|,)"
_VALUED = rf"--(?!allow-empty|skip-totals|fees-below-zero)[a-z-]+[= ](?![A-Za-z_]+=NAME\b)(?:[a-z_]+=)?{_WORD}"
_OPTION = rf"(?:--(?:allow-empty|skip-totals)\b|{_VALUED})"
_PROPOSED = re.compile(rf"{_OPTION}(?: {_OPTION})*")
"""Options with their values; those that belong together stand side by side."""
_MAX_WAYS = 4
_SEVERAL = ("--allow-reference", "--date-format", "--ignore-column", "--null", "--skip-rows-like")
_OF_FIELD = ("--column", "--debit-column", "--statement-column")
_OF_LEDGER = (
    *_SWITCHES[:2],
    "--rules",
    *LEDGER_ONLY,
    *(option_name(each.name) for each in attrs.fields(LedgerOptions)),
)
_OF_JUDGING = ("--rules", "--settles-within", *(option_name(each.name) for each in attrs.fields(JudgingOptions)))
_OF_SERVICE = ("--base-url", "--environment", "--api-key-file", "--proxy", "--ca-file", "--client-cert", "--client-key")


def new_path(path: Path, ending: str = "") -> str:
    """Return *path* with *ending* or, if that exists, the first one like it with a number that does not."""
    path = path if path.name.strip(".") else path.resolve()  # nothing can be added to the names `.` and `..`
    path = path.parent / f"{path.name}{ending}"
    stem, first = path.stem, 2
    if re.search(r"-[2-9]\Z", stem):  # a number from here; a month or a day has two digits
        stem, first = stem[:-2], int(stem[-1]) + 1
    numbered = (path.parent / f"{stem}-{number}{path.suffix}" for number in count(first))
    return str(next(each for each in chain([path], numbered) if not each.exists()))


def proposed(message: str) -> list[list[str]]:
    """Return the options that *message* proposes, each way in the words of a shell."""
    return [shlex.split(each) for each in dict.fromkeys(_PROPOSED.findall(message))][:_MAX_WAYS]


def command(words: Iterable[str], options: Iterable[str] = ()) -> str:
    """Return a command with *options*, which replace its *words* about the same subject."""
    new = [*_parsed(options)]
    said = {_subject(each) for each in new}
    parts = [*(each for each in _parsed(words) if _subject(each) not in said), *new]
    return " ".join(
        ("payclient", *(as_option(part[0][2:], part[1]) if part[1:] else as_word(part[0]) for part in parts))
    )


def _parsed(words: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield each option with its value, and the other words by themselves."""
    rest = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    while rest:
        size = 2 if rest[0].startswith("--") and rest[0] not in _SWITCHES else 1
        yield tuple(rest[:size])
        del rest[:size]


def _subject(words: tuple[str, ...]) -> tuple[str, ...]:
    option, value = words[0], words[-1]
    return words if option in _SEVERAL else (option, value.partition("=")[0]) if option in _OF_FIELD else (option,)


def _only(words: Sequence[str], names: Sequence[str]) -> list[str]:
    return [word for each in _parsed(words) if each[0] in names for word in each]


def reading(words: Sequence[str], options: Sequence[str] = (), message: str = "") -> str:
    """Return the command that shows how the ledger is read, without options of *words* that *message* names."""
    kept = [each for each in _parsed(words[1:]) if quote(each[-1].rpartition("=")[2]) not in message]
    files = [each for each in kept if not each[1:] and each[0] not in _SWITCHES]
    saved = ["--save-rules", new_path(Path("rules.toml"))] if options and ("-",) not in files else []
    of_ledger = [each for each in kept if each[0] in _OF_LEDGER]
    return command(["ledger", *chain(*files, *of_ledger)], [*options, *saved])


def reconciling(words: Sequence[str]) -> str:
    """Return the command that reconciles the ledger that *words* show, with the options that it takes."""
    taken = [each for each in _parsed(words[1:]) if not each[0].startswith("--") or each[0] in _OF_LEDGER]
    files, options = ([each for each in taken if each[0].startswith("--") is is_option] for is_option in (False, True))
    return command(["reconcile", *chain(*files), "--out", "report", *chain(*options)])


def status_ways(unused: Iterable[UnusedColumn]) -> list[list[str]]:
    """Return the options that use one of the *unused* columns as the status: the one most like it, or each."""
    found = {
        each.name: ("status" in each.name.casefold()) + any(map(read_status, each.words))
        for each in unused
        if each.may_be_status
    }
    most = max(found.values(), default=0)
    return [["--column", f"status={name}"] for name, likeness in found.items() if likeness == most][:_MAX_WAYS]


def rejudging(words: Sequence[str], folder: Path, options: Sequence[str] = ()) -> str:
    out = ("--out", new_path(folder, "-rejudged"))
    return command(["rejudge", str(folder), *_only(words, _OF_JUDGING), *out], options)


def elsewhere(words: Sequence[str], out: Path) -> str:
    return command(words, ["--out", new_path(out)])


def diagnosis(words: Sequence[str]) -> str:
    return command(["doctor", *_only(words, _OF_SERVICE)])


def after_error(error: Exception, status: Exit, words: Sequence[str], bound: Mapping[str, Any]) -> list[str]:
    """Return the commands that follow a refusal of the command of these *words*; several if a person has to choose."""
    message, name = str(error), words[0] if words else ""
    if not bound:
        keys = _only(words, [*LEDGER_ONLY])
        return [reading(words, keys) if keys and name != "ledger" else command([*words[:1], "--help"])]
    is_unreachable = isinstance(error.__cause__ or error, TransportError)
    if status is Exit.REFUSED or is_unreachable or (type(error) is ConfigurationError and "PAYCLIENT_" in message):
        return [diagnosis(words)]
    if isinstance(error, JournalError) and name == "reconcile":
        may_rejudge = error.rules and {"not_found_messages", "statement"}.isdisjoint(error.rules)
        return [rejudging(words, bound["out"]) if may_rejudge else elsewhere(words, bound["out"])]
    if isinstance(error, LedgerChangedError) or ("out" in bound and "another folder" in message):
        return [elsewhere(words, bound["out"])]
    if isinstance(error, LedgerError) and "ledger" in bound:
        return _after_reading(message, words, bound)
    folders = [getattr(bound.get(each), "previous", bound.get(each)) for each in ("folder", "earlier", "later")]
    named = next((each for each in folders if each is not None and f"{each}" in message), None)
    if named is not None and type(error) in (ConfigurationError, JournalError, PastRunError, DecisionError):
        is_run = any((named / each).exists() for each in (JOURNAL, MANIFEST))
        return [command(["verify", str(named)]) if is_run else _with_a_report(words, named)]
    if isinstance(error, RulesError) and "--column" in message:
        return [reading(words)]
    is_of_file = isinstance(error, RulesError) and (error.line or "file" in message)
    is_usage = isinstance(error, ConfigurationError) and status is Exit.USAGE and not isinstance(error, DecisionError)
    return [command([name, "--help"] if is_usage and not is_of_file else words)]


def _with_a_report(words: Sequence[str], missing: Path) -> str:
    """Return the same command with the report of the file *missing*, or another one in this folder or next to it."""
    # Without a previous run, earlier breaks would not be carried; so only a first run is proposed without.
    around = missing if missing.is_dir() else missing.parent
    found = sorted(around.glob(f"*/{MANIFEST}"), key=lambda path: path.stat().st_mtime)
    folders = {path.parent.name: path.parent for path in ([missing] if missing.is_file() else found)}
    parts = [part for each in _parsed(words) for part in each]
    if not folders:
        first = [part for each in _parsed(words) if each[0] != "--previous" for part in each]
        return command(first if len(first) < len(parts) else [words[0], "--help"])
    named = get_close_matches(missing.name, folders, n=1) or [*folders][-1:]
    return command(str(folders[named[0]]) if Path(part) == missing else part for part in parts)


def _after_reading(message: str, words: Sequence[str], bound: Mapping[str, Any]) -> list[str]:
    statement = bound["other"].statement if message.startswith("the statement ") and "other" in bound else None
    found = [each for each in proposed(message) if not {*_parsed(each)} <= {*_parsed(words)}]
    ways: list[str] = []
    for options in found:
        if "--allow-empty" in options and not ways:  # an empty report of a failed export would be believed
            ways.append(reading(words))
        if words[0] == "ledger" or LEDGER_ONLY.keys().isdisjoint(name for name, *_ in _parsed(options)):
            ways.append(command(words, options))
        else:
            ways.append(reading(words, options) if statement is None else command(["ledger", str(statement)], options))
    return ways or [reading(words, message=message) if statement is None else command(["ledger", str(statement)])]


def after_verdict(summary: Summary, references: Sequence[str], words: Sequence[str], out: Path) -> Iterator[str]:
    """Yield the commands that follow a run of these *words* into *out*, which has breaks of these *references*."""
    for remedy in summary.remedies:
        match remedy:
            case Remedy.DIAGNOSE:
                yield diagnosis(words)
            case Remedy.RESUME:
                yield command(words)
            case Remedy.READ_LEDGER:
                yield reading(words)
            case Remedy.EXPLAIN | Remedy.SHOW:
                is_one = remedy is Remedy.EXPLAIN and bool(references)
                yield command(["explain", str(out), references[0]] if is_one else ["show", str(out)])
            case Remedy.ASSUME_PAID:
                yield rejudging(words, out, ["--assume-status", "paid"])
            case Remedy.CHOOSE_SHEET:
                yield from (reading([*words, "--sheet", each.name]) for each in summary.compared.unread_sheets)
            case Remedy.CHOOSE_COLUMNS:
                unused = summary.compared.unused
                ways = [] if "status" in summary.compared.stated else status_ways(unused)
                yield from (reading([*words, *way]) for way in ways)
                yield reading(words, [each for column in unused for each in ("--ignore-column", column.name)])

"""Internal: the integrity of a report: its manifest with a checksum of each file, the decisions, and the signatures."""

import hashlib
import json
import os
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import accumulate, chain
from pathlib import Path
from typing import IO, Any

from attrs import asdict, frozen

from payclient._shared.escape import plural, quote
from payclient.reconcile import DecisionError
from payclient.reconcile._atomic import FOLDER_MODE, Fingerprint, lock, own, read_own
from payclient.reconcile._codec import as_json
from payclient.reconcile._judgement.codes import normalise
from payclient.reconcile._judgement.decisions import FIRST, Decision, Decisions, decision_line, read_decisions
from payclient.reconcile.report.model import OUTPUTS

MANIFEST: str = "manifest.json"
MANIFEST_VERSION = 1
"""Grows when a reader of `manifest.json` has to change. New names alone do not make it grow."""

WORK_LIST: str = "report.xlsx"
"""The file that people write into. payclient reads only their decisions from it, on request."""

DECISIONS: str = "decisions.jsonl"
SIGNATURES: str = "signatures.jsonl"

_ALL = tuple(each.name for each in OUTPUTS)
_DAMAGED = "it is not what payclient writes"


@frozen
class Problem:
    """A problem with one file of a report, in a sentence without a full stop."""

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


def _unusable(name: str, error: OSError | DecisionError) -> Problem:
    return Problem(name, f"it cannot be read: {error.strerror}" if isinstance(error, OSError) else error.message)


def manifest_as_json(
    summary: dict[str, Any], files: Iterable[Fingerprint], decisions: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return `manifest.json`, with parts of `summary.json`. The key is not in it, only its fingerprint."""
    content = {
        "schema": "payclient.report.manifest",
        "version": MANIFEST_VERSION,
        **{name: summary[name] for name in ("payclient_version", "run", "judged_again", "service")},
        "rules": {name: summary["rules"].get(name, {}) for name in ("fingerprint", "assume_status", "ledger")},
        "compared": summary["compared"],
        "reused": summary["since"] and summary["since"]["reused"],
        "ledger": _file(summary["ledger"]),
        "statement": _file(summary["settlement"] and summary["settlement"]["statement"]),
        "decisions": decisions,
        "files": as_json(tuple(files)),
    }
    return {**content, "sha256": _sha256_of(content)}


def _file(about: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if about is None else {name: about[name] for name in ("name", "size_bytes", "sha256")}


def _sha256_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def verify(folder: Path, *, only: Container[str] | None = None) -> tuple[Problem, ...]:
    """
    Compare the files of a report with its manifest.

    Args:
        folder: Folder of the report.
        only: Names of the files to compare. The manifest itself is always checked. Default: all.

    Returns:
        What is wrong, in the order of the manifest. Nothing if every file is as it was written. A person who can
        change the files can change the manifest too, so keep a copy of it elsewhere if that matters.
    """
    try:
        files = _listed(folder / MANIFEST)
    except FileNotFoundError:
        return (Problem(MANIFEST, "it is missing, so no run has ended here"),)
    except OSError as error:
        return (_unusable(MANIFEST, error),)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return (Problem(MANIFEST, f"it is damaged: {_DAMAGED}"),)
    wanted = [name for name in dict.fromkeys((*files, *_ALL)) if only is None or name in only]
    problems = {name: _problem(folder / name, files.get(name)) for name in wanted}
    return tuple(Problem(name, what) for name, what in problems.items() if what)


def _listed(path: Path) -> dict[str, tuple[int, str]]:
    with open(path, "rb", opener=own) as file:
        content = json.loads(file.read(1 << 20))
    if content.pop("sha256") != _sha256_of(content):
        raise ValueError("it was changed")
    files = {each["name"]: (int(each["size_bytes"]), str(each["sha256"])) for each in content["files"]}
    if content["schema"] != "payclient.report.manifest" or not files or not files.keys() <= set(_ALL):
        raise ValueError("it lists other files than a report has")
    return files


def _problem(path: Path, listed: tuple[int, str] | None) -> str:
    if listed is None:
        added = "the manifest does not list it: it belongs to another run, or was added later"
        return added if os.path.lexists(path) else ""
    try:
        with open(path, "rb", opener=own) as file:
            sha256, length = hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return _unusable(path.name, error).what
    if length != listed[0]:
        return f"it was changed: it has {plural(length, 'byte')}, and had {listed[0]:,}"
    return "" if sha256 == listed[1] else "it was changed: it has as many bytes as were written, but others"


def of_manifest(folder: Path, name: str, file: str = MANIFEST) -> Any:
    """Return a value of the manifest. None if it is missing, or this is not a manifest, which `verify` reports."""
    try:
        return json.loads(read_own(folder / file)).get(name)
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


# Decisions


@frozen
class DecisionLog:
    """The decisions in a folder, in order, and the checksum of each line."""

    decisions: tuple[Decision, ...] = ()
    checksums: tuple[str, ...] = ()

    @property
    def head(self) -> dict[str, Any] | None:
        """The number of lines and the checksum of the last one, for the manifest. None without decisions."""
        return {"lines": len(self.checksums), "sha256": self.checksums[-1]} if self.checksums else None

    @property
    def last(self) -> str:
        """The checksum that the next line has to name."""
        return self.checksums[-1] if self.checksums else FIRST

    @property
    def latest(self) -> Decisions:
        return {decision.key: decision for decision in self.decisions}


def read_log(folder: Path) -> DecisionLog:
    """Return the decisions in *folder*. Empty without a file."""
    try:
        return _read_log(folder)
    except DecisionError as error:
        raise DecisionError(f"{folder / DECISIONS}: {error.message}") from error


def _read_log(folder: Path) -> DecisionLog:
    try:
        with open(folder / DECISIONS, "rb", opener=own) as file:
            return DecisionLog(*zip(*read_decisions(file), strict=True))
    except (FileNotFoundError, NotADirectoryError):  # the second is reported by the code that writes there
        return DecisionLog()


def carry_log(sources: Sequence[Path], out: Path) -> None:
    """
    Add the decisions in *sources*, folders of earlier runs, to *out*, unless it has these or later ones.

    Those about the runs before them are included: Friday's work list may come back on Monday, when Friday's folder is
    no longer the previous one. These folders are looked for beside *sources*.
    """
    before = chain.from_iterable(chain_of(source).folders for source in sources)
    logs, times = [read_log(folder).decisions for folder in (out, *sources, *before)], dict[Decision, datetime]()
    for decisions in logs:
        # The order of the lines of one file counts, because a clock may be wrong.
        for decision, at in zip(decisions, accumulate((each.at for each in decisions), max), strict=True):
            times[decision] = min(at, times.get(decision, at))
    latest = {decision.key: times[decision] for decision in logs[0]}
    added = [each for each in times if each not in logs[0] and latest.get(each.key, each.at) <= times[each]]
    if added:
        out.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        with _appended(out / DECISIONS) as file:
            _write(file, sorted(added, key=times.__getitem__), read_log(out).last)


def _write(file: IO[bytes], decisions: Iterable[Decision], previous: str) -> None:
    for decision in decisions:
        line, previous = decision_line(decision, previous)
        file.write(f"{line}\n".encode())


@frozen(kw_only=True)
class Chain:
    """
    The runs before a report, as far as their reports are beside it.

    Attributes:
        folders: Of these runs, judged again or not.
        missing: The names of the runs whose folders are not there.
        forks: Folders of other runs that follow one of these.
    """

    folders: tuple[Path, ...]
    missing: frozenset[str]
    forks: tuple[Path, ...]


def chain_of(source: Path) -> Chain:
    before = {night["run"] for night in _since(source).get("trend", ())}
    paths = [path.parent for path in sorted(source.resolve().parent.glob(f"*/{MANIFEST}"))]
    beside = [(folder, of_manifest(folder, "run"), of_manifest(folder, "judged_again")) for folder in paths]
    runs = {of_manifest(source, "run"), *before}
    runs |= {again["run"] for _, run, again in beside if again and run in runs}
    # Names sort by time, to the second, so that older reports need not be read.
    first = min(before, default="~").partition("-")[0]
    later = (folder for folder, run, again in beside if run and run >= first and not again and run not in runs)
    return Chain(
        folders=tuple(folder for folder, run, _ in beside if run in runs and folder != source.resolve()),
        missing=frozenset(before - {run for _, run, _ in beside}),
        forks=tuple(folder for folder in later if _since(folder).get("run") in before),
    )


def _since(folder: Path) -> dict[str, Any]:
    return of_manifest(folder, "since", "summary.json") or {}


def earlier_decisions(folder: Path) -> tuple[Decision, ...]:
    """Return the decisions in *folder* that were taken for other runs: these count in this one."""
    run = of_manifest(folder, "run")
    return tuple(each for each in read_log(folder).decisions if each.run != run)


def new_decisions(log: DecisionLog, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """
    Return the *decisions* that *log* does not have yet.

    Of a row with several findings, the first one shows whether anything was decided: an entry of an earlier night that
    the work list still shows decides nothing about a new finding.
    """
    known, leading = log.latest, dict[tuple[str, str], Decision]()
    rows = [(leading.setdefault((each.reference, each.evidence), each), each) for each in decisions]
    return tuple(
        each
        for first, each in rows
        if _is_new(each, known) and (_is_new(first, known) or known[first.key].evidence == first.evidence)
    )


def add_decisions(folder: Path, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Add the *decisions* that are not known yet, and return them."""
    with _appended(folder / DECISIONS) as file:
        log = read_log(folder)
        added = new_decisions(log, decisions)
        _write(file, added, log.last)
    return added


@contextmanager
def _appended(path: Path) -> Generator[IO[bytes]]:
    """Yield the file to add lines to, for one process at a time, and wait for the disk."""
    with open(path, "a+b", opener=own) as file:
        if not lock(file):
            raise DecisionError(f"{path} is in use by another process: try again")
        file.truncate(len(_lines(path)))
        yield file
        file.flush()
        os.fsync(file.fileno())


def _is_new(decision: Decision, known: Mapping[tuple[str, str], Decision]) -> bool:
    before = known.get(decision.key)
    is_again = decision.acceptance is not None and before is not None and before.run != decision.run
    return before is None or before.cells != decision.cells or is_again


def verify_decisions(folder: Path) -> tuple[Problem, ...]:
    """Check the chain of decisions, and that it begins with the decisions that the report was written with."""
    try:
        checksums = _read_log(folder).checksums
    except (DecisionError, OSError) as error:
        return (_unusable(DECISIONS, error),)
    match of_manifest(folder, "decisions"):
        case {"lines": int(lines), "sha256": sha256} if checksums[lines - 1 : lines] != (sha256,):
            return (Problem(DECISIONS, f"it lacks the {plural(lines, 'decision')} that the report was written with"),)
        case _:
            return ()


# Signatures


@frozen
class Signature:
    """
    What a person signed.

    Attributes:
        role: `prepared` or `reviewed`.
        by: Name of the person.
        at: Time of signing, as text.
        sha256: Checksum of the manifest and the decisions, which have the checksums of all the rest.
    """

    role: str
    by: str
    at: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.role} by {quote(self.by)} at {self.at}"


def state_of(folder: Path) -> str:
    """Return the checksum that a signature in *folder* has if nothing changed since."""
    decisions = folder / DECISIONS
    return hashlib.sha256(
        read_own(folder / MANIFEST) + (read_own(decisions) if decisions.exists() else b"")
    ).hexdigest()


def _lines(path: Path) -> bytes:
    """Return the lines of a file, without a last one cut by a killed process."""
    content = read_own(path) if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def read_signatures(folder: Path) -> tuple[Signature, ...]:
    """Return the last signature of each role in *folder*."""
    path = folder / SIGNATURES
    try:
        signatures = [Signature(**json.loads(line)) for line in _lines(path).splitlines()]
    except (ValueError, TypeError) as error:
        raise DecisionError(f"{path} is damaged: {_DAMAGED}") from error
    return tuple({each.role: each for each in signatures}.values())


def sign(folder: Path, role: str, by: str, at: datetime) -> Signature:
    """Add a signature of the present files in *folder*, and return it. Refuse two roles to one person."""
    signature = Signature(role, by, at.isoformat(" ", "seconds"), state_of(folder))
    others = [other for other in read_signatures(folder) if other.role != role and other.sha256 == signature.sha256]
    if role == "reviewed" and not others:
        raise DecisionError("before a report is reviewed, it must be signed with --prepared as it is now")
    if same := [other for other in others if normalise(other.by) == normalise(by)]:
        task = "review" if role == "reviewed" else "prepare"
        raise DecisionError(f"the report was {same[0].role} by {quote(same[0].by)}: another person must {task} it")
    with _appended(folder / SIGNATURES) as file:
        file.write(f"{json.dumps(asdict(signature))}\n".encode())
    return signature


def verify_signatures(folder: Path) -> tuple[Problem, ...]:
    """Check that *folder* still has the signed files."""
    try:
        signatures = read_signatures(folder)
    except (DecisionError, OSError) as error:
        return (_unusable(SIGNATURES, error),)
    try:
        state = state_of(folder)
    except OSError:  # the check of the manifest reports it
        return ()
    changed = "and the report or its decisions were changed since: sign it again"
    return tuple(Problem(SIGNATURES, f"{each}, {changed}") for each in signatures if each.sha256 != state)

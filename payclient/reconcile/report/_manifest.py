"""The manifest of a report: a checksum of each file, and the check against it."""

import hashlib
import json
import os
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from payclient._shared.escape import plural
from payclient.reconcile._atomic import Fingerprint, own
from payclient.reconcile._codec import as_json
from payclient.reconcile.judgement.rules import dialect_as_json
from payclient.reconcile.report._about import About, LedgerAbout
from payclient.reconcile.report._model import OUTPUTS

MANIFEST: str = "manifest.json"
MANIFEST_VERSION = 1
"""Grows when a reader of `manifest.json` has to change. New names alone do not make it grow."""

WORK_LIST: str = "report.xlsx"
"""The file that people write into. Nothing is read from it but their decisions, on request."""

_ALL = tuple(each.name for each in OUTPUTS)
_MAX_BYTES = 1 << 20


@frozen
class Problem:
    """A problem with one file of a report, in a sentence without a full stop."""

    file: str
    what: str


def manifest_as_json(
    about: About, summary: dict[str, Any], files: Iterable[Fingerprint], decisions: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return `manifest.json`, with parts of `summary.json`. The key is not in it, only its fingerprint."""
    content = {
        "schema": "payclient.report.manifest",
        "version": MANIFEST_VERSION,
        "payclient_version": about.payclient_version,
        "run": about.run,
        "judged_again": as_json(about.judged_again),
        "service": about.service,
        "rules": {
            "fingerprint": about.rules.fingerprint,
            "assume_status": about.rules.assume_status.value,
            "ledger": dialect_as_json(about.rules.ledger),
        },
        "compared": summary["compared"],
        "reused": summary["since"] and summary["since"]["reused"],
        "ledger": None if about.ledger is None else _file(about.ledger),
        "statement": None if about.statement is None else _file(about.statement.file),
        "decisions": decisions,
        "files": list(map(_file, files)),
    }
    return {**content, "sha256": _sha256_of(content)}


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
        return (Problem(MANIFEST, f"it cannot be read: {error.strerror}"),)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return (Problem(MANIFEST, "it is damaged: it is not what payclient writes"),)
    added = (name for name in _ALL if name not in files and os.path.lexists(folder / name))
    unlisted = "the manifest does not list it: it belongs to another run, or was added later"
    problems = (*_changed(folder, files, only), *(Problem(name, unlisted) for name in added))
    return tuple(problem for problem in problems if only is None or problem.file in only)


def _listed(path: Path) -> dict[str, tuple[int, str]]:
    with open(path, "rb", opener=own) as file:
        content = json.loads(file.read(_MAX_BYTES))
    if content.pop("sha256") != _sha256_of(content):
        raise ValueError("it was changed")
    files = {each["name"]: (int(each["size_bytes"]), str(each["sha256"])) for each in content["files"]}
    if content["schema"] != "payclient.report.manifest" or not files or not files.keys() <= set(_ALL):
        raise ValueError("it lists other files than a report has")
    return files


def _changed(folder: Path, files: dict[str, tuple[int, str]], only: Container[str] | None) -> Iterator[Problem]:
    for name, (size_bytes, sha256) in files.items():
        if only is not None and name not in only:
            continue
        try:
            with open(folder / name, "rb", opener=own) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
                length = file.tell()
        except FileNotFoundError:
            yield Problem(name, "it is missing")
        except OSError as error:
            yield Problem(name, f"it cannot be read: {error.strerror}")
        else:
            if length != size_bytes:
                yield Problem(name, f"it was changed: it has {plural(length, 'byte')}, and had {size_bytes:,}")
            elif found != sha256:
                yield Problem(name, "it was changed: it has as many bytes as were written, but others")


def _sha256_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _file(file: Fingerprint | LedgerAbout) -> dict[str, Any]:
    return {"name": file.name, "size_bytes": file.size_bytes, "sha256": file.sha256}

"""`signatures.jsonl` in the folder of a report: who prepared it and who reviewed it, and the state that each signed."""

import hashlib
import json
from datetime import datetime
from pathlib import Path

from attrs import asdict, frozen

from payclient._shared.escape import quote
from payclient.reconcile import DecisionError
from payclient.reconcile._atomic import AtomicFiles, read_own
from payclient.reconcile.report._decision_file import DECISIONS
from payclient.reconcile.report._manifest import MANIFEST, Problem

SIGNATURES: str = "signatures.jsonl"


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
    decisions = read_own(folder / DECISIONS) if (folder / DECISIONS).exists() else b""
    return hashlib.sha256(read_own(folder / MANIFEST) + decisions).hexdigest()


def read_signatures(folder: Path) -> tuple[Signature, ...]:
    """Return the last signature of each role in *folder*."""
    path = folder / SIGNATURES
    try:
        signatures = [Signature(**json.loads(line)) for line in read_own(path).splitlines()] if path.exists() else []
    except (ValueError, TypeError) as error:
        raise DecisionError(f"{path} is damaged: it is not what payclient writes") from error
    return tuple({each.role: each for each in signatures}.values())


def sign(folder: Path, role: str, by: str, at: datetime) -> Signature:
    """Add a signature of what is in *folder* now, and return it."""
    read_signatures(folder)
    signature = Signature(role, by, at.isoformat(" ", "seconds"), state_of(folder))
    before = read_own(folder / SIGNATURES) if (folder / SIGNATURES).exists() else b""
    with AtomicFiles(folder, [SIGNATURES]) as new:
        new.binary(SIGNATURES).write(before + json.dumps(asdict(signature), ensure_ascii=False).encode() + b"\n")
        new.commit()
    return signature


def verify_signatures(folder: Path) -> tuple[Problem, ...]:
    """Check that what was signed is what is in *folder* now."""
    try:
        signatures, state = read_signatures(folder), state_of(folder)
    except DecisionError as error:
        return (Problem(SIGNATURES, error.message),)
    except OSError:  # which the check of the manifest reports
        return ()
    changed = "and the report or its decisions were changed since; sign it again"
    return tuple(Problem(SIGNATURES, f"{each}, {changed}") for each in signatures if each.sha256 != state)

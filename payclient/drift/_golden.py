"""Golden answers: a few final transactions that are asked every night, and compared byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2s
from typing import Any, TypeAlias

from attrs import asdict, field, frozen

from payclient.drift._findings import Drift, Severity
from payclient.drift._profile import DOCUMENTED, form_of
from payclient.protocol import Response, Transaction

MAX_GOLDEN = 20
_ANSWERS_EACH = 20
"""Answers of a run for each golden one: they add at most a twentieth to its requests."""

_BODY = "body"
_FOUND = "found"
_SHOWN = ("status code", *(f"type of {name}" for name in DOCUMENTED))
_SEVERITY = {_FOUND: Severity.HIGH, "status": Severity.HIGH, "names of the headers": Severity.LOW, _BODY: Severity.LOW}

Part: TypeAlias = tuple[str, str]
"""Reference and name of a part."""


@frozen(kw_only=True)
class GoldenAnswer:
    """
    The answer for one transaction.

    Attributes:
        reference: As it is asked.
        group: Method and state when it was chosen, as they may be kept.
        parts: By name: a type or code in the clear, or the digest of anything else.
    """

    reference: str
    group: str
    parts: Mapping[str, str] = field(factory=dict[str, str])

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


def choose(candidates: Iterable[tuple[str, str]], answers: int, *, already: int = 0) -> tuple[GoldenAnswer, ...]:
    """Return golden answers to ask for: of the *candidates*, reference and group, some of each group in turn."""
    groups: dict[str, list[str]] = {}
    for reference, group in candidates:
        groups.setdefault(group, []).append(reference)
    turns = sorted(
        (turn, group, reference) for group, each in groups.items() for turn, reference in enumerate(sorted(each))
    )
    room = max(0, min(MAX_GOLDEN, answers // _ANSWERS_EACH) - already)
    return tuple(GoldenAnswer(reference=reference, group=group) for _, group, reference in turns[:room])


def parts_of(response: Response, transaction: Transaction | None, salt: str) -> dict[str, str]:
    """Return the parts of an answer; the payment code is in none, not even in a digest."""

    def digest(data: str | bytes) -> str:
        text = data.encode() if isinstance(data, str) else data
        return blake2s(text, key=bytes.fromhex(salt), digest_size=12).hexdigest()

    parts = {
        _FOUND: "no" if transaction is None else "yes",
        "status code": str(response.status_code),
        "names of the headers": digest(", ".join(sorted(response.headers))),
        "content type": digest(response.headers.get("content-type", "")),
    }
    if transaction is None:
        return parts
    forms = {f"type of {name}": form_of(name, value) for name, value in transaction.raw.items() if name in DOCUMENTED}
    code = (transaction.payment_code or "").encode()
    body = response.body.replace(code, b"") if code else response.body
    return {**parts, **forms, "status": digest(transaction.status), _BODY: digest(body)}


def steady_parts(one: Iterable[GoldenAnswer], two: Iterable[GoldenAnswer]) -> frozenset[Part]:
    """Return what was equal on two nights; anything else, such as a time of the response, is not compared."""
    before = _by_part(one)
    return frozenset(part for part, value in _by_part(two).items() if before.get(part) == value)


def golden_drifts(
    before: Iterable[GoldenAnswer], today: Collection[GoldenAnswer], steady: Collection[Part]
) -> Iterator[Drift]:
    """Yield what changed in golden answers, together for all that changed in the same way."""
    was, now = _by_part(before), {each.reference: each for each in today}
    changes: Counter[tuple[str, str, str]] = Counter()
    for reference, answer in now.items():
        changed = {
            name: (was.get((reference, name), ""), answer.parts.get(name, ""))
            for name in {part for known, part in steady if known == reference}
            if was.get((reference, name)) != answer.parts.get(name)
        }
        if _FOUND in changed:
            changed = {_FOUND: changed[_FOUND]}
        elif len(changed) > 1:
            changed.pop(_BODY, None)  # the others say how it changed
        changes.update((name, *values) if name in _SHOWN else (name, "", "") for name, values in changed.items())
    for (name, old, new), count in changes.items():
        yield Drift(
            kind="golden",
            name=f"golden {name}" + (f" {old or 'none'} {new or 'none'}" if old or new else ""),
            sentence=f"{count} of {len(now)} golden answers: {_change(name, old, new)}",
            severity=_SEVERITY.get(name, Severity.HIGH),
            count=count,
        )


def _change(name: str, old: str, new: str) -> str:
    if name == _FOUND:
        return "found, and not found any more"
    if name == "status":
        return "the status of a final transaction changed"
    return f"{name} changed" + (f" from {old or 'none'} to {new or 'none'}" if old or new else "")


def _by_part(answers: Iterable[GoldenAnswer]) -> dict[Part, str]:
    return {(each.reference, name): value for each in answers for name, value in each.parts.items()}

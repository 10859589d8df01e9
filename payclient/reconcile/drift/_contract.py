"""The contract of one run: counts of what the service did, golden answers, and the side that asked."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import blake2s
from typing import Any

from attrs import asdict, define, evolve, field, frozen

from payclient.protocol import Response, Transaction, is_object
from payclient.reconcile.drift._profile import DOCUMENTED, Recorder, Table, cleared, form_of, marked, table_from_json

MAX_GOLDEN = 20
_ANSWERS_EACH = 20
"""Answers of a run for each golden one: they add at most a twentieth to its requests."""

BODY, FOUND = "body", "found"


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


def choose(candidates: Iterable[tuple[str, str]], answers: int, *, already: int = 0) -> tuple[GoldenAnswer, ...]:
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
        FOUND: "no" if transaction is None else "yes",
        "status code": str(response.status_code),
        "names of the headers": digest(", ".join(sorted(response.headers))),
        "content type": digest(response.headers.get("content-type", "")),
    }
    if transaction is None:
        return parts
    forms = {f"type of {name}": form_of(name, value) for name, value in transaction.raw.items() if name in DOCUMENTED}
    code = (transaction.payment_code or "").encode()
    body = response.body.replace(code, b"") if code else response.body
    return {**parts, **forms, "status": digest(transaction.status), BODY: digest(body)}


_MAX_GROUPS = 50
_MAX_EACH = 20
CONTRACT = "contract.json"
_SCHEMA = "payclient.contract"
_VERSION = 1


class ContractError(ValueError):
    """A contract cannot be read; the text says why."""


@frozen(kw_only=True)
class Side:
    """
    Our side of the requests.

    Attributes:
        payclient: The version.
        environment: Of the service.
        transport: By name.
        proxy: `none` or `proxy`.
    """

    payclient: str = ""
    environment: str = ""
    transport: str = ""
    proxy: str = "none"

    def changes(self, earlier: Side) -> str:
        """Return the differences from *earlier* in words; "" if none."""
        mine, theirs = asdict(self), asdict(earlier)
        return ", ".join(f"{name} {theirs[name]} → {mine[name]}" for name in mine if mine[name] != theirs[name])


@frozen(kw_only=True)
class Contract:
    """
    The record of one run.

    Attributes:
        at: When it began.
        side: From which it asked.
        profile: The counts.
        golden: The golden answers.
        salt: Of their digests; it stays the same from run to run.
    """

    at: datetime
    side: Side = field(factory=Side)
    profile: Table = field(factory=Table)
    golden: tuple[GoldenAnswer, ...] = ()
    salt: str = ""

    def __add__(self, later: Contract) -> Contract:
        """Return the contract of a run together with its continuation."""
        known = later if later.golden else self  # a continuation may have had nothing left to ask for
        return evolve(
            later,
            at=min(self.at, later.at),
            profile=self.profile + later.profile,
            golden=known.golden,
            salt=known.salt,
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "schema": _SCHEMA,
            "version": _VERSION,
            "at": self.at.isoformat(),
            "side": asdict(self.side),
            "profile": self.profile.as_json(),
            "golden": [asdict(each) for each in self.golden],
            "salt": self.salt,
        }


def contract_from_json(value: Any) -> Contract:
    """
    Return the contract that `as_json` was called on.

    Raises:
        ContractError: When it is none, or of a later version.
    """
    if not is_object(value) or (value.get("schema"), value.get("version")) != (_SCHEMA, _VERSION):
        message = f"it is not version {_VERSION} of {_SCHEMA}"
        raise ContractError(message)
    try:
        return Contract(
            at=datetime.fromisoformat(value["at"]),
            side=Side(**value["side"]),
            profile=table_from_json(value["profile"]),
            golden=tuple(GoldenAnswer(**each) for each in value["golden"]),
            salt=value["salt"],
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        message = f"it is not what payclient writes ({type(error).__name__})"
        raise ContractError(message) from None


@define(eq=False)
class ContractRecorder(Recorder):
    """
    Records the contract of one run, with the golden answers of the run before.

    Args:
        side: From which it asks.
        previous: The contract of the run before; None without one.
    """

    side: Side = field(factory=Side, kw_only=True)
    previous: Contract | None = field(default=None, kw_only=True)
    salt: str = field(init=False)
    _golden: dict[str, GoldenAnswer] = field(factory=dict[str, GoldenAnswer], init=False)
    _candidates: dict[str, list[str]] = field(factory=dict[str, list[str]], init=False)

    def __attrs_post_init__(self) -> None:
        self.salt = (self.previous and self.previous.salt) or secrets.token_hex(16)
        if self.previous is not None:
            self._golden.update({each.reference: each for each in self.previous.golden})
            self._known |= {part for key in self.previous.profile.cells for part in key[1:]}

    def _keep(self, reference: str, response: Response, transaction: Transaction | None) -> None:
        if (golden := self._golden.get(reference)) is not None:
            self._golden[reference] = evolve(golden, parts=parts_of(response, transaction, self.salt))

    def offer(self, transaction: Transaction) -> None:
        """Offer a final transaction as a golden one."""
        group = f"{marked(transaction.payment_method or '')} {marked(transaction.status)}"
        each = self._candidates.setdefault(group, [])
        if len(self._candidates) <= _MAX_GROUPS and len(each) < _MAX_EACH:
            each.append(transaction.reference)

    def golden_references(self) -> tuple[str, ...]:
        """Return the references to ask for after the run: those of the run before, and new ones where there is room."""
        known = self._words()
        candidates = (
            (reference, " ".join(cleared(part, known) for part in group.split(" ")))
            for group, each in self._candidates.items()
            for reference in each
            if reference not in self._golden
        )
        for new in choose(candidates, self.profile.answers, already=len(self._golden)):
            self._golden[new.reference] = new
        return tuple(self._golden)

    def contract(self, at: datetime) -> Contract:
        """Return the contract of a run that began at *at*."""
        return Contract(
            at=at, side=self.side, profile=self.profile, golden=tuple(self._golden.values()), salt=self.salt
        )

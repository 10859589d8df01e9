"""Compare one transaction with what a caller was told of it, by the rules and in the words of a report."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import cast

from attrs import evolve

from payclient._escape import quote
from payclient.errors import ConfigurationError
from payclient.ledger import ABSENT, Entry
from payclient.protocol import Transaction
from payclient.reconcile import STRICT, Assumed, Code, Finding, compare, read_status

_WITHOUT_STATUS = evolve(STRICT, assume_status=Assumed.NONE)


def claim(reference: str, *, amount: int, merchant_reff: str | None) -> Entry:
    """
    Return what a caller was told, as a ledger would have it; without a status, which has several right answers.

    Raises:
        ConfigurationError: When *amount* or *merchant_reff* is no value that the service could have.
    """
    if isinstance(amount, bool) or not isinstance(cast("object", amount), int) or amount < 0:
        message = f"amount must be an integer of 0 or more, in the unit of the service, got {amount!r}"
        raise ConfigurationError(message)
    if not isinstance(cast("object", merchant_reff), str | None):
        message = f"merchant_reff must be a string or None, got {type(merchant_reff).__name__}"
        raise ConfigurationError(message)
    return Entry(
        line=1, reference=reference, amount=amount, merchant_reff=ABSENT if merchant_reff is None else merchant_reff
    )


def words_of(status: object) -> frozenset[str]:
    """
    Return the statuses that will do.

    Raises:
        ConfigurationError: When they are not a set with a word in it.
    """
    words: frozenset[object] = (
        frozenset(cast("Iterable[object]", status)) if isinstance(status, Iterable) else frozenset()
    )
    if not words or isinstance(status, str) or not all(isinstance(word, str) and word for word in words):
        message = f"status must be a set of statuses, such as {{'Paid'}}, got {status!r}"
        raise ConfigurationError(message)
    return cast("frozenset[str]", words)


def findings_of(entry: Entry, transaction: Transaction | None, words: frozenset[str]) -> tuple[Finding, ...]:
    """
    Say where the service differs from what a caller was told.

    Args:
        entry: What a caller was told, without a status.
        transaction: What the service states; None when it has no such transaction.
        words: The statuses that will do.
    """
    if transaction is None:
        sentence = f"the service knows no transaction {quote(entry.reference)}"
        return (Finding(Code.MISSING_AT_SERVICE, sentence, ledger=entry.reference),)
    at = datetime.now(UTC)
    found = compare(entry, transaction, at=at, rules=_WITHOUT_STATUS)
    if transaction.status in words:
        return found
    # The word with a known meaning says the most about the difference.
    word = min(words, key=lambda word: (read_status(word) is None, word))
    with_status = compare(evolve(entry, status=word), transaction, at=at)
    others = set(found)
    if any(finding.is_decisive for finding in with_status if finding not in others):
        return with_status
    sentence = (
        f"status is {quote(transaction.status)} at the service, which is not {' or '.join(map(quote, sorted(words)))}"
    )
    return (Finding(Code.UNKNOWN_STATUS, sentence, ledger=word, service=transaction.status), *found)

"""The frozen values that a lookup returns, around the transaction."""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn, TypeAlias

from attrs import field, frozen

from payclient.errors import PayClientError
from payclient.protocol.transaction import Transaction


class Environment(StrEnum):
    """The service's two environments, which differ in the path. Source: specification, parts 4 and 9."""

    LIVE = "live"
    SANDBOX = "sandbox"


class WithoutTruth:
    """The base class of results that are neither true nor false."""

    # One that is true would pass a failure, or a transaction that was not paid, for a success. One that is false
    # would pass "could not ask" for "not there".

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        message = (
            f"{type(self).__name__} is neither true nor false: "
            "ask isinstance(..., Failed), and then for the status of the transaction"
        )
        raise TypeError(message)


@frozen
class Found(WithoutTruth):
    """
    A lookup that found its transaction.

    Attributes:
        reference: The reference, as given.
        transaction: The transaction.
        index: Position of the reference in the input, from 0.
    """

    reference: str
    transaction: Transaction
    index: int = field(default=0, kw_only=True)


@frozen
class Failed(WithoutTruth):
    """
    A lookup that failed.

    Attributes:
        reference: The reference, as given.
        error: The reason. Only `TransactionNotFoundError` means that there is no such transaction.
        index: Position of the reference in the input, from 0.
    """

    reference: str
    error: PayClientError
    index: int = field(default=0, kw_only=True)


Outcome: TypeAlias = Found | Failed
"""The result of one lookup in a stream."""

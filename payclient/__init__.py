"""
Async client SDK for a payment service's transaction lookup.

`AsyncClient` is where to begin; `payclient.errors` has the whole error tree, `payclient.transports`
what carries a lookup, `payclient.testing` doubles for tests, `payclient.reconcile` reconciliation.
"""

# The names are loaded at their first use: the package has a pytest plugin, and whoever installed
# it should not pay for an HTTP library at the start of every test run.

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from payclient._client import AsyncClient
    from payclient._models import Environment, Failed, Found, Outcome, Transaction
    from payclient._retry import RetryPolicy
    from payclient._telemetry import Attempt, Stats
    from payclient.errors import (
        AttemptTimeoutError,
        AuthenticationError,
        ClientClosedError,
        ConfigurationError,
        ConnectionFailedError,
        DeadlineExceededError,
        InvalidReferenceError,
        PayClientError,
        PermissionDeniedError,
        RateLimitedError,
        ReferenceMismatchError,
        RejectedError,
        ResponseError,
        ServiceError,
        TLSVerificationError,
        TransactionNotFoundError,
        TransportError,
        UnexpectedResponseError,
    )

_HOME = {
    "payclient._client": ("AsyncClient",),
    "payclient._models": (
        "Environment",
        "Failed",
        "Found",
        "Outcome",
        "Transaction",
    ),
    "payclient._retry": ("RetryPolicy",),
    "payclient._telemetry": (
        "Attempt",
        "Stats",
    ),
    "payclient.errors": (
        "AttemptTimeoutError",
        "AuthenticationError",
        "ClientClosedError",
        "ConfigurationError",
        "ConnectionFailedError",
        "DeadlineExceededError",
        "InvalidReferenceError",
        "PayClientError",
        "PermissionDeniedError",
        "RateLimitedError",
        "ReferenceMismatchError",
        "RejectedError",
        "ResponseError",
        "ServiceError",
        "TLSVerificationError",
        "TransactionNotFoundError",
        "TransportError",
        "UnexpectedResponseError",
    ),
}

__all__ = [
    "AsyncClient",
    "Attempt",
    "AttemptTimeoutError",
    "AuthenticationError",
    "ClientClosedError",
    "ConfigurationError",
    "ConnectionFailedError",
    "DeadlineExceededError",
    "Environment",
    "Failed",
    "Found",
    "InvalidReferenceError",
    "Outcome",
    "PayClientError",
    "PermissionDeniedError",
    "RateLimitedError",
    "ReferenceMismatchError",
    "RejectedError",
    "ResponseError",
    "RetryPolicy",
    "ServiceError",
    "Stats",
    "TLSVerificationError",
    "Transaction",
    "TransactionNotFoundError",
    "TransportError",
    "UnexpectedResponseError",
]


def __getattr__(name: str) -> object:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(module), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return [*globals(), *__all__]

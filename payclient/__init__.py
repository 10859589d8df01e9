"""
Async client SDK for a payment service's transaction lookup.

Start with `AsyncClient`. `payclient.errors` has the error classes, `payclient.transports` the HTTP
transports, `payclient.testing` fakes for tests, `payclient.reconcile` the reconciliation of ledgers.
"""

# The names are loaded at their first use: the package has a pytest plugin, and a test run that does
# not use it should not import an HTTP library.

from payclient._shared.lazy import load_at_first_use

# `typing` is imported by what needs it: the command answers Ctrl-C only after this file. The annotation hides the value
# from jedi, which would otherwise skip the imports below.
TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from payclient._shared.version import __version__
    from payclient.client import AsyncClient, Attempt, Confirmation, FieldDifference, RetryPolicy, Stats
    from payclient.errors import (
        AttemptTimeoutError,
        AuthenticationError,
        ClientClosedError,
        ConfigurationError,
        ConnectionFailedError,
        CouldNotAskError,
        DeadlineExceededError,
        InvalidReferenceError,
        KeySourceError,
        OutageError,
        OverloadedError,
        PayClientError,
        PermissionDeniedError,
        ProxyRefusedError,
        RateLimitedError,
        ReferenceMismatchError,
        RejectedError,
        ResponseError,
        ServiceError,
        TLSVerificationError,
        TransactionNotFoundError,
        TransportError,
        UnexpectedResponseError,
        UnreachableStatusError,
        WaitDeadlineError,
        WaitError,
        WaitUnansweredError,
    )
    from payclient.protocol import Environment, Failed, Found, Outcome, Transaction

__all__ = [
    "AsyncClient",
    "Attempt",
    "AttemptTimeoutError",
    "AuthenticationError",
    "ClientClosedError",
    "ConfigurationError",
    "Confirmation",
    "ConnectionFailedError",
    "CouldNotAskError",
    "DeadlineExceededError",
    "Environment",
    "Failed",
    "FieldDifference",
    "Found",
    "InvalidReferenceError",
    "KeySourceError",
    "OutageError",
    "Outcome",
    "OverloadedError",
    "PayClientError",
    "PermissionDeniedError",
    "ProxyRefusedError",
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
    "UnreachableStatusError",
    "WaitDeadlineError",
    "WaitError",
    "WaitUnansweredError",
    "__version__",
]

_PUBLIC = ("blocking", "engines", "errors", "otel", "reconcile", "testing", "transports")
"""Modules that messages and pages name: `import payclient` is enough for them."""

if not TYPE_CHECKING:  # type checkers read the imports above, and so notice a name that is not there
    _get, __dir__ = load_at_first_use(__name__, "errors", "protocol", "client", "_shared.version")

    def __getattr__(name: str) -> object:
        if name == "Client":
            message = "payclient has an AsyncClient: the client without an event loop is payclient.blocking.Client"
            raise ImportError(message)  # `from payclient import Client` would hide the text of an AttributeError
        if name in _PUBLIC:
            from importlib import import_module  # noqa: PLC0415  not before it is needed

            return import_module(f"{__name__}.{name}")
        return _get(name)

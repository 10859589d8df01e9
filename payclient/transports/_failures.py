"""What went wrong on the way, in our terms, whatever library it went wrong in."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

from payclient._http import Request
from payclient.errors import (
    AttemptTimeoutError,
    ClientClosedError,
    ConnectionFailedError,
    Sent,
    TLSVerificationError,
    TransportError,
)

_LONGEST_REASON = 200
_PASSING_TLS_ERRORS = (
    ssl.SSLEOFError,  # the connection broke during the handshake
    ssl.SSLZeroReturnError,
    ssl.SSLWantReadError,  # the handshake was still waiting when its time was over
    ssl.SSLWantWriteError,
)


def closed() -> ClientClosedError:
    """Return the error for a transport that is used after its end."""
    message = "the transport has been closed"
    return ClientClosedError(message)


def refused(error: Exception, request: Request) -> TransportError | None:
    """
    Return what asking for a connection came to if the reason is a certificate or our own system.

    Args:
        error: What was raised; its causes are looked at too.
        request: The one that failed.
    """
    host = host_of(request)
    if refusal := _tls_refusal(error):
        message = f"{host} could not prove who it is: {refusal}"
        return TLSVerificationError(message, sent="no")
    if _has_no_descriptor(error):
        message = f"no file descriptor left for a connection to {host}; raise `ulimit -n` or lower max_concurrency"
        return ConnectionFailedError(message, sent="no")
    return None


def not_connected(error: Exception, request: Request, *, is_late: bool) -> TransportError:
    """Return the error for a connection that could not be made, or not in time."""
    message = f"cannot connect to {host_of(request)}: {reason_of(error)}"
    return (AttemptTimeoutError if is_late else ConnectionFailedError)(message, sent="no")


def broken(error: Exception, request: Request, *, answered: bool) -> ConnectionFailedError:
    """Return the error for a connection that ended before the answer did."""
    place = "in the middle of its answer" if answered else "before it answered"
    message = f"the connection to {host_of(request)} broke {place}: {reason_of(error)}"
    return ConnectionFailedError(message, sent=sent(answered=answered))


def sent(*, answered: bool) -> Sent:
    """Say whether a request had reached the service: an answer proves it."""
    return "yes" if answered else "unknown"


def host_of(request: Request) -> str:
    """Return whom *request* was for, as errors name it."""
    return urlsplit(request.url).netloc


def reason_of(error: Exception) -> str:
    """Return the text of a foreign error, on one short line."""
    return " ".join(str(error).split())[:_LONGEST_REASON] or type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(8):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def _tls_refusal(error: Exception) -> str | None:
    """Return why a handshake failed for good; a connection that broke during it is not such a case."""
    for link in _chain(error):
        if isinstance(link, _PASSING_TLS_ERRORS):
            return None
        if isinstance(link, ssl.SSLCertVerificationError):
            return link.verify_message or link.reason
        if isinstance(link, ssl.SSLError):
            return (link.reason or "the handshake failed").replace("_", " ").lower()
    return None


def _has_no_descriptor(error: Exception) -> bool:
    return any(isinstance(link, OSError) and link.errno in (errno.EMFILE, errno.ENFILE) for link in _chain(error))

"""Turn the errors of any HTTP library into `TransportError`s."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator
from types import TracebackType
from urllib.parse import urlsplit

from payclient.errors import (
    AttemptTimeoutError,
    ClientClosedError,
    ConnectionFailedError,
    Sent,
    TLSVerificationError,
    TransportError,
)
from payclient.protocol import Request

_MAX_REASON = 200
_LIBRARIES = {"anyio", "h11", "h2", "httpcore", "httpcore2", "httpx", "httpx2"}
_NOT_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"}
"""OpenSSL's reasons for a first record that is not TLS."""
_WANTS_CERTIFICATE = {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"}
"""Alerts of a service that demands a client certificate; the second one may have other reasons."""
_PASSING_TLS_ERRORS = (
    ssl.SSLEOFError,  # the connection broke during the handshake
    ssl.SSLZeroReturnError,
    ssl.SSLWantReadError,  # the handshake was still waiting when its time was over
    ssl.SSLWantWriteError,
)


def closed() -> ClientClosedError:
    """Return the error for a transport that has been closed."""
    message = "the transport has been closed"
    return ClientClosedError(message)


def refused(error: Exception, request: Request) -> TransportError | None:
    """
    Return the error for a failed TLS handshake or a lack of file descriptors; None for other reasons.

    Args:
        error: The exception; its causes are examined too.
        request: The request that failed.
    """
    host = host_of(request)
    if refusal := _tls_refusal(error):
        message = f"{host} {refusal}"
        return TLSVerificationError(message, sent="no")
    if _has_no_descriptor(error):
        message = f"no file descriptor left for a connection to {host}; raise `ulimit -n` or lower max_concurrency"
        return ConnectionFailedError(message, sent="no")
    return None


def not_connected(error: Exception, request: Request, *, is_late: bool) -> TransportError:
    """Return the error for a connection that could not be made, or not in time."""
    message = f"cannot connect to {host_of(request)}: {reason_of(error)}"
    return (AttemptTimeoutError if is_late else ConnectionFailedError)(message, sent="no")


def broken(error: Exception, request: Request, *, answered: bool) -> TransportError:
    """Return the error for a connection that ended before the answer did."""
    if "_ALERT_CERTIFICATE_REQUIRED" in str(error):  # in TLS 1.3 it comes behind the handshake
        message = f"{host_of(request)} {_refused_handshake('TLSV13_ALERT_CERTIFICATE_REQUIRED')}"
        return TLSVerificationError(message, sent="no")
    place = "in the middle of its answer" if answered else "before it answered"
    message = f"the connection to {host_of(request)} broke {place}: {reason_of(error)}"
    return ConnectionFailedError(message, sent=sent(answered=answered))


def sent(*, answered: bool) -> Sent:
    """Return whether a request has reached the service: an answer proves it."""
    return "yes" if answered else "unknown"


def without_library_frames(error: BaseException) -> BaseException:
    """
    Return *error* without the frames of HTTP libraries, also in its causes and contexts.

    Those frames hold the request, and with it the API key, in their local variables, which crash reporters store.
    """
    links: list[BaseException] = [error]
    for link in links:
        links += [other for other in (link.__cause__, link.__context__) if other is not None and other not in links]
        kept: TracebackType | None = None
        for trace in reversed(list(_links(link.__traceback__))):
            if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in _LIBRARIES:
                kept = TracebackType(kept, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
        link.__traceback__ = kept
    return error


def _links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def host_of(request: Request) -> str:
    """Return host and port of *request*, for messages."""
    return urlsplit(request.url).netloc


def reason_of(error: Exception) -> str:
    """Return the text of a foreign error, on one short line."""
    return " ".join(str(error).split())[:_MAX_REASON] or type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(8):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def _tls_refusal(error: Exception) -> str | None:
    """Return why a handshake failed permanently; None if the connection only broke during it."""
    for link in _chain(error):
        if isinstance(link, _PASSING_TLS_ERRORS):
            return None
        if isinstance(link, ssl.SSLCertVerificationError):
            return f"could not prove who it is: {link.verify_message or link.reason}"
        if isinstance(link, ssl.SSLError):
            return _refused_handshake(link.reason or "handshake failed")
    return None


def _refused_handshake(reason: str) -> str:
    words = reason.replace("_", " ").lower()
    if reason in _NOT_TLS:
        return f"does not speak TLS on this port ({words}); check the scheme and the port of base_url"
    if reason in _WANTS_CERTIFICATE:
        return f"refused the TLS handshake ({words}); for a client certificate, pass a transport with your ssl_context"
    return f"and this client do not agree on TLS ({words})"


def _has_no_descriptor(error: Exception) -> bool:
    return any(isinstance(link, OSError) and link.errno in (errno.EMFILE, errno.ENFILE) for link in _chain(error))

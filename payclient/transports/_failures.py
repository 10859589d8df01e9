"""The progress of an attempt towards the service, and the `TransportError` that has the step where it ended."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from attrs import define, field

from payclient import errors
from payclient.transports._network import Origin, TunnelError

_ATTRIBUTE = "payclient_progress"
_BEFORE_SENDING = ("name", "connect", "proxy", "tls")
_MAX_REASON = 200
_FOR_A_CERTIFICATE = "if it wants a client certificate, pass client_cert and client_key"
_PASSING = (408, 425, 429)
"""Statuses of a proxy that are worth a retry, besides 5xx."""
_NO_AUTHORITY = (18, 19, 20, 21)
"""OpenSSL's codes for an unknown authority, such as a proxy's that intercepts TLS."""
_UNKNOWN_AUTHORITY = ": if your company has an authority, pass its certificate as ca_file"
_UNNAMED = re.compile(r"\[Errno (\d+)\] Connect call failed \([^)]*\)")
"""An error of asyncio, which gives the address instead of the words of the system."""
_LIBRARIES = {"anyio", "h11", "h2", "httpcore", "httpcore2", "httpx", "httpx2"}
_NOT_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"}
"""OpenSSL's reasons for a first record that is not TLS."""
_WANTS_CERTIFICATE = {"CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE"}
"""Alerts of a service that demands a client certificate. The second one may have other reasons."""
_REFUSES_CERTIFICATE = {
    *("ACCESS_DENIED", "BAD_CERTIFICATE", "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED", "CERTIFICATE_UNKNOWN"),
    *("DECRYPT_ERROR", "UNKNOWN_CA", "UNSUPPORTED_CERTIFICATE"),
}
"""Alerts of a service that does not accept the one it was shown. `DECRYPT_ERROR` is for its signature."""
_PASSING_TLS_ERRORS = (
    ssl.SSLEOFError,  # the connection broke during the handshake
    ssl.SSLZeroReturnError,
    ssl.SSLWantReadError,  # the handshake was still waiting when its time was over
    ssl.SSLWantWriteError,
)
_Error = TypeVar("_Error", bound=errors.TransportError)


@define(eq=False)
class Progress:
    """Progress of one connection, and its peer."""

    proxy: str = ""
    step: errors.Step = ""
    address: str = ""  # the peer's, or the proxy's. Before a connection exists, the addresses tried
    times: list[tuple[errors.Step, float]] = field(factory=list)

    @property
    def sent(self) -> errors.Sent:
        """Whether the service may have received the request, judged by the step."""
        if self.step in _BEFORE_SENDING:
            return "no"
        return "yes" if self.step == "body" else "unknown"

    def enter(self, step: errors.Step, at: float) -> None:
        self.step = step
        self.times.append((step, at))

    def with_step(self, step: errors.Step) -> Progress:
        return Progress(self.proxy, step, self.address)

    def failure(self, kind: Callable[..., _Error], message: str) -> _Error:
        return kind(message, sent=self.sent, step=self.step, address=self.address)

    def attach_to(self, error: BaseException) -> None:
        if not hasattr(error, _ATTRIBUTE):
            with suppress(AttributeError):  # an exception with slots
                setattr(error, _ATTRIBUTE, self.with_step(self.step))


def progress_of(error: BaseException | None) -> Progress:
    """Return the progress that is attached to *error* or to one of its causes. An empty one without any."""
    for link in chain(error):
        if isinstance(progress := getattr(link, _ATTRIBUTE, None), Progress):
            return progress
    return Progress()


def chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def address_in_words(address: tuple[Any, ...]) -> str:
    host, port, *_ = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def not_connected(error: Exception, origin: Origin, progress: Progress, *, is_late: bool) -> errors.TransportError:
    if refusal := _tls_refusal(error):
        return progress.with_step("tls").failure(errors.TLSVerificationError, f"{_peer(origin, progress)} {refusal}")
    if any(isinstance(link, OSError) and link.errno in (errno.EMFILE, errno.ENFILE) for link in chain(error)):
        message = f"no file descriptor left for a connection to {origin}: raise `ulimit -n` or lower max_concurrency"
        return progress.with_step(progress.step or "connect").failure(errors.ConnectionFailedError, message)
    if refused := [link for link in chain(error) if isinstance(link, TunnelError)]:
        return _no_tunnel(refused[0], progress)
    reason = reason_of(error)
    if progress.step == "name":
        reason = f"the name was not resolved: {reason}"
    if progress.proxy and progress.step == "proxy":
        message = f"the proxy {progress.proxy} did not open the tunnel to {origin}: {reason}"
    elif progress.proxy and progress.step != "tls":
        message = f"cannot connect to the proxy {progress.proxy}: {reason}"
    else:
        message = f"cannot connect to {_peer(origin, progress)}: {reason}"
    kind = errors.AttemptTimeoutError if is_late else errors.ConnectionFailedError
    return progress.with_step(progress.step or _step_of(error)).failure(kind, message)


def broken(error: Exception, origin: Origin, progress: Progress, *, answered: bool) -> errors.TransportError:
    peer = _peer(origin, progress)
    if not answered and (refusal := _refused_certificate(error)):  # a TLS 1.3 alert follows the handshake
        return progress.with_step("tls").failure(errors.TLSVerificationError, f"{peer} {refusal}")
    place = "in the middle of its answer" if answered else "before it answered"
    message = f"the connection to {peer} broke {place}: {reason_of(error)}"
    step: errors.Step = "body" if answered else (progress.step or "waiting")
    return progress.with_step(step).failure(errors.ConnectionFailedError, message)


def translated(error: Exception, origin: Origin, *, library: Any, answered: bool) -> errors.PayClientError:
    """Return *error*, of httpx, httpx2 or the system, as our own error without a link to it."""
    if isinstance(error, library.LocalProtocolError):
        return errors.ConfigurationError(f"the http_client cannot send this request: {reason_of(error)}")
    progress = progress_of(error)
    if isinstance(error, library.PoolTimeout):
        message = f"the http_client uses all its connections to {origin}: raise its limits or lower max_concurrency"
        return errors.ConnectionFailedError(message, sent="no")
    if isinstance(error, (library.ConnectError, library.ConnectTimeout, library.ProxyError)):
        return not_connected(error, origin, progress, is_late=isinstance(error, library.ConnectTimeout))
    if isinstance(error, (library.TimeoutException, TimeoutError)):
        step: errors.Step = "body" if answered else "sending" if isinstance(error, library.WriteTimeout) else "waiting"
        message = f"{origin} did not answer in time: {reason_of(error)}"
        return progress.with_step(step).failure(errors.AttemptTimeoutError, message)
    return broken(error, origin, progress, answered=answered)


def without_library_frames(error: BaseException) -> BaseException:
    """Return *error* without the frames of HTTP libraries, including those in its causes and contexts."""
    # Those frames contain the request, and with it the API key, in their local variables, which crash reporters store.
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


def reason_of(error: Exception) -> str:
    text = _UNNAMED.sub(lambda found: os.strerror(int(found[1])), " ".join(str(error).split()))
    return text[:_MAX_REASON] or type(error).__name__


def _peer(origin: Origin, progress: Progress) -> str:
    return f"{origin} through the proxy {progress.proxy}" if progress.proxy else str(origin)


def _step_of(error: Exception) -> errors.Step:
    """Return the step where a library failed to connect, from its exception."""
    links = list(chain(error))
    if type(error).__name__ == "ProxyError":
        return "proxy"
    if any(isinstance(link, socket.gaierror) for link in links):
        return "name"
    return "tls" if any(isinstance(link, ssl.SSLError) for link in links) else "connect"


def _no_tunnel(error: TunnelError, progress: Progress) -> errors.TransportError:
    at_proxy, message = progress.with_step("proxy"), f"the proxy {progress.proxy} {error.reason}"
    if not 300 <= error.status_code < 500 or error.status_code in _PASSING:
        return at_proxy.failure(errors.ConnectionFailedError, message)
    return at_proxy.failure(partial(errors.ProxyRefusedError, status_code=error.status_code), message)


def _tls_refusal(error: Exception) -> str | None:
    """Return why a handshake failed permanently. None if the connection only broke during it."""
    for link in chain(error):
        if isinstance(link, _PASSING_TLS_ERRORS):
            return None
        if isinstance(link, ssl.SSLCertVerificationError):
            advice = _UNKNOWN_AUTHORITY if link.verify_code in _NO_AUTHORITY else ""
            return f"could not prove who it is: {link.verify_message or link.reason}{advice}"
        if isinstance(link, ssl.SSLError):
            words = (link.reason or "handshake failed").replace("_", " ").lower()
            if link.reason in _NOT_TLS:
                return f"does not speak TLS on this port ({words}): check the scheme and the port of base_url"
            return _refused_certificate(link) or f"and this client do not agree on TLS ({words})"
    return None


def _refused_certificate(error: BaseException) -> str:
    """Return the refusal of the client's certificate, or that it is missing, in words, or an empty text."""
    for link in chain(error):
        alert = (link.reason or "").partition("_ALERT_")[2] if isinstance(link, ssl.SSLError) else ""
        words = f"(alert {alert.replace('_', ' ').lower()})"
        if alert in _WANTS_CERTIFICATE:
            return f"refused the TLS handshake {words}: {_FOR_A_CERTIFICATE}"
        if alert in _REFUSES_CERTIFICATE:
            return f"refused the client certificate {words}: pass client_cert and client_key that it accepts"
    return ""

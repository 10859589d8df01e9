"""
TLS: the context that the options ask for, and a session without I/O: received bytes in, bytes to send out.

asyncio's own TLS transport is made for any protocol, and takes twice as long per message as the
encryption. This one relies on messages being small and sent at once.
"""

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, cast

from payclient._shared.checks import invalid_option, unfit
from payclient._shared.escape import escape_unprintable
from payclient.errors import ConfigurationError


def default_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return an SSL context with the authorities of *ca_file*, or else the system's."""
    context = ssl.create_default_context(cafile=ca_file)
    # `SSLKEYLOGFILE` is ignored: with the secrets of TLS anyone could read the API key. Typeshed does not know None.
    context.keylog_filename = None  # type: ignore[assignment]
    return context


def make_context(options: Mapping[str, object]) -> ssl.SSLContext:
    given = [name for name in ("ca_file", "client_cert", "client_key") if options.get(name) is not None]
    if (context := options.get("ssl_context")) is not None:
        if not isinstance(context, ssl.SSLContext):
            raise unfit("ssl_context", "an ssl.SSLContext", type(context).__name__)
        if given:
            raise ConfigurationError(f"pass ssl_context or {', '.join(given)}, not both")
        return context
    if "client_key" in given and "client_cert" not in given:
        raise invalid_option("client_key", "needs a client_cert")
    files = {name: _path(name, options[name]) for name in given}
    name, certificate = "ca_file", files.get("client_cert")
    try:
        context = default_context(files.get(name))
        if certificate is not None:
            name = "client_key" if "client_key" in files else "client_cert"
            context.load_cert_chain(certificate, files.get("client_key"), password=_refuse_to_ask)
    except ssl.SSLError as error:
        detail = f" ({error.reason.replace('_', ' ').lower()})" if error.reason else ""
        problem = f"is not a PEM file with what is expected in it{detail}"
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = "does not belong to client_cert"
        raise _unusable(name, files.get(name, ""), problem) from None
    return context


def _refuse_to_ask() -> NoReturn:
    """Replace OpenSSL's prompt for a pass phrase, which would wait at the terminal."""
    message = "client_key is encrypted; decrypt it (openssl pkey), or load it into an ssl_context of your own"
    raise ConfigurationError(message)


def _path(name: str, given: object) -> str:
    shown = repr(given)
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise unfit(name, "the path of a file", shown)
    path = os.fsdecode(cast("str | os.PathLike[str]", given))
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise _unusable(name, path, f"cannot be read: {error.strerror}") from None
    return path


def _unusable(name: str, path: str, problem: str) -> ConfigurationError:
    return invalid_option(name, f"{escape_unprintable(path)} {problem}")


class TlsSession:
    """The client side of a TLS connection."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.is_established = False
        self.receive: Callable[[bytes | memoryview], object] = self._incoming.write
        """Takes received bytes."""
        self.pending: Callable[[], bytes] = self._outgoing.read
        """Returns what TLS itself wants to send."""

    @property
    def version(self) -> str:
        return self._ssl.version() or ""

    def certificate(self) -> dict[str, Any]:
        return self._ssl.getpeercert() or {}

    def handshake(self) -> bytes:
        with suppress(ssl.SSLWantReadError):
            self._ssl.do_handshake()
            self.is_established = True
        return self._outgoing.read()

    def encrypted(self, plain: bytes) -> bytes:
        self._ssl.write(plain)
        return self._outgoing.read()

    def close_notify(self) -> bytes:
        with suppress(ssl.SSLError):  # the peer's close_notify is not waited for
            self._ssl.unwrap()
        return self._outgoing.read()

    def decrypted(self) -> Iterator[bytes]:
        """Yield the received data as far as its records are complete. `b""` is the peer's close_notify."""
        while size := self._incoming.pending or self._ssl.pending():
            try:
                plain = self._ssl.read(size)  # a full record would allocate 16 KiB
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                plain = b""
            yield plain
            if not plain:
                return

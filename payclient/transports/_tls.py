"""
TLS without I/O: received bytes in, bytes to send out.

asyncio's own TLS transport is made for any protocol, and takes twice as long per message as the
encryption. This one relies on messages being small and sent at once.
"""

import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any


class TlsSession:
    """The client side of a TLS connection."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.is_established = False
        self.receive: Callable[[bytes | memoryview], object] = self._incoming.write
        """Takes received bytes."""

    @property
    def version(self) -> str:
        return self._ssl.version() or ""

    def certificate(self) -> dict[str, Any]:
        return self._ssl.getpeercert() or {}

    def handshake(self) -> bytes:
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            pass
        else:
            self.is_established = True
        return self._outgoing.read()

    def encrypted(self, plain: bytes) -> bytes:
        self._ssl.write(plain)
        return self._outgoing.read()

    def pending(self) -> bytes:
        """Return what TLS itself wants to send."""
        return self._outgoing.read()

    def close_notify(self) -> bytes:
        with suppress(ssl.SSLError):  # the peer's close_notify is not waited for
            self._ssl.unwrap()
        return self._outgoing.read()

    def decrypted(self) -> Iterator[bytes]:
        """Yield the received data as far as its records are complete; `b""` is the peer's close_notify."""
        while size := self._incoming.pending or self._ssl.pending():
            try:
                plain = self._ssl.read(size)  # not a full record, for which it would allocate 16 KiB
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                plain = b""
            yield plain
            if not plain:
                return

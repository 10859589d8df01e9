"""
TLS without I/O: what comes from the wire goes in, what must be sent comes out.

Asyncio's own TLS transport is made for any protocol, and takes twice as long for a message
as the encryption does; ours knows that a message is small and sent at once.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import suppress


class TlsSession:
    """
    One side of a TLS connection: the client's.

    Args:
        context: Which certificates are trusted.
        host: Whom the other side must prove to be.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.is_established = False
        self.receive = self._incoming.write
        """Takes what came from the wire."""

    def handshake(self) -> bytes:
        """
        Continue the handshake, and return what must be sent.

        Raises:
            ssl.SSLError: When the other side cannot prove who it is, or does not speak TLS.
        """
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            pass
        else:
            self.is_established = True
        return self._outgoing.read()

    def encrypted(self, plain: bytes) -> bytes:
        """Return *plain* as it is sent."""
        self._ssl.write(plain)
        return self._outgoing.read()

    def close_notify(self) -> bytes:
        """Return what tells the other side that nothing follows."""
        with suppress(ssl.SSLError):  # the peer's close_notify is not waited for
            self._ssl.unwrap()
        return self._outgoing.read()

    def decrypted(self) -> Iterator[bytes]:
        """
        Give what was received as far as it is whole; `b""` is the peer's close_notify.

        Raises:
            ssl.SSLError: When it was changed on the way.
        """
        while size := self._incoming.pending or self._ssl.pending():
            try:
                plain = self._ssl.read(size)  # not a whole record's size, for which it would allocate 16 KiB
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                plain = b""
            yield plain
            if not plain:
                return

"""The other side of TLS, without I/O."""

import ssl
import tempfile
from contextlib import suppress

import trustme
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from payclient.transports._connections import TlsSession

AUTHORITY = trustme.CA()
REFUSALS = {
    40: "handshake failure",
    42: "bad certificate",
    43: "unsupported certificate",
    44: "certificate revoked",
    45: "certificate expired",
    46: "certificate unknown",
    48: "unknown ca",
    49: "access denied",
    51: "decrypt error",
    116: "certificate required",
}
"""
The alerts by which a server refuses the client's certificate, or the lack of one.

Source:
    RFC 8446, part 6.2.
"""


class Server:
    """The other side, without I/O too."""

    def __init__(self, host="pay.example", *, version=ssl.TLSVersion.TLSv1_3, keylog=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version, context.keylog_filename = version, keylog
        AUTHORITY.issue_cert(host).configure_cert(context)
        self.is_established = False
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def answer(self, message):
        """Take part in the handshake."""
        self.incoming.write(message)
        with suppress(ssl.SSLWantReadError):
            self.ssl.do_handshake()
            self.is_established = True
        return self.outgoing.read()

    def encrypted(self, plain):
        self.ssl.write(plain)
        return self.outgoing.read()

    def decrypted(self, message):
        self.incoming.write(message)
        return self.ssl.read(1 << 20)


def refusing(alert, version=ssl.TLSVersion.TLSv1_3):
    """
    Return a script for `RawServer` that refuses the client by *alert*, a number.

    As servers do: with TLS 1.2 within the handshake, with TLS 1.3 behind it, where `ssl` cannot be told which to send.
    """

    async def refuse(connection):
        with tempfile.NamedTemporaryFile("r") as secrets:
            tls = Server("localhost", version=version, keylog=secrets.name)
            while not tls.is_established and (message := await connection.reader.read(65536)):
                answer = tls.answer(message)
                if tls.is_established:
                    answer = _sealed(alert, secrets.read()) if version is ssl.TLSVersion.TLSv1_3 else _plain(alert)
                await connection.write(answer)
        connection.writer.write_eof()
        await connection.peer_leaves()

    return refuse


def _plain(alert):
    return bytes([21, 3, 3, 0, 2, 2, alert])


def _sealed(alert, secrets):
    """
    Return the first record that a server sends behind the handshake, without session tickets, as an alert.

    Source:
        RFC 8446, parts 5.2, 5.3 and 7.3, for AES-256 with SHA-384, which OpenSSL prefers.
    """
    (secret,) = (bytes.fromhex(line.split()[2]) for line in secrets.splitlines() if line.startswith("SERVER_TRAFFIC"))

    def derived(label, size):
        info = size.to_bytes(2) + bytes([6 + len(label)]) + b"tls13 " + label + b"\0"
        return HKDFExpand(SHA384(), size, info).derive(secret)

    header = bytes([23, 3, 3, 0, 3 + 16])
    return header + AESGCM(derived(b"key", 32)).encrypt(derived(b"iv", 12), bytes([2, alert, 21]), header)


def trust(*, is_trusting=True):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if is_trusting:
        AUTHORITY.configure_trust(context)
    return context


def session(*, is_trusting=True):
    return TlsSession(trust(is_trusting=is_trusting), "pay.example")


def established(server):
    """Return a session after its handshake, with what the server sent behind it taken."""
    client = session()
    message = client.handshake()
    while not client.is_established:
        client.incoming.write(memoryview(server.answer(message)))
        message = client.handshake()
    client.incoming.write(memoryview(server.answer(message)))
    assert list(client.decrypted()) == []
    return client

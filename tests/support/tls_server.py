"""The other side of TLS, without I/O."""

import ssl
from contextlib import suppress

import trustme

from payclient.transports._tls import TlsSession

AUTHORITY = trustme.CA()


class Server:
    """The other side, without I/O too."""

    def __init__(self, host="pay.example"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.issue_cert(host).configure_cert(context)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def answer(self, message):
        """Take part in the handshake."""
        self.incoming.write(message)
        with suppress(ssl.SSLWantReadError):
            self.ssl.do_handshake()
        return self.outgoing.read()

    def encrypted(self, plain):
        self.ssl.write(plain)
        return self.outgoing.read()

    def decrypted(self, message):
        self.incoming.write(message)
        return self.ssl.read(1 << 20)


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
        client.receive(memoryview(server.answer(message)))
        message = client.handshake()
    client.receive(memoryview(server.answer(message)))
    assert list(client.decrypted()) == []
    return client

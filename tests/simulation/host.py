"""The simulated host: reads requests from connections, through TLS or plain, and sends what the service answers."""

import functools
import json
import re
import ssl
from contextlib import suppress

import trustme

from simulation.network import END, RESET

NAME = "pay.example"
ADDRESSES = {NAME: ["10.0.0.1", "10.0.0.2"], "127.0.0.1": ["127.0.0.1"]}


@functools.cache
def _authority(*, is_trusted):
    # RSA: its signatures have one length, so the same run has the same number of bytes.
    return trustme.CA(key_type=trustme.KeyType.RSA)


@functools.cache
def client_context():
    """Return what a client has that trusts the service."""
    context = ssl.create_default_context()
    _authority(is_trusted=True).configure_trust(context)
    return context


@functools.cache
def server_context(name, *, is_trusted=True):
    """Return what a server of that name shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _authority(is_trusted=is_trusted).issue_cert(name, key_type=trustme.KeyType.RSA).configure_cert(context)
    return context


class Tls:
    """A server's side of TLS."""

    def __init__(self, context):
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_established = False

    def receive(self, data):
        """Take what came; return what must be sent, and what was said."""
        self._incoming.write(data)
        plain = b""
        with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            if not self.is_established:
                self._ssl.do_handshake()
                self.is_established = True
            while part := self._ssl.read(65536):  # nothing: the client has said that nothing follows
                plain += part
        return self._outgoing.read(), plain

    def encrypted(self, plain):
        self._ssl.write(plain)
        return self._outgoing.read()


class Request:
    """One request: its head, the reference that it asks for, and the key in it."""

    def __init__(self, head, body):
        self.head, self.body = head, body
        self.reference = json.loads(body)["reference"]
        key = re.search(rb"(?im)^authorization: bearer (\S+)", head)
        self.key = "" if key is None else key[1].decode()


class Peer:
    """What the service has of one connection."""

    def __init__(self, connection, *, tls, on_request, on_bytes):
        self.connection = connection  # of the network
        self._tls = tls
        self._on_request, self._on_bytes = on_request, on_bytes
        self._text = b""
        self.is_open = True  # whether the service can still send over it
        self.is_busy = False  # whether it owes an answer
        self.is_spoilt = False  # whether the client must have seen that an answer too many came over it
        self.behind = b""  # what the service sends before its next answer
        self.lagging = None  # the answer that it sends instead of the next one; None when it is in step
        self.requests = 0  # how many came
        self.key = ""  # that of the last one

    def receive(self, item):
        """Take what the client sent."""
        if not self.is_open:
            if isinstance(item, bytes):
                self.connection.to_client.send(RESET)
        elif isinstance(item, bytes):
            self._take(item)
        else:
            self.close()

    def _take(self, data):
        plain = data
        if self._tls is not None:
            try:
                reply, plain = self._tls.receive(data)
            except ssl.SSLError:
                self.reset()
                return
            if reply:
                self.connection.to_client.send(reply)
        self._on_bytes(data)
        self._text += plain
        while self.is_open and (request := self._next()) is not None:
            self.requests += 1
            self._on_request(self, request)

    def _next(self):
        head, found, rest = self._text.partition(b"\r\n\r\n")
        if not found:
            return None
        lines = head.lower().split(b"\r\n")
        size = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        if len(rest) < size:
            return None
        self._text = rest[size:]
        return Request(head, rest[:size])

    @property
    def is_established(self):
        """Whether the handshake is done."""
        return self._tls is not None and self._tls.is_established

    def send(self, data):
        """Say *data*."""
        if self.is_open and data:
            self.connection.to_client.send(data if self._tls is None else self._tls.encrypted(data))

    def send_apart(self, data, more):
        """Say both at once, each in a record of its own."""
        if self.is_open:
            self.connection.to_client.send(self._tls.encrypted(data) + self._tls.encrypted(more))

    def close(self):
        """Say no more."""
        if self.is_open:
            self.is_open = False
            self.connection.to_client.send(END)

    def reset(self):
        """Break the connection."""
        if self.is_open:
            self.is_open = False
            self.connection.to_client.send(RESET)

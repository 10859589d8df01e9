"""TLS without I/O, against the other side as Python's own ssl plays it."""

import ssl

import pytest

from support.tls_server import Server, established


@pytest.mark.parametrize("size", [1, 300, 16 * 1024, 100_000])
def test_round_trip(size):
    """Data of any length arrives unchanged."""
    server = Server()
    client, plain = established(server), bytes(range(256)) * (size // 256) + bytes(size % 256)
    client.incoming.write(memoryview(server.encrypted(plain)))
    assert b"".join(client.decrypted()) == plain
    assert server.decrypted(client.encrypted(plain[:300])) == plain[:300]


def test_cut_anywhere():
    """Bytes that arrive one by one give each record once."""
    server = Server()
    client, read = established(server), []
    for byte in server.encrypted(b"one") + server.encrypted(b"two"):
        client.incoming.write(memoryview(bytes([byte])))
        read += client.decrypted()
    assert b"".join(read) == b"onetwo"


def test_changed_on_the_way():
    """A record in which a bit was changed is not read."""
    server = Server()
    client = established(server)
    record = bytearray(server.encrypted(b"amount: 15000"))
    record[-1] ^= 1
    client.incoming.write(memoryview(record))
    with pytest.raises(ssl.SSLError, match=r"BAD_RECORD_MAC|DECRYPTION_FAILED|RECORD_LAYER_FAILURE"):
        list(client.decrypted())


def test_close_notify():
    """Each side's good-bye is seen by the other as an end, not as a connection that broke."""
    server = Server()
    client = established(server)
    assert server.decrypted(client.close_notify()) == b""
    server = Server()
    client = established(server)
    last = server.encrypted(b"last words")
    with pytest.raises(ssl.SSLWantReadError):
        server.ssl.unwrap()
    client.incoming.write(memoryview(last + server.outgoing.read()))
    assert list(client.decrypted()) == [b"last words", b""]

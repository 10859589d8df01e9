"""How far an attempt has come, as its errors tell it."""

import pickle
import socket

import pytest

from payclient import AsyncClient, AttemptTimeoutError, ConnectionFailedError, DeadlineExceededError, TransportError
from payclient.transports._failures import Progress, address_in_words, progress_of
from support.fakes import KEY, document
from support.raw_server import RawServer, Script, close, http, send, stall

OK = http(document("T1"))


@pytest.fixture(params=["httpx", "fast"])
def ask(request):
    """Look up once over each transport, and return the error."""

    async def ask(server, **options):
        options = {"retry": None, "transport": request.param, **options}
        url = server if isinstance(server, str) else server.url
        async with AsyncClient(api_key=KEY, base_url=url, **options) as pay:
            with pytest.raises(TransportError) as caught:
                await pay.get_transaction("T1")
            return caught.value

    return ask


def address_of(server):
    return server.url.partition("://")[2]


@pytest.mark.parametrize(
    ("script", "kind", "step", "sent"),
    [
        ([stall], AttemptTimeoutError, "waiting", "unknown"),
        ([send(OK[:40]), stall], AttemptTimeoutError, "waiting", "unknown"),
        ([send(OK[:-10]), stall], AttemptTimeoutError, "body", "yes"),
        ([close], ConnectionFailedError, "waiting", "unknown"),
        ([send(OK[:-10]), close], ConnectionFailedError, "body", "yes"),
    ],
)
@pytest.mark.virtual_time
async def test_exchange(script, kind, step, sent, ask):
    """A time-out and a broken connection say whether the answer had begun, with which address and after how long."""
    async with RawServer(Script(script)) as server:
        error = await ask(server, timeout=7)
        assert (type(error), error.step, error.address) == (kind, step, address_of(server))
        assert error.sent == sent
    if kind is AttemptTimeoutError:
        assert error.seconds == pytest.approx(7, abs=0.01)
        assert str(error) == f"no whole answer within 7 s [step {step}, {error.address}, after 7.00 s]"


@pytest.mark.virtual_time
@pytest.mark.parametrize("transport", ["httpx", "fast"])
async def test_kept_connection(transport):
    """An attempt over a connection that was used before knows its address too."""
    async with (
        RawServer(Script([send(OK)], [stall])) as server,
        AsyncClient(api_key=KEY, base_url=server.url, transport=transport, retry=None, timeout=5) as pay,
    ):
        await pay.get_transaction("T1")
        with pytest.raises(AttemptTimeoutError) as caught:
            await pay.get_transaction("T1")
        assert (caught.value.step, caught.value.address) == ("waiting", address_of(server))


@pytest.mark.parametrize("transport", ["httpx", "fast"])
@pytest.mark.virtual_time
async def test_deadline(transport):
    """A deadline that ends an attempt says at which step that was, and with which address."""
    async with (
        RawServer(Script([stall])) as server,
        AsyncClient(api_key=KEY, base_url=server.url, transport=transport, deadline=5) as pay,
    ):
        with pytest.raises(DeadlineExceededError) as caught:
            await pay.get_transaction("T1")
        assert str(caught.value).endswith(f" [step waiting, {address_of(server)}]")


async def test_several_addresses(ask, monkeypatch):
    """Of a host with several addresses, those that were tried are named, and once connected the one that answered."""
    async with RawServer(Script([close])) as server:
        port = int(server.url.rpartition(":")[2])

        def resolve(*_):
            found = [(socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))]
            return [(each, socket.SOCK_STREAM, 6, "", to) for each, to in found]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        error = await ask(f"http://localhost:{port}")
        assert (error.step, error.address) == ("waiting", f"127.0.0.1:{port}")
    error = await ask(f"http://localhost:{port}")
    assert (error.step, error.address) == ("connect", f"[::1]:{port}, 127.0.0.1:{port}")


def test_mark():
    """The first mark of an error stays; it is found through what the error became."""
    progress = Progress("proxy:1")
    progress.enter("connect", 1.0)
    error = OSError()
    progress.attach_to(error)
    progress.enter("tls", 2.0)
    progress.attach_to(error)
    wrapped = RuntimeError()
    wrapped.__cause__ = error
    assert (progress_of(wrapped).step, progress_of(wrapped).proxy, progress.times) == (
        "connect",
        "proxy:1",
        [("connect", 1.0), ("tls", 2.0)],
    )
    assert (progress_of(None).step, progress_of(ValueError()).step) == ("", "")


@pytest.mark.parametrize(("address", "shown"), [(("10.0.0.1", 443), "10.0.0.1:443"), (("::1", 443, 0, 0), "[::1]:443")])
def test_address(address, shown):
    """An address is written as in a URL."""
    assert address_in_words(address) == shown


def test_text():
    """The text of an error has what is known, and survives a pickle; `message` is without it."""
    error = ConnectionFailedError("it broke", step="body", address="10.0.0.1:443")
    assert (error.message, str(error)) == ("it broke", "it broke [step body, 10.0.0.1:443]")
    error.seconds = 1.25
    twin = pickle.loads(pickle.dumps(error))
    assert str(twin) == "it broke [step body, 10.0.0.1:443, after 1.25 s]"
    assert str(ConnectionFailedError("it broke")) == "it broke"

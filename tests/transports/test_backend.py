"""httpcore's way to the network: which of several addresses is taken, and what no frame may show."""

import asyncio
import socket
import sys
import traceback

import httpcore
import pytest

from faults.stage import descriptors, settle
from faults.stepping import Moment, Stepper
from payclient.transports._backend import Backend, _ask, _by_turns
from payclient.transports._proxy import Proxy
from payclient.transports._way import Way
from support.raw_server import refusing_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, and a second loopback address")

PASSWORD = "of-the-clerk-51d2e84b"


@pytest.fixture
def resolve(monkeypatch):
    """Make the event loop find these addresses for any name."""

    def resolve(*addresses):
        async def getaddrinfo(*_, **__):
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)

    return resolve


@pytest.mark.virtual_time
async def test_second_address(resolve):
    """When the first address does not answer, the next one is tried, and the first attempt leaves nothing behind."""
    before = descriptors()
    with socket.create_server(("127.0.0.1", 0)) as open_one:
        port = open_one.getsockname()[1]
        with socket.create_server(("127.0.0.2", port), backlog=0) as full, socket.create_connection(full.getsockname()):
            resolve(("127.0.0.2", port), ("127.0.0.1", port))
            way = Way()
            stream = await Backend(way, None, None).connect_tcp("pay.example", port, timeout=60)
            assert (stream.get_extra_info("server_addr"), way.address) == (("127.0.0.1", port), f"127.0.0.1:{port}")
            await stream.aclose()
    await settle()
    assert descriptors() <= before


async def test_no_address_answers(resolve):
    """When none answers, the error is one of theirs, and each address that was tried is known."""
    way = Way()
    with refusing_port() as port:
        resolve(("127.0.0.1", port), ("127.0.0.2", port))
        with pytest.raises(httpcore.ConnectError):
            await Backend(way, None, None).connect_tcp("pay.example", port, timeout=60)
    assert (way.step, way.address) == ("connect", f"127.0.0.1:{port}, 127.0.0.2:{port}")


@pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
async def test_cancelled(resolve, moment):
    """Wherever a connection to one of several addresses is cancelled, no socket is left."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        resolve(("127.0.0.2", port), ("127.0.0.1", port))
        before = descriptors()
        for number in range(1, 100):
            stepper = Stepper(
                Backend(Way(), None, None).connect_tcp("pay.example", port, timeout=60),
                cancel_at=number,
                moment=moment,
            )
            (ended,) = await asyncio.gather(asyncio.create_task(stepper), return_exceptions=True)
            if not isinstance(ended, BaseException):
                await ended.aclose()
            await settle()
            assert descriptors() <= before
            if not stepper.is_struck:
                break
        assert number > 1


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["::1"], ["::1"]),
        (["::1", "::2", "127.0.0.1", "127.0.0.2"], ["::1", "127.0.0.1", "::2", "127.0.0.2"]),
        (["127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"], ["127.0.0.1", "::1", "127.0.0.2", "127.0.0.3"]),
    ],
)
def test_order(addresses, expected):
    """Addresses of both families are tried by turns, beginning with the system's first."""
    assert _by_turns(addresses) == expected


async def test_password_is_in_no_frame():
    """An error while the request for a tunnel is written does not show it: no frame of a library is left."""
    theirs = {"__name__": "httpcore.fake"}
    exec("async def write(buffer):\n    raise OSError('broken pipe')", theirs)
    stream = type("Stream", (), {"write": staticmethod(theirs["write"])})()
    with pytest.raises(OSError, match="broken pipe") as caught:
        await _ask(stream, Proxy(f"http://clerk:{PASSWORD}@proxy"), "pay.example", 443)
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "Proxy-Authorization" not in shown

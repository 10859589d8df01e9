"""httpcore's way to the network: which of several addresses is taken, and what no frame may show."""

import asyncio
import socket
import sys
import traceback

import anyio
import httpcore
import pytest

from faults.stage import descriptors, settle
from faults.stepping import Moment, Stepper
from payclient.transports._backend import Backend, Stream, _ask, _by_turns
from payclient.transports._proxy import Proxy
from payclient.transports._way import Way
from support.raw_server import refusing_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, and a second loopback address")

PASSWORD = "of-the-clerk-51d2e84b"


HEAD, BODY = b"POST /detail HTTP/1.1\r\nContent-Length: 2\r\n\r\n", b"{}"


class OfCore:
    """A connection of httpcore, over one of anyio that fails with *error*, if given; records what is asked of both."""

    def __init__(self, error=None):
        self.calls = []
        self.error = error
        self._stream = self

    def get_extra_info(self, info):
        return f"the {info}"

    def _called(self, *call):
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    async def send(self, data):
        self._called("send", data)

    async def receive(self, max_bytes):
        self._called("receive", max_bytes)
        return b"answer"

    async def write(self, buffer, seconds):
        self._called("write", buffer, seconds)

    async def read(self, max_bytes, seconds):
        self._called("read", max_bytes, seconds)
        return b"answer"

    async def start_tls(self, *arguments):
        self._called("start_tls", *arguments)
        return self


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
            stream = await Backend(way, None).connect_tcp("pay.example", port, timeout=60)
            assert isinstance(stream, Stream)
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
            await Backend(way, None).connect_tcp("pay.example", port, timeout=60)
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
                Backend(Way(), None).connect_tcp("pay.example", port, timeout=60),
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
    exec("async def send(buffer):\n    raise OSError('broken pipe')", theirs)
    of_core = OfCore()
    of_core.send = theirs["send"]
    with pytest.raises(OSError, match="broken pipe") as caught:
        await _ask(Stream(of_core), Proxy(f"http://clerk:{PASSWORD}@proxy"), "pay.example", 443)
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "Proxy-Authorization" not in shown


async def test_head_and_body_are_one_write():
    """The head of a request is sent with its body."""
    of_core = OfCore()
    stream = Stream(of_core)
    await stream.write(HEAD)
    assert of_core.calls == []
    await stream.write(BODY)
    await stream.write(b"")  # the end of the request
    assert await stream.read(9) == b"answer"
    assert of_core.calls == [("send", HEAD + BODY), ("receive", 9)]


async def test_request_without_a_body():
    """The end of a request without a body sends its head."""
    of_core = OfCore()
    stream = Stream(of_core)
    await stream.write(HEAD)
    await stream.write(b"")
    assert of_core.calls == [("send", HEAD)]


async def test_body_that_ends_like_a_head():
    """What looks like a head at the end of a request is sent before the answer is read, after what came before."""
    of_core = OfCore()
    stream = Stream(of_core)
    await stream.write(HEAD)
    await stream.write(b"0\r\n\r\n")
    await stream.read(9)
    assert of_core.calls == [("send", HEAD + b"0\r\n\r\n"), ("receive", 9)]


async def test_time_out_is_left_to_httpcore():
    """A write and a read with a time-out are those of httpcore."""
    of_core = OfCore()
    stream = Stream(of_core)
    await stream.write(HEAD, 3.0)
    await stream.write(BODY, 3.0)
    await stream.read(9, 4.0)
    assert of_core.calls == [("write", HEAD + BODY, 3.0), ("read", 9, 4.0)]


@pytest.mark.parametrize("error", [anyio.BrokenResourceError(), anyio.ClosedResourceError()])
async def test_broken_connection(error):
    """A connection that is broken or closed raises the errors of httpcore, which know what they come from."""
    stream = Stream(OfCore(error))
    with pytest.raises(httpcore.WriteError) as unsent:
        await stream.write(BODY)
    with pytest.raises(httpcore.ReadError) as unread:
        await stream.read(9)
    assert (unsent.value.__cause__, unread.value.__cause__) == (error, error)


async def test_end_of_a_connection():
    """The end of a connection is an empty read."""
    assert await Stream(OfCore(anyio.EndOfStream())).read(9) == b""


async def test_what_is_known_of_a_connection():
    """A connection tells what httpcore knows of it."""
    stream = Stream(OfCore())
    assert [stream.get_extra_info(info) for info in ("ssl_object", "socket")] == ["the ssl_object", "the socket"]


async def test_tls_of_a_stream():
    """With TLS, head and body are one write as well."""
    of_core = OfCore()
    stream = await Stream(of_core).start_tls("context", "pay.example", 5.0)
    await stream.write(HEAD)
    await stream.write(BODY)
    assert of_core.calls == [("start_tls", "context", "pay.example", 5.0), ("send", HEAD + BODY)]

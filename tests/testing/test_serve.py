"""The fake service behind a real server answers over loopback, and leaves nothing behind."""

import asyncio
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from payclient.testing import Reply, serve
from support.limits import LimitedService
from support.raw_server import held_ports
from testing.asking import HEADERS, LIVE, SANDBOX

WITHOUT_UVICORN = """
import sys
sys.modules["uvicorn"] = None
from payclient.testing import FakeService
FakeService().add(reference="T1")
try:
    from payclient.testing import serve
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.fixture
def service():
    service = LimitedService()
    service.add(reference="T1")
    return service


async def post(url, path=LIVE, **options):
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(url + path, headers=HEADERS, json={"reference": "T1"}, **options)


async def until(is_so):
    """Let the loop turn until something is so; the test's own time-out is the limit."""
    while not is_so():
        await asyncio.sleep(0)


async def test_answers(service):
    """Both paths answer over a socket, with the headers of the reply, and of the server's own only the framing."""
    service.script("T1", Reply(), Reply(status=429, headers={"Retry-After": "2"}), Reply(status=204))
    async with serve(service) as url:
        first, second, third = await post(url, LIVE), await post(url, SANDBOX), await post(url)
    assert first.json()["data"]["reference"] == "T1"
    assert (second.status_code, sorted(second.headers)) == (429, ["content-length", "content-type", "retry-after"])
    assert (third.status_code, third.content) == (204, b"")


async def test_disconnect(service):
    """A client that hangs up frees its place, without waiting for the answer's time."""
    service.script("T1", Reply(never_responds=True))
    async with serve(service) as url:
        asking = asyncio.create_task(post(url, timeout=None))
        await until(lambda: service.in_flight == 1)
        asking.cancel()
        await until(lambda: service.in_flight == 0)
    assert service.requests[0].status is None


async def test_end_with_dead_request(service):
    """The block ends although a request is never answered; its client sees the connection close."""
    service.script("T1", Reply(never_responds=True))
    async with serve(service) as url:
        asking = asyncio.create_task(post(url, timeout=None))
        await until(lambda: service.in_flight == 1)
    with pytest.raises(httpx.RemoteProtocolError):
        await asking
    assert service.in_flight == 0


async def test_left_as_it_was(service):
    """The server installs no signal handler; after the block the port is closed, and no task is left."""
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyError, match="mine"):
        async with serve(service) as url:
            await post(url)
            assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
            raise KeyError("mine")
    with pytest.raises(httpx.ConnectError):
        await post(url)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_port_in_use(service):
    """A port that is taken is an error of the caller's, not the end of the process."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        async with serve(service, port=taken.getsockname()[1]):
            pass


async def test_chosen_port(service):
    """A requested port is in the URL."""
    with held_ports(1) as (port,):
        async with serve(service, port=port) as url:
            assert url == f"http://127.0.0.1:{port}"


def test_without_uvicorn():
    """Without uvicorn the fake service works, and `serve` says what to install."""
    run = subprocess.run([sys.executable, "-c", WITHOUT_UVICORN], capture_output=True, text=True, check=True)
    assert run.stdout == "payclient.testing.serve needs uvicorn: pip install 'payclient[testing]'\n"

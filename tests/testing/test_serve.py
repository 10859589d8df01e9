"""The fake service behind a real server answers over loopback, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from payclient.testing import FakeService, FixedWindow, Reply, RetryAfter, serve
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
    service = FakeService()
    service.add(reference="T1")
    return service


async def post(url, path=LIVE, **options):
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(url + path, headers=HEADERS, json={"reference": "T1"}, **options)


async def until(is_so):
    """Let the loop turn until something is so; the test's own time-out is the limit."""
    while not is_so():
        await asyncio.sleep(0)


@pytest.mark.parametrize("path", [LIVE, SANDBOX], ids=["live", "sandbox"])
async def test_answers(service, path):
    """Both paths answer over a socket."""
    async with serve(service) as url:
        answer = await post(url, path)
    assert answer.json()["data"]["reference"] == "T1"


async def test_headers(service):
    """The response carries the headers of the reply, and nothing of the server's own but the framing."""
    service.script("T1", Reply(status=429, headers={"Retry-After": "2"}))
    async with serve(service) as url:
        headers = (await post(url)).headers
    assert sorted(headers) == ["content-length", "content-type", "retry-after"]


async def test_one_date():
    """A `Retry-After` date comes with exactly one `Date` header."""
    service = FakeService(limits=[FixedWindow(count=1, seconds=1e9, retry_after=RetryAfter.DATE)])
    async with serve(service) as url:
        await post(url)
        answer = await post(url)
    assert (answer.status_code, len(answer.headers.get_list("date"))) == (429, 1)


async def test_no_content(service):
    """An answer without a body is sent without one."""
    service.script("T1", Reply(status=204))
    async with serve(service) as url:
        answer = await post(url)
    assert (answer.status_code, answer.content) == (204, b"")


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


async def test_closed_after(service):
    """After the block the port is closed, and no task is left."""
    async with serve(service) as url:
        await post(url)
    with pytest.raises(httpx.ConnectError):
        await post(url)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_own_exception(service):
    """The caller's exception propagates unchanged from the block."""
    with pytest.raises(KeyError, match="mine"):
        async with serve(service):
            raise KeyError("mine")


async def test_no_signal_handler(service):
    """The server installs no signal handlers."""
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    async with serve(service) as url:
        await post(url)
        during = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    assert during == before


async def test_port_in_use(service):
    """A port that is taken is an error of the caller's, not the end of the process."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        async with serve(service, port=taken.getsockname()[1]):
            pass


async def test_chosen_port(service):
    """A requested port is in the URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with serve(service, port=port) as url:
        assert url == f"http://127.0.0.1:{port}"


def test_without_uvicorn():
    """Without uvicorn the fake service works, and `serve` says what to install."""
    run = subprocess.run([sys.executable, "-c", WITHOUT_UVICORN], capture_output=True, text=True, check=True)
    assert run.stdout == "payclient.testing.serve needs uvicorn; install it with: pip install 'payclient[testing]'\n"

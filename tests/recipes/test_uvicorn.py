"""The applications of the documentation under `uvicorn`, on each event loop it can choose."""

import asyncio
import json
import re
import subprocess
import sys
from bisect import bisect
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from payclient.testing import FakeService
from support.in_thread import ServedInThread
from support.shop import MAX_RATE, ORDERS, WORKERS

pytestmark = pytest.mark.recipes

LOOPS = ["asyncio", *(["uvloop"] if find_spec("uvloop") else [])]  # there is none for Windows
TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "docs" / "examples"
PAYING = 150
OUTAGE = (4.0, 8.0)
"""When it begins, and its length, in seconds."""


@contextmanager
def uvicorn(app, *options, loop):
    """Run `uvicorn` on a free port until the block ends: give its address."""
    command = [sys.executable, "-m", "uvicorn", app, "--port=0", f"--loop={loop}", "--no-access-log", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"running on (http://\S+)", line):
                    break
            else:
                raise AssertionError("".join(said))
            yield found[1]
        finally:
            process.terminate()
            process.communicate(timeout=60)


async def down(scope, receive, send):
    await send({"type": "http.response.start", "status": 503, "headers": []})
    await send({"type": "http.response.body", "body": b"down"})


@pytest.fixture
def running(monkeypatch):
    with ServedInThread(FakeService()) as running:
        monkeypatch.setenv("PAYCLIENT_BASE_URL", running.url)
        monkeypatch.setenv("PAYCLIENT_API_KEY", running.service.api_key)
        monkeypatch.setenv("PYTHONPATH", str(TESTS))
        yield running


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", ["fastapi_app", "starlette_app", "litestar_app", "django_app"])
async def test_application(name, loop, running):
    """Each application answers a crowd of visitors, and tells a payment from none."""
    references = [running.service.add(status="Paid")["reference"] for _ in range(50)]
    with uvicorn(f"{name}:app", f"--app-dir={EXAMPLES}", loop=loop) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60) as visitor:
            answers = await asyncio.gather(*(visitor.get(f"/payments/{each}") for each in references))
            missing = await visitor.get("/payments/T9")
    assert [answer.json()["status"] for answer in answers] == ["Paid"] * 50
    assert missing.status_code == 404


async def told(visitor, url, number):
    """Return the last word of the page, which is opened again when the connection ends before it."""
    while True:
        with suppress(httpx.TransportError):
            async with visitor.stream("GET", f"{url}/pay/{number}/events") as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("data: ") and (event := json.loads(line[6:]))["is_last"]:
                        return event["state"]
        await asyncio.sleep(0.5)


async def in_flight(visitor, url):
    lines = (await visitor.get(f"{url}/metrics")).text.splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("payclient_in_flight ")))


async def visited(urls, running):
    """Let all visitors wait while the service goes away and comes back; return what they were told."""
    begins, seconds = OUTAGE
    async with httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None)) as visitor:
        tasks = [asyncio.create_task(told(visitor, urls[int(n) % WORKERS], n)) for n in ORDERS]
        await asyncio.sleep(begins)
        up, running.service = running.service, down
        await asyncio.sleep(seconds)
        running.service = up
        states = await asyncio.wait_for(asyncio.gather(*tasks[:PAYING]), 120)
        for task in tasks[PAYING:]:
            task.cancel()
        await asyncio.wait(tasks)
        still_open = sum(task.cancelled() for task in tasks)
        async with asyncio.timeout(30):
            while any([await in_flight(visitor, url) for url in urls]):
                await asyncio.sleep(0.1)
    return states, still_open


@pytest.mark.parametrize("loop", LOOPS)
async def test_payment_page(loop, running):
    """Two workers tell each of 150 who pay around an outage of 8 s, ask no more than agreed, and end at rest."""
    for number, order in ORDERS.items():
        paid = [(2 + int(number) % 16, "Paid")] if int(number) < PAYING else []
        running.service.add(**order, status="Pending", becomes=paid)
    with ExitStack() as stack:
        urls = [stack.enter_context(uvicorn("support.shop:app", "--factory", loop=loop)) for _ in range(WORKERS)]
        states, still_open = await visited(urls, running)
    assert (states.count("paid"), still_open) == (PAYING, len(ORDERS) - PAYING)
    at = [request.started_at for request in running.service.requests]
    busiest = max(bisect(at, begin + 1) - number for number, begin in enumerate(at))
    assert busiest <= MAX_RATE * 1.1

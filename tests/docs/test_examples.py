"""The example applications work on their own, over a real socket."""

from __future__ import annotations

import asyncio
import runpy
import sys
from pathlib import Path

import httpx
import pytest

from payclient.testing import FakeService, Reply, serve

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture
async def service(monkeypatch):
    """The service that an example finds in its environment."""
    fake = FakeService()
    fake.add(reference="T1", status="Paid", amount=15000)
    async with serve(fake) as url:
        monkeypatch.setenv("PAYCLIENT_BASE_URL", url)
        monkeypatch.setenv("PAYCLIENT_API_KEY", fake.api_key)
        yield fake


@pytest.fixture
async def browser(service):
    """A browser of the FastAPI example, whose own lifespan makes the client."""
    app = runpy.run_path(str(EXAMPLES / "fastapi_app.py"))["app"]

    async with app.router.lifespan_context(app) as state:

        async def with_state(scope, receive, send):
            await app({**scope, "state": dict(state)}, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=with_state), base_url="http://test") as browser:
            yield browser


async def test_fastapi_found(browser):
    """A payment that is found is answered with its status."""
    answer = await browser.get("/payments/T1")
    assert answer.json() == {"reference": "T1", "status": "Paid", "amount": 15000}


@pytest.mark.parametrize("reference", ["T2", "%20"], ids=["unknown", "no reference"])
async def test_fastapi_not_found(browser, reference):
    """What the service does not have, or cannot have, is a 404."""
    assert (await browser.get(f"/payments/{reference}")).status_code == 404


async def test_fastapi_could_not_ask(browser, service):
    """That the service cannot be asked now is a 503, which passes on when to come back."""
    service.script("T1", Reply(status=429, headers={"Retry-After": "60"}))
    answer = await browser.get("/payments/T1")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")


@pytest.fixture
async def starlette(service):
    """A browser of the Starlette example."""
    app = runpy.run_path(str(EXAMPLES / "starlette_app.py"))["app"]

    async with app.router.lifespan_context(app) as state:

        async def with_state(scope, receive, send):
            await app({**scope, "state": dict(state)}, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=with_state), base_url="http://test") as browser:
            yield browser


async def test_starlette(starlette, service):
    """The Starlette example answers from the lookup, and tells "not found" from "could not ask"."""
    found = (await starlette.get("/payments/T1")).json()
    assert (found["status"], found["payment_code"]) == ("Paid", "************0001")
    assert (await starlette.get("/payments/T2")).status_code == 404
    service.script("T1", Reply(status=429, headers={"Retry-After": "60"}))
    assert (await starlette.get("/payments/T1")).status_code == 503


async def test_script(service):
    """The script prints the status of each reference, or what went wrong."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, EXAMPLES / "script.py", "T1", "T2", stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert printed.decode().splitlines() == [
        "T1 Paid",
        "T2 no such transaction: Transaction not found (HTTP 404)",
    ]

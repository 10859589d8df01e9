"""The example applications work on their own, over a real socket."""

import asyncio
import runpy
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from payclient import ClientClosedError, ConfigurationError
from payclient.testing import FakeService, Reply, serve
from support.visits import assert_answers, assert_could_not_ask, assert_outage_is_logged_once, keyless_client

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


@asynccontextmanager
async def visiting(name):
    """Start an example, whose own lifespan makes the client; give a visitor, and what the lifespan has made."""
    app = runpy.run_path(str(EXAMPLES / f"{name}.py"))["app"]
    async with app.router.lifespan_context(app) as state:

        async def with_state(scope, receive, send):
            await app({**scope, "state": dict(state)}, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=with_state), base_url="http://test") as visitor:
            yield visitor, state


every_example = pytest.mark.parametrize("name", ["fastapi_app", "starlette_app"])


@every_example
async def test_answers(service, caplog, name):
    """An example tells an answer, "not found", a refusal and "could not ask" apart."""
    async with visiting(name) as (visitor, state):
        await assert_answers(visitor, service, caplog)
        async with state["pay"]:
            state["pay"] = keyless_client()
            await assert_could_not_ask(visitor)


@every_example
async def test_mistakes_are_not_answered(service, monkeypatch, name):
    """A closed client, and variables that were forgotten, are mistakes of the application and not the service's."""
    async with visiting(name) as (visitor, state):
        await state["pay"].aclose()
        with pytest.raises(ClientClosedError):
            await visitor.get("/payments/T1")
    monkeypatch.delenv("PAYCLIENT_API_KEY")
    with pytest.raises(ConfigurationError):
        async with visiting(name):
            pass


@every_example
async def test_outage(service, caplog, name):
    """In an outage visitors get 503 with `Retry-After`, and the log a line for all."""
    async with visiting(name) as (visitor, _):
        await assert_outage_is_logged_once(visitor, service, caplog)


async def test_fastapi_health(service, caplog):
    """In an outage the health page says so, as 200, and why; in a pause it says for how long."""
    async with visiting("fastapi_app") as (visitor, _):
        assert (await visitor.get("/health")).json() == {"payments": "ready"}
        await assert_outage_is_logged_once(visitor, service, caplog)
        health = await visitor.get("/health")
    assert (health.status_code, health.json()["payments"]) == (200, "outage")
    assert "ServiceError" in health.json()["last_failure"]
    async with visiting("fastapi_app") as (visitor, _):
        service.script("T1", Reply(status=429, headers={"Retry-After": "60"}))
        refused = await visitor.get("/payments/T1")
        health = await visitor.get("/health")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "60")
    assert (health.json()["payments"], round(health.json()["seconds"])) == ("paused by the service", 60)


async def test_script(service):
    """The script prints the status of each reference, or what went wrong."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, EXAMPLES / "script.py", "T1", "T2", stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert printed.decode().splitlines() == ["T1 Paid", "T2 no such transaction: Transaction not found (HTTP 404)"]

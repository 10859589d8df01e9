"""Kept connections that die without a word, as behind a NAT or after a failover."""

import asyncio
import ssl

import pytest
import trustme

from payclient import AsyncClient, PayClientError
from support.fakes import KEY, document, now
from support.raw_server import RawServer, http, server_context, stall

pytestmark = pytest.mark.virtual_time


class DyingServer(RawServer):
    """Answers, but says nothing more over the first *dead* connections."""

    def __init__(self, **options):
        super().__init__(self._answer, **options)
        self.dead = 0

    async def _answer(self, connection):
        while (reference := await connection.request()) is not None:
            if connection.number < self.dead:
                await stall(connection)
                return
            await asyncio.sleep(0.1)
            await connection.write(http(document(reference)))


AUTHORITY = trustme.CA()


@pytest.fixture(params=["plain", "TLS"])
async def server(request):
    options = {"ssl": server_context(AUTHORITY, "localhost")} if request.param == "TLS" else {}
    async with DyingServer(**options) as server:
        yield server


async def filled(pay, server):
    """Have many connections kept, of which all die."""
    await asyncio.gather(*(pay.get_transaction(f"K{number}") for number in range(300)))
    server.dead = len(server.connections)
    await asyncio.sleep(2.0)
    assert server.dead > 20


def make(server, transport, **options):
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return AsyncClient(
        api_key=KEY, base_url=server.url, transport=transport, max_concurrency=64, ssl_context=context, **options
    )


@pytest.mark.parametrize("transport", ["httpx", "fast"])
async def test_one_after_the_other(server, transport):
    """Of visitors who come one after the other, the first alone waits for a connection that died."""
    async with make(server, transport, deadline=5.0) as pay:
        await filled(pay, server)
        failed = 0
        for number in range(6):
            try:
                await pay.get_transaction(f"T{number}")
            except PayClientError:
                failed += 1
        assert failed == 1


@pytest.mark.parametrize("transport", ["httpx", "fast"])
async def test_beside_each_other(server, transport):
    """Of visitors who come five a second, those of the first second wait, and no outage begins."""
    async with make(server, transport, deadline=5.0) as pay:
        await filled(pay, server)
        failed, began = [], now()

        async def visit(number):
            at = now() - began
            try:
                await pay.get_transaction(f"T{number}")
            except PayClientError:
                failed.append(at)

        async with asyncio.TaskGroup() as visitors:
            for number in range(100):
                visitors.create_task(visit(number))
                await asyncio.sleep(0.2)
        assert len(failed) <= 7
        assert max(failed) < 1.5
        assert pay.stats.refused == 0

"""The httpx transport over payclient's connections: mocks that must hold, and what a first lookup imports."""

import subprocess
import sys

import httpx
import httpx2
import pytest

from payclient import AsyncClient
from support.fakes import KEY
from support.in_thread import serving
from support.raw_server import RawServer

SCRIPT = """
import asyncio, sys

from payclient import AsyncClient

KEY = "sk-0123456789abcdef"
URL = "http://127.0.0.1:9"  # nothing answers there, so a request that goes out fails

async def main(when):
    transport, using = sys.argv[2], sys.argv[3]
    if when == "before":
        import pytest_httpx2, respx
    client = AsyncClient(api_key=KEY, base_url=URL, retry=None, transport=transport)
    if when == "late":  # the client has sent already
        try:
            await client.get_transaction("T0")
        except Exception as error:
            print(type(error).__name__)
    import pytest_httpx2, respx
    document = {"success": True, "data": dict(reference="T1", merchant_reff="m", payment_method="QR", payment_name="q",
        amount=1, fee=0, amount_received=1, payment_code="c", expdate="2030-01-01 00:00:00", status="Paid")}
    with respx.mock(using=using, assert_all_called=False) as router:
        route = router.post(URL + "/api/transaction/detail").respond(200, json=document)
        print((await client.get_transaction("T1")).status, route.call_count)
        router.reset(); router.clear()
        router.post("http://elsewhere/")
        try:
            await client.get_transaction("T2")
        except Exception as error:
            print(type(error).__name__)
        router.clear()
        router.post("http://elsewhere/").pass_through()
    try:
        await client.get_transaction("T3")
    except Exception as error:
        print(type(error).__name__)
    await client.aclose()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif(httpx.__name__ != "httpx", reason="respx patches httpx by its name")
@pytest.mark.parametrize(
    ("when", "transport", "using"),
    [
        *(("late", "httpx", "httpcore"), ("after", "httpx2", "httpcore2")),
        *(pytest.param(when, "httpx", "httpcore", marks=pytest.mark.slow) for when in ("before", "after")),
        *(pytest.param(when, "httpx2", "httpcore2", marks=pytest.mark.slow) for when in ("before", "late")),
    ],
)
def test_respx_in_a_script(when, transport, using):
    """In a plain script respx answers, and refuses what it was not told of, whenever it is imported."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, when, transport, using], capture_output=True, text=True, check=False, timeout=60
    )
    went_out = ["ConnectionFailedError"]
    expected = [*(went_out if when == "late" else []), "Paid 1", "AllMockedAssertionError", *went_out]
    assert ended.stdout.split("\n")[:-1] == expected, ended.stderr


FIRST_LOOKUP = """
import asyncio, sys

from payclient import AsyncClient, PayClientError

async def main(url, transport):
    async with AsyncClient(api_key="sk-0123456789abcdef", base_url=url, transport=transport) as pay:
        before = {*sys.modules}
        print((await pay.get_transaction("T1")).reference)
        print(sorted({name.partition(".")[0] for name in {*sys.modules} - before} - sys.stdlib_module_names))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("transport", ["httpx", "httpx2"])
def test_first_lookup_imports_nothing(transport):
    """What httpx imports during a request has been imported with the client: it would block the event loop."""
    server = RawServer()
    with serving(server):
        command = [sys.executable, "-c", FIRST_LOOKUP, server.url, transport]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.splitlines() == ["T1", "[]"]


async def test_either_library():
    """The name `httpx2` puts httpx2 on top of the same connections."""
    async with RawServer() as server, AsyncClient(api_key=KEY, base_url=server.url, transport="httpx2") as pay:
        assert (await pay.get_transaction("T1")).reference == "T1"
        assert type(pay._session._transport._client).__mro__[0] is httpx2.AsyncClient

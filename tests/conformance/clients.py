"""
The clients, each as a way to look one reference up: as it is installed, with a pool of some places and one time-out.

Each asks for a reference and returns that of the answer, or `NOT_FOUND`. It imports its library when it is used.
"""

import json
import ssl
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

KEY = "conformance-key-0123456789"
HEADERS = {"Authorization": f"Bearer {KEY}"}
PATH = "/api/transaction/detail"
NOT_FOUND = "not found"


def reference_in(status, body):
    return NOT_FOUND if status == 404 else json.loads(body)["data"]["reference"]


def trust(authority):
    """Return what verifies a server; True for what the library does itself, which takes long to load."""
    return ssl.create_default_context(cafile=authority) if authority else True


def with_httpx(name):
    @asynccontextmanager
    async def make(url, *, places, timeout, authority=None):
        library = import_module(name)
        limits = library.Limits(max_connections=places)
        options = {"headers": HEADERS, "limits": limits, "timeout": timeout, "trust_env": False}
        async with library.AsyncClient(verify=authority is not None and trust(authority), **options) as client:

            async def ask(reference):
                answer = await client.post(url + PATH, json={"reference": reference})
                return reference_in(answer.status_code, answer.content)

            yield ask

    return make


@asynccontextmanager
async def with_aiohttp(url, *, places, timeout, authority=None):
    import aiohttp

    connector = aiohttp.TCPConnector(limit=places, ssl=trust(authority))
    total = aiohttp.ClientTimeout(total=timeout)
    async with aiohttp.ClientSession(headers=HEADERS, connector=connector, timeout=total) as session:

        async def ask(reference):
            async with session.post(url + PATH, json={"reference": reference}) as answer:
                return reference_in(answer.status, await answer.read())

        yield ask


@asynccontextmanager
async def with_pyreqwest(url, *, places, timeout, authority=None):
    from pyreqwest.client import ClientBuilder

    builder = ClientBuilder().default_headers(HEADERS).no_proxy().max_connections(places)
    builder = builder.timeout(timedelta(seconds=timeout))
    if authority:
        builder = builder.add_root_certificate_pem(Path(authority).read_bytes())
    async with builder.build() as client:

        async def ask(reference):
            answer = await client.post(url + PATH).body_json({"reference": reference}).build().send()
            return reference_in(answer.status, bytes(await answer.bytes()))

        yield ask


@asynccontextmanager
async def with_wreq(url, *, places, timeout, authority=None):
    import wreq

    options = {"tls_verify": Path(authority)} if authority else {}
    # It has no limit of requests at once, so *places* only bounds what it keeps.
    client = wreq.Client(
        headers=HEADERS, pool_max_idle_per_host=places, timeout=timedelta(seconds=timeout), no_proxy=True, **options
    )

    async def ask(reference):
        answer = await client.post(url + PATH, json={"reference": reference})
        return reference_in(answer.status.as_int(), bytes(await answer.bytes()))

    yield ask


def payclient_options(name, url, *, places, timeout, authority=None):
    """Return the options of an `AsyncClient` for a name such as `payclient-fast`."""
    options = {"api_key": KEY, "base_url": url, "transport": name.partition("-")[2] or "httpx", "trust_env": False}
    options |= {"max_concurrency": places, "timeout": timeout, "deadline": timeout}
    return options | ({"ca_file": authority} if authority else {})


def with_payclient(name):
    @asynccontextmanager
    async def make(url, **settings):
        from payclient import AsyncClient, TransactionNotFoundError

        async with AsyncClient(**payclient_options(name, url, **settings)) as pay:

            async def ask(reference):
                try:
                    return (await pay.get_transaction(reference)).reference
                except TransactionNotFoundError:
                    return NOT_FOUND

            yield ask

    return make


CLIENTS = {
    **{name: with_payclient(name) for name in ("payclient", "payclient-fast", "payclient-httpx2")},
    "httpx": with_httpx("httpx"),
    "httpx2": with_httpx("httpx2"),
    "aiohttp": with_aiohttp,
    "pyreqwest": with_pyreqwest,
    "wreq": with_wreq,
}


def named(client):
    """Return a client's name with its version."""
    name, _, transport = client.partition("-")
    return f"{name} {version(name)}" + (f", `{transport}`" if transport else "")

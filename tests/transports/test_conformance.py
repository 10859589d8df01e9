"""The short form of the session `conformance`: our transports pass, and a careless client does not."""

import asyncio
import json
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from conformance.cases import MOMENTS, stray_answers, stray_answers_under_load
from conformance.clients import CLIENTS, reference_in

OURS = [name for name in CLIENTS if name.startswith("payclient")]
each_of_ours = pytest.mark.parametrize("name", OURS)


@asynccontextmanager
async def careless(url, **_):
    """Give a client that keeps one connection and takes the next answer on it for its own."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)

    async def ask(reference):
        body = json.dumps({"reference": reference}).encode()
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).splitlines()
        length = next(int(line[15:]) for line in lines if line.startswith(b"Content-Length"))
        return reference_in(int(status.split()[1]), await reader.readexactly(length))

    yield ask
    writer.close()


@pytest.mark.parametrize("moment", MOMENTS)
@each_of_ours
async def test_stray_answer(name, moment):
    """An answer too many is not that to the next lookup, and fails none."""
    found = await stray_answers(CLIENTS[name], moment, pairs=3, pause=0)
    assert str(found) == "0 of 3"


@each_of_ours
async def test_stray_answers_under_load(name):
    """Answers too many, at any moment, are answers to no lookup, and fail none."""
    assert str(await stray_answers_under_load(CLIENTS[name], lookups=60)) == "0 of 60"


@pytest.mark.parametrize("moment", MOMENTS)
async def test_careless_client(moment):
    """The measurement sees a client that takes the answer too many, at each moment."""
    found = await stray_answers(careless, moment, pairs=3, pause=0)
    assert str(found) == "3 of 3"

"""No traceback that leaves a lookup has a frame of the HTTP library in it: those hold the key."""

import asyncio
import traceback

import pytest

from faults.stage import stage
from support.fakes import KEY
from support.raw_server import RawServer

LIBRARIES = {"anyio", "h11", "httpcore", "httpcore2", "httptools", "httpx", "httpx2"}


def frames(error, seen=()):
    """Return each frame that can be reached from an error."""
    if error is None or error in seen:
        return []
    own = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return own + frames(error.__cause__, (*seen, error)) + frames(error.__context__, (*seen, error))


def assert_clean(error):
    assert {each.f_globals["__name__"].partition(".")[0] for each in frames(error)}.isdisjoint(LIBRARIES)
    ours = [each for each in frames(error) if each.f_globals["__name__"].startswith("payclient")]
    known = [getattr(value, "__dict__", None) for each in ours for value in each.f_locals.values()]
    assert KEY not in repr(known)  # some crash reporters look into the attributes of what a frame holds
    assert KEY not in "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


async def ended(lookup):
    """Return the error with which a lookup ended, or None."""
    try:
        await lookup
    except (TimeoutError, asyncio.CancelledError) as error:
        return error
    return None


@pytest.mark.parametrize("carrier", ["own", "fast", "httpx", "httpx2"])
async def test_at_each_turn(carrier, row):
    """The traceback of a lookup cancelled at any turn of the event loop has no frames of the HTTP library."""
    row("a traceback of a lookup cancelled at each turn", "CancelledError")
    async with stage(RawServer(), carrier=carrier) as pay:
        for number in range(1, 1000):
            lookup = asyncio.create_task(pay.get_transaction("T1"))
            for _ in range(number):
                await asyncio.sleep(0)
            if lookup.done():
                break
            lookup.cancel()
            assert_clean(await ended(lookup))
        assert number > 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("carrier", ["own", "fast", "httpx", "httpx2"])
async def test_time_out_of_the_caller(carrier, row):
    """A caller's `asyncio.timeout` that ends a lookup while the service is silent raises nothing but our frames."""
    row("a traceback of a caller's time-out", "TimeoutError")

    async def silent(connection):
        await connection.request()
        await connection.request()

    async with stage(RawServer(silent), carrier=carrier) as pay:
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.2):
                await pay.get_transaction("T1")
        assert_clean(caught.value)

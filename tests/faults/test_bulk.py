"""Faults that meet a stream: what ends it at once, what costs a row, and what costs nothing but time."""

import asyncio
import random

import pytest

from faults.answers import envelope, page
from faults.stage import ask, stage
from payclient import (
    AuthenticationError,
    ConnectionFailedError,
    Found,
    PayClientError,
    PermissionDeniedError,
    RateLimitedError,
    UnexpectedResponseError,
)
from support.fakes import document
from support.raw_server import RawServer, http, refusing_port, send

# A stream meets the same connections over both, so that one of them is enough for a quick run.
pytestmark = [
    pytest.mark.usefixtures("each_of_ours"),
    pytest.mark.parametrize("each_of_ours", ["fast", pytest.param("httpx", marks=pytest.mark.slow)], indirect=True),
]


def answering(choose):
    """Return a server that asks *choose* for the steps that answer a reference; none: a transaction."""

    async def serve(connection):
        while (reference := await connection.request()) is not None:
            for step in choose(reference) or [send(http(document(reference)))]:
                await step(connection)

    return RawServer(serve)


async def collect(pay, references, *, seen=None, **options):
    """Return the outcomes of a stream, and the error that ended it, if one did; show *seen* those so far."""
    outcomes, failure = [], None
    try:
        async with pay.stream_transactions(references, **options) as stream:
            async for outcome in stream:
                outcomes.append(outcome)
                if seen is not None:
                    seen(outcomes)
    except PayClientError as error:
        failure = error
    return outcomes, failure


def kinds(outcomes):
    return [type(outcome) for outcome in outcomes]


NAMES = [f"T{n}" for n in range(200)]
MOVED = page("301 Moved", "Location: https://elsewhere.example/")


@pytest.mark.parametrize(
    ("sentence", "steps", "verdict"),
    [
        ("401 midway through a stream", envelope("401 Unauthorized"), AuthenticationError),
        ("a redirect midway through a stream", MOVED, UnexpectedResponseError),
        ("404 of another site midway through a stream", page("404 Not Found"), UnexpectedResponseError),
        ("403 for everything midway through a stream", page("403 Forbidden"), PermissionDeniedError),
        ("Retry-After of a day midway through a stream", page("429 X", "Retry-After: 86400"), RateLimitedError),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_fatal(sentence, steps, verdict, row):
    """What is the same for every reference ends the stream once, keeps what came before, and asks no further."""
    row(sentence, verdict.__name__)
    are_found = asyncio.Event()  # refusals count from the last answer, and may overtake it

    async def wait(_connection):
        await are_found.wait()

    server = answering(lambda reference: [wait, *steps] if int(reference[1:]) >= 50 else None)
    async with stage(server, max_concurrency=8) as pay:
        outcomes, failure = await collect(
            pay,
            NAMES,
            seen=lambda so_far: len(so_far) == 50 and are_found.set(),
            stall_timeout=200,  # less than a pause that is believed may last
        )
        assert type(failure) is verdict
        found = [outcome for outcome in outcomes if isinstance(outcome, Found)]
        assert sorted(outcome.index for outcome in found) == list(range(50))
        assert len(server.requests) <= 50 + 2 * (20 + 8)  # twenty denials may be about rows; each is asked for twice
        assert len(outcomes) <= 50 + 20 + 8


async def test_not_reached_at_first(row):
    """When the very first contacts fail, the address is wrong, and the stream ends."""
    row("a stream to a port that nobody listens on", ConnectionFailedError.__name__)
    with refusing_port() as port:
        url = f"http://127.0.0.1:{port}"
        async with stage(RawServer(), base_url=url) as pay:
            outcomes, failure = await collect(pay, NAMES)
            assert (outcomes, type(failure)) == ([], ConnectionFailedError)
            assert pay.stats.attempts == 3 * 4


@pytest.mark.virtual_time
async def test_outage(row):
    """Ten minutes in which nothing succeeds cost time, few requests, and no row."""
    row("500 for everything, for ten minutes", Found.__name__)
    loop = asyncio.get_running_loop()
    server = answering(lambda _: page("500 Internal Server Error") if 1 < loop.time() < 601 else None)

    async def slowly():
        for name in NAMES:
            await asyncio.sleep(0.01)
            yield name

    async with stage(server, max_concurrency=8) as pay:
        outcomes, failure = await collect(pay, slowly())
        assert (kinds(outcomes), failure) == ([Found] * 200, None)
        assert pay.stats.attempts < 220 + 600 * 0.6  # rows, 20 failures beside answers, and one attempt in two seconds
        assert loop.time() > 601


@pytest.mark.virtual_time
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
async def test_random_failures(seed, row):
    """When three of ten answers are failures, every row is answered all the same."""
    row("500 at random, three times of ten", Found.__name__)
    draw = random.Random(seed)
    server = answering(lambda _: page("500 Internal Server Error") if draw.random() < 0.3 else None)
    async with stage(server) as pay:
        outcomes, failure = await collect(pay, NAMES)
        assert (kinds(outcomes), failure) == ([Found] * 200, None)


async def test_answers_to_the_wrong_lookup(row):
    """A proxy that mixes up responses never causes a wrong transaction."""
    row("answers that are mixed up between connections", Found.__name__)
    draw, asked = random.Random(7), ["T0"]

    async def serve(connection):
        while (reference := await connection.request()) is not None:
            asked.append(reference)
            shown = reference if draw.random() < 0.9 else draw.choice(asked)
            await connection.write(http(document(shown)))

    async with stage(RawServer(serve)) as pay:
        outcomes, failure = await collect(pay, NAMES[:100], concurrency=16)
        assert failure is None
        assert all(outcome.transaction.reference == outcome.reference for outcome in outcomes if type(outcome) is Found)
        assert await ask(pay, "T1") is not None

"""Every fault of the tables: while it lasts, when it passes, and what the limiter learns of it."""

import re
import ssl
import tracemalloc
from typing import get_args

import pytest
import trustme

from faults import answers, bodies, gateways, network
from faults.fault import UNCOUNTED
from faults.stage import AT_ONCE, OURS, ask, ok, signal_of, stage, words
from payclient import RetryPolicy, Transaction
from payclient.transports import TransportName
from payclient.transports.fast import FastTransport
from support.raw_server import RawServer, Script, server_context, well_behaved

TABLES = {module.__name__.removeprefix("faults."): module.FAULTS for module in (network, answers, bodies, gateways)}
FAULTS = [fault for table in TABLES.values() for fault in table]
FOREIGN = (
    *network.FAULTS,
    *bodies.BOMBS,
    *gateways.ON_THE_WIRE,
    *answers.REDIRECTS,
)  # that a client of httpx could miss


def case(carrier, faults, name=None, **more):
    return pytest.param(carrier, [fault.over(carrier) for fault in faults], id=name or carrier, **more)


OVER_FAST = [case("fast", table, f"fast, {name}") for name, table in TABLES.items()]
A_DOZEN = [
    case("own", FAULTS[::24]),  # the same connections: that httpx on top changes nothing
    case("own, httpx2", FAULTS[::24]),  # nor httpx2
    case("httpx", [*FOREIGN[::12], *(fault for fault in FOREIGN if fault.foreign)]),
]
OVER_OWN = case("own", FAULTS[::8], "own, every eighth", marks=pytest.mark.slow)
OVER_OWN2 = case("own, httpx2", FAULTS[::8], "own httpx2, every eighth", marks=pytest.mark.slow)
OVER_HTTPX = case("httpx", FOREIGN, "httpx, all", marks=pytest.mark.slow)

pytestmark = pytest.mark.virtual_time


def server_with(fault, *, times=None):
    """Return a server that has the fault at every request, or at its first so many."""
    if times is None:
        return RawServer(Script(fault.script, greeting=fault.greeting))
    if fault.greeting:
        return RawServer(*[Script(fault.script, greeting=fault.greeting)] * times, well_behaved)
    return RawServer(Script(*[fault.script] * times, [ok]))


def test_transports():
    """Each transport of ours is played, so that none ships without its faults."""
    assert {OURS[each.values[0]] for each in (*OVER_FAST, *A_DOZEN) if each.values[0] in OURS} == {
        *get_args(TransportName)
    }


@pytest.mark.parametrize(("carrier", "faults"), [*OVER_FAST, *A_DOZEN, OVER_OWN, OVER_OWN2, OVER_HTTPX])
async def test_lasting(carrier, faults, row, subtests):
    """While the fault lasts, a lookup ends with the required verdict, after the required attempts."""
    for fault in faults:
        row(fault.sentence, fault.verdict.__name__)
        retry, attempts = (None, 1) if fault.attempts is UNCOUNTED else (AT_ONCE, fault.attempts)
        server = server_with(fault)
        with subtests.test(fault.sentence):
            async with stage(server, carrier=carrier, **{"retry": retry, **fault.options}) as pay:
                outcome = await ask(pay)
                assert (type(outcome), pay.stats.attempts) == (fault.verdict, attempts)
                assert len(server.requests) <= attempts
                assert re.search(fault.says, words(outcome))
                # Up to 2 s a pause holds its own request only; more than 300 s are not believed without asking.
                believed = 0.0 if fault.pause <= 2.0 else min(fault.pause, 300.0)
                assert pay.stats.paused_seconds == pytest.approx(believed, abs=1)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # asyncio's own, on the server's side
async def test_over_tls(row, subtests):
    """TLS of our own changes nothing about what a fault of the network comes to."""
    authority, trust = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trust)
    certified = server_context(authority, "localhost")
    for fault in [fault for fault in network.FAULTS if not fault.greeting]:
        row(f"{fault.sentence}, under TLS", fault.verdict.__name__)
        options = {"retry": AT_ONCE, **fault.options, "transport": FastTransport(ssl_context=trust)}
        with subtests.test(f"{fault.sentence}, under TLS"):
            async with stage(RawServer(Script(fault.script), ssl=certified), **options) as pay:
                outcome = await ask(pay)
                assert (type(outcome), pay.stats.attempts) == (fault.verdict, fault.attempts)


@pytest.mark.slow
@pytest.mark.parametrize(("carrier", "faults"), [*OVER_FAST, OVER_OWN, OVER_OWN2, OVER_HTTPX])
async def test_passing(carrier, faults, row, subtests):
    """When the fault passes, what could be asked again has been asked again, and no more than needed."""
    for fault in faults:
        row(fault.sentence, fault.verdict.__name__)
        verdict = Transaction if fault.is_survived else fault.verdict
        times = 2 if fault.attempts is UNCOUNTED else 1
        attempts = 1 if fault.attempts == 1 else times + 1
        options = {"retry": RetryPolicy(initial_backoff=0, max_attempts=2), **fault.options}
        with subtests.test(fault.sentence):
            async with stage(server_with(fault, times=times), carrier=carrier, **options) as pay:
                outcome = await ask(pay)
                assert (type(outcome), pay.stats.attempts) == (verdict, attempts)


@pytest.mark.slow
@pytest.mark.parametrize(("carrier", "faults"), [*OVER_FAST, OVER_OWN, OVER_OWN2])
async def test_signal(carrier, faults, row, subtests):
    """Each fault gives the limiter the expected signal, and no other."""
    for fault in faults:
        row(fault.sentence, fault.verdict.__name__)
        with subtests.test(fault.sentence):
            async with stage(server_with(fault), carrier=carrier, **{**fault.options, "retry": None}) as pay:
                assert await signal_of(pay) is fault.signal


@pytest.mark.parametrize("carrier", ["own", "fast"])
@pytest.mark.parametrize("fault", bodies.BOMBS, ids=str)
async def test_memory(fault, carrier, row):
    """For any size of a response, also compressed, memory grows by less than 8 MiB."""
    row(fault.sentence, fault.verdict.__name__)
    async with stage(server_with(fault), carrier=carrier, retry=None) as pay:
        tracemalloc.start()
        try:
            await ask(pay)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 8 * 2**20

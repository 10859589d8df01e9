"""Fakes of our own ports, for tests of the client: a transport that answers from a script."""

import asyncio
import json

from payclient import AsyncClient, RetryPolicy
from payclient.transports import Response
from support.limits import nothing

KEY = "sk-canary-7f3a9c51d2e84b60"

SAMPLE = {
    "reference": "T0000000033KGJ0D",
    "merchant_reff": "INV-1001",
    "payment_method": "BCAVA",
    "payment_name": "BCA Virtual Account",
    "amount": 15000,
    "fee": 2500,
    "amount_received": 12500,
    "payment_code": "700140001234",
    "expdate": "2026-11-21 10:00:00",
    "status": "Canceled",
}


def document(reference, **fields):
    return json.dumps({"success": True, "data": {**SAMPLE, "reference": reference, **fields}}).encode()


def answer(body=b"", status=200, **headers):
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, body, is_fresh=True)


NOT_FOUND = answer(b'{"success": false, "message": "no such transaction"}', 404)
DOWN = answer(b'{"success": false, "message": "try later"}', 503)


def now():
    return asyncio.get_running_loop().time()


def throttled(seconds=None):
    headers = {} if seconds is None else {"retry_after": str(seconds)}
    return answer(b'{"success": false, "message": "slow down"}', 429, **headers)


class ScriptedTransport:
    """
    Answers each reference from its script, then as *default* says, and without one as the specification says.

    A step is a `Response`, an exception to raise, or an awaitable function that returns either.

    Args:
        latency: Seconds of each answer, or a function that gives them.
        default: Gives the step for a reference that has no script.
        refuse: A limit, of `support.limits`.
        scripts: The steps of each reference, in turn.

    Attributes:
        sent: The requests.
        asked: The time and the reference of each.
    """

    def __init__(self, *, latency=0.0, default=None, refuse=nothing, **scripts):
        self.latency = latency
        self.default = default
        self.refuse = refuse
        self.admitted = 0
        self.scripts = {reference: list(steps) for reference, steps in scripts.items()}
        self.sent = []
        self.asked = []
        self.discarded = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.is_closed = False

    def script(self, reference, *steps):
        self.scripts[reference] = list(steps)

    async def send(self, request):
        reference = json.loads(request.body)["reference"]
        self.sent.append(request)
        self.asked.append((now(), reference))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        told = self.refuse(now(), self.admitted)
        self.admitted += told is None
        try:
            await asyncio.sleep(self.latency() if callable(self.latency) else self.latency)
            step = self._step(reference) if told is None else throttled(told or None)
            if callable(step):
                step = await step()
        finally:
            self.in_flight -= 1
            self.admitted -= told is None
        if isinstance(step, BaseException):
            raise step
        return step

    def _step(self, reference):
        steps = self.scripts.get(reference)
        if steps:
            return steps.pop(0)
        return self.default(reference) if self.default else answer(document(reference))

    def times(self, reference=None):
        return [at for at, asked in self.asked if reference in (None, asked)]

    async def discard(self, response):
        self.discarded.append(response)

    async def aclose(self):
        self.is_closed = True


def timeline(statuses=None, *, latency=0.1, **options):
    """
    Return a transport to transactions that change with time; one that is not in *statuses* is pending for ever.

    Args:
        statuses: For each reference, its statuses with the time from which each holds; a `Response` in the place of a
            status is answered as it is.
    """

    def state(reference):
        steps = (statuses or {}).get(reference, [])
        status = next((status for since, status in reversed(steps) if since <= now()), "Pending")
        return answer(document(reference, status=status)) if isinstance(status, str) else status

    return ScriptedTransport(latency=latency, default=state, **options)


def client(transport, **options):
    return AsyncClient(
        **{
            "api_key": KEY,
            "base_url": "https://pay.example",
            "transport": transport,
            "retry": RetryPolicy(initial_backoff=1.0),
            **options,
        }
    )


async def cancel_at_each_turn(task, *, first, count):
    """Cancel *task* after *first* turns of the event loop, and then at each of the next ones; let it end."""
    for _ in range(first):
        await asyncio.sleep(0)
    for _ in range(count):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task])

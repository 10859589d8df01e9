"""Fakes of our own ports, for tests of the client: a transport that answers from a script."""

from __future__ import annotations

import asyncio
import json

from payclient import AsyncClient, RetryPolicy
from payclient.transports import Response

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


class ScriptedTransport:
    """
    Answers each reference from its script, then as the specification says.

    A step is a `Response`, an exception to raise, or an awaitable function that returns either.
    """

    def __init__(self, *, latency=0.0, default=None):
        self.latency = latency
        self.default = default
        self.scripts = {}
        self.sent = []
        self.discarded = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.is_closed = False

    def script(self, reference, *steps):
        self.scripts[reference] = list(steps)

    async def send(self, request):
        reference = json.loads(request.body)["reference"]
        self.sent.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.latency)
            step = self._step(reference)
            if callable(step):
                step = await step()
        finally:
            self.in_flight -= 1
        if isinstance(step, BaseException):
            raise step
        return step

    def _step(self, reference):
        steps = self.scripts.get(reference)
        if steps:
            return steps.pop(0)
        return self.default() if self.default else answer(document(reference))

    async def discard(self, response):
        self.discarded.append(response)

    async def aclose(self):
        self.is_closed = True


def client(transport, **options):
    return AsyncClient(
        **{
            "api_key": KEY,
            "base_url": "https://pay.example",
            "transport": transport,
            "retry": RetryPolicy(initial_backoff=1.0),
            **options,
        },
    )

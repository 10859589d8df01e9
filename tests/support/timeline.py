"""A service in memory whose transactions change with time, on the event loop's clock."""

from __future__ import annotations

import asyncio
import json

from payclient.policies._retry import Signal
from support.fakes import answer, document

NOT_FOUND = answer(b'{"success": false, "message": "no such transaction"}', 404)
DOWN = answer(b'{"success": false, "message": "try later"}', 503)


def throttled(seconds=None):
    headers = {} if seconds is None else {"retry_after": str(seconds)}
    return answer(b'{"success": false, "message": "slow down"}', 429, **headers)


class Timeline:
    """
    A transport.

    Attributes:
        statuses: For each reference, its statuses with the time from which each holds; a response in the place of a
            status is answered as it is. A reference that is not in it is pending for ever.
        limit: A service of `support.simulated` that a request has to pass; without one, an answer takes *latency*.
        sent: When each request came, and for which reference.
    """

    def __init__(self, statuses=None, *, latency=0.1, limit=None):
        self.statuses = statuses or {}
        self.latency = latency
        self.limit = limit
        self.sent = []
        self.in_flight = 0

    async def send(self, request):
        reference = json.loads(request.body)["reference"]
        loop = asyncio.get_running_loop()
        self.sent.append((loop.time(), reference))
        self.in_flight += 1
        try:
            if self.limit is None:
                await asyncio.sleep(self.latency)
            elif (await self.limit()).signal is Signal.THROTTLED:
                return throttled()
        finally:
            self.in_flight -= 1
        status = self.status(reference, loop.time())
        return answer(document(reference, status=status)) if isinstance(status, str) else status

    def status(self, reference, now):
        steps = self.statuses.get(reference, [])
        return next((status for since, status in reversed(steps) if since <= now), "Pending")

    def times(self, reference=None):
        return [at for at, sent in self.sent if reference in (None, sent)]

    async def aclose(self):
        pass

"""A service that goes away and comes back, and the callers of a web application, on the event loop's clock."""

import asyncio
import math
from functools import partial
from itertools import count

from attrs import frozen

from payclient import errors
from support.fakes import ScriptedTransport, answer, document, now

ADDRESS = "192.0.2.7:443"


def refused():
    return errors.ConnectionFailedError("connection refused", sent="no", step="connect", address=ADDRESS)


def broken():
    return errors.ConnectionFailedError("connection reset by peer", sent="no", step="tls", address=ADDRESS)


def untrusted():
    return errors.TLSVerificationError("certificate has expired", sent="no", step="tls", address=ADDRESS)


def unwelcome():
    return errors.ProxyRefusedError("the proxy refuses the tunnel", status_code=407, sent="no", step="proxy")


KINDS = {
    "503": (0.1, lambda: answer(b'{"success": false, "message": "try later"}', 503), "HTTP 503"),
    "refused": (0.001, refused, "connection refused"),
    "black hole": (math.inf, None, "no (whole )?answer"),
    "TLS": (0.02, broken, "connection reset by peer .step tls"),
}
"""How it fails: after how many seconds, with what, and what errors have to say."""


_number = count()


def untrusted_or_broken():
    return broken() if next(_number) % 3 else untrusted()


FINAL = {"certificate": (0.02, untrusted, "certificate has expired"), "proxy": (0.02, unwelcome, "refuses the tunnel")}
"""Failures that are no outage: every lookup has the error itself."""

MIXED = {"certificate, or reset": (0.02, untrusted_or_broken, "")}
"""A service that closes before the client reads why: the alert is lost with the connection, now and then."""


class AbsentService(ScriptedTransport):
    """
    A service that is away for some time.

    Attributes:
        kind: One of `KINDS`, `FINAL` or `MIXED`.
        absences: From when to when it is away, on the clock of the event loop.
        slow_until: Until then, an answer takes ten times as long.
    """

    def __init__(self, kind, absences=(), *, latency=0.1, slow_until=0.0):
        super().__init__(default=lambda reference: partial(self._answer, reference))
        self.kind, self.absences, self.seconds, self.slow_until = kind, absences, latency, slow_until

    async def _answer(self, reference):
        if not any(begin <= now() < end for begin, end in self.absences):
            await asyncio.sleep(self.seconds * (10 if now() < self.slow_until else 1))
            return answer(document(reference, status="Paid"))
        seconds, failure, _ = {**KINDS, **FINAL, **MIXED}[self.kind]
        await (asyncio.get_running_loop().create_future() if failure is None else asyncio.sleep(seconds))
        return failure()

    def sent_between(self, begin, end):
        return [at for at in self.times() if begin <= at < end]


@frozen
class Call:
    """When a caller asked, how long that took, and the error; None when the call was answered."""

    at: float
    seconds: float
    error: errors.PayClientError | None


async def crowd(client, *, rate, until, prefix="V"):
    """Have callers ask for a reference each, *rate* a second, until a time; return what they were told."""
    loop, calls = asyncio.get_running_loop(), []

    async def call(number):
        began, error = loop.time(), None
        try:
            await client.get_transaction(f"{prefix}{number}")
        except errors.PayClientError as caught:
            error = caught.with_traceback(None)
        calls.append(Call(began, loop.time() - began, error))

    first, number = loop.time(), 0
    async with asyncio.TaskGroup() as callers:
        while (at := first + number / rate) < until:
            await asyncio.sleep(at - loop.time())
            callers.create_task(call(number))
            number += 1
    return sorted(calls, key=lambda call: call.at)


def percentile(values, share):
    return sorted(values)[math.ceil(len(values) * share) - 1]

"""The API key of a run: given once, or by a source that rotates, fails, hangs or is behind."""

import asyncio

from simulation.plan import KEYS
from support.fakes import KEY

EVERY = (KEY, *(f"sk-canary-{number}c51d2e84b6f3a" for number in range(1, 9)))
"""The keys of a run, one after the other."""


class SourceFailedError(Exception):
    """What a source raises that has no key to give; its words hold one."""


class Keys:
    """The keys of a run, and the source that gives them."""

    def __init__(self, world):
        self._world = world
        self._faults = {int(fault.at): fault for fault in world.plan.faults if fault.kind in KEYS}
        self._asked = 0
        self.valid = {KEY}  # those that the service takes
        self.rotations = 0  # how often the key has changed
        self.calls = {}  # calls of a source that are under way, by client

    @property
    def current(self):
        return EVERY[self.rotations]

    def rotate(self, seconds):
        """Make another key; the one before is taken for *seconds* more."""
        if self.rotations + 1 < len(EVERY):
            former, self.rotations = self.current, self.rotations + 1
            self.valid.add(self.current)
            self._world.loop.call_later(seconds, self.valid.discard, former)

    def source_of(self, client):
        """Return a source for one client."""

        async def give():
            self.calls[client] = self.calls.get(client, 0) + 1
            if self.calls[client] > 1:
                self._world.fail("source", f"{self.calls[client]} calls at once for client {client}")
            try:
                return await self._give(client)
            except asyncio.CancelledError:
                self._world.clients[client]._session.check_ended()
                raise
            finally:
                self.calls[client] -= 1

        return give

    async def _hang(self, client, seconds):
        ends_at = self._world.loop.time() + seconds
        while (left := ends_at - self._world.loop.time()) > 0:
            await asyncio.sleep(min(left, 0.2))
            self._world.clients[client]._session.check_used()

    async def _give(self, client):
        fault = self._faults.get(self._asked)
        self._asked += 1
        await asyncio.sleep((0.02, 0.3, 0.6)[self._world.plan.seed % 3])
        if fault is not None and fault.kind != "source hangs":
            await asyncio.sleep(fault.value / 10)
        if fault is None or self._world.service.is_calm:
            return self.current
        self._world.strike(fault.kind)
        if fault.kind == "source fails":
            message = f"no answer of the vault for {self.current}"
            raise SourceFailedError(message)
        if fault.kind == "source is behind":
            return EVERY[max(0, self.rotations - 1)]
        await self._hang(client, fault.value)
        return self.current

"""The API key of one client: given once, or asked for and asked again when the service refuses it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from payclient.protocol import ApiKey

KeySource: TypeAlias = Callable[[], str | Awaitable[str]]
"""Gives the API key, plain or async."""


class Keys:
    """
    The current key.

    Args:
        key: The key, where it is known from the beginning.
        source: Asked for the key at the first use, and again when the service has refused it.

    Attributes:
        number: Of the current key, counted from 1; 0 before the source was asked.
        authorization: Gives the value of the `Authorization` header; do not keep it in a variable.
        redact: Returns a text without the key, and without the one before it, which may still be in flight.
    """

    __slots__ = ("_asked", "_asking", "_current", "_source", "authorization", "number", "redact")

    authorization: Callable[[], str]
    redact: Callable[[str], str]

    def __init__(self, key: ApiKey | None, source: KeySource | None = None) -> None:
        self.number = 0
        self._current: ApiKey | None = None
        self._source = source
        self._asking = asyncio.Lock()
        self._asked = 0
        self.authorization, self.redact = str, str  # no request is made before there is a key
        if key is not None:
            self._use(key)

    @property
    def fingerprint(self) -> str:
        """Of the current key; empty before the source was asked."""
        return "" if self._current is None else self._current.fingerprint

    async def renew(self, known: int) -> bool:
        """
        Ask for a newer key than number *known*, and return whether there is one.

        Note:
            Lookups that ask at the same time share one call of the source.

        Raises:
            ConfigurationError: When what the source gives cannot be a key.
        """
        asked = self._asked
        async with self._asking:
            if self._source is not None and self.number == known and self._asked == asked:
                await self._ask(self._source)
                self._asked += 1  # only now: who comes meanwhile shares this answer
        return self.number != known

    async def _ask(self, source: KeySource) -> None:
        given = source()
        try:
            if inspect.isawaitable(given):
                given = await given
            key = ApiKey(given)
        finally:
            del given  # a traceback may come with the local variables of its frames
        if self._current is None or key.fingerprint != self._current.fingerprint:
            self._use(key)

    def _use(self, key: ApiKey) -> None:
        former = self._current
        self._current = key
        self.number += 1
        self.authorization = key.authorization
        self.redact = key.redact if former is None else lambda text: former.redact(key.redact(text))

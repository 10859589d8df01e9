"""The transport `httpx2`: the default one with httpx2, the maintained successor of httpx, on top."""

from __future__ import annotations

from typing import Any, ClassVar

import httpx2

from payclient.transports._client import HttpxTransport


class Httpx2Transport(HttpxTransport):
    """As `HttpxTransport`, with an `httpx2.AsyncClient`."""

    library: ClassVar[Any] = httpx2

"""The shared defaults."""

from __future__ import annotations

import inspect

from payclient import AsyncClient
from payclient.engines import LookupSpec


def test_client_and_engines_agree():
    """A worker of an engine has the limits that a client has."""
    client, spec = (inspect.signature(kind).parameters for kind in (AsyncClient, LookupSpec))
    for name in ("max_concurrency", "timeout", "deadline"):
        assert client[name].default == spec[name].default, name
    stall_timeout = inspect.signature(AsyncClient.stream_transactions).parameters["stall_timeout"]
    assert stall_timeout.default == spec["stall_timeout"].default

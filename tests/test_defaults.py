"""The shared defaults."""

from __future__ import annotations

import inspect

from payclient import AsyncClient
from payclient.engines import LookupSpec
from payclient.reconcile import reconcile
from payclient.waiting import INTERVAL, MAX_INTERVAL, Terms


def test_client_and_engines_agree():
    """A worker of an engine has the limits that a client has."""
    client, spec = (inspect.signature(kind).parameters for kind in (AsyncClient, LookupSpec))
    for name in ("max_concurrency", "timeout", "deadline"):
        assert client[name].default == spec[name].default, name
    for function in (AsyncClient.stream_transactions, reconcile):
        assert inspect.signature(function).parameters["stall_timeout"].default == spec["stall_timeout"].default


def test_waits_agree():
    """A wait, a watch and the command have the same intervals, although the signatures of the client write them out."""
    rules = inspect.signature(Terms).parameters
    expected = (INTERVAL, MAX_INTERVAL, rules["appear"].default)
    for method in (AsyncClient.wait_for, AsyncClient.watch):
        given = inspect.signature(method).parameters
        assert tuple(given[name].default for name in ("interval", "max_interval", "appear")) == expected

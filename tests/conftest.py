"""What all tests share: the event loops, the real one and one whose clock jumps, and how properties are tried."""

import asyncio
import gc
import os
import sys
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis.strategies import none

from support import chance
from support.virtual_time import VirtualTimeLoop

try:
    import uvloop
except ImportError:  # there is none for Windows
    uvloop = None
else:
    from support.virtual_uvloop import VirtualTimeUvloop

for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]  # tests speak to this machine only, whatever proxy it uses for others

LOOPS = {"asyncio": {"real": asyncio.new_event_loop, "virtual": VirtualTimeLoop}}
if uvloop is not None:
    LOOPS["uvloop"] = {"real": uvloop.new_event_loop, "virtual": VirtualTimeUvloop}

settings.load_profile(chance.QUICK)  # `--hypothesis-profile=thorough` for another


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collector away from thousands of tests, which it would traverse again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        given(none())(lambda _: None)()  # Hypothesis looks once for what holds its generator, but not at frozen objects
        gc.freeze()
        gc.set_threshold(10_000)  # instead of 700: a tenth of the time of a run went into it
        gc.enable()


def pytest_addoption(parser):
    parser.addoption("--loop", choices=list(LOOPS), default="asyncio", help="the event loop of asynchronous tests")


def pytest_asyncio_loop_factories(config, item):
    time = "virtual" if item.get_closest_marker("virtual_time") else "real"
    names = LOOPS if item.get_closest_marker("every_loop") else [config.getoption("loop")]
    return {f"{name}, {time} time": LOOPS[name][time] for name in names}


@pytest.fixture
def full_after(monkeypatch):
    """Stand-in for a full disk: no file of this process can become longer than *size* bytes."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python would cut what it caches, and fail to load it later

    @contextmanager
    def full_after(size):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return full_after

"""The package: its names, and what importing it costs."""

import json
import subprocess
import sys

import pytest

import payclient


def modules_after(*statements):
    """Return how many modules each statement adds, in a fresh interpreter."""
    program = "import json, sys\ncounts = [len(sys.modules)]\n"
    program += "".join(f"{statement}\ncounts.append(len(sys.modules))\n" for statement in statements)
    program += "print(json.dumps([b - a for a, b in zip(counts, counts[1:])]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


def test_import_is_light():
    """`import payclient` loads at most 40 modules more than its dependencies do."""
    assert modules_after("import httpx, attrs, cattrs", "import payclient")[1] <= 40


def test_client_is_light():
    """The client itself loads at most 40 modules more than its dependencies and asyncio do."""
    base = "import asyncio, anyio, httpcore, httpx, attrs, cattrs"
    assert modules_after(base, "from payclient import AsyncClient")[1] <= 40


@pytest.mark.parametrize("extra", ["rich", "cyclopts", "opentelemetry", "pytest", "respx", "uvicorn", "sqlite3"])
def test_no_extra_is_loaded(extra):
    """The client loads none of the optional dependencies, but for what httpx itself takes when it finds it."""
    program = f"import sys, httpx; sys.modules.pop({extra!r}, 0); from payclient import *"
    program += f"; sys.exit({extra!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("name", payclient.__all__)
def test_every_name_is_there(name):
    """Every public name can be imported, and `dir` knows it."""
    assert getattr(payclient, name) is not None
    assert name in dir(payclient)


def test_unknown_name():
    """A name that is not there is an `AttributeError`, as in any module."""
    with pytest.raises(AttributeError, match="module 'payclient' has no attribute 'Client'"):
        payclient.Client  # noqa: B018

"""The package: its names, and what importing it costs."""

import subprocess
import sys
from importlib import import_module

import pytest

import payclient
from support.untraced import untraced


def modules_of(statement):
    """Return which modules of ours a statement loads, in a fresh interpreter."""
    program = f"{statement}\nimport sys\nprint(*(name for name in sys.modules if name.startswith('payclient')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    return set(done.stdout.split())


def test_import_is_light():
    """`import payclient` loads nothing but what loads the rest at its first use."""
    assert modules_of("import payclient") == {"payclient", "payclient._shared", "payclient._shared.lazy"}


def test_client_is_light():
    """The client loads nothing of reconciliation, the test kit or the command line."""
    packages = {name.split(".")[1] for name in modules_of("from payclient import AsyncClient") - {"payclient"}}
    assert packages & {"cli", "engines", "ledger", "otel", "reconcile", "report", "testing"} == set()


PAGES = ["markdown_it", "pygments", "rich.live", "rich.markdown", "rich.progress"]
DATA = [
    "sqlite3",
    "payclient.engines",
    "payclient.reconcile.ledger",
    "payclient.reconcile",
    "payclient.reconcile.report",
]


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("cli.main(['--version'])", [*PAGES, *DATA, "cattrs", "httpx", "payclient.client.policies"]),
        ("cli.main(['--help'])", [*PAGES, *DATA, "cattrs", "httpx", "importlib.metadata", "payclient.client.policies"]),
    ],
)
def test_command_is_light(statement, absent):
    """A command imports only what it needs."""
    program = f"import sys; from payclient import cli; {statement}; print(sys.modules.keys() & {absent})"
    environ = untraced(PAYCLIENT_API_KEY="test-key-0123456789", PAYCLIENT_BASE_URL="http://127.0.0.1:9")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True, env=environ)
    assert (done.stdout.count("\n") > 1, done.stdout.splitlines()[-1]) == (True, "set()")


EXTRAS = {"rich", "cyclopts", "opentelemetry", "pytest", "respx", "uvicorn", "sqlite3", "pydantic_core"}


def test_no_extra_is_loaded():
    """The client loads none of the optional dependencies, but for what httpx itself takes when it finds it."""
    program = f"import sys, httpx; [sys.modules.pop(name, 0) for name in {EXTRAS}]; from payclient import *"
    program += f"; print(sys.modules.keys() & {EXTRAS})"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"set()\n"


def test_every_name_is_there(subtests):
    """Every public name can be imported, and `dir` knows it."""
    for name in payclient.__all__:
        with subtests.test(name=name):
            assert getattr(payclient, name) is not None
            assert name in dir(payclient)


def test_kept_at_first_use():
    """A name is looked for once: a second use is an ordinary attribute."""
    program = "import payclient; payclient.AsyncClient; print('AsyncClient' in vars(payclient))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"True\n"


def test_unknown_name():
    """A name that is not there is an `AttributeError`, as in any module; `Client` says which ones there are."""
    with pytest.raises(AttributeError, match="module 'payclient' has no attribute 'Pay'"):
        payclient.Pay  # noqa: B018
    with pytest.raises(ImportError, match=r"is payclient\.blocking\.Client"):
        from payclient import Client  # noqa: F401, PLC0415


def test_methods_have_the_name_of_their_class():
    """A message of Python about a method of the client names `AsyncClient`, the name that a user has imported."""
    methods = [getattr(payclient.AsyncClient, name) for name in dir(payclient.AsyncClient) if not name.startswith("_")]
    names = {method.__qualname__.partition(".")[0] for method in methods if hasattr(method, "__qualname__")}
    assert names == {"AsyncClient"}


def test_no_name_by_accident():
    """What a module imports for itself is no name of its package; what messages name is there without an import."""
    loaded = "reconcile: Path json evolve datetime cast, transports: ssl re os, client: random asyncio TIMEOUT"
    found = []
    for part in loaded.split(", "):
        package, _, names = part.partition(": ")
        module = import_module(f"payclient.{package}")
        found += [f"{package}.{name}" for name in names.split() if hasattr(module, name)]
    assert found == []
    loaded = modules_of(
        "import payclient; payclient.blocking, payclient.errors, payclient.testing, payclient.reconcile"
    )
    assert loaded >= {"payclient.blocking", "payclient.errors", "payclient.testing", "payclient.reconcile"}

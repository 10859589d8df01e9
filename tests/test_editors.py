"""What an editor shows of the public names: completion, signatures and the values of defaults."""

import ast
import importlib
import inspect
import textwrap

import jedi
import pytest

import payclient
from docs.test_completeness import MODULES
from payclient import AsyncClient
from payclient.blocking import Client

BLOCKING = "from payclient.blocking import Client\nclient = Client()\n"


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Give jedi a cache of this process: it reads one that another process is writing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jedi.settings, "cache_directory", str(tmp_path_factory.mktemp("jedi")))
        yield


def script(text):
    """Return what jedi knows of a program, with the cursor at its end."""
    lines = text.split("\n")
    return jedi.Script(text), (len(lines), len(lines[-1]))


@pytest.mark.parametrize(
    ("start", "called"),
    [
        ("from payclient import AsyncClient\n", "AsyncClient"),
        ("from payclient import RetryPolicy\n", "RetryPolicy"),
        ("from payclient import AsyncClient\nclient = AsyncClient()\n", "client.wait_for"),
        *(
            pytest.param(
                "from payclient.blocking import Client\nclient = Client()\n", f"client.{name}", marks=pytest.mark.slow
            )
            for name in ("get_transaction", "get_transactions", "stream_transactions", "wait_for", "confirm")
        ),
        ("from payclient.transports import HttpxTransport\n", "HttpxTransport"),
        ("from payclient.testing import FakeService\n", "FakeService"),
    ],
)
def test_signature(start, called):
    """jedi, on which many editors are built, shows the parameters of a call."""
    found, cursor = script(f"{start}{called}(")
    scope = {}
    exec(start.replace("Client()", "Client"), scope)
    (signature,) = found.get_signatures(*cursor)
    expected = inspect.signature(eval(called, scope)).parameters
    assert [parameter.name for parameter in signature.params] == [name for name in expected if name != "self"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import payclient\npayclient.", payclient.__all__),
        ("from payclient import ", payclient.__all__),
        (
            "from payclient import AsyncClient\nclient = AsyncClient()\nclient.",
            [name for name in dir(AsyncClient) if name[0] != "_"],
        ),
        pytest.param(
            "from payclient import AsyncClient\nasync def f(pay: AsyncClient):\n  (await pay.get_transaction('')).",
            ["amount", "reference", "status"],
            marks=pytest.mark.slow,
        ),
        (f"{BLOCKING}client.", [name for name in dir(Client) if name[0] != "_"]),
        (f"{BLOCKING}client.with_options(deadline=1.0).", ["confirm", "get_transaction"]),
        (f"{BLOCKING}client.get_transaction('T1').", ["amount", "reference", "status"]),
        (f"{BLOCKING}client.get_transactions(['T1'])[0].", ["reference", "transaction"]),
        (f"{BLOCKING}client.wait_for('T1', until={{'Paid'}}, deadline=9).", ["amount", "reference", "status"]),
        (f"{BLOCKING}client.confirm('T1', amount=1, status={{'Paid'}}).", ["differences", "is_confirmed"]),
        (
            f"{BLOCKING}with client.stream_transactions(['T1']) as outcomes:\n  for outcome in outcomes:\n    outcome.",
            ["reference", "transaction"],
        ),
    ],
)
def test_completion(text, expected):
    """jedi completes the names of the package, of a client, and of what it returns."""
    found, cursor = script(text)
    assert set(expected) - {completion.name for completion in found.complete(*cursor)} == set()


@pytest.mark.parametrize("module", [module for module in MODULES if module != "payclient.testing.plugin"])
def test_nothing_foreign(module):
    """jedi completes after a module no name that the module has only for its own definitions."""
    found, cursor = script(f"import {module}\n{module}.")
    names = {completion.name for completion in found.complete(*cursor)}
    assert names & {"annotations", "define", "field", "frozen", "math"} == set()


def defaults(source):
    """Return the parameters of the public functions in *source* with the text of their defaults."""
    for node in ast.walk(ast.parse(textwrap.dedent(source))):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and (node.name == "__init__" or node.name[0] != "_"):
            given = [*node.args.posonlyargs, *node.args.args][::-1]
            named = dict(zip(given, node.args.defaults[::-1], strict=False))
            named |= zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            yield from ((f"{node.name}({each.arg})", ast.unparse(value)) for each, value in named.items() if value)


def test_default_is_shown():
    """A default is written as a value or as a public name, because hover shows what is written: no `= APPEAR`."""
    modules = [importlib.import_module(name) for name in MODULES]
    public = {name for module in modules for name in module.__all__}
    unclear = []
    for value in (getattr(module, name) for module in modules for name in module.__all__):
        if inspect.isclass(value) or inspect.isfunction(value):
            home = vars(importlib.import_module(value.__module__))
            unclear += [
                f"{value.__name__}.{where} = {default}"
                for where, default in defaults(inspect.getsource(value))
                if default in home and default not in public and not callable(home[default])
            ]
    assert unclear == []

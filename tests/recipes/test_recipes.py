"""The recipes for other frameworks and workers, each with the real package and a real fake service on a socket."""

import importlib.util
import logging
import math
import shutil
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from payclient import (
    ConnectionFailedError,
    KeySourceError,
    OutageError,
    ProxyRefusedError,
    RateLimitedError,
    TransactionNotFoundError,
)
from payclient.blocking import Client
from payclient.testing import FakeService
from support.fakes import ScriptedTransport
from support.in_thread import ServedInThread
from support.visits import (
    BUSY,
    CODE,
    assert_answers,
    assert_could_not_ask,
    assert_outage_is_logged_once,
    keyless_client,
)

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

pytestmark = pytest.mark.recipes


@pytest.fixture
def server(monkeypatch):
    """Give a service in the event loop of another thread, for recipes that block theirs."""
    service = FakeService()
    service.add(reference="T1", status="Paid", amount=15000)
    service.add(reference="T2", status="Pending", becomes=[(1e-9, "Paid")])
    service.add(reference="T0000000001DEMO", status="Paid", amount=150000)
    service.add(reference="T0000000002DEMO", status="Pending", amount=75000)
    with ServedInThread(service) as running:
        monkeypatch.setenv("PAYCLIENT_BASE_URL", running.url)
        monkeypatch.setenv("PAYCLIENT_API_KEY", service.api_key)
        monkeypatch.delenv("PYTHONSAFEPATH", raising=False)  # programs import an example from their folder
        yield running


def loaded(name, monkeypatch):
    """Import an example under its own name: Django finds its addresses by that."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def loaded_django(monkeypatch, caplog):
    """Import the example of Django as a new process would, with a log that can be read."""
    from django.conf import empty, settings  # noqa: PLC0415  only the session recipes installs it
    from django.urls import clear_url_caches  # noqa: PLC0415  as above

    settings._wrapped = empty
    clear_url_caches()
    example = loaded("django_app", monkeypatch)
    logging.getLogger().addHandler(caplog.handler)  # Django has configured logging
    return example


@asynccontextmanager
async def visiting(app):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as visitor:
        yield visitor


def test_flask(server, monkeypatch):
    """Threads of Flask share a client, which tells a payment from none; a mistake of the application is a 500."""
    module = loaded("flask_app", monkeypatch)
    with ThreadPoolExecutor(8) as threads:
        answers = [*threads.map(lambda _: module.app.test_client().get("/payments/T1"), range(40))]
    assert [answer.json["status"] for answer in answers] == ["Paid"] * 40
    assert (module.app.test_client().get("/payments/T9").status_code, server.service.count("T9")) == (404, 2)
    module.pay().close()
    assert module.app.test_client().get("/payments/T1").status_code == 500


FORKED = """
import os, sys, flask_app
for _ in range(2):
    if os.fork() == 0:
        os._exit(flask_app.app.test_client().get("/payments/T1").status_code != 200)
sys.exit(any(os.wait()[1] for _ in range(2)))
"""


def test_flask_preloaded(server):
    """An application that is imported before the workers fork, as by `gunicorn --preload`, works in each of them."""
    done = subprocess.run([sys.executable, "-c", FORKED], cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


async def test_litestar(server, monkeypatch, caplog):
    """The application of Litestar tells answers and errors apart; a mistake of its own is a 500, and logged."""
    from litestar.testing import AsyncTestClient  # noqa: PLC0415  only the session recipes installs it

    app = loaded("litestar_app", monkeypatch).app
    async with AsyncTestClient(app) as visitor:
        logging.getLogger().addHandler(caplog.handler)  # Litestar has configured logging
        await assert_answers(visitor, server.service, caplog)
        with monkeypatch.context() as patch:
            patch.setattr(app.state, "pay", keyless_client())
            await assert_could_not_ask(visitor)
        await app.state.pay.aclose()
        assert (await visitor.get("/payments/T1")).status_code == 500
    assert "ClientClosedError" in caplog.text


async def test_litestar_transaction(server, monkeypatch):
    """Litestar cannot write a `Transaction`, so a handler returns `as_json()`, as the page says."""
    from litestar import Litestar, get  # noqa: PLC0415  only the session recipes installs it
    from litestar.testing import AsyncTestClient  # noqa: PLC0415  the same

    from payclient import AsyncClient, Transaction  # noqa: PLC0415  beside the others

    @get("/bare", signature_namespace={"Transaction": Transaction})
    async def bare() -> Transaction:
        async with AsyncClient() as pay:
            return await pay.get_transaction("T1")

    async with AsyncTestClient(Litestar([bare])) as visitor:
        answer = await visitor.get("/bare")
    assert (answer.status_code, "8800000000000001" in answer.text) == (500, False)


async def test_litestar_response_model(server, monkeypatch):
    """Litestar's OpenAPI and answers know the type too: the ten fields, with the payment code masked."""
    from litestar import Litestar, get  # noqa: PLC0415  only the session recipes installs it
    from litestar.plugins.pydantic import PydanticPlugin  # noqa: PLC0415  the same
    from litestar.testing import AsyncTestClient  # noqa: PLC0415  the same
    from pydantic import BaseModel  # noqa: PLC0415  the same

    from payclient import AsyncClient, Transaction  # noqa: PLC0415  beside the others

    class Payment(BaseModel):
        transaction: Transaction

    @get("/model", signature_namespace={"Payment": Payment})
    async def model() -> Payment:
        async with AsyncClient() as pay:
            return Payment(transaction=await pay.get_transaction("T1"))

    async with AsyncTestClient(Litestar([model], plugins=[PydanticPlugin()])) as visitor:
        answer = (await visitor.get("/model")).json()["transaction"]
    assert (answer["status"], answer["payment_code"], len(answer)) == ("Paid", CODE, 10)


@pytest.mark.parametrize("form", ["model", "json"])
async def test_litestar_results(server, form):
    """A confirmation, a list of outcomes, a failure and stats are answers of Litestar, in a model and as their JSON."""
    from litestar import Litestar, get  # noqa: PLC0415  only the session recipes installs it
    from litestar.plugins.pydantic import PydanticPlugin  # noqa: PLC0415  the same
    from litestar.testing import AsyncTestClient  # noqa: PLC0415  the same
    from pydantic import BaseModel  # noqa: PLC0415  the same

    from payclient import AsyncClient, Confirmation, Failed, Found, Stats  # noqa: PLC0415  beside the others

    class Results(BaseModel):
        confirmation: Confirmation
        outcomes: list[Found | Failed]
        stats: Stats

    async def results():
        async with AsyncClient() as pay:
            return {
                "confirmation": await pay.confirm("T1", amount=1, status={"Paid"}),
                "outcomes": await pay.get_transactions(["T1", "T9"]),
                "stats": pay.stats,
            }

    @get("/results", signature_namespace={"Results": Results})
    async def model() -> Results:
        return Results(**await results())

    @get("/results")
    async def as_json() -> dict[str, Any]:
        found = await results()
        return {**found, **{name: found[name].as_json() for name in ("confirmation", "stats")}} | {
            "outcomes": [outcome.as_json() for outcome in found["outcomes"]]
        }

    handler = {"model": model, "json": as_json}[form]
    async with AsyncTestClient(Litestar([handler], plugins=[PydanticPlugin()])) as visitor:
        answer = (await visitor.get("/results")).json()
    paid, failed = answer["outcomes"]
    assert (answer["confirmation"]["is_confirmed"], answer["stats"]["is_ready"]) == (False, True)
    assert (paid["transaction"]["payment_code"], failed["error"]["http_status"]) == (CODE, 404)


async def test_outage(server, monkeypatch, caplog):
    """Litestar's and Django's applications log one line for all visitors whom an outage refuses."""
    from litestar.testing import AsyncTestClient  # noqa: PLC0415  only the session recipes installs it

    async with AsyncTestClient(loaded("litestar_app", monkeypatch).app) as visitor:
        logging.getLogger().addHandler(caplog.handler)  # Litestar has configured logging
        await assert_outage_is_logged_once(visitor, server.service, caplog)
    caplog.clear()
    example = loaded_django(monkeypatch, caplog)
    async with visiting(example.app) as visitor, example.client():
        await assert_outage_is_logged_once(visitor, server.service, caplog)


async def test_django(server, monkeypatch, caplog):
    """The async view of Django tells answers and errors apart; a mistake of its own is a 500, and logged."""
    example = loaded_django(monkeypatch, caplog)
    async with visiting(example.app) as visitor:
        await assert_answers(visitor, server.service, caplog)
        with monkeypatch.context() as patch:
            patch.setattr(example, "client", keyless_client)
            await assert_could_not_ask(visitor)
        await example.client().aclose()
        assert (await visitor.get("/payments/T1")).status_code == 500
        example.client.cache_clear()
        monkeypatch.delenv("PAYCLIENT_API_KEY")
        assert (await visitor.get("/payments/T1")).status_code == 500
    assert [name for name in ("ClientClosedError", "ConfigurationError") if name not in caplog.text] == []


async def test_django_wsgi(server):
    """Under WSGI the plain view answers each request, in any thread, and has the same answers to errors."""
    program = """
import logging
from concurrent.futures import ThreadPoolExecutor
from django.test import Client
import django_app
def status(path):
    return Client().get(path).status_code
with ThreadPoolExecutor(8) as threads:
    print(*threads.map(status, ["/plain/payments/T1"] * 120 + ["/plain/payments/T9", "/plain/payments/%20"]))
django_app.blocking_client().close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=120, cwd=EXAMPLES
    )
    assert done.stdout.split() == ["200"] * 120 + ["404"] * 2


def test_django_logs_mistakes(server, monkeypatch):
    """A forgotten variable is a 500, and its traceback is on the console once, without DEBUG."""
    monkeypatch.delenv("PAYCLIENT_API_KEY")
    program = """
from django.test import Client
import django_app
print(Client(raise_request_exception=False).get("/plain/payments/T1").status_code)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True, cwd=EXAMPLES)
    assert (done.stdout, done.stderr.count("errors.ConfigurationError: ")) == ("500\n", 1), done.stderr


@pytest.mark.parametrize("name", ["django_app", "flask_app", "celery_worker"])
def test_tests(name, tmp_path):
    """The tests that the page links pass."""
    tests = f"{name.partition('_')[0]}_tests.py"
    for file in (f"{name}.py", tests):
        shutil.copy(EXAMPLES / file, tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", encoding="utf-8")
    tests = [sys.executable, "-m", "pytest", "-q", tests]
    done = subprocess.run(tests, capture_output=True, check=False, text=True, cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout


def test_django_client(server, tmp_path):
    """Django's client for plain views is refused at its second visit of an async view."""
    shutil.copy(EXAMPLES / "django_app.py", tmp_path)
    program = """
from django.test import Client
import django_app
print(Client().get("/payments/T1").status_code)
Client().get("/payments/T1")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True, cwd=tmp_path)
    assert (done.stdout, "it belongs to another event loop" in done.stderr) == ("200\n", True)


async def test_taskiq(server, monkeypatch):
    """A task of taskiq waits for a payment with the client of its worker."""
    example = loaded("taskiq_worker", monkeypatch)
    await example.broker.startup()
    try:
        task = await example.until_paid.kiq("T2")
        result = await task.wait_result(timeout=60)
    finally:
        await example.broker.shutdown()
    assert (result.is_err, result.return_value["status"]) == (False, "Paid")


class Retries(list):
    """The retries of Celery's tasks: the class of the error, and the seconds until the next try."""

    def __init__(self):
        super().__init__()
        self.changed = threading.Condition()

    def note(self, reason, **_):
        with self.changed:
            self.append((type(reason.exc), math.ceil(reason.when)))
            self.changed.notify()

    def wait_for(self, number):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self) >= number, timeout=60), self


def test_celery(server, monkeypatch):
    """
    A worker's tasks look up with the client of their process, and are retried when the service could not be asked.

    It is asked again when it says, in five minutes at most, and else after 30 s; so a dead service loses no task. An
    answer is not retried, and neither is the refusal of a proxy, which could lock an account.
    """
    from celery.contrib.testing.worker import start_worker  # noqa: PLC0415  only the session recipes installs it
    from celery.signals import task_retry  # noqa: PLC0415  the same

    example, retries = loaded("celery_worker", monkeypatch), Retries()
    task_retry.connect(retries.note)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = Client(api_key="k", base_url=f"http://127.0.0.1:{unused.getsockname()[1]}")

    @contextmanager
    def using(client):
        with client, monkeypatch.context() as patch:
            patch.setattr(example, "client", lambda: client)
            yield

    proxied = ScriptedTransport(T1=[ProxyRefusedError("407", status_code=407)])
    with start_worker(example.app, pool="solo", perform_ping_check=False):
        found = example.look_up.delay("T1").get(timeout=60)
        with pytest.raises(TransactionNotFoundError):
            example.look_up.delay("T9").get(timeout=60)
        server.service.script("T1", BUSY)
        example.look_up.delay("T1")
        retries.wait_for(1)
        with using(Client(keyless_client())):
            example.look_up.delay("T1")
            retries.wait_for(2)
        with using(dead):
            for number in range(20):
                example.look_up.delay(f"T{number}")
            retries.wait_for(22)
        with using(Client(api_key="k", transport=proxied)), pytest.raises(ProxyRefusedError):
            example.look_up.delay("T1").get(timeout=60)
    example.close()
    assert (found["status"], found["payment_code"]) == ("Paid", CODE)
    assert retries[:2] == [(RateLimitedError, 300), (KeySourceError, 30)]
    assert {kind for kind, _ in retries[2:]} == {ConnectionFailedError, OutageError}
    assert [seconds for _, seconds in retries[2:]] == [30] * 20


def test_notebook(server):
    """A notebook awaits at the top level of a cell."""
    import nbformat  # noqa: PLC0415  only the session recipes installs it
    from nbclient import NotebookClient  # noqa: PLC0415  the same

    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = [output["data"]["text/plain"] for cell in notebook.cells for output in cell.get("outputs", ())]
    assert (shown[0], shown[1].count("'reference'")) == ("('Paid', 150000)", 2)


def test_trio(server):
    """Under trio the client works in a thread."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "trio_script.py", "T1"], capture_output=True, check=True, text=True, timeout=120
    )
    assert done.stdout == "T1 Paid\n"

"""The fixtures make a user's test three lines long, whichever plugin runs it."""

import asyncio
import subprocess
import sys

import pytest

from payclient.errors import DeadlineExceededError, TransactionNotFoundError
from payclient.testing import Reply

THREE_LINES = """
{mark}
async def test_is_paid(pay_service, pay_client):
    pay_service.add(reference="T1", status="Paid")
    assert (await pay_client.get_transaction("T1")).status == "Paid"
"""
ANYIO = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
WHAT_IS_LOADED = """
import sys, pytest
before = set(sys.modules)
import payclient.testing.plugin
print(*sorted(set(sys.modules) - before))
"""


def run_pytest(folder, source, *options):
    """Run a user's tests in a process of their own; return its exit status and what it said."""
    (folder / "test_user.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *options]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


def asyncio_mode(mode):
    """Return the options of a project that uses pytest-asyncio."""
    return ["-o", f"asyncio_mode={mode}", "-o", "asyncio_default_fixture_loop_scope=function"]


@pytest.mark.parametrize(
    ("source", "options"),
    [
        pytest.param(
            THREE_LINES.format(mark=""), asyncio_mode("auto"), id="pytest-asyncio auto", marks=pytest.mark.slow
        ),
        pytest.param(
            f"import pytest\n{THREE_LINES.format(mark='@pytest.mark.asyncio')}",
            asyncio_mode("strict"),
            id="pytest-asyncio strict",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ANYIO + THREE_LINES.format(mark="@pytest.mark.anyio"),
            ["-p", "no:asyncio"],
            id="anyio",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_three_lines(tmp_path, source, options):
    """The same test passes with every way to run it, without a warning."""
    status, said = run_pytest(tmp_path, source, *options)
    assert (status, "1 passed" in said, "warning" in said) == (0, True, False), said


@pytest.mark.slow
def test_environment_is_ignored(tmp_path, monkeypatch):
    """A developer's own settings do not leak into tests."""
    monkeypatch.setenv("PAYCLIENT_BASE_URL", "https://pay.example")
    monkeypatch.setenv("PAYCLIENT_ENVIRONMENT", "nowhere")
    assert run_pytest(tmp_path, THREE_LINES.format(mark=""), *asyncio_mode("auto"))[0] == 0


def test_loads_nothing():
    """The plugin imports almost nothing until a fixture is used."""
    run = subprocess.run([sys.executable, "-c", WHAT_IS_LOADED], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [
        "payclient",
        "payclient._shared",
        "payclient._shared.lazy",
        "payclient.testing",
        "payclient.testing.plugin",
    ]


async def test_unknown(pay_client):
    """A reference that was not added is not found."""
    with pytest.raises(TransactionNotFoundError):
        await pay_client.get_transaction("T1")


@pytest.mark.virtual_time
async def test_retries_at_once(pay_service, pay_client):
    """A test of retries does not wait for back-off."""
    pay_service.add(reference="T1")
    pay_service.script("T1", *[Reply(status=500)] * 3)
    await pay_client.get_transaction("T1")
    assert (asyncio.get_running_loop().time(), pay_service.count("T1")) == (0, 4)


async def test_fresh(pay_service):
    """Each test gets a new service, without transactions or requests."""
    assert pay_service.total == 0


async def test_in_process(pay_service, pay_client):
    """No task is left after a lookup."""
    pay_service.add(reference="T1")
    await pay_client.get_transaction("T1")
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.virtual_time
async def test_timeout(pay_service, pay_client):
    """A test of a time-out takes less than a second, without an option, and gives the error of a real one."""
    pay_service.script("T1", *[Reply(never_responds=True)] * 2)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(DeadlineExceededError):
        await pay_client.get_transaction("T1")
    first = loop.time() - began
    confirmed = loop.time()
    with pytest.raises(DeadlineExceededError):
        await pay_client.confirm("T1", amount=1, status={"Paid"})
    assert max(first, loop.time() - confirmed) < 1.0

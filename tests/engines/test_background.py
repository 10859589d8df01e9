"""The client that lives in a worker process."""

import os
import threading

import pytest

from payclient import AsyncClient, ConfigurationError, __version__
from payclient.engines import LookupSpec, ReconcileSpec
from payclient.engines.arrow import _registries, background_client
from payclient.reconcile import Rules
from support.fakes import KEY

URL = "https://pay.example"


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Give the worker a key, and end what the test has made."""
    monkeypatch.setenv("PAYCLIENT_API_KEY", KEY)
    yield
    for background in _registries.pop(os.getpid())[1].values():
        close(background)


def close(background):
    background.stop(at_once=True)
    background.join()


def test_one():
    """Equal specifications share one client, different ones do not."""
    one = background_client(LookupSpec(base_url=URL))
    assert background_client(LookupSpec(base_url=URL)) is one
    assert background_client(LookupSpec(base_url=URL, keep=["a"])) is not one


def test_one_for_all_threads():
    """Threads that begin at the same time share one client."""
    start, found = threading.Barrier(8), []

    def begin():
        start.wait()
        found.append(background_client(LookupSpec(base_url=URL)))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found))) == (8, 1)


def test_options():
    """The client is what the specification says, with the messages of its rules."""
    options = {"environment": "sandbox", "timeout": 3, "max_rate": 100, "workers": 4, "application": "ledger/1.2"}
    options |= {"transport": "fast", "network": {"proxy": "http://proxy:3128", "trust_env": False}}
    rules = Rules(not_found_messages=["Kode tak dikenal"])
    spec = ReconcileSpec(base_url=URL, not_found_messages=["Unknown Code"], rules=rules, **options)
    client = background_client(spec).client
    assert client._session._headers["User-Agent"] == f"ledger/1.2 payclient/{__version__}"
    assert (client.url, client._options.timeout) == (f"{URL}/api-sandbox/transaction/detail", 3)
    assert client.stats == AsyncClient(api_key=KEY, base_url=URL, workers=4).stats
    assert client._session._not_found_messages == {"unknown code", "kode tak dikenal"}
    assert repr(client._session._transport._connections._dialer._proxy) == "Proxy('http://proxy:3128')"


def test_closing():
    """The thread does not keep the process alive, and closing twice is harmless."""
    background = background_client(LookupSpec(base_url=URL))
    assert background._thread.daemon
    close(background)
    close(background)
    assert not background._thread.is_alive()


def test_no_key(monkeypatch):
    """Without a key there is no client, and nothing is left behind that another call would find."""
    monkeypatch.delenv("PAYCLIENT_API_KEY")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="no API key"):
            background_client(LookupSpec(base_url=URL))


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # raised since Python 3.15
def test_fork():
    """A fork has a client of its own, even when the lock of its parent was held."""
    before = background_client(LookupSpec(base_url=URL))
    with _registries[os.getpid()][0]:
        child = os.fork()
        if child == 0:
            mine = background_client(LookupSpec(base_url=URL))
            os._exit(7 if mine is not before and mine._thread.is_alive() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

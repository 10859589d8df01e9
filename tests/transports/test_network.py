"""Which proxy is used, and how the options of the network are taken."""

import os
import ssl
import traceback
from functools import partial
from pathlib import Path
from typing import get_args

import httpx
import pytest

from payclient import AsyncClient, ConfigurationError
from payclient.cli._options import LedgerOptions
from payclient.engines._spec import LookupSpec
from payclient.reconcile.ledger import LedgerFormat
from payclient.reconcile.ledger._open import SUFFIXES
from payclient.transports import HttpxTransport, NetworkOptions, TransportName, resolve_network
from payclient.transports.fast import FastTransport
from support.fakes import KEY, ScriptedTransport

PAY = "https://pay.example"
PASSWORD = "p-canary-51d2e84b"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    """Take all proxies of this machine out of the environment."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def proxy_of(options, url=PAY):
    """Return the proxy that *options* and the environment come to, and what named it."""
    network = resolve_network(dict(options), url)
    return network.proxy and f"{network.proxy!r} {network.proxy.source}"


@pytest.mark.parametrize(
    ("options", "environ", "expected"),
    [
        ({}, {}, None),
        ({}, {"HTTPS_PROXY": "http://env:1"}, "Proxy('http://env:1') HTTPS_PROXY"),
        ({}, {"https_proxy": "env:1"}, "Proxy('http://env:1') HTTPS_PROXY"),
        ({}, {"ALL_PROXY": "http://all:1"}, "Proxy('http://all:1') ALL_PROXY"),
        ({}, {"ALL_PROXY": "http://all:1", "HTTPS_PROXY": "http://env:1"}, "Proxy('http://env:1') HTTPS_PROXY"),
        ({}, {"HTTP_PROXY": "http://plain:1"}, None),
        ({}, {"HTTPS_PROXY": ""}, None),
        ({}, {"HTTPS_PROXY": "http://env:1", "NO_PROXY": "pay.example"}, None),
        ({"trust_env": False}, {"HTTPS_PROXY": "http://env:1"}, None),
        ({"proxy": None, "trust_env": False}, {"HTTPS_PROXY": "http://env:1"}, None),
        (
            {},
            {"PAYCLIENT_PROXY": "http://own:1", "HTTPS_PROXY": "http://env:1"},
            "Proxy('http://own:1') PAYCLIENT_PROXY",
        ),
        ({"trust_env": False}, {"PAYCLIENT_PROXY": "http://own:1"}, "Proxy('http://own:1') PAYCLIENT_PROXY"),
        ({}, {"PAYCLIENT_PROXY": "http://own:1", "NO_PROXY": "*"}, "Proxy('http://own:1') PAYCLIENT_PROXY"),
        ({"proxy": "http://given:1"}, {"PAYCLIENT_PROXY": "http://own:1"}, "Proxy('http://given:1') proxy"),
        ({"proxy": "http://given:1"}, {"NO_PROXY": "*"}, "Proxy('http://given:1') proxy"),
    ],
)
def test_order(options, environ, expected, monkeypatch):
    """The argument decides, then our variable, then the environment's, which `NO_PROXY` and `trust_env` switch off."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(options) == expected


@pytest.mark.parametrize(
    ("entry", "excepted"),
    [
        ("", []),
        ("*", ["pay.example", "pay.example:8443", "www.pay.example", "notpay.example", "10.0.0.1", "[2001:db8::1]"]),
        ("pay.example", ["pay.example", "pay.example:8443", "www.pay.example"]),
        (".PAY.Example ", ["pay.example", "pay.example:8443", "www.pay.example"]),
        ("elsewhere.example, pay.example:443", ["pay.example", "www.pay.example"]),
        ("pay.example:8443", ["pay.example:8443"]),
        ("10.0.0.1,2001:db8::1", ["10.0.0.1", "[2001:db8::1]"]),
        ("10.0.0.0/8,https://pay.example", []),
    ],
)
def test_no_proxy(entry, excepted, monkeypatch):
    """`NO_PROXY` is read as urllib does it: a name with all below it, an address or everything, with a port or not."""
    monkeypatch.setenv("HTTPS_PROXY", "http://env:1")
    monkeypatch.setenv("NO_PROXY", entry)
    hosts = ("pay.example", "pay.example:8443", "www.pay.example", "notpay.example", "10.0.0.1", "[2001:db8::1]")
    assert [host for host in hosts if proxy_of({}, f"https://{host}") is None] == excepted


@pytest.mark.parametrize(
    ("options", "environ", "message"),
    [
        ({"proxy": "socks5://p"}, {}, "proxy must be an http:// proxy"),
        ({}, {"PAYCLIENT_PROXY": "socks5://p"}, "PAYCLIENT_PROXY must be an http:// proxy"),
        ({}, {"ALL_PROXY": "socks5://p"}, "ALL_PROXY must be an http:// proxy"),
        ({}, {"HTTPS_PROXY": "https://p"}, r"HTTPS_PROXY must be .*: pass http_client=httpx.AsyncClient\(proxy=…\)"),
        ({"trust_env": "no"}, {}, "trust_env must be True or False, got 'no'"),
    ],
)
def test_refused(options, environ, message, monkeypatch):
    """An option or a variable that cannot be used is refused when the client is made, by its name."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=message):
        AsyncClient(api_key=KEY, base_url=PAY, **options)


def test_unknown_option():
    """A misspelt option is a `TypeError`, as with any other function."""
    with pytest.raises(TypeError, match="AsyncClient takes no proxies; pass proxy="):
        AsyncClient(api_key=KEY, base_url=PAY, proxies="http://proxy")


def test_plain_http():
    """Plain http through a proxy is refused when the client is made: the proxy would see the key."""
    with pytest.raises(ConfigurationError, match="proxy takes no plain http, because the proxy would see the API key"):
        AsyncClient(api_key=KEY, base_url="http://127.0.0.1:8080", proxy="http://proxy:1")


@pytest.mark.parametrize("name", ["PAYCLIENT_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HTTP_PROXY"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_this_machine(name, scheme, monkeypatch):
    """No variable sends a service on this machine through a proxy, which could not reach it; the argument may."""
    monkeypatch.setenv(name, "http://variable:1")
    urls = [f"{scheme}://{host}:8080" for host in ("localhost", "127.0.0.1", "127.8.9.1", "[::1]")]
    assert [proxy_of({}, url) for url in urls] == [None] * 4
    assert proxy_of({"proxy": "given:1"}, "https://localhost") == "Proxy('http://given:1') proxy"


@pytest.mark.parametrize("name", sorted(NetworkOptions.__annotations__))
@pytest.mark.parametrize("own", [{"transport": ScriptedTransport()}, {"http_client": httpx.AsyncClient()}])
def test_not_with_a_transport_of_the_caller(own, name):
    """An option of the network beside a transport or client of the caller's is refused, rather than ignored."""
    value = f"http://clerk:{PASSWORD}@proxy" if name == "proxy" else False
    with pytest.raises(ConfigurationError, match=f"{name}: for payclient's own transports"):
        AsyncClient(api_key=KEY, base_url=PAY, **own, **{name: value})


def test_environment_is_for_ours(monkeypatch):
    """A client of the caller's knows its own proxies: the variables are not looked at."""
    monkeypatch.setenv("PAYCLIENT_PROXY", "http://proxy:1")
    AsyncClient(api_key=KEY, base_url="http://127.0.0.1:1", transport=ScriptedTransport())


def shown_by(make):
    """Return all that a crash reporter stores of the error that *make* raises, without the frames of the test."""
    with pytest.raises((ConfigurationError, TypeError)) as caught:
        make()
    own = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    frames = [f"{frame.name} {frame.locals}" for frame in own.stack if frame.filename != __file__]
    assert frames
    return "\n".join([str(caught.value), *frames])


def test_password_is_not_shown(monkeypatch, subtests):
    """Whatever is refused, the proxy's password is in no local variable of our frames, wherever it was given."""
    secret = f"http://clerk:{PASSWORD}@proxy"

    def client(**options):
        return lambda: AsyncClient(**{"api_key": KEY, "base_url": PAY, **options})

    beside = {"trust_env": 1, "ca_file": "/nowhere", "unknown": 1, "max_concurrency": 0, "transport": "curl"}
    beside |= {"base_url": "http://127.0.0.1", "http_client": httpx.AsyncClient()}
    cases = {f"beside {name}": client(proxy=secret, **{name: value}) for name, value in beside.items()}
    cases |= {"beside a transport": client(proxy=secret, transport=ScriptedTransport())}
    cases |= {"of no port": client(proxy=f"{secret}:port")}
    for kind in (HttpxTransport, FastTransport):
        cases[kind.__name__] = partial(kind, proxy=f"socks5://clerk:{PASSWORD}@proxy")
    for case, make in cases.items():
        with subtests.test(case):
            assert PASSWORD not in shown_by(make)
    for name in ("PAYCLIENT_PROXY", "HTTPS_PROXY"):
        with subtests.test(name), monkeypatch.context() as patch:
            patch.setenv(name, f"{secret}:port")
            assert PASSWORD not in shown_by(client())


@pytest.mark.parametrize("transport", ["httpx", "fast"])
async def test_client_is_not_shown(transport):
    """A client with a proxy prints neither its password nor its user."""
    async with AsyncClient(
        api_key=KEY, base_url=PAY, transport=transport, proxy=f"http://clerk:{PASSWORD}@proxy"
    ) as pay:
        assert PASSWORD not in repr(pay) + repr(vars(pay)) + repr(vars(pay._session))
        assert PASSWORD not in repr(vars(pay._session._transport))


def test_own_context():
    """An SSL context of the caller's is taken as it is, and not beside what it would have to be changed for."""
    context = ssl.create_default_context()
    assert resolve_network({"ssl_context": context}, PAY).ssl_context is context
    with pytest.raises(ConfigurationError, match="pass ssl_context or ca_file, client_cert, not both"):
        resolve_network({"ssl_context": context, "ca_file": "x", "client_cert": "y"}, PAY)
    with pytest.raises(ConfigurationError, match=r"ssl_context must be an ssl\.SSLContext, got bool"):
        resolve_network({"ssl_context": True}, PAY)


def test_closed_sets():
    """The names of a closed set stand in each docstring and on the page that lists them."""
    page = Path(__file__).parents[2].joinpath("docs", "reference", "configuration.md").read_text(encoding="utf-8")
    texts = {
        TransportName: [AsyncClient.__init__.__doc__ or AsyncClient.__doc__, LookupSpec.__doc__, page],
        LedgerFormat: [LedgerOptions.__doc__],
    }
    missing = [
        (name, text[:80])
        for kind, found in texts.items()
        for name in get_args(kind)
        for text in found
        if f"`{name}`" not in text
    ]
    assert missing == []
    assert set(SUFFIXES.values()) == set(get_args(LedgerFormat))

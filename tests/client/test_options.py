"""The table of options against every place that writes the options out."""

import inspect
import re
from typing import get_type_hints

import attrs
import httpx
import pytest

from docs.test_completeness import CONF, rows, text_of
from docs.test_completeness import options_of as flags_of
from payclient import AsyncClient
from payclient._shared.options import OPTIONS, options_of
from payclient._shared.remedy import Way
from payclient.cli._connection import ConnectionOptions
from payclient.client._client import ClientOptions, OptionChanges
from payclient.client._config import Options
from payclient.engines import LookupSpec
from payclient.errors import ConfigurationError
from payclient.reconcile import reconcile
from payclient.transports import HttpxTransport, NetworkOptions
from support.fakes import KEY

NETWORK = dict.fromkeys(options_of("network"))
BY_DEFAULT = dict.fromkeys(NETWORK, "None") | {"trust_env": "True"}
for called in (AsyncClient, HttpxTransport):
    parameters = inspect.signature(called).parameters
    BY_DEFAULT |= {name: text_of(each.default) for name, each in parameters.items() if name in OPTIONS}
NO_FLAG = {
    "workers": "a command is one client",
    "deadline": "each command has its own bound",
    **dict.fromkeys(("retry", "transport", "on_outage", "connect_timeout", "keepalive"), "a command decides itself"),
    **dict.fromkeys(("http_client", "on_attempt", "tracing", "ssl_context"), "objects stay in the process"),
    "application": "the command line is its own application",
    "trust_env": "unset the variables instead",
}
"""Options that no command has, with the reason."""
NOT_OF_WORKERS = {
    "api_key": "each worker reads key_variable or key_file",
    "on_outage": "workers only stream, which waits",
    **dict.fromkeys(("http_client", "on_attempt", "tracing", "ssl_context"), "objects stay in the process"),
}
"""Options that no worker takes, with the reason."""
WORKER_ONLY = {"key_variable", "key_file", "reference", "keep", "prefix", "network", "stall_timeout", "window"}
REFUSED = {
    "api_key": "two words",
    "base_url": "http://pay.example",
    "environment": "test",
    "max_concurrency": 0,
    "max_rate": 0,
    "workers": 0,
    "timeout": 0,
    "deadline": 0,
    "retry": 3,
    "transport": "htpx",
    "http_client": httpx.Client,
    "on_attempt": 3,
    "tracing": 3,
    "on_outage": "maybe",
    "not_found_messages": "x",
    "application": "my shop",
    "proxy": "socks5://proxy:1080",
    "trust_env": 1,
    "connect_timeout": 0,
    "keepalive": -1,
    "ca_file": "",
    "client_cert": "",
    "client_key": "",
    "ssl_context": True,
}
"""A value of each option that it does not accept."""


def arguments(kind):
    """Return the names that the docstring of a class describes."""
    text = re.split(r"\n\n(?=\S)", inspect.getdoc(kind).partition("Args:\n")[2] or inspect.getdoc(kind))[0]
    return set(re.findall(r"^    (\w+): ", text, re.MULTILINE))


def fields(kind):
    """Return the attributes of a class with their defaults as Python writes them."""
    found = {}
    for field in attrs.fields(kind):
        default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default
        found[field.name] = text_of(default)
    return found


def test_signature():
    """The signature of the client has each option; those of the network are one typed `**network`."""
    parameters = inspect.signature(AsyncClient).parameters.values()
    assert {each.name for each in parameters if each.kind is each.KEYWORD_ONLY} == OPTIONS.keys() - NETWORK.keys()
    assert BY_DEFAULT.keys() == OPTIONS.keys()


def test_types():
    """The types of the options, by which others pass them on, have each option of their scope, as the signature has."""
    assert set(NetworkOptions.__annotations__) == set(NETWORK)
    assert set(OptionChanges.__annotations__) == set(options_of("view")) == set(fields(Options))
    assert set(ClientOptions.__annotations__) == set(OPTIONS)
    types, written = get_type_hints(ClientOptions), get_type_hints(AsyncClient.__init__)
    assert {name: types[name] for name in OPTIONS if name not in NETWORK} == {
        n: written[n] for n in types.keys() & written
    }


def test_docstrings():
    """Each option is described where an editor shows it."""
    assert arguments(AsyncClient) == {*OPTIONS, "network"} - {*NETWORK}
    assert [name for name in NETWORK if f"{name}: " not in inspect.getdoc(NetworkOptions)] == []
    assert [name for name in NETWORK if f"`{name}`" not in inspect.getdoc(AsyncClient)] == []


def test_workers():
    """A specification has each option that a worker takes, with the same default, described; it has no other."""
    taken = {name: option for name, option in OPTIONS.items() if name not in {*NETWORK, *NOT_OF_WORKERS}}
    written = fields(LookupSpec)
    assert set(written) == {*taken, *WORKER_ONLY}
    assert {name: written[name] for name in taken} == {name: BY_DEFAULT[name] for name in taken}

    described = inspect.getdoc(LookupSpec)
    assert [name for name in NETWORK if f"`{name}`" not in described and name not in NOT_OF_WORKERS] == []


def test_command_line():
    """The commands have each option but those with a reason, with the same default; the page shows it."""
    flags = {Way(name).flag: name for name in OPTIONS if name not in NO_FLAG}
    assert flags.keys() - flags_of("get") == flags.keys() - flags_of("reconcile") == flags.keys() - flags_of("doctor")
    assert flags.keys() <= flags_of("get")
    held = {{"api_key": "api_key_file"}.get(name, name): BY_DEFAULT[name] for name in flags.values()}
    assert fields(ConnectionOptions) == held
    table = CONF["options"]("service")
    shown = dict(re.findall(r"^\| `(--[a-z-]+)[^|]* \| (.*) \|$", table, re.MULTILINE))
    assert flags.keys() - shown.keys() == set()
    assert [f for f, name in flags.items() if (OPTIONS[name].variable or "") not in shown[f]] == []


def test_page():
    """The page of the configuration has each option with its default, and names its variable."""
    table = {**rows("configuration.md", "Arguments of AsyncClient"), **rows("configuration.md", "Network options")}
    table = {name: cells for name, cells in table.items() if cells[0].startswith("`")}
    assert {name: cells[0].strip("`") for name, cells in table.items()} == BY_DEFAULT
    unnamed = [name for name, option in OPTIONS.items() if option.variable not in table[name][-1]]
    assert unnamed == []
    variables = {option.variable for option in OPTIONS.values() if option.variable}
    shown = {name for name in rows("configuration.md", "Environment variables") if name.startswith("PAYCLIENT_")}
    assert shown == variables


def check_refused(make, name, **given):
    with pytest.raises(ConfigurationError, match=f"^{name}"):
        make(**{"base_url": "https://pay.example", **given, name: REFUSED[name]})


@pytest.mark.parametrize("name", OPTIONS | REFUSED)
def test_refused(name):
    """Each option is checked when the client is made, and the message names it."""
    check_refused(AsyncClient, name, api_key=KEY)


@pytest.mark.parametrize(
    ("name", "variable"), [(name, each.variable) for name, each in OPTIONS.items() if each.variable]
)
def test_variables(name, variable, monkeypatch):
    """A value from the variable of an option is checked like an argument, and the message names the option."""
    monkeypatch.setenv(variable, str(REFUSED[name]))
    with pytest.raises(ConfigurationError, match=f"^({name}|{variable})"):
        AsyncClient(**{"api_key": KEY, "base_url": "https://pay.example", name: None})


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() & fields(LookupSpec).keys()))
def test_refused_for_workers(name):
    """Each option of a worker is checked where its specification is made, and the message names it."""
    check_refused(LookupSpec, name)


@pytest.mark.parametrize("network", [{"prxy": "http://proxy"}, {"ssl_context": None, "keylog": "keys"}])
def test_unknown_network(network):
    """A specification refuses a network option that no client has, where it is made."""
    with pytest.raises(ConfigurationError, match="network may only have options of AsyncClient"):
        LookupSpec(base_url="https://pay.example", network=network)


def test_stall_timeout():
    """A stream, a reconciliation and a worker give up after the same time."""
    expected = inspect.signature(LookupSpec).parameters["stall_timeout"].default
    for function in (AsyncClient.stream_transactions, reconcile):
        assert inspect.signature(function).parameters["stall_timeout"].default == expected

"""Which transport a name means."""

import sys
import traceback

import pytest

from payclient import AsyncClient, ConfigurationError
from payclient.transports import HttpxTransport, make_transport
from payclient.transports.fast import FastTransport
from support.fakes import KEY


@pytest.mark.parametrize(
    ("given", "environ", "kind"),
    [
        pytest.param(None, {}, HttpxTransport, id="default"),
        pytest.param(None, {"PAYCLIENT_TRANSPORT": ""}, HttpxTransport, id="empty-variable"),
        pytest.param(None, {"PAYCLIENT_TRANSPORT": "fast"}, FastTransport, id="variable"),
        pytest.param("httpx", {"PAYCLIENT_TRANSPORT": "fast"}, HttpxTransport, id="argument-before-variable"),
        pytest.param("fast", {}, FastTransport, id="argument"),
    ],
)
def test_name(given, environ, kind, monkeypatch):
    """The argument decides, then the variable, and without either it is httpx."""
    monkeypatch.delenv("PAYCLIENT_TRANSPORT", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert type(make_transport(given)) is kind


def test_environment_is_not_shown(monkeypatch):
    """When a name is refused, a traceback with local variables does not show the environment, in which the key is."""
    monkeypatch.setenv("PAYCLIENT_API_KEY", KEY)
    monkeypatch.setenv("PAYCLIENT_TRANSPORT", "curl")
    with pytest.raises(ConfigurationError) as caught:
        make_transport()
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert KEY not in shown


def test_extra_is_missing(monkeypatch):
    """Without the extra, selecting `httpx2` raises at construction and says what to install."""
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ConfigurationError) as caught:
        AsyncClient(api_key=KEY, base_url="https://pay.example", transport="httpx2")
    expected = "the transport 'httpx2' needs httpx2: pip install 'payclient[httpx2]'"
    assert (str(caught.value), caught.value.__context__) == (expected, None)

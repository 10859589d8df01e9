"""What a client is told at construction."""

import traceback

import pytest

from payclient import Environment, RetryPolicy
from payclient.client._config import (
    Options,
    resolve_api_key,
    resolve_base_url,
    resolve_environment,
    resolve_messages,
    resolve_rate,
)
from payclient.errors import ConfigurationError
from support.misses import check_table

ENVIRON = {
    "PAYCLIENT_API_KEY": "key-of-the-environment",
    "PAYCLIENT_BASE_URL": "https://environment.example",
    "PAYCLIENT_ENVIRONMENT": "sandbox",
}


def has_environment(monkeypatch, variables):
    """Have these of our variables and no others."""
    for name in ENVIRON:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def refusal(resolve, *args, **kwargs):
    with pytest.raises(ConfigurationError) as caught:
        resolve(*args, **kwargs)
    return str(caught.value)


RESOLVED = (
    # What resolves an option, an argument with its result, and the result of the variable
    (resolve_base_url, "https://argument.example", "https://argument.example", "https://environment.example"),
    (resolve_environment, "live", Environment.LIVE, Environment.SANDBOX),
    (lambda given: resolve_api_key(given).authorization(), "key-a", "Bearer key-a", "Bearer key-of-the-environment"),
)


def test_arguments_win(monkeypatch):
    """An argument wins over the variable; without one, the value comes from the variable."""
    has_environment(monkeypatch, ENVIRON)
    found = [(resolve(given), resolve(None)) for resolve, given, _, _ in RESOLVED]
    assert found == [(by_argument, by_variable) for _, _, by_argument, by_variable in RESOLVED]


def test_process_environment(monkeypatch):
    """The variables are those of the process, read when they are needed and not when the package is imported."""
    monkeypatch.setenv("PAYCLIENT_BASE_URL", "https://process.example")
    assert resolve_base_url(None) == "https://process.example"


def test_live_unless_said(monkeypatch):
    """The default environment is live; a variable that is empty, such as one that a script lost, is refused."""
    has_environment(monkeypatch, {})
    assert resolve_environment(None) is Environment.LIVE
    has_environment(monkeypatch, {"PAYCLIENT_ENVIRONMENT": ""})
    with pytest.raises(ConfigurationError, match="environment must be one of 'live', 'sandbox', got ''"):
        resolve_environment(None)


@pytest.mark.parametrize(
    ("resolve", "message"),
    [
        (resolve_base_url, "base_url is not set: pass base_url=… or set PAYCLIENT_BASE_URL"),
        (resolve_api_key, "api_key is empty: pass api_key=… or set PAYCLIENT_API_KEY"),
    ],
    ids=["base_url", "api_key"],
)
@pytest.mark.parametrize(("given", "environ"), [(None, {}), ("", ENVIRON)], ids=["nowhere", "empty-argument"])
def test_not_set(resolve, message, given, environ, monkeypatch):
    """A missing or empty value is reported with both its names."""
    has_environment(monkeypatch, environ)
    assert refusal(resolve, given) == message


def test_base_url():
    """An address over https, or over http to this machine, is taken without its final slash."""
    cases = {
        "plain": ("https://pay.example", "https://pay.example"),
        "slash": ("https://pay.example/", "https://pay.example"),
        "path": ("https://pay.example/v1//", "https://pay.example/v1"),
        "path-with-api": ("https://pay.example/api/v2", "https://pay.example/api/v2"),
        "port": ("https://pay.example:8443", "https://pay.example:8443"),
        "case": ("HTTPS://Pay.Example", "HTTPS://Pay.Example"),
        "underscore-and-dot": ("https://pay_1.example.", "https://pay_1.example."),
        "ipv4": ("https://192.0.2.7", "https://192.0.2.7"),
        "ipv6": ("https://[2001:db8::7]:8443", "https://[2001:db8::7]:8443"),
        "punycode": ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example"),
        "localhost": ("http://localhost:8080", "http://localhost:8080"),
        "loopback": ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        "loopback-network": ("http://127.8.9.1", "http://127.8.9.1"),
        "loopback-ipv6": ("http://[::1]:8080", "http://[::1]:8080"),
    }
    check_table(cases.values(), resolve_base_url)


NOT_A_URL = "is not a URL: its host or port cannot be read"
NO_HOST = "names a host that cannot be one"
NO_PASSWORD = "must not contain a user name or password"
NO_QUERY = "must not contain a query or fragment"
NOT_VISIBLE = "must be visible ASCII without white space"
NO_SCHEME = "must begin with https://, as in https://pay.example"
NOT_LOOPBACK = "must begin with https://: only a loopback address may have http"


REFUSED_URLS = {
    "bytes": (b"https://pay.example", "must be a string, got bytes"),
    "number": (7, "must be a string, got int"),
    "no-scheme": ("pay.example", NO_SCHEME),
    "no-scheme-but-slashes": ("//pay.example", NO_SCHEME),
    "ftp": ("ftp://pay.example", NO_SCHEME),
    "file": ("file:///etc/passwd", NO_SCHEME),
    "host-as-scheme": ("localhost:8080", NO_SCHEME),
    "no-host": ("https://", "names no host"),
    "path-only": ("https:///path", "names no host"),
    "port-only": ("https://:8443", "names no host"),
    "port-zero": ("https://pay.example:0", "names port 0, which cannot be connected to"),
    "password": ("https://user:secret@pay.example", NO_PASSWORD),
    "user": ("https://user@pay.example", NO_PASSWORD),
    "empty-user": ("https://@pay.example", NO_PASSWORD),
    "backslash": ("https://pay.example\\@evil.example", NO_PASSWORD),
    "query": ("https://pay.example?a=1", NO_QUERY),
    "empty-query": ("https://pay.example/?", NO_QUERY),
    "fragment": ("https://pay.example/#top", NO_QUERY),
    "empty-fragment": ("https://pay.example#", NO_QUERY),
    "http": ("http://pay.example", NOT_LOOPBACK),
    "http-to-almost-localhost": ("http://localhost.example", NOT_LOOPBACK),
    "http-to-almost-loopback": ("http://127.0.0.1.example", NOT_LOOPBACK),
    "http-to-any": ("http://0.0.0.0:80", NOT_LOOPBACK),
    "http-to-private": ("http://192.168.0.1", NOT_LOOPBACK),
    "space": ("https://pay.example ", NOT_VISIBLE),
    "space-before": (" https://pay.example", NOT_VISIBLE),
    "newline": ("https://pay.example\n", NOT_VISIBLE),
    "tab": ("https://pay.example\t/x", NOT_VISIBLE),
    "not-ascii": ("https://bücher.example", NOT_VISIBLE),
    "port-in-words": ("https://pay.example:port", NOT_A_URL),
    "port-too-large": ("https://pay.example:99999", NOT_A_URL),
    "bracket": ("https://[::1", NOT_A_URL),
    "two-dots": ("https://pay..example", NO_HOST),
    "dot-first": ("https://.example", NO_HOST),
    "hyphen-first": ("https://-pay.example", NO_HOST),
    "comma": ("https://pay,example", NO_HOST),
    "escape": ("https://pay%2eexample", NO_HOST),
    "ipv4-too-large": ("https://256.1.1.1", NO_HOST),
    "ipv4-too-long": ("https://1.2.3.4.5", NO_HOST),
    "punycode-of-nothing": ("https://xn--", NO_HOST),
    "quotes": ("'https://pay.example'", "is in quotes: pass it without them"),
    **{
        url: (
            f"https://pay.example{url}",
            f"must end before {ending}, which payclient adds: write https://pay.example{right}",
        )
        for url, ending, right in (
            ("/api", "/api", ""),
            ("/v1/api/", "/api", "/v1"),
            ("/api/transaction", "/api/transaction", ""),
            ("/api/transaction/detail", "/api/transaction/detail", ""),
            ("/v1/transaction/detail", "/transaction/detail", "/v1"),
            ("/API", "/API", ""),
            ("/Api-Sandbox", "/Api-Sandbox", " and environment='sandbox'"),
            ("/api-sandbox", "/api-sandbox", " and environment='sandbox'"),
            ("/api-sandbox/transaction/detail//", "/api-sandbox/transaction/detail", " and environment='sandbox'"),
        )
    },
}


def test_base_url_is_refused(subtests):
    """An address that could send the key where it must not go, or nowhere, is refused at construction."""
    for case, (url, problem) in REFUSED_URLS.items():
        with subtests.test(case):
            assert refusal(resolve_base_url, url) == f"base_url {problem}"


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@pay.example",
        "https://pay.example:hunter2",
        "https://[hunter2]",
        "https://pay.example?token=hunter2",
        "https://hunter2\n",
    ],
    ids=["password", "port", "host", "query", "newline"],
)
def test_refused_url_is_not_shown(url):
    """The refusal of a URL shows none of it, not even in a traceback with local variables: it may hold a password."""
    with pytest.raises(ConfigurationError) as caught:
        resolve_base_url(url)
    assert "hunter2" not in _ours(caught.value)


@pytest.mark.parametrize(
    ("resolve", "given"),
    [(resolve_base_url, "ftp://x"), (resolve_environment, "test"), (resolve_api_key, "")],
    ids=["base_url", "environment", "api_key"],
)
def test_environment_is_not_shown(resolve, given, monkeypatch):
    """A traceback with local variables does not show the environment: the key is in it."""
    monkeypatch.setenv("PAYCLIENT_API_KEY", "key-of-the-process")
    with pytest.raises(ConfigurationError) as caught:
        resolve(given)
    assert "key-of-the-process" not in _ours(caught.value)


def _ours(error):
    """Return the traceback with the local variables of every frame but the test's own."""
    stack = traceback.TracebackException.from_exception(error, capture_locals=True)
    stack.stack[:] = [frame for frame in stack.stack if frame.filename != __file__]
    assert len(stack.stack) >= 1
    return "".join(stack.format())


@pytest.mark.parametrize(("given", "rate"), [(250, 250.0), (0.1, 0.1), (None, None)], ids=repr)
def test_rate(given, rate):
    """A rate is any number above 0, or not known."""
    assert resolve_rate(given) == rate


def test_no_deadline():
    """A lookup may have no deadline; an attempt always has a time-out."""
    assert Options(deadline=None).deadline is None
    assert refusal(Options, timeout=None) == "timeout must be a number of seconds above 0, got None"


def test_no_retry():
    """No retry policy means one attempt."""
    assert Options(retry=None).retry == RetryPolicy(max_attempts=1)


def test_messages():
    """Messages are compared without case and punctuation."""
    assert resolve_messages(["Kode tak dikenal!", "NO-SUCH-CODE"]) == {"kode tak dikenal", "no such code"}

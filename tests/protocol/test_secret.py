"""The API key: used where it must be, shown nowhere."""

import copy
import json
import logging
import pickle
import re
import traceback

import pytest

from payclient import AsyncClient, RetryPolicy
from payclient.errors import ConfigurationError, ConnectionFailedError, PayClientError
from payclient.protocol._secret import ApiKey
from payclient.testing import envelope
from payclient.transports import Response
from support.fakes import ScriptedTransport
from support.misses import check_each, check_table, refusal

KEY = "sk/live+51Hx7Qd9ZpT3vKw0RmYb"
URL = "https://pay.example"


def echo(status, body, headers=None, *, is_fresh=False):
    """Return a transport that answers with what it was sent, the key included."""
    return ScriptedTransport(default=lambda _: Response(status, headers or {}, body, is_fresh=is_fresh))


def local_variables(error):
    """Return the traceback with the local variables of every frame but those of this file."""
    stack = traceback.TracebackException.from_exception(error, capture_locals=True)
    stack.stack[:] = [frame for frame in stack.stack if frame.filename != __file__]
    assert len(stack.stack) >= 1
    return "".join(stack.format())


def test_authorization():
    """The header is `Bearer` and the key: any visible ASCII as it is, without white space around it as in files."""
    keys = ("!~", "k" * 4096, "'k", '"', "bearer-of-news", KEY, f"{KEY}\n", f"  {KEY}\r\n")
    check_each({key: f"Bearer {key.strip()}" for key in keys}, lambda key: ApiKey(key).authorization())


def test_refused():
    """A key that cannot be sent is refused with the fault and its place."""
    cases = {
        "empty": ("", "api_key is empty: pass api_key=… or set PAYCLIENT_API_KEY"),
        "white-space": (" \n", "api_key is empty: pass api_key=… or set PAYCLIENT_API_KEY"),
        "none": (None, "api_key must be a string, got NoneType"),
        "bytes": (b"hunter2", "api_key must be a string, got bytes"),
        "not-ascii": ("hunter2é", "api_key has a character at position 7 that is not visible ASCII"),
        "space": ("hunter2 x", "api_key has a character at position 7 that is not visible ASCII"),
        "header": ("hunter2\r\nX: 1", "api_key has a character at position 7 that is not visible ASCII"),
        "nul": ("hunter2\x00", "api_key has a character at position 7 that is not visible ASCII"),
        "quotes": ('"hunter2"', "api_key is in quotes: pass it without them"),
        "single-quotes": (" 'Bearer hunter2'\n", "api_key is in quotes: pass it without them"),
        **{
            text: (text, "api_key begins with 'Bearer', which payclient adds: pass only the key")
            for text in ("Bearer hunter2", "bearer\thunter2", "Bearer:hunter2", "Authorization: Bearer hunter2")
        },
        "too-long": ("k" * 4097, "api_key must have at most 4096 characters, got 4097"),
    }
    check_table(cases.values(), lambda key: refusal(ConfigurationError, ApiKey, key))


@pytest.mark.parametrize(
    "key",
    ["hunter2é", "hunter2" * 600, b"hunter2", "'hunter2'", "Bearer hunter2"],
    ids=["not-ascii", "long", "bytes", "quotes", "header"],
)
def test_refused_key_is_not_shown(key):
    """An invalid key may be a secret too: neither the message nor a local variable shows it."""
    with pytest.raises(ConfigurationError) as caught:
        ApiKey(key)
    assert "hunter2" not in local_variables(caught.value)


def test_cannot_be_printed():
    """No way of printing a key shows it; its `repr` says that there is one."""
    key = ApiKey(KEY)
    ways = (repr, str, "{}".format, "%s".__mod__, lambda key: repr([key]))
    assert [KEY in show(key) for show in ways] == [False] * len(ways)
    assert repr(key) == "ApiKey('…')"


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def test_cannot_be_copied(duplicate):
    """A key that would be written to disk or to another process by accident is an error."""
    with pytest.raises(TypeError) as caught:
        duplicate(ApiKey(KEY))
    assert str(caught.value) == "an API key can't be pickled or copied: configure it where it is used"


def test_has_no_dictionary():
    """A key has no `__dict__` that a debugger or serialiser could read."""
    assert not hasattr(ApiKey(KEY), "__dict__")


def test_redact():
    """The key is taken out of a text, as it is, as JSON and URLs write it, and where the text was cut."""
    cases = {
        "plain": (f"bad key {KEY}!", "bad key [api key]!"),
        "twice": (f"{KEY}{KEY}", "[api key][api key]"),
        "header": (f"Bearer {KEY}", "Bearer [api key]"),
        "json": (json.dumps({"key": KEY}), '{"key": "[api key]"}'),
        "json-of-php": (KEY.replace("/", "\\/"), "[api key]"),
        "url": ("?key=sk%2Flive%2B51Hx7Qd9ZpT3vKw0RmYb&x", "?key=[api key]&x"),
        "plain-and-escaped": (f"{KEY} sk%2Flive%2B51Hx7Qd9ZpT3vKw0RmYb", "[api key] [api key]"),
        "text-around-an-escaped-key": (
            "\\u001b[2J &#10; sk%2Flive%2B51Hx7Qd9ZpT3vKw0RmYb %0a \\\\n",
            "\\u001b[2J &#10; [api key] %0a \\\\n",
        ),
        "both-as-it-is-and-escaped": (f"%0a{KEY}%0ask%2Flive%2B51Hx7Qd9ZpT3vKw0RmYb", "%0a[api key]%0a[api key]"),
        "cut": (f"cut {KEY[:-1]}", "cut [api key]"),
        "cut-early": (f"cut {KEY[:12]}", "cut [api key]"),
        "cut-in-quotes": (f"cut {KEY[:20]}…'", "cut [api key]…'"),
        "a-common-prefix": (KEY[:11], KEY[:11]),
        "none": ("nothing here", "nothing here"),
        "empty": ("", ""),
    }
    check_table(cases.values(), lambda text: ApiKey(KEY).redact(text))


def test_fingerprint():
    """The fingerprint is the same for the same key, different for another, and has no part of it."""
    digits = [ApiKey(key).fingerprint for key in (KEY, f" {KEY}\n", KEY[:-1])]
    assert [len(set(digits)), digits[0]] == [2, digits[1]]
    assert all(re.fullmatch("[0-9a-f]{12}", fingerprint) for fingerprint in digits)


def test_short_key_is_not_redacted():
    """A key that is too short to be a secret does not make holes in ordinary words."""
    texts = {
        ("test", "the latest test"): "the latest test",
        ("sk-1234", "bad sk-1234"): "bad sk-1234",
        ("sk-12345", "bad sk-12345"): "bad [api key]",
        ("\\" * 8, "of escapes alone"): "of escapes alone",
    }
    check_each(texts, lambda case: ApiKey(case[0]).redact(case[1]))


def found(**fields):
    """Return the answer about a transaction that has these fields."""
    return json.dumps(envelope(**fields)).encode()


ANSWERS = {
    "declined": (422, json.dumps({"success": False, "message": f"bad {KEY}"}).encode(), {}),
    "refused": (401, f"<h1>{KEY}</h1>".encode(), {}),
    "headers": (403, b"", {"x-request-id": KEY, "server": KEY}),
    "redirect": (302, b"", {"location": f"https://evil.example/?{KEY}"}),
    "reference": (200, found(reference="x" * 60 + KEY), {}),
    "amount": (200, found(reference="R", amount="9" * 20 + KEY), {}),
    "twice": (200, b'{"%(k)s":1,"%(k)s":1}' % {b"k": b"x" * 20 + KEY.encode()}, {}),
    "success": (200, json.dumps({"success": "x" * 20 + KEY}).encode(), {}),
    "excerpt": (500, b"x" * 380 + KEY.encode(), {}),
    "coding": (200, b"", {"content-encoding": "x" * 20 + KEY}),
    "php": (400, json.dumps({"message": f"bad {KEY}"}).replace("/", "\\/").encode(), {}),
}


ASKED_AGAIN = ("declined", "refused", "headers", "redirect", "php")
"""They name no reference, so a connection that is not known to be fresh is not believed at once."""


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_fresh", [True, False], ids=["fresh", "kept"])
async def test_echoed_key(is_fresh, caplog, subtests):
    """A service that echoes the key puts it into no text, attribute or pickle of an error, no log line, no record."""
    caplog.set_level(logging.DEBUG)
    for case, answer in ANSWERS.items():
        records, transport = [], echo(*answer, is_fresh=is_fresh)
        options = {"base_url": URL, "transport": transport, "retry": None, "on_attempt": records.append}
        with subtests.test(case):
            async with AsyncClient(api_key=KEY, **options) as client:
                with pytest.raises(PayClientError) as caught:
                    await client.get_transaction("R")
            error = caught.value
            shown = f"{error}{error!r}{vars(error)}{pickle.dumps(error)}{records}{caplog.text}{client!r}{client.stats}"
            assert [KEY[:12] in shown, "51Hx7Qd9" in shown] == [False, False]
            sent = [request.authorization() for request in transport.sent]
            assert sent == [f"Bearer {KEY}"] * (1 if is_fresh or case not in ASKED_AGAIN else 2)


@pytest.mark.virtual_time
@pytest.mark.parametrize("deadline", [30.0, 0.2], ids=["fails", "runs-out-of-time"])
async def test_key_in_an_error_of_the_transport(deadline, caplog):
    """Text that a transport quotes from the wire is redacted, also in the cause of another error."""
    caplog.set_level(logging.DEBUG)
    policy, transport = RetryPolicy(initial_backoff=1.0), ScriptedTransport()
    transport.default = lambda _: ConnectionFailedError(f"illegal header line: {transport.sent[-1].authorization()}")
    async with AsyncClient(api_key=KEY, base_url=URL, transport=transport, deadline=deadline, retry=policy) as client:
        with pytest.raises(PayClientError) as caught:
            await client.get_transaction("R")
    error = caught.value
    assert "[api key]" in f"{error}{error.__cause__}"
    assert "51Hx7Qd9" not in f"{error!r}{error.__cause__!r}{pickle.dumps(error)}{caplog.text}{local_variables(error)}"


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "https://user:hunter2@pay.example"},
        {"base_url": "https://user:hunter2@pay.example", "timeout": -1},
        {"base_url": "https://user:hunter2@pay.example", "transport": ScriptedTransport(), "http_client": object()},
        {"base_url": "https://pay.example/?password=hunter2"},
        {"base_url": "https://pay.example", "api_key": "hunter2 x"},
    ],
    ids=["url", "url-and-option", "url-and-transports", "query", "key"],
)
def test_refused_options_are_not_shown(options):
    """A URL that is refused may hold a password: it is in no text and in no local variable."""
    with pytest.raises(ConfigurationError) as caught:
        AsyncClient(**{"api_key": KEY, **options})
    assert ["hunter2" in local_variables(caught.value), KEY in local_variables(caught.value)] == [False, False]

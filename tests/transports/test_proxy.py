"""The address of a proxy, its password, and what it may say to CONNECT."""

import copy
import pickle
import traceback
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import ConfigurationError
from payclient.transports._network import Proxy, TunnelError, opens_tunnel
from payclient.transports.fast import FastTransport

PASSWORD = "p-canary-51d2e84b"
OWN_CLIENT = ": pass http_client=httpx.AsyncClient(proxy=…) for it"
OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://proxy:3128", "Proxy('http://proxy:3128')"),
        (" HTTP://Proxy.Example/ ", "Proxy('http://proxy.example:80')"),
        ("proxy.example", "Proxy('http://proxy.example:80')"),
        ("proxy:3128", "Proxy('http://proxy:3128')"),
        ("http://clerk:secret@[::1]:3128", "Proxy('http://[::1]:3128')"),
    ],
)
def test_address(url, shown):
    """A proxy shows its host and port, which is 80 unless one is given."""
    assert repr(Proxy(url)) == shown


def test_refused(subtests):
    """What is not the address of an HTTP proxy is refused in words, which name the option."""
    cases = (
        (3128, "must be text like http://host:port, got int"),
        ("https://proxy:3129", f"must be an http:// proxy: payclient can't use one of https://{OWN_CLIENT}"),
        ("socks5://proxy:1080", f"must be an http:// proxy: payclient can't use one of socks5://{OWN_CLIENT}"),
        ("quic://proxy", "must be an http:// proxy: payclient can't use one of quic://"),
        ("http://", "names no host: it must be like http://host:port"),
        ("http://proxy:0", "names port 0, which cannot be connected to"),
        ("http://proxy:port", "is not a URL: its host or port cannot be read"),
        ("http://proxy/pac", "must not contain a path, a query or a fragment"),
        ("http://proxy?x=1", "must not contain a path, a query or a fragment"),
        ("http://a b", "must be visible ASCII without white space"),
        ("http://proxy\r\nX: 1", "must be visible ASCII without white space"),
        ("", "names no host: it must be like http://host:port"),
    )
    for url, problem in cases:
        with subtests.test(url=url, problem=problem):
            with pytest.raises(ConfigurationError) as caught:
                Proxy(url)
            assert str(caught.value) == f"proxy {problem}"


@pytest.mark.parametrize("url", [f"http://clerk:{PASSWORD}@proxy:port", f"socks5://clerk:{PASSWORD}@proxy"])
def test_password_is_not_shown(url):
    """No error, `repr`, pickle or copy of a proxy has the password."""
    with pytest.raises(ConfigurationError) as caught:
        FastTransport(proxy=url)
    own = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    shown = [f"{frame.locals}" for frame in own.stack if "test_" not in frame.filename]
    assert len(shown) == 2
    assert [text for text in [str(caught.value), *shown] if PASSWORD in text] == []
    proxy = Proxy(f"http://clerk:{PASSWORD}@proxy")
    assert PASSWORD not in repr(proxy)
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="its password would travel with it"):
            duplicate(proxy)


@pytest.mark.parametrize(
    ("url", "host", "message"),
    [
        ("http://proxy", "pay.example", "CONNECT pay.example:443 HTTP/1.1\r\nHost: pay.example:443\r\n\r\n"),
        ("http://proxy", "::1", "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n"),
        (
            "http://Aladdin:open%20sesame@proxy",
            "pay.example",
            (
                "CONNECT pay.example:443 HTTP/1.1\r\nHost: pay.example:443\r\n"
                "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"
            ),
        ),
        (
            "http://clerk@proxy",
            "pay.example",
            "CONNECT pay.example:443 HTTP/1.1\r\nHost: pay.example:443\r\nProxy-Authorization: Basic Y2xlcms6\r\n\r\n",
        ),
    ],
    ids=["name", "ipv6", "password", "user"],
)
def test_request(url, host, message):
    """The request names the service twice, and holds user and password as RFC 7617 has them, percent-decoded."""
    assert Proxy(url).connect_message(host, 443).decode() == message


@pytest.mark.parametrize(
    "head",
    [
        OPEN,
        b"HTTP/1.0 200 OK\r\nProxy-Agent: tinyproxy\r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.1 299 Odd\n\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OPEN,
        b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n",
    ],
)
@given(data=st.data())
def test_open(head, data):
    """A 2xx opens the tunnel, in whatever pieces it comes, and not before its last byte."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(head) - 1))))
    received = [opens_tunnel(head[:end], has_password=False) for end in (0, *cuts, len(head))]
    assert received == [False] * (len(cuts) + 1) + [True]


def test_closed(subtests):
    """Whatever else a proxy says, there is no tunnel, and the reason is in our words, not in the proxy's."""
    cases = (
        (b"HTTP/1.1 502 Never Mind\r\n\r\n", False, "refused the tunnel (502 Bad Gateway)", 502),
        (b"HTTP/1.1 599 \r\n\r\n", False, "refused the tunnel (599)", 599),
        (
            b"HTTP/1.1 407 x\r\n\r\n",
            False,
            (
                "refused the tunnel (407 Proxy Authentication Required), because it wants a user and a password: "
                "http://user:password@host:port"
            ),
            407,
        ),
        (
            b"HTTP/1.1 407 x\r\n\r\n",
            True,
            (
                "refused the tunnel (407 Proxy Authentication Required): check its user and password "
                "(payclient speaks Basic, and neither NTLM nor Kerberos)"
            ),
            407,
        ),
        (b"SSH-2.0-OpenSSH", False, "answered with something that is not HTTP", 0),
        (b"HTTP/2 200\r\n\r\n", False, "answered with something that is not HTTP", 0),
        (b"HTTP/1.1 20x\r\n\r\n", False, "answered with something that is not HTTP", 0),
        (b"HTTP/1.1 000\r\n\r\n", False, "answered with something that is not HTTP", 0),
        (OPEN + b"x", False, "opened the tunnel and sent something through it that is not the service's", 0),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000, False, "answered with a head of more than 16384 bytes", 0),
    )
    for answer, has_password, reason, status in cases:
        with subtests.test(answer=answer, has_password=has_password):
            with pytest.raises(TunnelError) as caught:
                opens_tunnel(answer, has_password=has_password)
            assert (caught.value.reason, caught.value.status_code) == (reason, status)


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_anything(pieces):
    """Whatever a proxy sends, it is a tunnel, not yet one, or a `TunnelError`."""
    try:
        for received in accumulate(pieces):
            assert opens_tunnel(b"HTTP/1.1 " + received, has_password=True) in (True, False)
    except TunnelError as error:
        assert error.reason

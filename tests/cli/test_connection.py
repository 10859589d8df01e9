"""Which service is asked and with which key: from the environment, a file or standard input."""

import base64
import logging

import pytest
import trustme

from support.in_thread import serving
from support.raw_proxy import RawProxy, relay
from support.raw_server import RawServer, Script, close, head, send, server_context

KEY = "fake-api-key"
REFUSING = Script([send(head("HTTP/1.1 407 Authenticate")), close])


def test_key(configured, monkeypatch, tmp_path):
    """The key can come from a file or through standard input, with a line end after it, before the environment."""
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    monkeypatch.delenv("PAYCLIENT_API_KEY")
    ways = ((str(file), b""), ("-", f"{KEY}\n".encode()))
    found = [configured("get", "T1", "--api-key-file", name, stdin=text).status for name, text in ways]
    monkeypatch.setenv("PAYCLIENT_API_KEY", "some-other-key")
    found += [configured("get", "T1", "--api-key-file", name, stdin=text).status for name, text in ways]
    assert found == [0, 0, 0, 0]


def test_environment_option(configured, service):
    """`--environment` names the path that is asked."""
    configured("get", "T1", "--environment", "live")
    assert [request.path for request in service.requests] == ["/api/transaction/detail"]


def test_missing(command, base_url, monkeypatch, tmp_path):
    """Whatever is not set up is named at once, with a missing ledger; it is for the operator, as status 3 says."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text(KEY)
    monkeypatch.setenv("PAYCLIENT_API_KEY", " ")
    no_address = "no service address: pass --base-url https://… or set PAYCLIENT_BASE_URL"
    no_key = "no API key: set PAYCLIENT_API_KEY or pass --api-key-file PATH"
    run = "reconcile none.csv --out new --statement s.csv"
    for call, message, variables in [
        (f"get T1 --base-url {base_url}", no_key, "PAYCLIENT_API_KEY"),
        ("get T1 --api-key-file key", no_address, "PAYCLIENT_BASE_URL"),
        ("get T1", f"{no_address}, and {no_key}", "PAYCLIENT_BASE_URL and PAYCLIENT_API_KEY"),
        (
            run,
            f"{no_address}, and {no_key}, and none.csv does not exist, and s.csv does not exist",
            "PAYCLIENT_BASE_URL and PAYCLIENT_API_KEY",
        ),
    ]:
        result = command(*call.split())
        assert (result.status, result.said, result.lines) == (
            3,
            f"payclient: {message}\n",
            [f"set {variables}, then: {call}"],
        )


def test_unusable_key(configured):
    """A key that cannot be used is refused without being shown."""
    unseen = "--api-key-file has a character at position {} that is not visible ASCII"
    for content, message in (
        (b" \n", "--api-key-file is empty"),
        (b"s\xc3\xa9cret-of-mine", unseen.format(1)),
        (b"\xff\xfes\0e\0", unseen.format(0)),  # UTF-16
        (b"secret-of-mine\nsecond", unseen.format(14)),
    ):
        result = configured("get", "T1", "--api-key-file", "-", stdin=content)
        assert (result.status, result.said) == (3, f"payclient: {message}\n")
    # Standard input cannot hold the key and the references.
    assert configured("get", "-", "--api-key-file", "-", stdin=KEY.encode()).status == 2


def test_key_as_argument(configured, subtests):
    """A key among the arguments is refused by every command, and not repeated."""
    for argument in ["--api-key=hunter2hunter2", "--api-key", "--key=hunter2hunter2", "--token"]:
        for name in ["get", "sandbox"]:
            with subtests.test(argument=argument, name=name):
                result = configured(name, "T1", argument, "hunter2hunter2")
                assert (result.status, "never an argument" in result.err, "hunter2" in result.err) == (2, True, False)


def test_variables(configured, monkeypatch):
    """An option that the environment sets is named by its variable, which is to be set before the command helps."""
    for variable, value, told in [
        ("PAYCLIENT_BASE_URL", "pay.example", "PAYCLIENT_BASE_URL must begin with https://"),
        ("PAYCLIENT_ENVIRONMENT", "prod", "PAYCLIENT_ENVIRONMENT must be one of 'live', 'sandbox', got 'prod'"),
        ("PAYCLIENT_ENVIRONMENT", "k3y-" * 5, "PAYCLIENT_ENVIRONMENT must be one of 'live', 'sandbox', got a longer"),
        ("PAYCLIENT_ENVIRONMENT", "", "PAYCLIENT_ENVIRONMENT must be one of 'live', 'sandbox', got ''"),
        ("PAYCLIENT_TRANSPORT", "k3y-" * 5, "PAYCLIENT_TRANSPORT must be one of 'httpx', 'httpx2', 'fast', got a"),
        ("PAYCLIENT_API_KEY", "Bearer x", "PAYCLIENT_API_KEY begins with 'Bearer', which payclient adds: "),
    ]:
        with monkeypatch.context() as patched:
            patched.setenv(variable, value)
            result = configured("get", "T1")
            assert (result.status, result.err.removeprefix("payclient: ")[: len(told)]) == (3, told)
            assert result.lines == [f"set {variable}, then: get T1"]
    told = "payclient: --base-url must begin with https://"
    assert configured("get", "T1", "--base-url", "pay.example").err.startswith(told)


def test_network(configured, subtests):
    """The options of the network reach the client, which refuses them in the words of the command line."""
    for option, value, message in [
        ("--proxy", "socks5://p", "--proxy must be an http:// proxy: payclient can't use one of socks5://"),
        ("--proxy", "http://p", "--proxy takes no plain http, because the proxy would see the API key: use an"),
        # A password is no argument: other users of the machine can read those. It is not repeated either.
        ("--proxy", "http://a:b@p:3128", "--proxy has a user name or a password, which others could read"),
        ("--ca-file", "/no/file", "--ca-file /no/file cannot be read: No such file or directory\n"),
        ("--client-cert", "/no/file", "--client-cert /no/file cannot be read: No such file or directory\n"),
        ("--client-key", "/no/file", "--client-key needs a client_cert"),
        ("--api-key-file", "/no/file", "--api-key-file: the file cannot be read: No such file or directory"),
        ("--max-rate", "0", "--max-rate must be a number of attempts per second above 0, or None,"),
    ]:
        with subtests.test(option=option, value=value):
            result = configured("get", "T1", option, value)
            status = 3 if option == "--api-key-file" or message.startswith("--proxy must") or "plain" in message else 2
            assert (result.status, result.err.removeprefix("payclient: ")[: len(message)]) == (status, message)
    assert configured("get", "T1", "--max-rate", "50").status == 0


@pytest.mark.parametrize("transport", ["httpx", "fast"])
@pytest.mark.parametrize("script", [relay, REFUSING], ids=["open", "407"])
def test_secrets_are_nowhere(command, monkeypatch, tmp_path, caplog, transport, script):
    """Neither key nor password is in what the proxy sees, in logs, output, the journal or any file of a report."""
    authority, password, key = trustme.CA(), "of-the-clerk-51d2e84b", "sk-canary-7f3a9c51d2e84b60"
    (tmp_path / "authority.pem").write_bytes(authority.cert_pem.bytes())
    (tmp_path / "ledger.csv").write_text("reference,amount,status\nT1,15000,Canceled\nT2,1,Paid\n")
    server, proxy = RawServer(ssl=server_context(authority, "pay.example")), RawProxy(script)
    caplog.set_level(logging.DEBUG)
    with serving(server, proxy):
        monkeypatch.setenv("PAYCLIENT_API_KEY", key)
        monkeypatch.setenv("PAYCLIENT_TRANSPORT", transport)
        monkeypatch.setenv("PAYCLIENT_PROXY", proxy.with_password(f"clerk:{password}"))
        url = server.url.replace("localhost", "pay.example")  # a variable is not for this machine
        service = ("--base-url", url, "--ca-file", str(tmp_path / "authority.pem"))
        results = [
            command("reconcile", str(tmp_path / "ledger.csv"), "--out", str(tmp_path / "report"), *service),
            command("get", "T1", "--json", *service),
            command("doctor", *service),
        ]
        name = proxy.address
    assert [result.status for result in results] == ([1, 0, 0] if script is relay else [3, 3, 3])
    assert f"through the proxy {name}" in caplog.text
    texts = [caplog.text, *(result.out + result.err for result in results)]
    assert len(list((tmp_path / "report").iterdir())) > 3 or script is not relay
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    encoded = base64.b64encode(f"clerk:{password}".encode())
    for secret in (key.encode(), password.encode(), encoded):
        assert [blob for blob in (*kept, *(text.encode() for text in texts)) if secret in blob] == []
    assert key.encode() not in proxy.seen
    assert encoded in proxy.seen  # told to the proxy, and to nothing else

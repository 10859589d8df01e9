"""Whom the service must be vouched for by, and which certificate is shown to it."""

import ssl
import sys

import pytest
import trustme
import truststore
from cryptography.hazmat.primitives import serialization

from payclient import AsyncClient, ConfigurationError, TLSVerificationError
from payclient.transports import _connections, resolve_network
from support.fakes import KEY
from support.raw_server import RawServer, server_context, well_behaved

PAY = "https://pay.example"
AUTHORITY = trustme.CA()
CLIENT = AUTHORITY.issue_cert("clerk@merchant.example")


@pytest.fixture
def files(tmp_path):
    """Make the files that a company hands out: its authority, a certificate with and without its key, and bad ones."""
    key = serialization.load_pem_private_key(CLIENT.private_key_pem.bytes(), None)
    contents = {
        "authority": AUTHORITY.cert_pem.bytes(),
        "cert": CLIENT.cert_chain_pems[0].bytes(),
        "key": CLIENT.private_key_pem.bytes(),
        "both": CLIENT.private_key_and_cert_chain_pem.bytes(),
        "other": AUTHORITY.issue_cert("other.example").private_key_pem.bytes(),
        "locked": key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        ),
        "text": b"no certificate\n",
    }
    paths = {name: tmp_path / f"{name}.pem" for name in contents}
    for name, content in contents.items():
        paths[name].write_bytes(content)
    return paths


def context(**options):
    return resolve_network(options, PAY).ssl_context


def test_authority(files):
    """With `ca_file` no other authority is trusted, and hosts and certificates are checked as ever."""
    made = context(ca_file=files["authority"])
    assert len(made.get_ca_certs()) == 1
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_nothing_given():
    """Without an option there is no context of this client: that of the process is loaded when it connects."""
    assert context() is None
    assert context(ca_file=None, client_cert=None) is None


def test_secrets_of_tls(files, tmp_path, monkeypatch):
    """`SSLKEYLOGFILE` is not honoured, whatever is given."""
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "theirs"))
    assert ssl.create_default_context().keylog_filename == str(tmp_path / "theirs")
    assert _connections._system_trust.__wrapped__().keylog_filename is None
    assert context(ca_file=files["authority"]).keylog_filename is None
    assert context(client_cert=files["both"]).keylog_filename is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ca_file": "text"}, "ca_file {text} is not a PEM file with what is expected in it"),
        ({"ca_file": "none"}, "ca_file {none} cannot be read: No such file or directory"),
        ({"client_cert": "none"}, "client_cert {none} cannot be read: No such file or directory"),
        ({"client_cert": "none", "client_key": "key"}, "client_cert {none} cannot be read: No such file or directory"),
        ({"client_cert": "cert", "client_key": "none"}, "client_key {none} cannot be read: No such file or directory"),
        ({"client_cert": "text"}, "client_cert {text} is not a PEM file with what is expected in it"),
        ({"client_cert": "cert", "client_key": "other"}, "client_key {other} does not belong to client_cert"),
        ({"client_cert": "cert", "client_key": "locked"}, "client_key is encrypted: decrypt it (openssl pkey)"),
        ({"client_key": "key"}, "client_key needs a client_cert"),
    ],
    ids=lambda value: "-".join(f"{name}={file}" for name, file in value.items()) if isinstance(value, dict) else "",
)
def test_refused(options, message, files, tmp_path):
    """A file that cannot be used is refused when the client is made, by option, path and reason; nothing is asked."""
    paths = {**files, "none": tmp_path / "none"}
    given = {name: paths.get(value, value) for name, value in options.items()}
    with pytest.raises(ConfigurationError) as caught:
        AsyncClient(api_key=KEY, base_url=PAY, **given)
    assert str(caught.value).startswith(message.format_map(paths))


@pytest.mark.parametrize("given", ["", 7, b""], ids=repr)
def test_no_path(given):
    """What is no path is refused as such."""
    with pytest.raises(ConfigurationError, match="ca_file must be the path of a file, got"):
        context(ca_file=given)


@pytest.fixture(params=["httpx", "fast"])
def pay(request):
    """Make clients over each transport by its name, as users do."""

    def make(server, **options):
        return AsyncClient(api_key=KEY, base_url=server.url, transport=request.param, retry=None, **options)

    return make


async def test_own_authority(pay, files):
    """A service with a certificate of the company's authority is trusted with `ca_file`."""
    async with RawServer(ssl=server_context(AUTHORITY, "localhost")) as server:
        async with pay(server, ca_file=files["authority"]) as client:
            assert (await client.get_transaction("T1")).reference == "T1"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # asyncio's own, for a handshake that fails on the server's side
async def test_variable(pay, files, monkeypatch):
    """`SSL_CERT_FILE` names the authorities of a process, before its first connection; `ca_file` goes before it."""
    monkeypatch.setenv("SSL_CERT_FILE", str(files["authority"]))
    monkeypatch.setattr(_connections, "_system_trust", _connections._system_trust.__wrapped__)
    async with RawServer(ssl=server_context(AUTHORITY, "localhost")) as server:
        async with pay(server) as client:
            assert (await client.get_transaction("T1")).reference == "T1"
        stranger = files["authority"].with_name("stranger.pem")
        stranger.write_bytes(trustme.CA().cert_pem.bytes())
        async with pay(server, ca_file=stranger) as client:
            with pytest.raises(TLSVerificationError, match="could not prove who it is"):
                await client.get_transaction("T1")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system decides, and cannot be told by a variable")
async def test_trusted_by_the_system(pay, files, monkeypatch):
    """With a context of truststore the system verifies in both transports; on Linux that means OpenSSL's files."""
    monkeypatch.setenv("SSL_CERT_FILE", str(files["authority"]))
    async with RawServer(ssl=server_context(AUTHORITY, "localhost")) as server:
        async with pay(server, ssl_context=truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)) as client:
            assert (await client.get_transaction("T1")).reference == "T1"


@pytest.mark.parametrize("names", [("both", None), ("cert", "key")], ids=["one-file", "two-files"])
async def test_client_certificate(pay, files, names):
    """A service that demands a certificate gets ours, from one file or from two."""
    demanding = server_context(AUTHORITY, "localhost")
    demanding.verify_mode = ssl.CERT_REQUIRED
    AUTHORITY.configure_trust(demanding)
    shown = []

    async def look(connection):
        shown.append(connection.writer.get_extra_info("peercert"))
        await well_behaved(connection)

    certificate, key = names
    options = {"client_cert": files[certificate], "client_key": files[key] if key else None}
    async with RawServer(look, ssl=demanding) as server:
        async with pay(server, ca_file=files["authority"], **options) as client:
            assert (await client.get_transaction("T1")).reference == "T1"
    assert ("email", "clerk@merchant.example") in shown[0]["subjectAltName"]

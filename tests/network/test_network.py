"""
Real proxies, a real chain of authorities, and a real nginx that demands client certificates.

The programs are started by the tests, on loopback, and stopped by them. What is not installed is skipped, and says so.
"""

import asyncio
import random
import shutil
import subprocess
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trustme
from attrs import frozen

from payclient import AsyncClient, ConnectionFailedError, PermissionDeniedError, ProxyRefusedError, TLSVerificationError
from support.fakes import KEY, document
from support.raw_server import held_ports

pytestmark = [
    pytest.mark.network,
    *(
        pytest.mark.skipif(shutil.which(name) is None, reason=f"needs {name}: apt-get install {package}")
        for name, package in (("tinyproxy", "tinyproxy"), ("nginx", "nginx-light"))
    ),
]

PASSWORD = "of-the-clerk-51d2e84b"
TINYPROXY = """
Port {port}
Listen 127.0.0.1
Timeout 60
LogLevel Info
MaxClients 100
ConnectPort {service}
ConnectPort {strict}
{credentials}
"""
SQUID = """
http_port 127.0.0.1:{port}
pid_filename none
cache_log /dev/null
access_log none
cache deny all
netdb_filename none
coredump_dir /
shutdown_lifetime 0 seconds
visible_hostname localhost
auth_param basic program {helper}
acl known proxy_auth REQUIRED
acl allowed port {service}
http_access deny CONNECT !allowed
http_access allow known
http_access deny all
"""
NGINX = """
daemon off;
pid {folder}/pid;
error_log stderr notice;
events {{}}
http {{
    log_format all '$request $status $http_user_agent';
    access_log /dev/stderr all;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    ssl_certificate {folder}/service.pem;
    ssl_certificate_key {folder}/service.pem;
    ssl_client_certificate {folder}/root.pem;
    ssl_verify_depth 2;
    default_type application/json;
    server {{
        listen 127.0.0.1:{service} ssl;
        location / {{ return 200 '{answer}'; }}
    }}
    server {{
        listen 127.0.0.1:{strict} ssl;
        ssl_verify_client on;
        location / {{ return 200 '{answer}'; }}
    }}
}}
"""


@contextmanager
def running(*arguments, ready):
    """Run a program from the moment when it says *ready*, and give what it has written since."""
    written = []
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        reading = threading.Thread(target=lambda: written.extend(process.stdout))
        try:
            for line in process.stdout:
                written.append(line)
                if ready in line:
                    break
            else:
                pytest.fail(f"{arguments[0]} ended: {''.join(written)}")
            reading.start()
            yield written
        finally:
            process.terminate()
            if reading.is_alive():
                reading.join(60)


@frozen
class World:
    """What is running: the addresses, the files, and what the programs have written."""

    service: str
    strict: str
    proxy: str
    locked: str
    folder: object
    logs: list


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Run nginx with a certificate of an intermediate authority, and two proxies, one of which wants a password."""
    folder = tmp_path_factory.mktemp("network")
    root = trustme.CA()
    intermediate = root.create_child_ca()
    (folder / "root.pem").write_bytes(root.cert_pem.bytes())
    for name, host in (("service", "localhost"), ("client", "clerk@merchant.example")):
        (folder / f"{name}.pem").write_bytes(intermediate.issue_cert(host).private_key_and_cert_chain_pem.bytes())
    (folder / "stranger.pem").write_bytes(trustme.CA().issue_cert("x@y.example").private_key_and_cert_chain_pem.bytes())
    answer = document("T1").decode()
    config = folder / "nginx.conf"
    with ExitStack() as stack:
        service, strict, proxy, locked = stack.enter_context(held_ports(4))
        config.write_text(NGINX.format(folder=folder, service=service, strict=strict, answer=answer))
        nginx = ("nginx", "-p", str(folder), "-c", str(config))
        logs = [stack.enter_context(running(*nginx, ready="start worker process "))]
        for port, credentials in ((proxy, ""), (locked, f"BasicAuth clerk {PASSWORD}")):
            config = folder / f"tinyproxy-{port}.conf"
            config.write_text(TINYPROXY.format(port=port, service=service, strict=strict, credentials=credentials))
            logs.append(stack.enter_context(running("tinyproxy", "-d", "-c", str(config), ready="Accepting")))
        yield World(
            service=f"https://localhost:{service}",
            strict=f"https://localhost:{strict}",
            proxy=f"127.0.0.1:{proxy}",
            locked=f"127.0.0.1:{locked}",
            folder=folder,
            logs=logs,
        )


@pytest.fixture(params=["httpx", "fast"])
def ask(request, world):
    """Look one transaction up over each transport; whatever happens, no program has written a secret."""

    async def ask(url, **options):
        options = {"ca_file": world.folder / "root.pem", "retry": None, "transport": request.param, **options}
        async with AsyncClient(api_key=KEY, base_url=url, **options) as pay:
            return await pay.get_transaction("T1")

    yield ask
    written = "".join(line for log in world.logs for line in log)
    assert (KEY in written, PASSWORD in written) == (False, False)


async def test_chain(ask, world):
    """A certificate of an intermediate authority is trusted by its root, and by nothing else."""
    assert (await ask(world.service)).reference == "T1"
    with pytest.raises(TLSVerificationError, match=r"could not prove who it is: .*: if your company has an authority"):
        await ask(world.service, ca_file=None)


async def test_proxy(ask, world):
    """A lookup goes through the proxy, which logs the address of the service."""
    assert (await ask(world.service, proxy=f"http://{world.proxy}")).reference == "T1"


async def test_environment(ask, world, monkeypatch):
    """The proxy of the environment is used, but not for this machine: a proxy that is not there shows which."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(ConnectionFailedError, match=r"cannot connect to the proxy 127\.0\.0\.1:9"):
        await ask("https://pay.invalid")
    assert (await ask(world.service)).reference == "T1"


async def test_password(ask, world):
    """A proxy that wants a password gets it, and refuses a wrong one and none."""
    assert (await ask(world.service, proxy=f"http://clerk:{PASSWORD}@{world.locked}")).reference == "T1"
    with pytest.raises(ProxyRefusedError, match=r"407 Proxy Authentication Required.*because it wants a user"):
        await ask(world.service, proxy=f"http://{world.locked}")
    with pytest.raises(ProxyRefusedError, match=r"\(40[137] .*"):
        await ask(world.service, proxy=f"http://clerk:wrong@{world.locked}")


@pytest.fixture(scope="module")
def squid(world):
    """Run squid, which wants a user and takes any password."""
    helper = next(Path("/usr").glob("lib*/squid/basic_fake_auth"), None)
    if shutil.which("squid") is None or helper is None:
        pytest.skip("needs squid: apt-get install squid")
    config = world.folder / "squid.conf"
    command = ("squid", "-N", "-d", "1", "-f", str(config))
    with held_ports(1) as (port,):
        config.write_text(SQUID.format(port=port, helper=helper, service=world.service.rpartition(":")[2]))
        with running(*command, ready="Accepting HTTP Socket connections") as written:
            world.logs.append(written)
            yield f"127.0.0.1:{port}"


async def test_squid(ask, world, squid):
    """Squid opens a tunnel for a user, and refuses it without one, and to a port that it does not allow."""
    assert (await ask(world.service, proxy=f"http://clerk:{PASSWORD}@{squid}")).reference == "T1"
    with pytest.raises(ProxyRefusedError, match=r"407 Proxy Authentication Required.*because it wants a user"):
        await ask(world.service, proxy=f"http://{squid}")
    with pytest.raises(ProxyRefusedError, match=r"refused the tunnel \(403 Forbidden\)"):
        await ask("https://localhost:9", proxy=f"http://clerk:{PASSWORD}@{squid}")


async def test_refused_port(ask, world):
    """A port that the proxy does not allow is refused, once."""
    with pytest.raises(ProxyRefusedError, match=r"refused the tunnel \(403 Forbidden\)"):
        await ask("https://localhost:9", proxy=f"http://{world.proxy}")


@pytest.mark.parametrize("is_proxied", [False, True], ids=["direct", "proxied"])
async def test_client_certificate(ask, world, is_proxied):
    """nginx lets us in with a certificate of an intermediate authority; without one, or with another, it is said."""
    options = {"proxy": f"http://{world.proxy}"} if is_proxied else {}
    assert (await ask(world.strict, client_cert=world.folder / "client.pem", **options)).reference == "T1"
    for wrong in ({}, {"client_cert": world.folder / "stranger.pem"}):
        with pytest.raises(PermissionDeniedError, match="wants a client certificate that it accepts"):
            await ask(world.strict, **wrong, **options)


@pytest.mark.parametrize("transport", ["httpx", "fast"])
async def test_storm(world, transport):
    """After 300 cancellations through the proxy, every lookup succeeds and no slot is held."""
    draw = random.Random(7)
    options = {"ca_file": world.folder / "root.pem", "proxy": f"http://{world.proxy}", "transport": transport}
    async with AsyncClient(api_key=KEY, base_url=world.service, max_concurrency=8, **options) as pay:
        for _ in range(300):
            lookup = asyncio.create_task(pay.get_transaction("T1"))
            for _ in range(draw.randrange(60)):
                await asyncio.sleep(0)
            lookup.cancel()
            await asyncio.wait([lookup])
        assert [(await pay.get_transaction("T1")).reference for _ in range(20)] == ["T1"] * 20
        assert pay.stats.in_flight == 0

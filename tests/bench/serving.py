"""A native server for the measurements, compiled where it is used, pinned to a core that the client does not have."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import trustme

SOURCE = Path(__file__).with_name("server.c")
VARIANTS = (["-lssl", "-lcrypto"], ["-DWITHOUT_TLS"])


def compiled(folder):
    """Return the program, and whether it knows TLS; that needs OpenSSL's headers."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        sys.exit("the server of this measurement needs Linux and a C compiler")
    program = folder / "server"
    for options in VARIANTS:
        command = [compiler, "-O2", str(SOURCE), "-o", str(program), *options]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return program, options is VARIANTS[0]
    sys.exit(f"{compiler} cannot compile {SOURCE.name}")


def certificate(folder):
    """Return the files of an authority and of a server that it vouches for: trust, chain, private key."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    trust, chain, key = (folder / name for name in ("trust.pem", "chain.pem", "key.pem"))
    authority.cert_pem.write_to_path(trust)
    chain.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return trust, chain, key


@contextmanager
def serving(program, *files, cpu):
    """Run the program on one core, and give its port."""

    def pin():
        os.sched_setaffinity(0, {cpu})

    server = subprocess.Popen([program, *files], stdout=subprocess.PIPE, text=True, preexec_fn=pin)  # noqa: PLW1509  no threads here
    try:
        yield int(server.stdout.readline())
    finally:
        server.terminate()
        server.wait()

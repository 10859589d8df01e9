"""
The page about PostgreSQL, with a real one.

The server is started by the test, on a socket in a folder of its own, and stopped by it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from docs.blocks import Reader

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "ledger-in-postgresql.md"
INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if os.name == "posix" else []
TOOLS = next((Path(found).parent for found in [shutil.which("initdb")] if found), INSTALLED[-1] if INSTALLED else None)

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(
        TOOLS is None or shutil.which("psql") is None, reason="needs PostgreSQL: apt-get install postgresql"
    ),
]


def owner():
    """Return who runs the server: it refuses to run as root."""
    if os.geteuid():
        return {}
    user = pwd.getpwnam("postgres")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}


@contextmanager
def running():
    """Run a server without a port; yield the folder of its socket."""
    # Not below pytest's folder, which only its owner may enter; and a socket must have a short path.
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder, who = Path(name), owner()
        if who:
            os.chown(folder, who["user"], who["group"])
        folder.chmod(0o755)

        def run(program, *arguments):
            command = [TOOLS / program, "--pgdata", folder / "data", *arguments]
            subprocess.run(command, check=True, cwd=folder, timeout=120, stdout=subprocess.DEVNULL, **who)

        run("initdb", "--auth=trust", "--username=shop", "--no-sync", "--encoding=UTF8")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "--wait", "--log", folder / "log", "--options", options, "start")
        try:
            yield folder
        finally:
            run("pg_ctl", "--wait", "--mode=immediate", "stop")


def test_page(tmp_path, monkeypatch):
    """Every block of the page runs as it is written, and prints what is shown."""
    monkeypatch.chdir(tmp_path)
    with running() as socket, Reader(tmp_path) as reader:
        exported = reader.adapted(reader.start_sandbox("payclient sandbox"))
        for pair in exported.removeprefix("export ").split():
            monkeypatch.setenv(*pair.split("="))
        for variable, value in (("PGHOST", str(socket)), ("PGUSER", "shop"), ("PGDATABASE", "postgres")):
            monkeypatch.setenv(variable, value)
        examples = list(reader.parse(PAGE))
        for example in examples:
            example.evaluate()
    assert len(examples) > 4

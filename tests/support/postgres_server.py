"""A PostgreSQL server that a test starts, on a socket in its own folder, and stops."""

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if os.name == "posix" else []
TOOLS = next((Path(found).parent for found in [shutil.which("initdb")] if found), INSTALLED[-1] if INSTALLED else None)

NEEDED = pytest.mark.skipif(
    TOOLS is None or shutil.which("psql") is None, reason="needs PostgreSQL: apt-get install postgresql"
)


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
        run("pg_ctl", "--wait", "--timeout=110", "--log", folder / "log", "--options", options, "start")
        try:
            yield folder
        finally:
            run("pg_ctl", "--wait", "--mode=immediate", "stop")

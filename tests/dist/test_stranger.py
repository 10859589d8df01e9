"""README and tutorial, typed as a stranger does: two fresh shells, a managed system Python, an empty home."""

import os
import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from docs.blocks import commands
from support.raw_server import held_ports

PROJECT = Path(__file__).parents[2]
CHECK = """
import ensurepip, sys, sysconfig
from pathlib import Path
sys.exit(sys.version_info < (3, 11) or not Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists())
"""
PASSED_ON = re.compile("PIP_.*|SSL_CERT_.*|.*_proxy", re.IGNORECASE)
"""Variables that say where the package index is."""

pytestmark = pytest.mark.dist


class Shell:
    """A terminal: nothing of another one is known in it."""

    def __init__(self, folder, home):
        kept = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={**kept, "HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=60)

    def enter(self, command):
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def type(self, command):
        """Type a command, and return what it prints; fail if it does."""
        self.enter(f'{command}\necho "= $?"')
        printed = []
        while not re.fullmatch(r"= \d+\n", printed[-1] if printed else ""):
            printed.append(self.process.stdout.readline())
            assert printed[-1], (command, printed)
        assert printed.pop() == "= 0\n", (command, "".join(printed))
        return "".join(printed)

    def start(self, command):
        """Type a command that runs on, and return its first line."""
        self.enter(f"exec {command}")
        return self.process.stdout.readline()


@pytest.fixture
def checkout(tmp_path):
    """The sources, as a stranger has cloned them."""
    system = subprocess.run(["/usr/bin/python3", "-c", CHECK], capture_output=True, check=False)
    if system.returncode:
        pytest.skip("/usr/bin/python3 is not a Python 3.11 or newer that the system manages")
    folder = tmp_path / "payclient"
    made = shutil.ignore_patterns(".*", "dist", "__pycache__")
    shutil.copytree(PROJECT, folder, ignore=made)
    return folder


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_first_lookup(page, checkout, tmp_path):
    """Every command up to the first lookup works in the terminal that the page names, and then the lookup does."""
    text = (PROJECT / page).read_text(encoding="utf-8")
    start = text.rindex("\n\n", 0, text.index("```console\n$ python3 -m venv") - 2)
    blocks = re.finditer(r"([^\n]*\n[^\n]*)\n\n```(console|python)\n(.*?)```", text[start:], re.DOTALL)
    home = tmp_path / "home"
    home.mkdir()
    with held_ports(1) as (port,), ExitStack() as terminals:
        first, second = (terminals.enter_context(Shell(checkout, home)) for _ in range(2))
        pasted = ""
        for above, language, source in (block.groups() for block in blocks):
            if language == "python":
                (checkout / "first.py").write_text(source, encoding="utf-8")
                assert first.type("python first.py").startswith("Paid"), source
                break
            terminal = second if "second terminal" in above else first
            for command, _ in commands(source):
                if command.startswith("payclient sandbox"):
                    pasted = terminal.start(command.replace("8080", str(port)))
                    assert pasted.startswith("export "), pasted
                    first.type(pasted)
                elif not command.startswith("export "):
                    terminal.type(command)
    assert pasted

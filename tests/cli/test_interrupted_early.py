"""Ctrl-C while modules are imported: one line and 130."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

NOXFILE = Path(__file__).parents[2] / "noxfile.py"
COMMAND = "from payclient.cli import main; sys.exit(main(['--version']))"
TASK_RUNNER = f"import runpy; runpy.run_path({str(NOXFILE)!r}, run_name='__main__')"


@pytest.mark.skipif(os.name == "nt", reason="needs the signals of POSIX")
@pytest.mark.parametrize(
    ("start", "name", "program"),
    [
        *((COMMAND, name, "payclient") for name in ("payclient.cli._app", "cyclopts", "rich.cells")),
        *((TASK_RUNNER, name, "noxfile.py") for name in ("subprocess", "tomllib")),
    ],
)
def test_interrupted(start, name, program):
    """The command and the task runner end with 130 and one line, whichever import the signal comes at."""
    code = f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)

        class Interrupt:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name == {name!r}:
                    signal.raise_signal(signal.SIGINT)

        sys.meta_path.insert(0, Interrupt)
        {start}
    """
    arguments = (sys.executable, "-c", textwrap.dedent(code))
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", f"{program}: interrupted\n")

"""Ctrl-C while modules are imported: one line and 130, whichever import it comes at."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

NOXFILE = Path(__file__).parents[2] / "noxfile.py"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs fork and the signals of POSIX")

# A copy of the process gets the signal at the first imports and at each STRIDE-th; the original imports on.
STRIDE = 40
INTERRUPT_EACH = """
    import os, signal, sys, tempfile
    signal.signal(signal.SIGINT, signal.default_int_handler)
    told, seen, bad = tempfile.TemporaryFile(), 0, []

    class Interrupt:
        @staticmethod
        def find_spec(name, path=None, target=None):
            global seen, in_copy
            if in_copy or not ({begins}):
                return
            seen += 1
            if seen > 8 and seen % {stride}:
                return
            told.seek(0)
            told.truncate()
            if not (copy := os.fork()):
                in_copy = True
                os.dup2(told.fileno(), 2)
                signal.raise_signal(signal.SIGINT)
                os._exit(99)
            status = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
            told.seek(0)
            if (status, text := told.read()) != (130, b"{line}\\n"):
                bad.append((name, status, text))

    in_copy = False
    sys.meta_path.insert(0, Interrupt)
    try:
        {start}
    finally:
        if not in_copy:
            print(seen, bad[:3])
"""


def interrupted(start, *, line, begins):
    """Return how many imports were interrupted, and those that did not end as they should."""
    program = textwrap.dedent(INTERRUPT_EACH).format(start=start, line=line, begins=begins, stride=STRIDE)
    result = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, timeout=240, check=False)
    count, _, bad = result.stdout.splitlines()[-1].partition(" ")
    return int(count), bad


@pytest.mark.parametrize("name", ["payclient.cli._app", "cyclopts", "rich.cells"])
def test_command(name):
    """The command ends with 130 and one line, whichever import the signal comes at."""
    program = f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)

        class Interrupt:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name == {name!r}:
                    signal.raise_signal(signal.SIGINT)

        sys.meta_path.insert(0, Interrupt)
        from payclient.cli import main
        sys.exit(main(["--version"]))
    """
    arguments = (sys.executable, "-c", textwrap.dedent(program))
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "payclient: interrupted\n")


def test_task_runner():
    """The task runner ends so, too, whichever import the signal comes at, up to the point where it looks for nox."""
    begins = "signal.getsignal(signal.SIGINT).__name__ == 'end_quietly' and (name != 'nox' or sys.exit())"
    start = f"import runpy; runpy.run_path({str(NOXFILE)!r}, run_name='__main__')"
    count, bad = interrupted(start, line="noxfile.py: interrupted", begins=begins)
    assert (count > 1, bad) == (True, "[]")

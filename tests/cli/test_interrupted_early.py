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

    class Named:
        def __set_name__(self, owner, name):
            signal.raise_signal(signal.SIGINT)

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
                {interrupt}
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


def interrupted(start, *, line, begins="True", interrupt="signal.raise_signal(signal.SIGINT)"):
    """Return how many imports were interrupted, and those that did not end as they should."""
    program = textwrap.dedent(INTERRUPT_EACH).format(
        start=start, line=line, begins=begins, interrupt=interrupt, stride=STRIDE
    )
    result = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, timeout=240, check=False)
    count, _, bad = result.stdout.splitlines()[-1].partition(" ")
    return int(count), bad


@pytest.mark.parametrize(
    ("start", "begins", "interrupt"),
    [
        (
            "from payclient.cli import main; sys.argv[1:] = ['--version']; sys.exit(main())",
            "'payclient.cli._main' in sys.modules",
            "signal.raise_signal(signal.SIGINT)",
        ),
        (
            "from payclient.cli import main; sys.argv[1:] = ['--version']; sys.exit(main())",
            "signal.getsignal(signal.SIGINT).__name__ == '_end'",
            "type('Owner', (), dict(name=Named()))",  # an exception would come out as a RuntimeError
        ),
        (
            "import runpy; sys.argv[1:] = ['--version']; runpy.run_module('payclient', run_name='__main__')",
            "name.startswith('payclient.cli') or 'payclient.cli' in sys.modules",
            "signal.raise_signal(signal.SIGINT)",
        ),
    ],
    ids=["script", "class", "module"],
)
def test_command(start, begins, interrupt):
    """The command ends with 130 and one line, whichever import or class the signal comes at."""
    count, bad = interrupted(start, line="payclient: interrupted", begins=begins, interrupt=interrupt)
    assert (count > 100, bad) == (True, "[]")


def test_before_the_guard():
    """Hardly anything is imported before the command can answer a signal."""
    program = "import sys; before = set(sys.modules); import payclient.cli; print(*sorted(set(sys.modules) - before))"
    names = subprocess.run((sys.executable, "-I", "-c", program), capture_output=True, text=True, check=True).stdout
    ours = {"payclient", "payclient._shared", "payclient._shared.lazy", "payclient.cli", "payclient.cli._main"}
    assert set(names.split()) - {"__future__"} == ours  # which a tool that measures coverage imports before


def test_task_runner():
    """So does the task runner, up to the point where it looks for nox."""
    begins = "signal.getsignal(signal.SIGINT).__name__ == 'end_quietly' and (name != 'nox' or sys.exit())"
    start = f"import runpy; runpy.run_path({str(NOXFILE)!r}, run_name='__main__')"
    count, bad = interrupted(start, line="noxfile.py: interrupted", begins=begins)
    assert (count > 1, bad) == (True, "[]")

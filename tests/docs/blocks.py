"""
Runs the blocks of a page the way its reader would.

- `python`: executed in order, with names shared along the page. Blocks that define `test_…` are
  given to pytest instead, each as a file of its own, at the end of the page.
- `output`: what the Python block above it printed.
- `console`: each line after `$ ` runs in bash, and what stands below it is what it prints. A
  failure must be shown: by `$ echo $?` as the next command.
- `powershell`: how the lines above it that PowerShell writes in another way are typed there, each of
  them; they are parsed by it where there is one.
- `toml`, `bash`, and `text` under "Save this as": saved under the name that the line above gives in backticks.
- Other `text`, `json` and Sphinx directives are for the eye.

In shown output `…` stands for anything.
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from itertools import pairwise, takewhile
from pathlib import Path

from sybil import Document
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

from payclient._shared.remedy import Shell, quote_word
from payclient.cli._sandbox import _variables

PROJECT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8080"
"""Where the pages say that the sandbox is; it is replaced by where it really is."""

NOT_RUN = {
    "pip install": "needs a package index; installing is what the session `dist` tests",
    "python3 -m pip install": "the same",
    "python3 noxfile.py": "runs the whole suite, and this test with it",
    "uv run noxfile.py": "the same",
    "uvx --from": "the same, and takes most of a minute; `demo` has a test and a session of its own",
    "python3 -m venv": "the session `dist` types it as a stranger does",
    ". .venv/bin/activate": "the same",
    "uv sync": "makes an environment in the working tree",
    "git clone": "needs a network",
    "payclient demo": "takes most of a minute; it has a test and a session of its own",
    "psql": "needs PostgreSQL; the session `postgres` runs it",
    "bash export.sh": "the same",
}
"""Commands that are shown and not run, each with the reason."""

NEEDS = {"docs/how-to/ledger-in-a-database.md": "duckdb"}
"""Pages with the package that their examples need, where payclient does not."""

EXAMPLES = [path.read_text(encoding="utf-8") for path in sorted((PROJECT / "docs" / "examples").glob("*.py"))]
FOR_THE_EYE = {"json", "ini"}
SAVED = {"text", "toml", "bash"}
RUN = {"python", "output", "console", "powershell"}
_SCHEDULED = (
    r"Register-ScheduledTask \3 -Trigger (New-ScheduledTaskTrigger -Daily -At \1:00) -Action "
    r"(New-ScheduledTaskAction bash -Argument \3 -WorkingDirectory C:\2)"
)
IN_POWERSHELL = (
    (r"python3 -m venv (\S+) && \. \1/bin/activate", r"py -m venv \1; \1\\Scripts\\Activate.ps1"),
    (r"\. (\S+)/bin/activate", r"\1\\Scripts\\Activate.ps1"),
    (r"echo \$\?", "$LASTEXITCODE"),
    (r"cut -d , -f 1-4 (\S+)", r"Get-Content \1 | ForEach-Object { ($_ -split ',')[0..3] -join ',' }"),
    (r"0 (\d+) \* \* \* cd (/\S+) && \./(\S+)", _SCHEDULED),
)
"""What is not a command of payclient or of Python, with its form in PowerShell."""

_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,}|:{3,})(?P<language>[^\n`]*)\n(?:.*?\n)?[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL
)
_DEFINES_TEST = re.compile(r"^(?:async )?def test_", re.MULTILINE)


def languages(text):
    """Return the languages of all fenced blocks of a page."""
    return [match["language"].strip() for match in _FENCE.finditer(text)]


def is_shown(expected, actual):
    """Say whether *expected*, as a page shows it, is what was printed; `…` stands for anything."""
    wanted, got = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (expected, actual))
    return re.fullmatch(".*?".join(re.escape(part) for part in wanted.split("…")), got, re.DOTALL) is not None


def environment():
    """Return the environment of a command: ours, with the programs beside this interpreter found first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"}


def commands(source):
    """Return each command of a console block with the output that is shown below it."""
    starts = [match.start() for match in re.finditer(r"^\$ ", source, re.MULTILINE)]
    found = []
    for start, end in pairwise([*starts, len(source)]):
        lines = source[start + 2 : end].splitlines()
        size = next(count for count, line in enumerate(lines, 1) if not line.endswith("\\"))
        found.append(("\n".join(lines[:size]), "\n".join(lines[size:])))
    return found


def in_powershell(command):
    """Return *command*, a line of bash, as PowerShell takes it."""
    if command.startswith("export "):
        values = dict(pair.removeprefix("PAYCLIENT_").split("=", 1) for pair in command.split()[1:])
        return _variables(Shell.POWERSHELL, **values)
    for ours, theirs in IN_POWERSHELL:
        if match := re.fullmatch(ours, command):
            return match.expand(theirs)
    return " ".join(quote_word(word, Shell.POWERSHELL) or word for word in shlex.split(command))


def is_in_an_example(block):
    """Say whether *block*, or the same as the body of a class, stands in an example application."""
    whole_lines = [f"\n{block}", f"\n{textwrap.indent(block, '    ')}"]
    return any(lines in f"\n{text}" for text in EXAMPLES for lines in whole_lines)


class Reader:
    """
    Somebody who tries a page out.

    Args:
        folder: Where the files of the page go; the working directory of its commands.
        has: The beginnings of commands that run here, although they are not run elsewhere.
    """

    def __init__(self, folder, *, has=()):
        self.folder = folder
        self._not_run = NOT_RUN.keys() - {*has}
        self.address = ADDRESS
        self._terminal = io.StringIO()  # one for all blocks: a log handler keeps the first that it saw
        self._printed = ""
        self._status = 0
        self._differing = []  # forms for PowerShell of the commands since its last block
        self._running = ExitStack()
        self._run_python = PythonEvaluator()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self._running.__exit__(*error)

    def parse(self, path):
        """Return the page with everything in it that is to be run."""
        ways = {each: getattr(self, each) for each in RUN}
        ways |= dict.fromkeys(SAVED, self.save)
        page = Document.parse(str(path), *(CodeBlockParser(language, way) for language, way in ways.items()))
        page.namespace["__name__"] = "__main__"
        return page

    def adapted(self, text):
        """Return *text* with the real address of the sandbox."""
        return text.replace(ADDRESS, self.address)

    def python(self, example):
        """Execute a block, or keep it for pytest; lines of an example application have tests of their own."""
        if is_in_an_example(example.parsed):
            return
        if _DEFINES_TEST.search(example.parsed):
            (self.folder / f"test_line_{example.line}.py").write_text(example.parsed, encoding="utf-8")
            return
        before = self._terminal.tell()
        with redirect_stdout(self._terminal), redirect_stderr(self._terminal):
            self._run_python(example)
        self._printed = self._terminal.getvalue()[before:]

    def finish(self):
        """Run the tests that the page has shown; return what pytest said when one failed."""
        if not list(self.folder.glob("test_*.py")):
            return None
        result = self._command([sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "."])
        return result.stdout if result.returncode else None

    def output(self, example):
        """Compare what is shown with what the block above printed."""
        if is_shown(self.adapted(example.parsed), self._printed):
            return None
        return f"printed was:\n{self._printed}"

    def save(self, example):
        """Write a file, if the line above says so."""
        above = example.document.text[: example.start].rstrip().rpartition("\n")[2]
        if example.region.lexemes["arguments"] == "text" and "Save this as" not in above:
            nightly = re.findall(r"^0 \d+ \* .+", example.parsed, re.MULTILINE)
            self._differing += map(in_powershell, nightly)
            return
        name = re.findall(r"`([\w.-]+)`", above)[-1]
        (self.folder / name).write_text(example.parsed, encoding="utf-8")

    def console(self, example):
        """Run the commands of a block, and compare what they print with what is shown."""
        self._status = 0
        for command, _ in commands(example.parsed):
            self._differing += [form] if (form := in_powershell(command)) != command else []
        for command, shown in commands(self.adapted(example.parsed)):
            if any(command.startswith(start) for start in self._not_run):
                continue
            if self._status and command != "echo $?":
                return f"exit status {self._status} is not shown before {command!r}"
            run = self.start_sandbox if command.startswith("payclient sandbox") else self._shell
            printed = run(command)
            if shown.strip() and not is_shown(shown, printed):
                return f"{command!r} printed:\n{printed}"
            if command == "echo $?":
                self._status = 0
        return f"exit status {self._status} is not shown:\n{printed}" if self._status else None

    def powershell(self, example):
        """Compare what is shown with the forms of the lines above; PowerShell parses them where it is installed."""
        wanted, self._differing = "\n".join(self._differing), []
        if shutil.which("pwsh"):
            check = f"[void][ScriptBlock]::Create(@'\n{example.parsed}\n'@)"
            subprocess.run(["pwsh", "-NoProfile", "-Command", check], check=True, timeout=60)
        return None if example.parsed.strip() == wanted else f"in PowerShell, these lines are:\n{wanted}"

    def _shell(self, command):
        kept = self.folder / ".environment"
        script = f"trap 'env -0 >{kept}' EXIT\n(exit {self._status})\n{command}"
        result = self._command(["bash", "-c", script])
        self._status = result.returncode
        for pair in kept.read_text().split("\0"):
            name, is_set, value = pair.partition("=")
            if is_set and name.startswith("PAYCLIENT_"):
                os.environ[name] = value  # what a page exports holds for the rest of it
        return result.stdout

    def start_sandbox(self, command):
        """Start a server that runs to the end of the page, on any free port; return what it prints until it serves."""
        free = re.sub(r" --port \d+", "", command) + " --port 0"
        process = subprocess.Popen(["bash", "-c", f"exec {free}"], **self._terms())
        self._running.callback(process.wait)
        self._running.callback(process.terminate)
        self._running.callback(process.stdout.close)
        printed = "".join(takewhile(lambda line: not line.startswith("serving"), process.stdout))
        shown = self.address
        self.address = re.search(r"http://127\.0\.0\.1:\d+", printed)[0]
        return printed.replace(self.address, shown)

    def _command(self, arguments):
        return subprocess.run(arguments, **self._terms(), timeout=500, check=False)  # a bound against a hang

    def _terms(self):
        """Return how commands of the page run."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return {"cwd": self.folder, "env": environment(), "encoding": "utf-8", **streams}

"""Applications in processes of `uvicorn`, as in production."""

import re
import subprocess
import sys
from contextlib import contextmanager


@contextmanager
def uvicorn(app, *options, loop):
    """Run `uvicorn` on a free port until the block ends; give its address."""
    command = [sys.executable, "-m", "uvicorn", app, "--port=0", f"--loop={loop}", "--no-access-log", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"running on (http://\S+)", line):
                    break
            else:
                raise AssertionError("".join(said))
            yield found[1]
        finally:
            process.terminate()
            process.communicate(timeout=60)

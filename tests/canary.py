"""Look for the API key of the tests in what a test run has left: `python -m canary FOLDER`."""

import sys
from pathlib import Path

from support.fakes import KEY

LOGGED = b"attempt 1: status 200"
"""What every lookup writes at DEBUG; without it, nothing was captured and there was nothing to find."""


def main(folder):
    files = [path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]
    contents = {path: path.read_bytes() for path in files}
    hits = [path for path, content in contents.items() if KEY.encode() in content]
    for path in hits:
        print(f"canary: the key is in {path}")
    size = sum(map(len, contents.values()))
    print(f"canary: {len(hits)} of {len(files)} files ({size:,} bytes) hold the key")
    if not any(LOGGED in content for content in contents.values()):
        sys.exit("canary: no log line of an attempt is there, so nothing can be said")
    return bool(hits)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

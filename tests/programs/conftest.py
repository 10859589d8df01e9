"""The programs that write these ledgers are installed by a session of their own."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("pandas") else ["test_ledgers.py"]

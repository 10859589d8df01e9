"""
The page about PostgreSQL, with a real one.

The server is started by the test and stopped by it.
"""

from pathlib import Path

import pytest

from docs.blocks import Reader
from support.postgres_server import NEEDED, running

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "ledger-in-postgresql.md"

pytestmark = [pytest.mark.postgres, NEEDED]


def test_page(tmp_path, monkeypatch):
    """Every block of the page runs as it is written, and prints what is shown."""
    monkeypatch.chdir(tmp_path)
    with running() as socket, Reader(tmp_path) as reader:
        exported = reader.adapted(reader.start_sandbox("payclient sandbox"))
        for pair in exported.splitlines()[0].removeprefix("export ").split():
            monkeypatch.setenv(*pair.split("="))
        for variable, value in (("PGHOST", str(socket)), ("PGUSER", "shop"), ("PGDATABASE", "postgres")):
            monkeypatch.setenv(variable, value)
        examples = list(reader.parse(PAGE))
        for example in examples:
            example.evaluate()
    assert len(examples) > 4

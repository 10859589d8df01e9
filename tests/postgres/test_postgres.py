"""
The commands for PostgreSQL on the page about databases, with a real one.

The server is started by the test and stopped by it.
"""

import os
import subprocess
from pathlib import Path

import pytest

from docs.blocks import Reader
from support.postgres_server import NEEDED, running

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "ledger-in-a-database.md"

TABLE = """
CREATE TABLE payments (id serial, reference text, amount bigint, state text, created_at timestamptz);
INSERT INTO payments (reference, amount, state, created_at) VALUES
    ('T0000000001DEMO', 150000, 'paid', '2026-11-20 09:00+07'),
    ('T0000000002DEMO', 75000, 'paid', '2026-11-20 10:00+07'),
    ('T0000000003DEMO', 20000, 'canceled', '2026-11-21 08:00+07');
"""

pytestmark = [pytest.mark.postgres, NEEDED]


def test_page(tmp_path, monkeypatch):
    """Every block runs as it is written, and prints what is shown; a query that fails leaves no ledger."""
    monkeypatch.chdir(tmp_path)
    with running() as socket, Reader(tmp_path, has=("psql", "bash export.sh")) as reader:
        exported = reader.adapted(reader.start_sandbox("payclient sandbox"))
        for pair in exported.splitlines()[0].removeprefix("export ").split():
            monkeypatch.setenv(*pair.split("="))
        for variable, value in (("PGHOST", str(socket)), ("PGUSER", "shop"), ("PGDATABASE", "postgres")):
            monkeypatch.setenv(variable, value)
        subprocess.run(["psql", "--quiet", "--command", TABLE], check=True)
        for example in reader.parse(PAGE):
            example.evaluate()
        failed = subprocess.run(
            ["bash", "export.sh", "other"],
            env={**os.environ, "PGDATABASE": "nowhere"},
            check=False,
            capture_output=True,
        )
    assert (failed.returncode, [path.name for path in (tmp_path / "other").iterdir()]) == (2, ["ledger.part"])

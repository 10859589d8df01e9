"""What several tests of the reconciliation need."""

import sqlite3

import pytest

from support.nights import Nights


@pytest.fixture
def night(tmp_path):
    """Give what runs one night after the other."""
    return Nights(tmp_path)


@pytest.fixture
def path(tmp_path):
    """Give where a journal may be; its folder is not there yet."""
    return tmp_path / "report" / "journal.sqlite"


@pytest.fixture
def databases(monkeypatch):
    """Collect the databases that are opened."""
    opened, connect = [], sqlite3.connect

    def remembering(*args, **options):
        opened.append(connect(*args, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", remembering)
    return opened

"""One Parquet file, looked up into another."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from payclient import AuthenticationError, ConfigurationError
from payclient.engines import LookupSpec
from payclient.engines._background import _registries
from payclient.engines._file import known_outcomes, look_up_file
from payclient.ledger import LedgerError


@pytest.fixture(autouse=True)
def clean():
    yield
    for background in (_registries.pop(os.getpid()).clients if os.getpid() in _registries else {}).values():
        background.close()


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "part[0].parquet"
    references = [f"T{n}" for n in range(30)] + ["NONE", "", None]
    pq.write_table(pa.table({"id": range(33), "reference": references, "x": ["x"] * 33}), path, row_group_size=10)
    return path


def test_answers(served, source, tmp_path):
    """The result has a row for each row, in their order, with the columns that were kept."""
    served(30)
    counts = look_up_file(source, tmp_path / "out", LookupSpec(keep=["id"]))
    table = pq.read_table(tmp_path / "out" / source.name)
    assert counts == {"ok": 30, "not_found": 1, "rejected": 2}
    assert (table["id"].to_pylist(), table.column_names[:2]) == (list(range(33)), ["id", "reference"])
    assert table["outcome"].to_pylist() == ["ok"] * 30 + ["not_found", "rejected", "rejected"]


def test_known(served, source, tmp_path):
    """What is done is known by its result, and nothing is before."""
    served(30)
    spec = LookupSpec(keep=["id"])
    assert known_outcomes(source, tmp_path / "out", spec) is None
    counts = look_up_file(source, tmp_path / "out", spec)
    assert known_outcomes(source, tmp_path / "out", spec) == counts


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("in", r"has 33 rows and .* has 1"),
        ("out", r"was not written by payclient"),
    ],
)
def test_changed(served, source, tmp_path, changed, message):
    """A result that does not fit its input is refused, and not taken for done."""
    served(30)
    look_up_file(source, tmp_path / "out", LookupSpec())
    pq.write_table(pa.table({"reference": ["T1"]}), source if changed == "in" else tmp_path / "out" / source.name)
    with pytest.raises(ConfigurationError, match=message):
        known_outcomes(source, tmp_path / "out", LookupSpec())


def test_other_options(served, source, tmp_path):
    """A result of the sandbox is not taken for one of the live service."""
    served(30)
    look_up_file(source, tmp_path / "out", LookupSpec())
    with pytest.raises(ConfigurationError, match=r'was made with other options.*"environment": "live"'):
        known_outcomes(source, tmp_path / "out", LookupSpec(environment="sandbox"))


def test_empty(served, tmp_path):
    """A file without rows has a result without rows."""
    served(1)
    pq.write_table(pa.table({"reference": pa.array([], pa.string())}), tmp_path / "none.parquet")
    assert look_up_file(tmp_path / "none.parquet", tmp_path / "out", LookupSpec()) == {}
    assert pq.read_table(tmp_path / "out" / "none.parquet").num_rows == 0
    assert known_outcomes(tmp_path / "none.parquet", tmp_path / "out", LookupSpec()) == {}


def test_failure(served, source, tmp_path, monkeypatch):
    """A lookup that fails leaves nothing behind, not even a hidden file."""
    served(30)
    monkeypatch.setenv("PAYCLIENT_API_KEY", "another-key-0123456789")
    with pytest.raises(AuthenticationError):
        look_up_file(source, tmp_path / "out", LookupSpec())
    assert list((tmp_path / "out").iterdir()) == []


def test_damaged(served, source, tmp_path):
    """A file that cannot be read is named."""
    served(30)
    source.write_bytes(source.read_bytes()[:-20])
    with pytest.raises(LedgerError, match=r"part\[0\].parquet: the Parquet file is damaged"):
        look_up_file(source, tmp_path / "out", LookupSpec())


def test_no_column(served, source, tmp_path):
    """So is one without the column."""
    served(30)
    with pytest.raises(ConfigurationError, match=r"part\[0\].parquet: no column is called 'ref'"):
        look_up_file(source, tmp_path / "out", LookupSpec(reference="ref"))

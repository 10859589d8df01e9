"""An engine that is not installed."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "needed", "message"),
    [
        ("spark", "pyspark", "payclient.engines.spark needs PySpark; install it with: pip install 'payclient[spark]'"),
        ("ray", "ray", "payclient.engines.ray needs Ray Data; install it with: pip install 'payclient[ray]'"),
    ],
)
def test_missing(monkeypatch, module, needed, message):
    """A missing library is reported with the extra that installs it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == needed]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"payclient.engines.{module}", raising=False)
    monkeypatch.setitem(sys.modules, needed, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(f"payclient.engines.{module}")
    assert str(caught.value) == message

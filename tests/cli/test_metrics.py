"""`payclient reconcile --metrics FILE`: the result of a run for a collector."""

from __future__ import annotations

import os
import stat
import time

import pytest


@pytest.fixture
def reconcile(configured, tmp_path):
    """Reconcile a ledger of these lines."""

    def reconcile(*arguments, lines, out="report"):
        ledger = tmp_path / "ledger.csv"
        ledger.write_text("".join(f"{line}\n" for line in ("reference,amount,status", *lines)))
        return configured("reconcile", str(ledger), "--out", str(tmp_path / out), *arguments, "--quiet")

    return reconcile


def values(file):
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_values(reconcile, tmp_path):
    """The file has rows by bucket, findings by code, breaks by severity, the verdict, the status and the time."""
    began = time.time()
    file = tmp_path / "metrics" / "payclient.prom"
    result = reconcile("--metrics", str(file), lines=["T1,15000,Paid", "T2,9000,Canceled", "T3,1,Paid"])
    found = values(file)
    assert result.status == found["payclient_reconcile_exit_status"] == 1
    assert [found[f'payclient_reconcile_rows{{bucket="{name}"}}'] for name in ("matched", "break", "open")] == [1, 2, 0]
    assert found['payclient_reconcile_findings{code="underpaid"}'] == 1
    assert found['payclient_reconcile_breaks{severity="high"}'] == 2
    verdicts = {name: value for name, value in found.items() if "verdict" in name}
    assert [name for name, value in verdicts.items() if value] == ['payclient_reconcile_verdict{verdict="breaks"}']
    assert found["payclient_reconcile_ended_timestamp_seconds"] >= began


def test_format(reconcile, tmp_path):
    """Each metric is described once, as a gauge, above its values; the file holds no money and no reference."""
    file = tmp_path / "payclient.prom"
    reconcile("--metrics", str(file), lines=["T1,15000,Paid"])
    lines = file.read_text().splitlines()
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert [line.split()[3] for line in lines if line.startswith("# TYPE")] == ["gauge"] * len(names)
    assert [line.split()[2] for line in lines if line.startswith("# HELP")] == names
    assert ("15000" in file.read_text(), "T1" in file.read_text()) == (False, False)


def test_replaced_whole(reconcile, tmp_path):
    """A later run replaces the file as a whole, readable by others, and leaves nothing beside it."""
    file = tmp_path / "metrics" / "payclient.prom"
    reconcile("--metrics", str(file), lines=["T1,15000,Paid", "T3,1,Paid"], out="first")
    reconcile("--metrics", str(file), lines=["T1,15000,Paid"], out="second")
    assert values(file)['payclient_reconcile_verdict{verdict="clean"}'] == 1
    assert "missing_at_service" not in file.read_text()
    assert list(file.parent.iterdir()) == [file]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644 or os.name == "nt"


def test_refused_run(reconcile, tmp_path, monkeypatch):
    """A run that is refused leaves the file as it is, so that its age tells."""
    file = tmp_path / "payclient.prom"
    reconcile("--metrics", str(file), lines=["T1,15000,Paid"], out="first")
    before = file.read_text()
    monkeypatch.setenv("PAYCLIENT_API_KEY", "some-other-key")
    result = reconcile("--metrics", str(file), lines=["T1,15000,Paid"], out="second")
    assert (result.status, file.read_text()) == (3, before)

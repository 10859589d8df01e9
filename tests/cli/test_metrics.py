"""`payclient reconcile --metrics FILE`: the result of a run for a collector."""

from __future__ import annotations

import os
import stat
import time


def test_metrics(night, tmp_path, monkeypatch):
    """Each metric is described once above its values, without money; a later run replaces the file, a refused not."""
    began, file = time.time(), tmp_path / "metrics" / "payclient.prom"
    options = ("--quiet", "--metrics", str(file))
    result = night("first", *options, lines=["T1,15000,Paid", "T2,9000,Canceled", "T3,1,Paid"])
    lines = file.read_text().splitlines()
    described = [line.split()[2] for line in lines if line.startswith("# HELP")]
    assert [line.split()[2:] for line in lines if line.startswith("# TYPE")] == [[name, "gauge"] for name in described]
    values = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}
    found = {name.removeprefix("payclient_reconcile_"): value for name, value in values.items() if value}
    assert found.pop("ended_timestamp_seconds") >= began
    assert found == {
        'rows{bucket="matched"}': 1,
        'rows{bucket="break"}': 2,
        'findings{code="missing_at_service"}': 1,
        'findings{code="underpaid"}': 1,
        'breaks{severity="high"}': 2,
        'verdict{verdict="breaks"}': 1,
        "exit_status": result.status,
    }
    assert ("15000" in file.read_text(), "T1" in file.read_text()) == (False, False)
    night("second", *options, lines=["T1,15000,Paid"])
    text = file.read_text()
    assert ('verdict="clean"} 1' in text, "missing_at_service" in text, list(file.parent.iterdir())) == (
        True,
        False,
        [file],
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o644 or os.name == "nt"
    monkeypatch.setenv("PAYCLIENT_API_KEY", "some-other-key")
    assert (night("third", *options, lines=["T1,15000,Paid"]).status, file.read_text()) == (3, text)

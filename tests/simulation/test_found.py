"""What the simulation has found, each as the plan that showed it."""

from __future__ import annotations

import pytest

from simulation.plan import Fault, Limit, Plan
from simulation.world import run

FOUND = {
    "doubtful not found while the client closes": Plan(
        seed=170,
        transport="fast",
        clients=2,
        concurrency=3,
        max_rate=10.0,
        references=(
            *("T0", "T1", "T0", "T2", "T3", "T4", "T5", "T6", "T7", "T2"),
            *(f"T{n}" for n in range(8, 22)),
            "C22",
        ),
        spread=60.0,
        tick=0.0005,
        latency=(0.001, 0.001),
        work_seconds=1.0,
        faults=(
            Fault("extra missing, later", 5, 1.175),
            Fault("restart", 7.877, 2.263),
            Fault("wall clock", 2.664, 0.017),
            Fault("dead name", 0.231, 0.176),
            Fault("close", 157),
        ),
    ),
    "timers of deferred rows": Plan(
        seed=37,
        work="stream",
        transport="mounted",
        timeout=2.0,
        deadline=120.0,
        references=("T0", "T1"),
        spread=0.0,
        is_shuffled=False,
        latency=(0.01, 0.4),
        work_seconds=1.0,
        faults=(Fault("restart", 1.987, 3.928), Fault("cancel", 119, 3)),
    ),
    "timer of an equal lookup, closed meanwhile": Plan(
        seed=589,
        concurrency=8,
        timeout=2.0,
        deadline=20.0,
        references=("T0", "T1", "T0", "T2", "T3"),
        spread=0.0,
        latency=(0.001, 0.001),
        work_seconds=0.0,
        faults=(Fault("close", 51),),
    ),
    "rejected by mistake, then a bare not found": Plan(
        seed=617,
        work="stream",
        transport="fast",
        clients=2,
        concurrency=1,
        timeout=10.0,
        deadline=20.0,
        references=("U0", "T0", "T1", "U2", "T3", "R4", "U5"),
        spread=0.0,
        is_shuffled=False,
        latency=(0.01, 0.4),
        loss=0.1,
        work_seconds=1.0,
        limit=Limit("bucket", 2),
        faults=(Fault("bare 404", 10, 15.587),),
    ),
    "cancelled as a second address is tried": Plan(
        seed=462,
        work="batch",
        transport="mounted",
        is_tls=True,
        concurrency=8,
        max_rate=10.0,
        timeout=2.0,
        deadline=120.0,
        references=("T0", "U1", "T2", "T3", "T4", "T5", "T6", "T7", "T5", "U8", "T9", "T10"),
        spread=0.0,
        tick=0.0005,
        loss=0.02,
        pieces=8,
        work_seconds=1.0,
        faults=(Fault("idle end", 0.282, 0.975), Fault("dead address", 0.296, 33.986), Fault("cancel", 573, 8)),
    ),
    "closed between connecting and sending": Plan(
        seed=7630,
        work="reconcile",
        transport="httpx",
        concurrency=8,
        max_rate=50.0,
        timeout=10.0,
        deadline=60.0,
        references=("T0", "T1", "U2", *(f"T{n}" for n in range(3, 14)), "U14", "T15", "T16"),
        spread=10.0,
        tick=0.0005,
        latency=(0.001, 0.001),
        loss=0.0,
        pieces=1,
        work_seconds=0.0,
        faults=(
            Fault("cancel", 5, 1),
            Fault("cancel", 10, 17),
            Fault("kill", 3019, 0.0),
            Fault("kill", 6, 0.0),
            Fault("kill", 241, 0.0),
        ),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    """What was mended stays mended."""
    assert run(FOUND[name]).problems == ()

"""What the simulation has found, each as the plan that showed it."""

import re

import pytest

from simulation.plan import plan_of
from simulation.world import run

PLANS = """
doubtful not found while the client closes
    seed=170 transport=fast clients=2 concurrency=3 max_rate=10.0 spread=60.0 tick=0.0005 latency=(0.001, 0.001)
    work_seconds=1.0 / T0 T1 T0 T2 T3 T4 T5 T6 T7 T2 T8 T9 T10 T11 T12 T13 T14 T15 T16 T17 T18 T19 T20 T21 C22 /
    extra missing, later at 5 (1.175); restart at 7.877 (2.263); wall clock at 2.664 (0.017); dead name at 0.231
    (0.176); close at 157
timers of deferred rows
    seed=37 work=stream timeout=2.0 deadline=120.0 spread=0.0 is_shuffled=False latency=(0.01, 0.4) work_seconds=1.0
    / T0 T1 / restart at 1.987 (3.928); cancel at 119 (3)
timer of an equal lookup, closed meanwhile
    seed=589 concurrency=8 timeout=2.0 deadline=20.0 spread=0.0 latency=(0.001, 0.001) work_seconds=0.0 / T0 T1 T0
    T2 T3 / close at 51
rejected by mistake, then a bare not found
    seed=617 work=stream transport=fast clients=2 concurrency=1 timeout=10.0 deadline=20.0 spread=0.0
    is_shuffled=False latency=(0.01, 0.4) loss=0.1 work_seconds=1.0 limit=('bucket', 2, 1.0, False) / U0 T0 T1 U2 T3
    R4 U5 / bare 404 at 10 (15.587)
cancelled as a second address is tried
    seed=462 work=batch is_tls=True concurrency=8 max_rate=10.0 timeout=2.0 deadline=120.0 spread=0.0 tick=0.0005
    loss=0.02 pieces=8 work_seconds=1.0 / T0 U1 T2 T3 T4 T5 T6 T7 T5 U8 T9 T10 / idle end at 0.282 (0.975); dead
    address at 0.296 (33.986); cancel at 573 (8)
answered and then cut off, which is no wrong address
    seed=3181 work=stream is_tls=True clients=3 concurrency=1 timeout=10.0 spread=0.0 is_shuffled=False
    latency=(0.001, 0.001) work_seconds=1.0 / U0 T1 T2 T3 T0 T4 T5 U7 / throttled until at 0 (0.448); reset within
    at 5 (6.717); no content at 6 (28.903); dead address at 0.268 (0.079); dead name at 7.318 (8.213); jump at 81
    (2.373); jump at 10 (2.547)
a stray not found, then a bare one
    seed=1914 work=stream transport=injected is_tls=True concurrency=8 timeout=10.0 deadline=120.0 spread=0.0
    is_shuffled=False latency=(0.001, 0.001) loss=0.1 pieces=8 work_seconds=0.0 / T0 T0 T1 T2 T3 T4 T5 T6 T7 T8 T9
    T10 T0 T11 T12 T13 T14 T15 T16 T17 / extra missing, next at 0 (0.117); extra missing, same write at 2 (8.519);
    extra missing, same write at 8 (1.564); bare 404 at 18 (1.62); jump at 15 (28.916); jump at 471 (2.101)
closed between connecting and sending
    seed=7630 work=reconcile concurrency=8 max_rate=50.0 timeout=10.0 spread=10.0 tick=0.0005 latency=(0.001, 0.001)
    work_seconds=0.0 / T0 T1 U2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12 T13 U14 T15 T16 / cancel at 5 (1); cancel at 10
    (17); kill at 3019; kill at 6; kill at 241
cancelled as the slower of two connections is closed
    seed=20833 work=stream is_tls=True clients=2 concurrency=3 max_rate=10.0 timeout=10.0 deadline=3.0 spread=60.0
    is_shuffled=False latency=(0.001, 0.001) work_seconds=1.0 / U0 T1 U2 T4 T6 U8 T10 T12 T14 T16 U18 T0 T20 U22 /
    partition at 0.141 (2.742); cancel at 58 (6); cancel at 11 (1); cancel at 14 (1)
nothing is sent without a key
    seed=1659 work=reconcile transport=fast is_tls=True proxy=True concurrency=8 has_source=True timeout=10.0
    deadline=3.0 spread=0.0 is_shuffled=False latency=(0.01, 0.4) / U0 / restart at 0.725 (2.73); kill at 2074;
    source fails at 0; source fails at 1
answered behind the mark of the end
    seed=209 work=stream clients=3 concurrency=2 timeout=10.0 spread=10.0 latency=(0.001, 0.001) work_seconds=0.0 /
    T0 T1 T2 T0 T3 T4 T5 T6 T7 T0 T8 T9 T10 T8 T11 T12 T13 T14 T13 T15 R20 T21 T0 C24 / observer raises at 20
bad rows that hold up the input
    seed=160 work=stream transport=fast has_source=True spread=60.0 is_shuffled=False latency=(0.001, 0.001)
    work_seconds=0.0 troubles=('queues of one',) / T0 C4 /
bad rows of which one is always due
    seed=1315 work=reconcile concurrency=1 has_source=True timeout=10.0 deadline=20.0 is_shuffled=False
    latency=(0.001, 0.001) / C0 C1 T2 C3 C4 /
a commit that is due when the journal closes
    seed=4998 work=reconcile concurrency=8 spread=60.0 order=((5, 1), (6, 1), (7, 1)) work_seconds=0.0 / T0 T1 /
    wall clock at 0.018 (36.556); cancel at 19 (12); kill at 379; cancel at 21 (12); stop at 100
key that is refused while the client closes
    seed=5018 work=stream transport=fast is_tls=True concurrency=2 has_source=True timeout=10.0 deadline=20.0
    is_shuffled=False latency=(0.001, 0.001) pieces=8 / U0 T1 / wall clock at 0.294 (23.186); dead name at 0.526
    (4.101); jump at 15 (0.647); close at 93; key rotates at 1.46
two connections that are one answer late
    seed=10849 work=crowd transport=injected concurrency=8 timeout=10.0 spread=60.0 is_shuffled=False
    latency=(0.001, 0.001) / T0 T0 C1 / one behind at 8; one behind at 14; one a second for ever at 0.0
a call of a thread that begins as the loop ends
    seed=1467 work=threads transport=fast concurrency=1 timeout=10.0 deadline=120.0 is_shuffled=False
    latency=(0.001, 0.001) work_seconds=1.0 / T0 / cancel at 5
a former probe in the next outage
    seed=785 is_tls=True proxy=True concurrency=8 has_source=True timeout=10.0 deadline=20.0 spread=60.0
    is_shuffled=False latency=(0.001, 0.001) pieces=8 / T0 T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12 T13 T14 T15 T16
    T17 T18 T19 T20 T21 T22 T23 / error 500 at 3 (0.5); error 500 at 8 (0.5); error 500 at 15 (0.5); error 500 at 16
    (0.5); error 500 at 17 (0.5); error 500 at 21 (0.5); error 500 at 22 (0.5); error 500 at 23 (0.5); error 500 at
    24 (0.5); error 500 at 26 (0.5); error 500 at 27 (0.5); error 500 at 28 (0.5); stall at 0 (2.0); stall at 1
    (2.0); stall at 5 (2.0); stall at 10 (2.0); stall at 18 (2.0); stall at 20 (2.0); throttled bare at 2 (1.4);
    throttled bare at 4 (1.4); throttled bare at 6 (1.4); throttled bare at 7 (1.4); throttled bare at 11 (1.4);
    throttled bare at 19 (1.4); throttled bare at 25 (1.4); proxy idle reset at 23.654 (0.5); proxy idle reset at
    18.576 (0.5); proxy idle reset at 12.501 (0.5); proxy idle reset at 9.809 (0.5); proxy idle reset at 4.737 (0.5)
rows that are never answered, before any was
    seed=7190 work=stream transport=fast clients=3 concurrency=8 timeout=10.0 spread=0.0 is_shuffled=False
    latency=(0.001, 0.001) work_seconds=1.0 / T0 C1 T2 C3 C4 T5 C7 T8 C13 T16 /
cancelled while the ledger is read
    seed=2174 work=reconcile concurrency=3 deadline=20.0 spread=10.0 tick=0.0005 latency=(0.001, 0.001) troubles=('a
    commit for each row',) / T0 U1 T2 T3 T4 T5 U6 U7 T0 T8 U9 T10 T11 T12 T4 T13 T14 T15 / cancel at 20 (22); stop
    at 205; stop at 86; stop at 27
a call of the key source without a lookup, as the client closes
    seed=5175 work=reconcile concurrency=1 has_source=True timeout=10.0 deadline=10.0 spread=10.0 is_shuffled=False
    latency=(0.001, 0.001) work_seconds=1.0 / T0 T1 T2 T3 T4 T5 T6 T8 / key rotates at 2.114 (0.478); key rotates at
    0.096 (0.034); source hangs at 4 (27.304); stop at 73 (1.613); stop at 145 (5.205)
a call of the key source that was taken over, and left once more
    seed=4 has_source=True timeout=1.0 deadline=1.0 spread=4.0 / T0 T0 T0 T0 T0 / source hangs at 0 (30.0)
nothing is sent before there is a tunnel
    seed=866 transport=fast is_tls=True proxy=True timeout=2.0 / T0 / proxy silence at 0; proxy silence at 1; proxy
    silence at 2; proxy silence at 3; proxy silence at 4; proxy silence at 5; proxy silence at 6; proxy silence at 7
throttled after its caller was told of an outage
    seed=69100 is_tls=True proxy=True concurrency=8 timeout=10.0 deadline=20.0 spread=60.0 is_shuffled=False
    latency=(0.01, 0.4) work_seconds=1.0 limit=('bucket', 2, 5.0, False) / T0 T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12
    T13 T14 T15 T16 T17 T18 T19 T20 T21 T22 T23 T24 T25 T26 T27 T28 T29 T30 T31 T32 T33 T34 T35 T36 T37 T38 T39 T40
    T41 T42 T43 T44 T45 T46 T47 T48 T49 T50 T51 T52 T53 T54 T55 T56 T57 T58 T59 T60 T61 T62 T63 T64 T65 T66 T67 T68
    T69 T70 T71 T72 T73 T74 T75 T76 T77 T78 T79 T80 T81 T82 T83 T84 T85 T86 T87 T88 T89 T90 T91 T92 T93 T94 T95 T96
    T97 T98 T99 T100 T101 T102 T103 T104 T105 T106 T107 T108 T109 T110 T111 T112 T113 T114 T115 T116 T117 T118 /
    error 500 at 0 (1.905); error 500 at 1 (1.638); error 500 at 2 (2.896); error 500 at 3 (1.339); error 500 at 5
    (0.885); error 500 at 6 (1.473); error 500 at 7 (2.104); error 500 at 8 (0.681); proxy idle end at 2.983 (0.445)
"""
FOUND = {name: plan_of(text) for name, text in re.findall(r"^(\S.*)\n((?: +.*\n)+)", PLANS, flags=re.MULTILINE)}


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    """What was mended stays mended."""
    assert run(FOUND[name]).problems == ()


def test_text():
    """A plan is the one that its text says."""
    assert [plan_of(str(plan)) for plan in FOUND.values()] == list(FOUND.values())

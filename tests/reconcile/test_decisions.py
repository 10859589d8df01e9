"""Decisions: words, a chain of lines, and what was accepted as a rule."""

import json
from datetime import date

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile import Accepted, Code, Decision, DecisionError, Finding, Resolution, Rules
from payclient.reconcile._judgement.decisions import (
    FIRST,
    decision_line,
    read_decisions,
    read_resolution,
    with_decisions,
)
from support.chance import examples
from support.misses import check_table
from support.reconciling import NOON
from support.ruling import accepted as accepting

ACCEPTED = Decision(
    run="R",
    reference="T1",
    code="underpaid",
    owner="Ana",
    resolution=Resolution.ACCEPTED,
    until=date(2026, 12, 31),
    comment="agreed",
    ledger=100,
    service=95,
    at_stake=5,
    by="ana",
    at=NOON,
    evidence="ab" * 32,
)
RAISED = attrs.evolve(ACCEPTED, resolution=Resolution.RAISED, until=None)


def written(decisions):
    """Return the lines of a file."""
    lines, head = [], FIRST
    for decision in decisions:
        line, head = decision_line(decision, head)
        lines.append(f"{line}\n".encode())
    return lines


def read(lines):
    return [decision for decision, _ in read_decisions(lines)]


def test_words():
    """A resolution is one of three words, in any letter case and spacing; any other is refused with those there are."""
    check_table(
        (
            ("", (None, None)),
            ("  ", (None, None)),
            ("Accepted  until 2026-12-31", (Resolution.ACCEPTED, date(2026, 12, 31))),
            ("corrected in the ledger", (Resolution.CORRECTED, None)),
            ("RAISED with\nthe service ", (Resolution.RAISED, None)),
        ),
        read_resolution,
    )
    for text, message in (
        ("accepted", "the resolution must be .accepted until YYYY-MM-DD."),
        ("accepted until tomorrow", "the resolution must be"),
        ("accepted until 2026-02-30", "the resolution must be"),
        ("accepted until 31.12.2026", "the resolution must be"),
        ("ok", "the resolution must be 'accepted until YYYY-MM-DD', 'corrected in the ledger' or"),
        ("\u202eok", r"got '<U\+202E>ok'"),
    ):
        with pytest.raises(DecisionError, match=message):
            read_resolution(text)


def decisions():
    texts = st.text(max_size=5)
    one = st.builds(
        Decision,
        run=texts,
        reference=texts,
        code=st.sampled_from(["underpaid", "unresolved"]),
        owner=texts,
        resolution=st.none() | st.sampled_from(Resolution),
        until=st.none() | st.dates(),
        comment=texts,
        ledger=st.none() | texts | st.integers(),
        service=st.none() | texts | st.integers(),
        at_stake=st.none() | st.integers(0),
        by=texts,
        at=st.just(NOON),
        evidence=texts,
    )
    return st.lists(one, min_size=1, max_size=5)


@examples(100)
@given(decisions())
def test_round_trip(decisions):
    """What was written is read again as it was."""
    assert read(written(decisions)) == decisions


@examples(200)
@given(decisions(), st.data())
def test_tampering(decisions, data):
    """Any changed byte, and any line that is missing before others, moved or repeated, is noticed."""
    lines = written(decisions)
    place = data.draw(st.integers(0, len(lines) - 1))
    kinds = ["byte", "cut", "again", *(["missing", "moved"] if place + 1 < len(lines) else [])]
    kind = data.draw(st.sampled_from(kinds))
    if kind == "byte":
        line = bytearray(lines[place])
        spot = data.draw(st.integers(0, len(line) - 1))
        line[spot] ^= data.draw(st.integers(1, 127))
        lines[place] = bytes(line)
    elif kind == "cut":
        lines[place] = lines[place][:-1]
    elif kind == "again":
        lines.insert(place, lines[place])
    elif kind == "missing":
        del lines[place]
    else:
        lines[place], lines[place + 1] = lines[place + 1], lines[place]
    with pytest.raises(DecisionError, match=r"^line \d+: it "):
        read(b"".join(lines).splitlines(keepends=True) if kind != "cut" else lines)


def test_other_spaces():
    """A line with the same values, written otherwise, is not ours."""
    (line,) = written([ACCEPTED])
    for other in (line.replace(b": ", b":\t", 1), json.dumps(json.loads(line), separators=(",", ":")).encode() + b"\n"):
        with pytest.raises(DecisionError, match="it was changed"):
            read([other])


def test_no_decision():
    """A line that payclient did not write is refused."""
    for line in (b"", b"{}", b"[]", b"null", b"\xff", b"[" * 99_999, b'{"sha256": 1}'):
        with pytest.raises(DecisionError, match="payclient did not write it"):
            read([line + b"\n"])


def test_acceptance():
    """What is accepted covers the difference that was there, until its last day, unless a later decision ends it."""
    (accepted,) = with_decisions(Rules(), [RAISED, ACCEPTED]).accepted
    given = {"reference": "T1", "ledger": 100, "reason": "agreed", "owner": "Ana", "expires": date(2026, 12, 31)}
    given["run"] = ACCEPTED.run
    assert accepted == Accepted(code=Code.UNDERPAID, service=95, largest_difference=5, **given)
    assert with_decisions(Rules(), [ACCEPTED, RAISED]).accepted == ()
    # A side that stated nothing is accepted as such.
    for stated, sides in (({"service": None}, (100, "")), ({"ledger": None}, ("", 95))):
        (accepted,) = with_decisions(Rules(), [attrs.evolve(ACCEPTED, **stated)]).accepted
        assert (accepted.ledger, accepted.service) == sides


def test_without_money():
    """A line from before the amount at stake was written is read as it is, and covers a difference without money."""
    old = attrs.evolve(ACCEPTED, at_stake=None)
    (line,) = written([old])
    assert (read([line]), b"at_stake" in line) == ([old], False)
    (accepted,) = with_decisions(Rules(), [old]).accepted
    for at_stake, covered in ((None, True), (0, True), (5, False)):
        assert accepted.covers(Finding(Code.UNDERPAID, "", ledger=100, service=95, at_stake=at_stake)) is covered
    assert not attrs.evolve(accepted, ledger=None, service=None).covers(Finding(Code.UNDERPAID, ""))


def test_rule_and_decision():
    """Of a rule and a decision about one difference the decision counts; other rules stay."""
    rule = attrs.evolve(accepting("T1", largest_difference=1), owner="y")
    other = attrs.evolve(rule, reference="T2")
    found = with_decisions(Rules(accepted=[rule, other]), [ACCEPTED]).accepted
    assert [(each.reference, each.owner) for each in found] == [("T1", "Ana"), ("T2", "y")]
    assert with_decisions(Rules(accepted=[rule, other]), [RAISED]).accepted == (other,)
    nothing = attrs.evolve(RAISED, resolution=None)
    assert with_decisions(Rules(accepted=[rule, other]), [nothing]).accepted == (rule, other)


def test_cells():
    """The work list shows a decision as it was written there."""
    assert ACCEPTED.cells == ("Ana", "accepted until 2026-12-31", "agreed")
    assert RAISED.cells == ("Ana", "raised with the service", "agreed")
    assert attrs.evolve(RAISED, resolution=None).cells == ("Ana", "", "agreed")


def test_plain_json():
    """A line is ASCII, so that no text in it can act on a terminal."""
    line, _ = decision_line(attrs.evolve(ACCEPTED, comment="\x1b[2J\u202e"), FIRST)
    assert (line.isascii(), line.isprintable(), json.loads(line)["comment"]) == (True, True, "\x1b[2J\u202e")

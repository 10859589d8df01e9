"""The contract of a run keeps the golden answers of the run before, and compares them byte for byte."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from attrs import evolve

from payclient.reconcile.drift import Contract, ContractError, ContractRecorder, contract_from_json
from payclient.reconcile.drift._compare import golden_drifts, steady_parts
from payclient.reconcile.drift._contract import choose
from support.answering import DATA, HEADERS, answer

AT = datetime(2026, 11, 21, 2, tzinfo=UTC)
CANARY = "SitiRahmawati"


def a_run(previous=None, *, count=100, ask=True, **changes):
    """Return the contract of one run, whose golden answers are then asked with *changes*."""
    recorder = ContractRecorder(previous=previous)
    for number in range(count):
        reference = f"{'T' if previous is None else 'U'}{number:03}"
        recorder.offer(answer(recorder, reference, status=("Paid", "Expired")[number % 2]))
    for reference in recorder.golden_references() if ask else ():
        answer(recorder, reference, **changes)
    return recorder.contract(AT)


def drifts(*nights):
    """Return what changed in the golden answers of the last night."""
    older, before, today = (night.golden for night in nights)
    return {drift.name: drift.count for drift in golden_drifts(before, today, steady_parts(older, before))}


def test_choice():
    """Of 100 answers five are golden, at most 20 of any number, of each method and state in turn."""
    first = a_run()
    assert [each.group for each in first.golden] == ["QRIS Expired", "QRIS Paid"] * 2 + ["QRIS Expired"]
    assert len(a_run(count=19).golden) == 0
    many = [(f"T{number:03}", f"group {number % 7}") for number in range(200)]
    assert len(choose(many, 10_000)) == 20
    assert len({each.group for each in choose(many, 140)}) == 7
    assert choose(many, 10_000, already=20) == ()


def test_golden_answers_go_on():
    """The next run asks the same references, and fills up to its own number."""
    first = a_run()
    second = a_run(first, count=200)
    assert [each.reference for each in second.golden[:5]] == [each.reference for each in first.golden]
    assert len(second.golden) == 10
    assert second.salt == first.salt


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"amount": "15000"}, {"golden type of amount integer text": 5}),
        ({"expdate": "2026-11-21T10:00:00"}, {"golden type of expdate 9999-99-99 99:99:99 9999-99-99a99:99:99": 5}),
        ({"headers": {**HEADERS, "via": "x"}}, {"golden names of the headers": 5}),
        ({"headers": {**HEADERS, "date": "x"}, "amount": 16_000}, {"golden names of the headers": 5}),
        ({"headers": {"content-type": "text/html", "content-length": "1"}}, {"golden content type": 5}),
        ({"status": "Reversed"}, {"golden status": 5}),
        ({"amount": 16_000}, {"golden body": 5}),
        ({"without": ["fee"]}, {"golden type of fee integer none": 5}),
        ({"code": 404, "body": {"success": False, "message": "Transaction not found"}}, {"golden found": 5}),
        ({"code": 503, "body": {"success": False}}, {}),
        ({"payment_code": "9999999999"}, {}),
    ],
)
def test_change_of_golden_answers(changes, expected):
    """A changed answer is told by its part; a service that is down, or another payment code, is no change."""
    nights = [a_run()]
    nights += [a_run(nights[0]), a_run(nights[0], **changes)]
    assert drifts(*nights) == expected


def test_unsteady_part():
    """What differs from night to night anyway is not compared."""
    first = a_run()
    assert drifts(first, a_run(first, amount=2), a_run(first, amount=3)) == {}
    assert drifts(first, a_run(first, amount=2), a_run(first, amount=3, fee="1")) == {
        "golden type of fee integer text": 5
    }


def test_canaries():
    """A contract has no value, no payment code and no name of a field, in the golden answers neither."""
    odd = {**{name: CANARY for name in DATA if type(DATA[name]) is str}, CANARY: CANARY, "payment_code": CANARY}
    odd.pop("reference")
    recorder = ContractRecorder()
    for number in range(40):
        recorder.offer(answer(recorder, f"T{number}", payment_code="70014000123"))
    recorder.offer(answer(recorder, "A1", **odd))
    for reference in recorder.golden_references():
        answer(recorder, reference, headers={**HEADERS, CANARY: CANARY}, payment_code="70014000123")
    answer(recorder, "A1", **odd)
    recorder.golden_references()
    text = json.dumps(recorder.contract(AT).as_json())
    assert "70014000123" not in text
    assert "15000" not in text
    assert CANARY not in text


def test_known_words():
    """A word that the run before had in the clear is so at once."""
    first = a_run(status="Paid")
    recorder = ContractRecorder(previous=first)
    answer(recorder, "T1", status="Expired")
    answer(recorder, "T2", status="Unheard")
    assert {parts[1] for parts, _, _ in recorder.profile.of("word") if parts[0] == "status"} == {
        "Expired",
        "<letters:7>",
    }


def test_continuation():
    """A resumed run adds to what it had seen."""
    first, more = a_run(), a_run(count=10, ask=False)
    together = first + evolve(more, at=AT.replace(hour=5))
    assert (together.at, together.profile.answers) == (AT, first.profile.answers + 10)


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: value.update(version=2),
        lambda value: value.update(schema="other"),
        lambda value: value.pop("profile"),
        lambda value: value.update(at="yesterday"),
        lambda value: value.update(side={"name": 1}),
        lambda value: value.update(golden=[1]),
        lambda value: value["profile"].update(cells=[["x"]]),
    ],
    ids=["version", "schema", "profile", "time", "side", "golden", "cells"],
)
def test_damaged(damage):
    """A contract that is none, or of a later version, is refused."""
    value = json.loads(json.dumps(Contract(at=AT).as_json()))
    damage(value)
    with pytest.raises(ContractError):
        contract_from_json(value)

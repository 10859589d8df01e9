"""A recorder counts types, shapes and words of what a client is answered."""

from __future__ import annotations

import json

import pytest

from payclient import RetryPolicy
from payclient.errors import ConnectionFailedError, RejectedError
from payclient.protocol import Response
from payclient.reconcile.drift import Recorder
from support.answering import DATA, HEADERS, MORNING, answer, recorded
from support.fakes import ScriptedTransport, client, document
from support.fakes import answer as answer_of

CANARY = "SitiRahmawati"


def cells(table, kind):
    """Return the counts of one kind."""
    return {parts: count for parts, count, _ in table.of(kind)}


def test_documented_answer():
    """A documented answer adds its envelope, fields, words, state and relations."""
    table = recorded(3)
    assert table.answers == 3
    assert cells(table, "envelope") == {
        ("200", "success boolean, data object", "application/json", "no charset", "identity"): 3
    }
    assert cells(table, "header") == {("content-type",): 3, ("content-length",): 3}
    assert cells(table, "state") == {("QRIS", "Paid"): 3}
    fields = cells(table, "field")
    assert {name for name, _ in fields} == {*DATA}
    assert fields["payment_code", "<digits:10>"] == fields["expdate", "9999-99-99 99:99:99"] == 3
    relations = cells(table, "relation")
    assert relations["amount = fee + amount_received", "Paid", "held"] == 3
    assert relations["amount = fee", "any state", "broken"] == 3
    assert cells(table, "share") == {("2", "QRIS", "answers"): 3}


@pytest.mark.parametrize(
    ("changes", "kind", "cell"),
    [
        ({"amount": "15000"}, "field", ("amount", "text")),
        ({"amount": "15000"}, "deviation", ("amount",)),
        ({"amount": "15000"}, "share", ("2", "QRIS", "amount is text")),
        ({"fee": None}, "field", ("fee", "null")),
        ({"without": ["fee"]}, "field", ("fee", "absent")),
        ({"expdate": "21/11/2026"}, "field", ("expdate", "99?99?9999")),
        ({"bank": {"a": 1}}, "name", ("bank", "object")),
        ({"bank": "x"}, "deviation", ("unknown field",)),
        ({"seconds": 3.0}, "latency", ("under 10 s",)),
        ({"seconds": 3.0}, "share", ("2", "QRIS", "slower than 2 s")),
        ({"headers": {**HEADERS, "via": "x"}}, "header", ("via",)),
        ({"fee": 400}, "relation", ("amount = fee + amount_received", "Paid", "broken")),
        ({"fee": 20_000}, "relation", ("fee ≤ amount", "any state", "broken")),
    ],
)
def test_other_answer(changes, kind, cell):
    """What is not as usual has a cell of its own."""
    assert cells(recorded(3, **changes), kind)[cell] == 3
    assert cell not in cells(recorded(3), kind)


def test_relation_without_field():
    """A relation is not judged where a field that it needs is missing."""
    asked = {relation for relation, _, _ in cells(recorded(3, fee=None), "relation")}
    assert "fee is given" in asked
    assert "amount = amount_received" in asked
    assert not asked & {"amount = fee + amount_received", "fee = 0", "fee ≥ 0"}


def test_envelope():
    """The names around the data are read where they are new, and counted where they are known."""
    recorder = Recorder()
    answer(recorder, "T1")
    answer(recorder, "T1", body={"success": True, "data": {**DATA}, "trace": "x", "code": 7})
    answer(recorder, "T1", body={"meta": {"data": 1}, "success": True, "data": {**DATA}})
    names = [names for _, names, *_ in cells(recorder.profile, "envelope")]
    assert sorted(names) == [
        "success boolean, data object",
        "success boolean, data object, 1 more",
        "success boolean, data object, 2 more",
    ]


def test_refusal():
    """A refusal adds its class, status and the shape of its message, without the reference."""
    recorder = Recorder(now=lambda: MORNING)
    for number in range(3):
        reference = f"T{number}"
        text = f"Transaction {reference} not found"
        answer(recorder, reference, code=404, body={"success": False, "message": text})
    table = recorder.profile
    assert cells(table, "failure") == {("TransactionNotFoundError", "404"): 3}
    assert cells(table, "text") == {("404", "Transaction", "<mixed:1>", "not", "found"): 3}
    assert cells(table, "share") == {("2", "any method", "answers"): 3}


def test_failure_without_answer():
    """An attempt without a response counts for the shares; one that this side gave up does not."""
    recorder = Recorder(now=lambda: MORNING)
    for error in ("AttemptTimeoutError", "cancelled"):
        recorder.add("T1", None, 10.0, transaction=None, error=error, redact=str)
    assert recorder.profile.answers == 1
    assert cells(recorder.profile, "share")["2", "any method", "ends with AttemptTimeoutError"] == 1


def test_transitions():
    """Another state of the same reference is a transition, with its time; the same one is none."""
    minutes = iter(MORNING + 60 * minute for minute in (0, 90, 91, 200))
    recorder = Recorder(known=["Pending", "Paid"], now=lambda: next(minutes))
    recorder.seed("T9", "Pending", at=MORNING - 86_400)
    answer(recorder, "T1", status="Pending")
    answer(recorder, "T1", status="Paid")
    answer(recorder, "T1", status="Paid")
    answer(recorder, "T9", code=404, body={"success": False, "message": "Transaction not found"})
    assert cells(recorder.profile, "transition") == {("Pending", "Paid"): 1, ("Pending", "(not found)"): 1}
    assert cells(recorder.profile, "took")["Pending", "Paid", "under a day"] == 1


def test_words_need_three_references():
    """A word is in the clear after three references, however often the same one is asked."""
    recorder = Recorder()
    for reference in ("T1", "T1", "T1", "T2"):
        answer(recorder, reference, status="Held")
    assert cells(recorder.profile, "word")["status", "<letters:4>"] == 4
    answer(recorder, "T3", status="Held")
    assert cells(recorder.profile, "word")["status", "Held"] == 5


@pytest.mark.parametrize(
    "changes",
    [
        {name: CANARY for name in DATA if name not in ("reference", "amount", "fee", "amount_received")},
        {CANARY: "x", "081234567890": CANARY, "nested": {CANARY: CANARY}},
        {"headers": {**HEADERS, CANARY.lower(): CANARY, "content-encoding": "identity", "via": CANARY}},
        {"headers": {"content-type": f"text/{CANARY}; charset={CANARY}"}},
        {"body": {"success": False, "message": f"{CANARY} 081234567890 {CANARY}", CANARY: CANARY}},
        {"body": {"success": False, "error": {"message": CANARY}, CANARY: CANARY}},
        {"body": f"<html>{CANARY}</html>".encode()},
        {"body": {"success": True, "data": {**DATA}, CANARY: CANARY}},
    ],
)
def test_canaries(changes):
    """What is said of one payment or two is not in a profile, as a value, a word or a name, whatever its case."""
    recorder = Recorder()
    for reference in ("T1", "T1", "T2"):
        answer(recorder, reference, **changes)
    for number in range(10):
        answer(recorder, f"T{number}")
    text = json.dumps(recorder.profile.as_json()).lower()
    assert CANARY.lower() not in text
    assert "081234567890" not in text


def test_flood_of_names():
    """An object keyed by reference does not make a profile grow, and leaves no name in it."""
    recorder = Recorder()
    for number in range(600):
        answer(recorder, f"T{number}", **{f"T{number}x{inner}": 1 for inner in range(35)})
    assert len(recorder._raw) <= 20_000
    assert len(json.dumps(recorder.profile.as_json())) < 64 * 1024
    assert cells(recorder.profile, "name").keys() <= {(f"<mixed:{length}>", "integer") for length in range(3, 20)}


async def test_through_a_client():
    """A client passes each attempt on; the API key is in no profile, wherever the service repeats it."""
    key = "CanaryOfLettersOnly"
    body = json.dumps({"success": False, "message": f"no payment for {key}", key: key}).encode()
    transport = ScriptedTransport(default=lambda _: Response(422, {"content-type": f"a/{key}"}, body, is_fresh=True))
    transport.script("T0", ConnectionFailedError("refused", sent="no"), answer_of(document("T0")))
    recorder = Recorder()
    async with client(transport, profile=recorder, api_key=key, retry=RetryPolicy(initial_backoff=0)) as pay:
        await pay.get_transaction("T0")
        for number in range(1, 5):
            with pytest.raises(RejectedError):
                await pay.get_transaction(f"T{number}")
    table = recorder.profile
    assert cells(table, "failure") == {("ConnectionFailedError", "none"): 1, ("RejectedError", "422"): 4}
    assert table.answers == 6
    assert key.lower() not in json.dumps(table.as_json()).lower()


def test_profiles_of_processes():
    """Two processes that share the answers have together the profile of one that has them all."""
    both, one, two = Recorder(now=lambda: MORNING), Recorder(now=lambda: MORNING), Recorder(now=lambda: MORNING)
    for number in range(40):
        for recorder in (both, one if number % 2 else two):
            answer(recorder, f"T{number:03d}", status=("Paid", "Pending", "Canceled")[number % 3], seconds=number / 10)
    assert one.profile + two.profile == both.profile


def test_profile_can_be_taken_at_any_time():
    """A profile that is taken in between changes nothing."""
    once, often = Recorder(now=lambda: MORNING), Recorder(now=lambda: MORNING)
    for number in range(10):
        for recorder in (once, often):
            answer(recorder, f"T{number}", status=("Paid", "Pending")[number % 2])
        assert often.profile.answers == number + 1
    assert once.profile == often.profile

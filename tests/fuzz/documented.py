"""
Compare the quick reader of documented bodies with the strict readers: `python -m fuzz.documented [COUNT [SEED]]`.

What the quick one reads, the strict ones read in the same way, without a deviation. It may leave any body to them.
"""

import json
import random
import sys

from payclient.protocol import JSONProblem, read_json
from payclient.protocol.transaction import read_documented, read_transaction
from support.fakes import SAMPLE

COUNT = 200_000
ENVELOPES = (["success", "data"], ["success", "message", "data"])
FIELDS = {**SAMPLE, "reference": "T1"}
VALUES = (
    *(0, -1, 10**18 - 1, 10**18, -(10**18), 1.0, 1.5, True, False, None, [], {}, [1], {"a": 1}),
    *("", " ", "Paid", "1", "é", "\u2028", "a\\/b"),
    *("2026-11-21 10:00:00", "2026-02-30 10:00:00", "2026-11-21T10:00:00", "0000-00-00 00:00:00"),
)
PIECES = (
    *('"', "\\", "{", "}", "[", "]", ":", ",", " ", "\n", "\t", "\x00", "\x0b", "\ufeff", "\\u00e9", "\\ud800", "\\/"),
    *("NaN", "Infinity", "1e5", "1.0", "-0", "007", "null", "true", "9" * 41, "{}", "[]"),
    *('"amount":1,', '"success":false,', '"data":{},', '"status":"Paid",', ',"x":1'),
)


def mutated(draw: random.Random) -> bytes:
    """Return a documented body with other values, fields or layout, and perhaps a few pieces lost or put in."""
    fields = list(FIELDS.items())
    if draw.random() < 0.5:
        place = draw.randrange(len(fields))
        fields[place] = (fields[place][0], draw.choice(VALUES))
    if draw.random() < 0.2:
        draw.shuffle(fields)
    if draw.random() < 0.2:
        fields.insert(draw.randrange(len(fields)), draw.choice(fields))
    separators = draw.choice([(", ", ": "), (",", ":"), (" , ", " : ")])
    rows = separators[0].join(f"{json.dumps(name)}{separators[1]}{_text(draw, value)}" for name, value in fields)
    envelope = [f'"success"{separators[1]}true', f'"data"{separators[1]}{{{rows}}}']
    for _ in range(draw.choice([0, 0, 1, 2])):
        name = draw.choice(["message", "message", "note"])
        envelope.insert(draw.randrange(3), f'"{name}"{separators[1]}{_text(draw, draw.choice(VALUES))}')
    if draw.random() < 0.1:
        envelope.reverse()
    text = f"{{{separators[0].join(envelope)}}}{draw.choice(['', '', chr(10), ' x', '{}'])}"
    for _ in range(draw.choice([0, 0, 1, 1, 2, 3])):
        place = draw.randrange(len(text) + 1)
        text = text[:place] + draw.choice(PIECES) + text[place + draw.choice([0, 0, 1, 2, 8]) :]
    body = bytearray(text.encode("utf-8", "replace"))
    if draw.random() < 0.1:
        body[draw.randrange(len(body))] = draw.randrange(256)
    return bytes(body)


def _text(draw: random.Random, value: object) -> str:
    return json.dumps(value, ensure_ascii=draw.random() < 0.5)


def difference(body: bytes) -> str | None:
    """Return how both readings of *body* differ; None if they agree, "" if the quick reader left it to the other."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ""
    quick = read_documented(text, request_id=None)
    if quick is None:
        return ""
    try:
        value = read_json(body)
    except JSONProblem as problem:
        return f"the strict reader says: {problem}"
    strict = read_transaction(value["data"])
    shown = [(each, dict(each.raw), each.deviations) for each in (quick, strict)]
    is_same = shown[0] == shown[1] and value["success"] is True and list(value) in ENVELOPES
    return None if is_same else str(shown)


def compare(count: int, seed: int = 1) -> tuple[int, list[str]]:
    """Return how many of *count* bodies the quick reader read, and what differed."""
    draw, read, found = random.Random(seed), 0, []
    for _ in range(count):
        body = mutated(draw)
        outcome = difference(body)
        read += outcome is None
        if outcome:
            found.append(f"{body!r}: {outcome}")
    return read, found


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    read, found = compare(total, seed=int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(f"{total:,} bodies, {read:,} read quickly, {len(found)} differ", *found[:5], sep="\n")
    sys.exit(bool(found))

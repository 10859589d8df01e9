"""Bodies as documented to the letter: read quickly, and only where the strict readers would read the same."""

import json

import pytest

from fuzz.documented import FIELDS, compare
from payclient.protocol.transaction import read_documented


def body(**fields):
    return json.dumps({"success": True, "data": FIELDS | fields})


def test_documented():
    """A documented body is read without the strict readers, with its fields as received and without deviations."""
    found = read_documented(body(), request_id="r-1")
    assert (found.as_json(with_payment_code=True), dict(found.raw), found.deviations, found.request_id) == (
        FIELDS,
        FIELDS,
        (),
        "r-1",
    )


def test_message():
    """A message next to the transaction says nothing about it."""
    text = body().replace(', "data"', ', "message": "maintenance tonight", "data"')
    assert read_documented(text, request_id=None) == read_documented(body(), request_id=None) is not None


@pytest.mark.parametrize(
    "text",
    [
        body(amount=1.0),
        body(amount=True),
        body(amount=10**18),
        body(status=""),
        body(fee=None),
        body(extra="x"),
        body(expdate="2026-02-30 10:00:00"),
        body(expdate="2026-11-21T10:00:00"),
        body().replace("true", "false", 1),
        body().replace('"amount"', '"amount": 1, "amount"', 1),
        body().replace("}}", "}, 1: 2}"),
        body().replace("}}", '}, "data": {}}'),
        body().replace(str(FIELDS["amount"]), "NaN", 1),
        body().replace(', "data"', ', "message": 1, "data"'),
        body().replace(', "data"', ', "note": "", "data"'),
        body().replace(', "data"', ', "message": "", "message": "", "data"'),
        body() + "x",
        body() + "\x0b",
        "[]",
        "{}",
        "",
        "null",
        '{"success": true, "data": "reference"}',
        '{"success": true, "data": []}',
    ],
)
def test_left_to_the_strict_readers(text):
    """Anything that could be read in another way, or not at all, is left to the strict readers."""
    assert read_documented(text, request_id=None) is None


def test_same_as_the_strict_readers():
    """Whatever is read quickly is read by the strict readers in the same way: 20,000 mutated bodies."""
    read, differences = compare(20_000)
    assert (differences, read > 500) == ([], True)

"""JSON from a stranger: what is accepted, what is refused, and that neither takes long."""

import json
from decimal import Decimal

import pytest

from payclient.protocol._json import JSONProblem, kind, read_json
from support.misses import check_table

SIZE = 256 * 1024
DEEP = 32


def filled(unit, *, before=b"", after=b""):
    """Return a body of about 256 KiB."""
    return before + unit * ((SIZE - len(before) - len(after)) // len(unit)) + after


def test_accepted():
    """JSON is read exactly."""
    cases = {
        "object": (b"{}", {}),
        "nested": (b' \r\n\t{"a": [1, "b", null, true, false]}\n', {"a": [1, "b", None, True, False]}),
        "byte-order-mark": (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        "utf-8": ('"é😀"'.encode(), "é😀"),
        "surrogate-pair": (b'"\\ud83d\\ude00"', "😀"),
        "escapes": (b'"a\\/b\\"c"', 'a/b"c'),
        "escape-and-point": (b'["\\u00e9",1.5]', ["é", Decimal("1.5")]),
        "40-digits": (b"1" * 40, int("1" * 40)),
        "minus-zero": (b"-0", 0),
        "point": (b"1.10", Decimal("1.10")),
        "exponent": (b"1e3", Decimal(1000)),
        "32-deep": (b"[" * DEEP + b"]" * DEEP, json.loads("[" * DEEP + "]" * DEEP)),
        "many-lists": (b"[" + b"[]," * 60 + b"[]]", [[]] * 61),
        "brackets-in-text": (b'["' + b"[{" * 60 + b'\\"[[\\\\"]', ["[{" * 60 + '"[[\\']),
        "40-characters": (b"0." + b"1" * 38, Decimal("0." + "1" * 38)),
        "magnitude-40": (b"[1e40,1e-40]", [Decimal("1e40"), Decimal("1e-40")]),
        "9999-values": (b"[" + b"1," * 9_998 + b"1]", [1] * 9_999),
        "10000-values": (b"[" + b"[]," * 4_999 + b"[]]", [[]] * 5_000),
        "commas-in-text": (b'"' + b",[{" * 20_000 + b'"', ",[{" * 20_000),
    }
    check_table(cases.values(), read_json)


def test_point_is_kept():
    """A number with a point becomes a `Decimal` with all of its digits, never a float."""
    assert repr(read_json(b"0.1000000000000000000000000000")) == "Decimal('0.1000000000000000000000000000')"


REFUSED = {
    "empty": (b"", "not JSON: Expecting value at character 0"),
    "cut": (b'{"a":', "not JSON: Expecting value at character 5"),
    "two-values": (b"{} {}", "not JSON: Extra data at character 2"),
    "quotes": (b"{'a': 1}", "not JSON: Expecting property name enclosed in double quotes"),
    "newline-in-text": (b'"a\nb"', "not JSON: Invalid control character"),
    "letter-before": (b"X{}", "not JSON: Expecting value at character 0"),
    "blank-of-python": ("\xa0{}".encode(), "not JSON: Expecting value at character 0"),
    "latin-1": (b"\xa0{}", "not UTF-8 at byte 0"),
    "not-utf-8": (b'"a\xff"', "not UTF-8 at byte 2"),
    "surrogate-in-utf-8": (b'"\xed\xa0\x80"', "not UTF-8 at byte 1"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8 at byte 0"),
    "nan": (b"NaN", "NaN is not JSON"),
    "infinity": (b"[Infinity]", "Infinity is not JSON"),
    "minus-infinity": (b'{"a":-Infinity}', "-Infinity is not JSON"),
    "key-twice": (b'{"a":1,"b":2,"a":1}', "the key 'a' is duplicated in one object"),
    "key-twice-escaped": (b'[{"b":{"a":1,"\\u0061":2}}]', "the key 'a' is duplicated in one object"),
    "41-digits": (b"9" * 41, "a number of 41 digits"),
    "5000-digits": (b"9" * 5000, "a number of 5000 digits"),
    "5000-decimals": (b"0." + b"1" * 5000, "a number of 5002 digits"),
    "huge-exponent": (b"1e3000000", "a number of magnitude 1e3000000"),
    "tiny-exponent": (b"1e-3000000", "a number of magnitude 1e-3000000"),
    "zero-with-exponent": (b"0e999", "a number of magnitude 1e999"),
    "beyond-decimal": (b"1e" + b"9" * 20, f"the number 1e{'9' * 20}, which is out of all bounds"),
    "below-decimal": (b"0e-" + b"9" * 20, f"the number 0e-{'9' * 20}, which is out of all bounds"),
    "33-deep": (b"[" * 33 + b"]" * 33, "nested deeper than 32 levels"),
    "deep-late": (b'[""' + b',{"a":[]}' * 30 + b',{"a":' * 40, "nested deeper than 32 levels"),
    "100000-deep": (b"[" * 100_000, "nested deeper than 32 levels"),
    "many-values": (b"[" + b"1," * 10_000 + b"1]", "more than 10000 values"),
    "many-lists": (b"[" + b"[]," * 5_000 + b"1]", "more than 10000 values"),
    "half-a-pair": (b'"\\ud800"', "half a surrogate pair in a string"),
    "other-half-deep": (b'{"a":["\\udc00"]}', "half a surrogate pair in a string"),
    "half-a-pair-in-key": (b'{"\\ud800":1}', "half a surrogate pair in a string"),
}


def test_refused(subtests):
    """Ambiguous or hostile JSON is refused, and the message says what was found."""
    for case, (body, problem) in REFUSED.items():
        with subtests.test(case):
            with pytest.raises(JSONProblem) as caught:
                read_json(body)
            assert str(caught.value).startswith(problem)


def test_long_key_is_not_shown():
    """A long duplicate key is named by its length, because a part of it could be a part of a secret."""
    for size, shown in ((40, repr("k" * 40)), (41, "of 41 characters"), (5000, "of 5000 characters")):
        with pytest.raises(JSONProblem) as caught:
            read_json(b'{"%(key)s":1,"%(key)s":2}' % {b"key": b"k" * size})
        assert str(caught.value) == f"the key {shown} is duplicated in one object"


def test_worst_bodies_end(subtests):
    """A body of 256 KiB that is made to cost much is refused in one walk; a second walk per byte would not end."""
    cases = {
        "every-quote-opens": filled(b'"a\\', before=b"[]" * 40),
        "open-text": filled(b'\\"', before=b"[" + b"[]," * 40 + b'"'),
        "quotes": filled(b'"', before=b"[]" * 40),
        "backslashes": filled(b"\\", before=b"[]" * 40 + b'"'),
        "closing": filled(b"]", before=b"[]" * 40),
        "letters": filled(b"a", before=b"[]" * 40),
        "objects": filled(b'{"a":'),
        "lists": filled(b"[],", before=b"["),
        "numbers": filled(b"1.5,", before=b"["),
        "keys": filled(b'"k":1,', before=b"{"),
        "half-pairs": filled(b"\\ud800", before=b'"', after=b'"'),
    }
    for case, body in cases.items():
        with subtests.test(case):
            with pytest.raises(JSONProblem):
                read_json(body)


class _Counted(str):
    """A key that counts how often it is compared."""

    comparisons = 0
    __slots__ = ()

    def __eq__(self, other):
        type(self).comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_key_twice_is_found_in_one_walk():
    """Finding the duplicate key compares each key a few times, not with all others."""
    from payclient.protocol._json import _pairs  # noqa: PLC0415  what the parser calls per object

    _Counted.comparisons = 0
    with pytest.raises(JSONProblem):
        _pairs([(_Counted(f"k{i % 2000}"), i) for i in range(2001)])
    assert _Counted.comparisons < 3 * 2001


def test_kind():
    """A JSON value is named in JSON's words, not in Python's."""
    cases = {
        "null": (None, "null"),
        "true": (True, "true"),
        "text": ("ok", "text"),
        "empty": ("", "empty text"),
        "integer": (0, "a number"),
        "decimal": (Decimal("1.5"), "a number"),
        "list": ([], "a list"),
        "object": ({}, "an object"),
    }
    check_table(cases.values(), kind)

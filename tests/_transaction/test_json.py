"""JSON from a stranger: what is accepted, what is refused, and that neither takes long."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from payclient._transaction._json import JSONProblem, kind, read_json

SIZE = 256 * 1024
DEEP = 32


def filled(unit, *, before=b"", after=b""):
    """Return a body of about 256 KiB."""
    return before + unit * ((SIZE - len(before) - len(after)) // len(unit)) + after


@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param(b"{}", {}, id="object"),
        pytest.param(b' \r\n\t{"a": [1, "b", null, true, false]}\n', {"a": [1, "b", None, True, False]}, id="nested"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', {"a": 1}, id="byte-order-mark"),
        pytest.param('"é😀"'.encode(), "é😀", id="utf-8"),
        pytest.param(b'"\\ud83d\\ude00"', "😀", id="surrogate-pair"),
        pytest.param(b'"a\\/b\\"c"', 'a/b"c', id="escapes"),
        pytest.param(b"1" * 40, int("1" * 40), id="40-digits"),
        pytest.param(b"-0", 0, id="minus-zero"),
        pytest.param(b"1.10", Decimal("1.10"), id="point"),
        pytest.param(b"1e3", Decimal(1000), id="exponent"),
        pytest.param(b"[" * DEEP + b"]" * DEEP, json.loads("[" * DEEP + "]" * DEEP), id="32-deep"),
        pytest.param(b"[" + b"[]," * 60 + b"[]]", [[]] * 61, id="many-lists"),
        pytest.param(b'["' + b"[{" * 60 + b'\\"[[\\\\"]', ["[{" * 60 + '"[[\\'], id="brackets-in-text"),
        pytest.param(b"[" + b"1," * 9_998 + b"1]", [1] * 9_999, id="9999-values"),
        pytest.param(b'"' + b",[{" * 20_000 + b'"', ",[{" * 20_000, id="commas-in-text"),
    ],
)
def test_accepted(body, value):
    """JSON is read exactly."""
    assert read_json(body) == value


def test_point_is_kept():
    """A number with a point becomes a `Decimal` with all of its digits, never a float."""
    assert repr(read_json(b"0.1000000000000000000000000000")) == "Decimal('0.1000000000000000000000000000')"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", "not JSON: Expecting value at character 0", id="empty"),
        pytest.param(b'{"a":', "not JSON: Expecting value at character 5", id="cut"),
        pytest.param(b"{} {}", "not JSON: Extra data at character 2", id="two-values"),
        pytest.param(b"{'a': 1}", "not JSON: Expecting property name enclosed in double quotes", id="quotes"),
        pytest.param(b'"a\nb"', "not JSON: Invalid control character", id="newline-in-text"),
        pytest.param(b"\xa0{}", "not UTF-8 at byte 0", id="latin-1"),
        pytest.param(b'"a\xff"', "not UTF-8 at byte 2", id="not-utf-8"),
        pytest.param(b'"\xed\xa0\x80"', "not UTF-8 at byte 1", id="surrogate-in-utf-8"),
        pytest.param('{"a": 1}'.encode("utf-16"), "not UTF-8 at byte 0", id="utf-16"),
        pytest.param(b"NaN", "NaN is not JSON", id="nan"),
        pytest.param(b"[Infinity]", "Infinity is not JSON", id="infinity"),
        pytest.param(b'{"a":-Infinity}', "-Infinity is not JSON", id="minus-infinity"),
        pytest.param(b'{"a":1,"b":2,"a":1}', "the key 'a' is duplicated in one object", id="key-twice"),
        pytest.param(b'[{"b":{"a":1,"\\u0061":2}}]', "the key 'a' is duplicated in one object", id="key-twice-escaped"),
        pytest.param(b"9" * 41, "a number of 41 digits", id="41-digits"),
        pytest.param(b"9" * 5000, "a number of 5000 digits", id="5000-digits"),
        pytest.param(b"0." + b"1" * 5000, "a number of 5002 digits", id="5000-decimals"),
        pytest.param(b"1e3000000", "a number of magnitude 1e3000000", id="huge-exponent"),
        pytest.param(b"1e-3000000", "a number of magnitude 1e-3000000", id="tiny-exponent"),
        pytest.param(b"0e999", "a number of magnitude 1e999", id="zero-with-exponent"),
        pytest.param(b"1e" + b"9" * 20, f"the number 1e{'9' * 20}, which is out of all bounds", id="beyond-decimal"),
        pytest.param(b"0e-" + b"9" * 20, f"the number 0e-{'9' * 20}, which is out of all bounds", id="below-decimal"),
        pytest.param(b"[" * 33 + b"]" * 33, "nested deeper than 32 levels", id="33-deep"),
        pytest.param(b'[""' + b',{"a":[]}' * 30 + b',{"a":' * 40, "nested deeper than 32 levels", id="deep-late"),
        pytest.param(b"[" * 100_000, "nested deeper than 32 levels", id="100000-deep"),
        pytest.param(b"[" + b"1," * 10_000 + b"1]", "more than 10000 values", id="many-values"),
        pytest.param(b"[" + b"[]," * 5_000 + b"1]", "more than 10000 values", id="many-lists"),
        pytest.param(b'"\\ud800"', "half a surrogate pair in a string", id="half-a-pair"),
        pytest.param(b'{"a":["\\udc00"]}', "half a surrogate pair in a string", id="other-half-deep"),
        pytest.param(b'{"\\ud800":1}', "half a surrogate pair in a string", id="half-a-pair-in-key"),
    ],
)
def test_refused(body, problem):
    """Ambiguous or hostile JSON is refused, and the message says what was found."""
    with pytest.raises(JSONProblem) as caught:
        read_json(body)
    assert str(caught.value).startswith(problem)


def test_long_key_is_not_shown():
    """A long duplicate key is named by its length, because a part of it could be a part of a secret."""
    with pytest.raises(JSONProblem) as caught:
        read_json(b'{"%(key)s":1,"%(key)s":2}' % {b"key": b"k" * 5000})
    assert str(caught.value) == "the key of 5000 characters is duplicated in one object"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(filled(b'"a\\', before=b"[]" * 40), id="every-quote-opens"),
        pytest.param(filled(b'\\"', before=b"[" + b"[]," * 40 + b'"'), id="open-text"),
        pytest.param(filled(b'"', before=b"[]" * 40), id="quotes"),
        pytest.param(filled(b"\\", before=b"[]" * 40 + b'"'), id="backslashes"),
        pytest.param(filled(b"]", before=b"[]" * 40), id="closing"),
        pytest.param(filled(b"a", before=b"[]" * 40), id="letters"),
        pytest.param(filled(b'{"a":'), id="objects"),
        pytest.param(filled(b"[],", before=b"["), id="lists"),
        pytest.param(filled(b"1.5,", before=b"["), id="numbers"),
        pytest.param(filled(b'"k":1,', before=b"{"), id="keys"),
        pytest.param(filled(b"\\ud800", before=b'"', after=b'"'), id="half-pairs"),
    ],
)
def test_worst_bodies_end(body):
    """A body of 256 KiB that is made to cost much is refused in one walk; a second walk per byte would not end."""
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
    from payclient._transaction._json import _pairs  # noqa: PLC0415  what the parser calls per object

    _Counted.comparisons = 0
    with pytest.raises(JSONProblem):
        _pairs([(_Counted(f"k{i % 2000}"), i) for i in range(2001)])
    assert _Counted.comparisons < 3 * 2001


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param(None, "null", id="null"),
        pytest.param(True, "true", id="true"),
        pytest.param("ok", "text", id="text"),
        pytest.param("", "empty text", id="empty"),
        pytest.param(0, "a number", id="integer"),
        pytest.param(Decimal("1.5"), "a number", id="decimal"),
        pytest.param([], "a list", id="list"),
        pytest.param({}, "an object", id="object"),
    ],
)
def test_kind(value, words):
    """A JSON value is named in JSON's words, not in Python's."""
    assert kind(value) == words

"""The API key in a text, in whatever spelling: found, and taken out."""

import base64
import html
import json
import math
import pickle
from itertools import product
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import PayClientError, Transaction
from payclient.protocol._secret import ApiKey, Redaction
from payclient.protocol._wire import parse_response
from payclient.testing import envelope
from payclient.transports import Response
from support.chance import examples
from support.misses import check_each

KEY = "sk/live+51Hx7Qd9ZpT3vKw0RmYb"
REFERENCE = "T0000000033KGJ0D"


def each(pattern):
    """Return a spelling that writes every character by that pattern."""
    return lambda key: "".join(pattern.format(ord(character)) for character in key)


def in_base64(before, translate=False):
    """Return a spelling in base64 behind as many bytes."""

    def spell(key):
        code = base64.b64encode(b"Bearer "[:before] + key.encode() + b"!!").decode()
        return code.replace("+", "-").replace("/", "_") if translate else code

    return spell


SPELLINGS = {
    "plain": str,
    "json": lambda key: json.dumps(key)[1:-1],
    "json of PHP": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "json in json": lambda key: json.dumps(json.dumps(key))[1:-1],
    "json, all escaped": each("\\u{:04x}"),
    "json, all escaped, capitals": each("\\u{:04X}"),
    "json in json, all escaped": each("\\\\u{:04x}"),
    "javascript": each("\\x{:02x}"),
    "javascript, braces": each("\\u{{{:x}}}"),
    "url": lambda key: quote(key, safe=""),
    "url, lower case": each("%{:02x}"),
    "url, capitals": each("%{:02X}"),
    "url, twice": lambda key: quote(quote(key, safe=""), safe=""),
    "url, three times": lambda key: quote(quote(quote(key, safe=""), safe=""), safe=""),
    "html": lambda key: html.escape(key).replace("/", "&sol;").replace("+", "&plus;").replace("_", "&lowbar;"),
    "html, decimal": each("&#{};"),
    "html, decimal, zeros": each("&#0{:05};"),
    "html, hexadecimal": each("&#x{:x};"),
    "html, hexadecimal, capitals": each("&#X{:X};"),
    "html, twice": lambda key: html.escape(each("&#x{:x};")(key)),
    "html in json": lambda key: json.dumps(each("&#{};")(key)).replace("&", "\\u0026"),
    **{f"base64 at {before}": in_base64(before) for before in range(4)},
    **{f"base64 for URLs at {before}": in_base64(before, translate=True) for before in range(4)},
    "base64 in a URL": lambda key: quote(in_base64(1)(key), safe=""),
    "base64 in json of PHP": lambda key: in_base64(2)(key).replace("/", "\\/"),
}
# None of them may stand in our own text by chance, so each begins as nothing of ours does.
keys = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=40).map("~^".__add__)
spellings = st.sampled_from(sorted(SPELLINGS))


def test_spellings(subtests):
    """The key is removed in every encoding, and the text around it stays."""
    for case, spelling in SPELLINGS.items():
        with subtests.test(case):
            left = Redaction(KEY)(f"before {spelling(KEY)} after")
            start, removed, end = left.partition("[api key]")
            assert (start[:7], removed, end[-6:], len(start + end) < 40) == ("before ", "[api key]", " after", True)


@pytest.mark.parametrize("before", range(4))
def test_base64_to_its_ends(before):
    """Of the key in base64, only the characters stay that depend on the bytes beside it as well."""
    first, end = math.ceil(before * 8 / 6), (before + len(KEY)) * 8 // 6
    code = in_base64(before)(KEY)
    assert Redaction(KEY)(code) == f"{code[:first]}[api key]{code[end:]}"


def test_other_text(subtests):
    """A text without the key stays as it is, escapes and all."""
    cases = ("", "50% off & more", "a\\b\\/c", "&nbsp;&sol;%2F", "x" * 5000, "%", "\\", "&#;")
    for text in cases:
        with subtests.test(text=text):
            assert Redaction(KEY)(text) == text


@examples(40)
@given(keys, spellings, st.text(max_size=20), st.text(max_size=20))
def test_every_key(key, name, before, after):
    """For any key, no encoding of it is left in a text."""
    written = SPELLINGS[name](key)
    assert written not in Redaction(key)(f"{before} {written} {after}")


def shown(value):
    """Return all that can be seen of a result: as text, as `repr`, its attributes, its raw data, pickled."""
    raw = dict(value.raw) if isinstance(value, Transaction) else vars(value)
    return f"{value}{value!r}{raw}{pickle.dumps(value, 0)}{getattr(value, 'deviations', '')}"


PLACES = ("merchant_reff", "payment_method", "payment_name", "payment_code", "expdate", "status", "note", "reference")


def answer(key_written, place, status):
    """Return an answer that has the text at that place."""
    data = envelope(reference=REFERENCE)["data"]
    bodies = {
        **{name: {"success": True, "data": {**data, name: f"x {key_written}"}} for name in PLACES},
        "amount": {"success": True, "data": {**data, "amount": key_written}},
        "field": {"success": True, "data": {**data, key_written: 1}},
        "deep": {"success": True, "data": {**data, "note": {"a": [key_written, {key_written: 1}]}}},
        "message": {"success": False, "message": f"bad {key_written}"},
        "errors": {"success": False, "errors": {"y" * 190 + key_written: ["z" * 390 + key_written]}},
        "data": {"success": False, "data": {"reference": "x" * 70 + key_written}},
        "success": {"success": "x" * 30 + key_written},
        "none": {"success": False},
    }
    headers = dict.fromkeys(("server", "x-request-id", "location", "via", "retry-after", "date"), key_written)
    page = f"<!doctype html>{'x' * 380}{key_written}"
    body = page if place == "page" else json.dumps(bodies[place])
    return Response(status, headers, body.encode())


@given(
    keys,
    spellings,
    st.sampled_from([*PLACES, "amount", "field", "deep", "message", "errors", "data", "success", "none", "page"]),
    st.sampled_from([200, 200, 302, 400, 401, 403, 404, 422, 429, 500]),
)
def test_canary(key, name, place, status):
    """For any key, encoding and position in an answer, the result does not show it."""
    written = SPELLINGS[name](key)
    try:
        found = parse_response(answer(written, place, status), REFERENCE, redact=ApiKey(key).redact)
    except PayClientError as error:
        found = error
    seen = shown(found)
    assert {written in seen, repr(written)[1:-1] in seen, key in seen, key[:12] in seen} == {False}


def test_cut_key():
    """Where an excerpt is cut, no piece of the key is left that is longer than chance would have it."""

    def is_left(case):
        length, margin, filler = case
        text = (filler * 3200)[: 3200 - length] + KEY
        response = Response(500, {}, (text[: 3200 - margin] + KEY + filler * 5000).encode())
        with pytest.raises(PayClientError) as caught:
            parse_response(response, REFERENCE, redact=ApiKey(KEY).redact)
        return "sk/li" in shown(caught.value)

    cases = product(range(1, len(KEY)), (0, 1, 5), ("x", " ", "\x00", "x "))
    check_each(dict.fromkeys(cases, False), is_left)


def test_key_in_a_field(subtests):
    """A transaction that echoes the key in an uncritical field is kept without it, with a deviation."""
    cases = ("merchant_reff", "payment_method", "payment_name", "payment_code", "expdate", "note")
    for name in cases:
        with subtests.test(name=name):
            found = parse_response(answer(KEY, name, 200), REFERENCE, redact=ApiKey(KEY).redact)
            assert (found.raw[name], found.deviations[0]) == (
                "x [api key]",
                "body: contained the API key, which was removed",
            )


def test_what_stands_beside_the_key():
    """In a list or an object of a transaction only the key is removed."""
    found = parse_response(answer(KEY, "deep", 200), REFERENCE, redact=ApiKey(KEY).redact)
    assert found.raw["note"] == {"a": ["[api key]", {"[api key]": 1}]}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("status", "data.status: contains the API key"),
        ("amount", "data.amount: text '[api key]' is not an exact whole number"),
        ("reference", f"data.reference is 'x [api key]', asked for '{REFERENCE}'"),
    ],
)
def test_key_in_a_field_that_counts(name, problem):
    """A transaction with the key in status, amount or reference is refused."""
    with pytest.raises(PayClientError) as caught:
        parse_response(answer(KEY, name, 200), REFERENCE, redact=ApiKey(KEY).redact)
    assert (caught.value.problem, caught.value.is_about_reference) == (problem, name != "reference")


@pytest.mark.parametrize("coding", ["x" * 35 + KEY, KEY], ids=["cut", "whole"])
def test_key_as_coding(coding):
    """A name that is too long to be shown whole is not shown cut."""
    with pytest.raises(PayClientError) as caught:
        parse_response(Response(200, {"content-encoding": coding}, b"x"), REFERENCE, redact=ApiKey(KEY).redact)
    assert "sk/li" not in shown(caught.value).lower()


def test_key_as_name_twice():
    """The name of a duplicate field is not shown truncated."""
    name = json.dumps("x" * 35 + KEY)
    with pytest.raises(PayClientError) as caught:
        parse_response(Response(200, {}, f"{{{name}: 1, {name}: 2}}".encode()), REFERENCE, redact=ApiKey(KEY).redact)
    assert "sk/li" not in caught.value.problem

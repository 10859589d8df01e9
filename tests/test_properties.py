"""Laws of reading: whatever comes is a transaction or an error of ours, and what is read is what was written."""

import gzip
import json
import tracemalloc
import zlib
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payclient import PayClientError, Transaction
from payclient.errors import ResponseError, TransactionNotFoundError, classify
from payclient.protocol import BODY_LIMIT, Response
from payclient.protocol._json import JSONProblem, read_json
from payclient.protocol._wire import parse_response
from payclient.protocol.transaction import read_transaction
from payclient.testing import envelope, transaction
from support.chance import examples
from support.raw_server import bomb

NOW = datetime(2030, 1, 31, tzinfo=UTC)
REFERENCE = "T0000000033KGJ0D"
GOOD = json.dumps(envelope(reference=REFERENCE)).encode()

text = st.text(st.characters(codec="utf-8"), max_size=30)
numbers = st.integers() | st.integers(-(10**60), 10**60) | st.floats()
scalars = st.none() | st.booleans() | numbers | text | text.map(lambda value: value * 50)
strange_values = st.sampled_from(
    [
        "3.809.488",
        "15000.00",
        "-0",
        "1e3",
        "\u0661",
        "",
        " ",
        "0000-00-00 00:00:00",
        "9" * 5000,
        "Transaction not found",
    ]
)
values = st.recursive(
    scalars | strange_values,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from([*transaction(), "success", "data", "message", "errors", "raw", "deviations"]) | text
statuses = st.sampled_from([200, 200, 200, 204, 301, 400, 401, 403, 404, 422, 429, 500, 503]) | st.integers(-1, 1000)
headers = st.dictionaries(
    st.sampled_from(
        [
            "content-encoding",
            "content-type",
            "retry-after",
            "x-ratelimit-reset",
            "ratelimit",
            "date",
            "location",
            "cf-ray",
        ]
    ),
    st.sampled_from(["gzip", "gzip, gzip", "identity", "br", "nan", "-1", "9" * 5000, "Thu, 31 Jan 2030 00:00:30 GMT"])
    | st.text(max_size=60),
    max_size=4,
)


@st.composite
def changed_documents(draw):
    """Change some fields of a whole answer, at either level."""
    document = envelope(reference=REFERENCE)
    for name, value in draw(st.dictionaries(names, values, max_size=3)).items():
        document["data"][name] = value
    document.update(draw(st.dictionaries(names, values, max_size=2)))
    return json.dumps(document, ensure_ascii=draw(st.booleans())).encode()


@st.composite
def damaged_bytes(draw):
    """Cut an answer, put bytes into it, repeat it, wrap it or compress it."""
    body = draw(st.just(GOOD) | changed_documents())
    at = draw(st.integers(0, len(body)))
    part = draw(
        st.binary(max_size=8)
        | st.sampled_from([b'"', b"\\", b"{", b"[" * 40, b"\xef\xbb\xbf", b"1e999999999999999999999"])
    )
    return draw(
        st.sampled_from(
            [
                body[:at],
                body[at:],
                body[:at] + part + body[at:],
                body[:at] + part,
                part + body,
                body * 2,
                b"[" + body + b"]",
                b'{"data":' + body + b',"success":false}',
                zlib.compress(body),
                gzip.compress(body),
                gzip.compress(body)[:at],
                gzip.compress(gzip.compress(body)),
            ]
        )
    )


bodies = changed_documents() | damaged_bytes() | st.binary(max_size=300) | values.map(lambda v: json.dumps(v).encode())


def outcome(body, status=200, headers=None, *, is_truncated=False):
    """Return the transaction or the error that an answer means; anything else is raised."""
    response = Response(status, headers or {}, body, is_truncated)
    try:
        return parse_response(response, REFERENCE, now=lambda: NOW)
    except PayClientError as error:
        return error


@examples(400)
@given(bodies, statuses, headers, st.booleans())
@example(GOOD.replace(b"15000", b"1e99999999999999999999"), 200, {}, False)  # beyond what `Decimal` takes
@example(b'"\\' * 1000, 200, {}, False)
@example(gzip.compress(b""), 200, {"content-encoding": "gzip"}, False)
def test_any_answer(body, status, headers, is_truncated):
    """Any bytes, status and headers give a transaction or a `ResponseError`."""
    found = outcome(body, status, headers, is_truncated=is_truncated)
    assert isinstance(found, Transaction | ResponseError)


@examples(200)
@given(bodies, statuses, headers)
def test_no_wrong_transaction(body, status, headers):
    """For any answer, a transaction has the requested reference, status 200 and exact money."""
    found = outcome(body, status, headers)
    if isinstance(found, Transaction):
        assert (found.reference, status, type(found.amount)) == (REFERENCE, 200, int)


@examples(200)
@given(bodies, statuses, headers)
def test_not_found_has_evidence(body, status, headers):
    """For any answer, "not found" needs a body with `success` false."""
    found = outcome(body, status, headers)
    if isinstance(found, TransactionNotFoundError):
        assert b"false" in body or "content-encoding" in headers


@examples(200)
@given(bodies, statuses, headers)
def test_errors_are_small(body, status, headers):
    """For any answer, the error is short, printable, and classified by the policies."""
    found = outcome(body, status, headers)
    if isinstance(found, ResponseError):
        shown = f"{found}{found.body}{''.join(found.headers.values())}"
        assert (len(shown) < 3000, shown.isprintable(), classify(found) is not None) == (True, True, True)


@given(st.integers(-(10**18) + 1, 10**18 - 1), st.integers(0, 2), st.sampled_from(["{}", '"{}"', "{}e0", "{}E+0"]))
def test_money_is_exact(amount, zeros, notation):
    """A whole number is read unchanged from each exact notation."""
    written = f"{amount}.{'0' * zeros}" if zeros and "e" not in notation.lower() else str(amount)
    body = GOOD.replace(b'"amount": 15000', b'"amount": ' + notation.format(written).encode())
    assert outcome(body).amount == amount


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3).filter(lambda d: d != d.to_integral_value()))
def test_fraction_is_never_money(amount):
    """A number with a fraction is refused, as a number and as text."""
    found = {type(outcome(GOOD.replace(b"15000", written.encode()))) for written in (f"{amount:f}", f'"{amount:f}"')}
    assert Transaction not in found


filled = text.filter(bool)
fields = st.fixed_dictionaries(
    {
        **dict.fromkeys(
            ("reference", "merchant_reff", "payment_method", "payment_name", "payment_code", "status"), filled
        ),
        **dict.fromkeys(("amount", "fee", "amount_received"), st.integers(-(10**18) + 1, 10**18 - 1)),
        "expdate": st.datetimes().map(lambda moment: moment.isoformat(sep=" ", timespec="seconds")),
    }
)


@given(fields)
def test_round_trip(fields):
    """A documented transaction survives a round trip, without deviations."""
    found = read_transaction(fields)
    assert (found.as_json(with_payment_code=True), found.deviations) == (fields, ())


@given(values.filter(lambda value: "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value)))
def test_json_is_read_as_the_standard_library_reads_it(value):
    """Accepted JSON has the same value as with the standard library."""
    body = json.dumps(value)
    try:
        found = read_json(body.encode())
    except JSONProblem:
        return  # too many digits, too large: refusing is allowed, reading otherwise is not
    assert found == json.loads(body, parse_float=Decimal)


def filled_with(unit, *, before=b"", after=b""):
    return before + unit * ((BODY_LIMIT - len(before) - len(after)) // len(unit)) + after


START = b'{"success":true,"data":{"reference":"R","amount":'
NASTY = {
    "lists": filled_with(b"["),
    "objects": filled_with(b'{"a":'),
    "quotes": filled_with(b'"'),
    "quotes-and-backslashes": filled_with(b'"a\\', before=b"[]" * 40),
    "digits": filled_with(b"9", before=START, after=b"}}"),
    "half-pairs": filled_with(b"\\ud800", before=b'{"a":"', after=b'"}'),
    "same-key": filled_with(b'"a":1,', before=b"{", after=b'"a":1}'),
    "keys": b"{" + b",".join(b'"k%d":1.5' % i for i in range(9_990)) + b',"k9989":1}',
    "long-text": filled_with(b"x", before=START + b'1,"status":"', after=b'"}}'),
    "message": filled_with(b"- ", before=b'{"success":false,"message":"', after=b'"}'),
    "long-name": json.dumps({"success": False, "errors": {"k" * 250_000: [[["a"] * 10] * 10] * 10}}).encode(),
    "accents": filled_with("\u0301\u0316".encode(), before=b'{"success":false,"message":"', after=b'"}'),
    "control-characters": filled_with(b"\x00"),
    "not-utf-8": filled_with(b"\xff"),
    "bomb": bomb(64 * 1024 * 1024),
    "bomb-in-bomb": bomb(64 * 1024 * 1024, layers=2),
}


@pytest.mark.parametrize("body", NASTY.values(), ids=NASTY)
@pytest.mark.parametrize("coding", ["", "gzip", "gzip, gzip", ", ".join(["gzip"] * 10)], ids=["plain", "1", "2", "10"])
def test_memory_is_bounded(body, coding):
    """The worst body of maximum size needs less than 8 MiB, and its error is short."""
    tracemalloc.start()
    try:
        found = outcome(body, headers={"content-encoding": coding})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (peak < 8 * 1024 * 1024, isinstance(found, ResponseError), len(str(found)) < 600) == (True, True, True)

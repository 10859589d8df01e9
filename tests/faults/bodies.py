"""Faults of the body: what stands where a transaction should, and transactions that are odd."""

import json

from faults.answers import GARBLED
from faults.fault import Fault
from faults.stage import FOUND, OK
from payclient import (
    AuthenticationError,
    ConnectionFailedError,
    ReferenceMismatchError,
    RejectedError,
    Transaction,
    TransactionNotFoundError,
)
from payclient.client.policies._retry import Signal
from support.fakes import KEY, SAMPLE
from support.raw_server import bomb, chunked, drip, garble, gzipped, head, http, repeat, send, slices, truncate

CUT = {"verdict": ConnectionFailedError, "signal": Signal.OVERLOADED, "attempts": 4}
GIGABYTE = head("HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {2**30}")
ENDLESS = head("HTTP/1.1 200 OK", "Content-Type: application/json", "Transfer-Encoding: chunked")
BLOCK = b" " * 2**16


def body(data, *headers):
    """Return the steps of an answer with any body and status 200."""
    return [send(http(data, "200 OK", *headers))]


def says(**envelope):
    """Return the steps of an answer with any JSON object and status 200."""
    return body(json.dumps(envelope).encode())


def field(name, value):
    """Return the steps of an answer with one field that is written as *value*, which need not be JSON."""
    fields = {**SAMPLE, "reference": "T1"}
    written = [f'"{key}":{value if key == name else json.dumps(fields[key])}' for key in {**fields, name: None}]
    return body(f'{{"success":true,"data":{{{",".join(written)}}}}}'.encode())


def garbled(sentence, script, problem):
    return Fault(sentence, script, says=problem, **GARBLED)


def tolerated(sentence, script, deviation=""):
    return Fault(sentence, script, Transaction, says=deviation)


BOMBS = (
    garbled("gzip: a gigabyte in a megabyte", body(bomb(2**30)[: 2**18], "Content-Encoding: gzip"), "grows beyond"),
    garbled("gzip: 128 megabytes, twice", body(bomb(2**27, 2), "Content-Encoding: gzip, gzip"), "unknown content cod"),
    garbled(
        "gzip: 128 megabytes, twice, named once", body(bomb(2**27, 2), "Content-Encoding: gzip"), "grows beyond|UTF-8"
    ),
    garbled("a gibibyte of spaces", [send(GIGABYTE), repeat(BLOCK, 2**14)], "longer than 262144 bytes"),
    garbled("chunks without end", [send(ENDLESS), repeat(b"10000\r\n" + BLOCK + b"\r\n")], "longer than 262144 bytes"),
    garbled("chunks of one byte without end", [send(ENDLESS), repeat(b"1\r\n \r\n" * 10_000)], "longer than 262144"),
    garbled("100,000 lists in each other", body(b"[" * 100_000), "nested deeper than 32"),
    garbled("100,000 objects in each other", body(b'{"a":' * 50_000), "nested deeper than 32"),
    garbled("80,000 values", body(b"[" + b"1," * 80_000 + b"1]"), "more than 10000 values"),
)

FAULTS = (
    # No object
    garbled("an empty body", body(b""), "body: empty"),
    garbled("null", body(b"null"), "body: null where an object is needed"),
    garbled("a web page with status 200", body(b"<!DOCTYPE html><html>Welcome</html>"), r"not JSON.*\(a web page\)"),
    garbled("a PHP warning before the JSON", body(b"<br />\n<b>Warning</b>:  Undefined" + FOUND), r"\(a PHP message\)"),
    garbled("half a document that ends well", body(FOUND[:100]), "not JSON"),
    garbled("a document with garbled bytes in it", [send(garble(OK, OK.index(b"BCA")))], "not UTF-8"),
    # Cut
    Fault("shorter than its Content-Length", [truncate(OK, -1)], says="in the middle of its answer", **CUT),
    garbled(
        "without a length, cut when the connection closes", [truncate(head("HTTP/1.1 200 OK") + FOUND, -20)], "not JSON"
    ),
    # Compressed
    tolerated("gzip that nobody asked for", body(gzipped(FOUND), "Content-Encoding: gzip")),
    tolerated("identity, by name", body(FOUND, "Content-Encoding: identity")),
    garbled("gzip, cut", body(gzipped(FOUND)[:-12], "Content-Encoding: gzip"), "ends too early"),
    garbled("gzip, garbled", body(garble(gzipped(FOUND), 40), "Content-Encoding: gzip"), "damaged gzip data"),
    garbled("gzip that is none", body(FOUND, "Content-Encoding: gzip"), "damaged gzip data"),
    garbled("gzip that is not named", body(gzipped(FOUND)), "not UTF-8"),
    garbled("an unknown coding", body(FOUND, "Content-Encoding: br"), "unknown content coding 'br'"),
    *BOMBS,
    # JSON that two readers would read differently
    garbled("an integer of 5,000 digits", field("amount", "9" * 5000), "a number of 5000 digits"),
    garbled("NaN", field("amount", "NaN"), "NaN is not JSON"),
    garbled("a key twice", body(FOUND[:-2] + b', "amount": 1}}'), "the key 'amount' is duplicated"),
    garbled("bytes that are not UTF-8", body(FOUND.replace(b"BCA Virtual", b"BCA\xe9Virtual")), "not UTF-8 at byte"),
    tolerated("a byte order mark", body(b"\xef\xbb\xbf" + FOUND), "byte order mark"),
    # An envelope that is not the documented one
    garbled("success is absent", says(data={**SAMPLE, "reference": "T1"}), "success: absent"),
    garbled('success is "false"', says(success="false", data={**SAMPLE, "reference": "T1"}), 'success: "false" is not'),
    garbled("data is null", says(success=True, data=None), "data: null where an object is needed"),
    # The body decides
    Fault("success is false, and nothing else", says(success=False), RejectedError, says="no message"),
    Fault(
        "not found, in words and with status 200",
        says(success=False, message="Data Not Found."),
        TransactionNotFoundError,
        attempts=2,
    ),
    Fault(
        "not found, in Indonesian",
        says(success=False, message="Transaksi tidak ditemukan"),
        TransactionNotFoundError,
        says="Transaksi tidak ditemukan",
    ),
    Fault(
        "the key refused, in words and with status 200",
        says(success=False, message="Invalid API Key"),
        AuthenticationError,
        signal=Signal.SILENT,
    ),
    Fault("declined, in a list", says(success=False, message=["No.", "Never."]), RejectedError, says="No.; Never."),
    # Another transaction than the one that was asked for
    Fault(
        "another reference",
        field("reference", '"T2"'),
        ReferenceMismatchError,
        attempts=2,
        signal=Signal.OVERLOADED,
        says="data.reference is 'T2', asked for 'T1'",
    ),
    # Fields; every notation of each is in the tests of the protocol, as are bodies of every shape
    tolerated("money as text", field("amount", '"15000.00"'), r"amount: text '15000\.00' read as integer"),
    tolerated("the API key in a field", field("merchant_reff", f'"{KEY}"'), "contained the API key"),
    tolerated("an unknown field", field("currency", '"IDR"'), "unknown field 'currency'"),
    tolerated(
        "a date in another format", field("expdate", '"21/11/2026"'), "expdate: text '21/11/2026' read as nothing"
    ),
    garbled("money with fractions", field("amount", "15000.5"), r"amount: number 15000\.5 is not an exact whole"),
    garbled("status is absent", says(success=True, data={"reference": "T1", "amount": 1}), "status: absent"),
    # Odd, and right all the same
    tolerated("one byte per segment", [slices(OK, 1)]),
    tolerated("slow, but in time", [drip(OK[:20], 0.001), send(OK[20:])]),
    tolerated("chunks of seven bytes", [send(ENDLESS + chunked(FOUND, 7))]),
)

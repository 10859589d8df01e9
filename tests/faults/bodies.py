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
from payclient.errors import Signal
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
)

FAULTS = (
    # No object
    garbled("an empty body", body(b""), "body: empty"),
    garbled("a web page with status 200", body(b"<!DOCTYPE html><html>Welcome</html>"), r"not JSON.*\(a web page\)"),
    garbled("a document with garbled bytes in it", [send(garble(OK, OK.index(b"BCA")))], "not UTF-8"),
    # Cut
    Fault("shorter than its Content-Length", [truncate(OK, -1)], says="in the middle of its answer", **CUT),
    garbled(
        "without a length, cut when the connection closes", [truncate(head("HTTP/1.1 200 OK") + FOUND, -20)], "not JSON"
    ),
    # Compressed
    tolerated("gzip that nobody asked for", body(gzipped(FOUND), "Content-Encoding: gzip")),
    garbled("gzip, cut", body(gzipped(FOUND)[:-12], "Content-Encoding: gzip"), "ends too early"),
    *BOMBS,
    # The body decides
    Fault("success is false, and nothing else", says(success=False), RejectedError, says="no message"),
    Fault(
        "not found, in words and with status 200",
        says(success=False, message="Data Not Found."),
        TransactionNotFoundError,
        attempts=2,
    ),
    Fault(
        "the key refused, in words and with status 200",
        says(success=False, message="Invalid API Key"),
        AuthenticationError,
        signal=Signal.SILENT,
    ),
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
    tolerated("the API key in a field", field("merchant_reff", f'"{KEY}"'), "contained the API key"),
    garbled("money with fractions", field("amount", "15000.5"), r"amount: number 15000\.5 is not an exact whole"),
    # Odd, and right all the same
    tolerated("one byte per segment", [slices(OK, 1)]),
    tolerated("slow, but in time", [drip(OK[:20], 0.001), send(OK[20:])]),
    tolerated("chunks of seven bytes", [send(ENDLESS + chunked(FOUND, 7))]),
)

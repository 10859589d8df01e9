"""Faults of our own beyond the table: what back ends in PHP send when something is wrong with them."""

from faults.answers import GARBLED, MISPLACED, OVERLOADED, envelope, text
from faults.bodies import body, field, garbled, tolerated
from faults.fault import Fault
from faults.stage import FOUND
from payclient import RejectedError
from support.raw_server import http, send

WARNING = b'<br />\n<b>Warning</b>:  Undefined array key "fee" in <b>/srv/www/Detail.php</b> on line <b>61</b><br />\n'
FATAL = b"PHP Fatal error:  Allowed memory size of 134217728 bytes exhausted (tried to allocate 20480 bytes) in x.php"
HTML = "Content-Type: text/html; charset=UTF-8"

FAULTS = (
    garbled("a PHP warning before the JSON", body(WARNING + FOUND, HTML), r"not JSON.*\(a PHP message\)"),
    garbled("a PHP warning after the JSON", body(FOUND + WARNING, HTML), "Extra data"),
    garbled("a PHP warning in the middle of the JSON", body(FOUND[:90] + WARNING + FOUND[90:], HTML), "not JSON"),
    garbled("a PHP fatal error with status 200", body(FATAL, HTML), r"\(a PHP message\)"),
    garbled("PHP itself, not executed", body(b"<?php\nrequire 'vendor/autoload.php';\n", HTML), "not JSON"),
    garbled("var_dump instead of json_encode", body(b'array(2) {\n  ["success"]=>\n  bool(true)\n}'), "not JSON"),
    garbled("print_r instead of json_encode", body(b"Array\n(\n    [success] => 1\n)\n"), "not JSON"),
    garbled("false, which is what json_encode returns on failure", body(b"false"), "body: false where an object"),
    garbled("JSON that was escaped as HTML", body(FOUND.replace(b'"', b"&quot;"), HTML), "not JSON"),
    garbled("JSON in JSON", body(b'"' + FOUND.replace(b'"', rb"\"") + b'"'), "body: text where an object is needed"),
    garbled("JSONP", body(b"callback(" + FOUND + b");", "Content-Type: application/javascript"), "not JSON"),
    garbled("a prefix against JSON hijacking", body(b")]}',\n" + FOUND), "not JSON"),
    garbled("a comma too many", body(FOUND[:-2] + b",}}"), "not JSON"),
    garbled("JSON with a comment", body(b"/* cached */" + FOUND), "not JSON"),
    garbled("JSON with single quotes", body(FOUND.replace(b'"', b"'")), "not JSON"),
    garbled("two byte order marks", body(b"\xef\xbb\xbf" * 2 + FOUND), "not JSON"),
    garbled("an object where PHP counted the rows", body(b'{"success":true,"data":{"0":{}}}'), "reference: absent"),
    tolerated("blank lines before the JSON", body(b"\n\n\n" + FOUND)),
    tolerated("JSON that is said to be a web page", body(FOUND, HTML)),
    tolerated("JSON that is said to be Latin-1", body(FOUND, "Content-Type: application/json; charset=iso-8859-1")),
    tolerated("slashes that are escaped", field("merchant_reff", r'"INV\/2026\/1"')),
    tolerated("money in scientific notation", field("amount", "1.5e4"), r"amount: number 1.5E\+4 read as integer"),
    garbled("money in scientific notation, with fractions", field("amount", "1.50005e4"), "is not an exact whole"),
    garbled("money that a float has touched", field("amount", "14999.999999999998"), "is not an exact whole number"),
    garbled("money with its currency", field("amount", '"Rp 15.000"'), "is not an exact whole number"),
    garbled(
        "a message in two encodings",
        body(b'{"success":false,"message":"R\xe9f\xc3\xa9rence"}'),
        "not UTF-8 at byte",
    ),
    Fault(
        "a message in two encodings, with status 422",
        [send(http(b'{"success":false,"message":"R\xe9f\xc3\xa9rence"}', "422 No"))],
        **MISPLACED,
    ),
    Fault(
        "a message with markup",
        envelope("400 Bad Request", message="<p>Missing <b>field</b></p>\r\n"),
        RejectedError,
        says="<p>Missing <b>field</b></p>",
    ),
    Fault(
        "a framework's own 500",
        [send(http(b'{"message":"Server Error"}', "500 Internal Server Error"))],
        **OVERLOADED,
    ),
    Fault("a framework in maintenance", [send(http(b'{"message":"Service Unavailable"}', "503 No"))], **OVERLOADED),
    Fault("no workers left in the pool", text("502 Bad Gateway", "upstream sent no valid header"), **OVERLOADED),
    Fault(
        "a database that is away, with status 200",
        body(b"SQLSTATE[HY000] [2002] Connection refused", HTML),
        **GARBLED,
    ),
)

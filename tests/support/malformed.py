"""Malformed responses of a service, by name."""

from types import MappingProxyType

from payclient.testing import Reply, changed
from payclient.testing._reply import json_bytes

_ONLY_REQUIRED = ("reference", "amount", "status")
_HTML = MappingProxyType({"content-type": "text/html; charset=utf-8"})
_MAINTENANCE_PAGE = (
    "<!DOCTYPE html>\n<html><head><title>Just a moment...</title></head><body>Maintenance</body></html>\n"
)
_WARNING = b"<br />\n<b>Warning</b>:  Undefined variable $row in <b>/srv/detail.php</b> on line <b>7</b><br />\n"


def _with_data(change):
    return lambda envelope: {**envelope, "data": change(envelope["data"])}


def _only_required(value):
    """Return a body in which every optional field has *value*."""
    return _with_data(lambda data: {name: old if name in _ONLY_REQUIRED else value for name, old in data.items()})


def _without(name):
    """Return a body in which this field of the transaction is absent."""
    return _with_data(lambda data: {each: value for each, value in data.items() if each != name})


def _in_bytes(old, new):
    """Return a body in which *old* is replaced by *new* in the JSON text."""
    return lambda envelope: json_bytes(envelope).replace(old, new, 1)


_BODIES = {
    "amount_as_text": changed(amount=str),
    "amount_as_text_with_cents": changed(amount=lambda amount: f"{amount}.00"),
    "amount_with_separators": changed(amount=lambda amount: f"{amount:,}".replace(",", ".")),
    "amount_with_fraction": changed(amount=lambda amount: amount + 0.5),
    "amount_missing": _without("amount"),
    "amount_null": changed(amount=None),
    "amount_true": changed(amount=True),
    "amount_infinite": changed(amount=float("inf")),
    "amount_of_5000_digits": _in_bytes(b'"amount":', b'"amount":' + b"9" * 5000),
    "fee_null": changed(fee=None),
    "fee_as_words": changed(fee="free"),
    "status_missing": _without("status"),
    "status_as_number": changed(status=1),
    "optional_fields_null": _only_required(None),
    "optional_fields_empty": _only_required(""),
    "payment_code_as_number": changed(payment_code=int),
    "expdate_with_zone": changed(expdate=lambda expdate: expdate.replace(" ", "T") + "+07:00"),
    "expdate_zero": changed(expdate="0000-00-00 00:00:00"),
    "unknown_field": changed(settlement="T+1"),
    "wrong_reference": changed(reference=lambda reference: f"{reference}-OTHER"),
    "reference_missing": _without("reference"),
    "success_missing": lambda envelope: {"data": envelope["data"]},
    "success_as_text": lambda envelope: {**envelope, "success": "true"},
    "success_false": lambda envelope: {**envelope, "success": False},
    "data_missing": lambda _: {"success": True},
    "data_null": lambda _: {"success": True, "data": None},
    "data_list": lambda envelope: {"success": True, "data": [envelope["data"]]},
    "empty": b"",
    "null": b"null",
    "list": [],
    "text": '"ok"',
    "not_utf8": _in_bytes(b'"Virtual', b'"\xff\xfeVirtual'),
    "byte_order_mark": lambda envelope: b"\xef\xbb\xbf" + json_bytes(envelope),
    "duplicate_key": _in_bytes(b'"amount":', b'"amount":1,"amount":'),
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "cut_json": lambda envelope: json_bytes(envelope)[:-20],
    "warning_before_json": lambda envelope: _WARNING + json_bytes(envelope),
}

MALFORMED = MappingProxyType(
    {
        **{name: Reply(body=body) for name, body in _BODIES.items()},
        "html_page": Reply(headers=_HTML, body=_MAINTENANCE_PAGE),
        "html_not_found": Reply(status=404, headers=_HTML, body=_MAINTENANCE_PAGE),
        "rate_limited_page": Reply(status=403, headers={"content-type": "text/plain"}, body="error code: 1015"),
        "redirect": Reply(status=302, headers={"location": "https://login.invalid/"}, body=b""),
        "no_content": Reply(status=204),
    }
)
"""Malformed responses by name, for `FakeService.script` and `Fault`; the real service may send none of them."""

"""The protocol without I/O: build requests, and read responses as transactions or errors."""

from payclient.protocol._http import BODY_LIMIT, Request, Response, fresh_references
from payclient.protocol._json import JSONProblem, is_object, kind, read_json
from payclient.protocol._models import EMPTY, Environment, Failed, Found, Outcome, Transaction, masked
from payclient.protocol._phrases import plain
from payclient.protocol._refusal import telling_headers
from payclient.protocol._secret import ApiKey
from payclient.protocol._wire import check_reference, check_references

__all__ = [
    "BODY_LIMIT",
    "EMPTY",
    "ApiKey",
    "Environment",
    "Failed",
    "Found",
    "JSONProblem",
    "Outcome",
    "Request",
    "Response",
    "Transaction",
    "check_reference",
    "check_references",
    "fresh_references",
    "is_object",
    "kind",
    "masked",
    "plain",
    "read_json",
    "telling_headers",
]

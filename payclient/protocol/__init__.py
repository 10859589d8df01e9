"""The protocol without I/O: build requests, and read responses as transactions or errors."""

from payclient._transaction import EMPTY, JSONProblem, Transaction, is_object, kind, masked, read_json
from payclient.protocol._http import BODY_LIMIT, Request, Response, fresh_references
from payclient.protocol._models import Environment, Failed, Found, Outcome, WithoutTruth
from payclient.protocol._phrases import plain
from payclient.protocol._refusal import telling_headers
from payclient.protocol._secret import ApiKey
from payclient.protocol._wire import (
    build_request,
    check_reference,
    check_references,
    endpoint,
    parse_response,
    request_headers,
)

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
    "WithoutTruth",
    "build_request",
    "check_reference",
    "check_references",
    "endpoint",
    "fresh_references",
    "is_object",
    "kind",
    "masked",
    "parse_response",
    "plain",
    "read_json",
    "request_headers",
    "telling_headers",
]

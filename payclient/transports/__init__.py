"""What carries an attempt to the service and its answer back; `payclient.transports.fast` has another one."""

from payclient._http import BODY_LIMIT, Request, Response
from payclient.transports._choice import TransportName
from payclient.transports._client import HttpClient, HttpxClientTransport
from payclient.transports._lanes import HttpxTransport
from payclient.transports._protocol import Transport

__all__ = [
    "BODY_LIMIT",
    "HttpClient",
    "HttpxClientTransport",
    "HttpxTransport",
    "Request",
    "Response",
    "Transport",
    "TransportName",
]

"""Internal: the protocol without I/O: build requests, and read responses as transactions or errors."""

from payclient.protocol._models import BODY_LIMIT as BODY_LIMIT
from payclient.protocol._models import Environment as Environment
from payclient.protocol._models import Failed as Failed
from payclient.protocol._models import Found as Found
from payclient.protocol._models import Outcome as Outcome
from payclient.protocol._models import Request as Request
from payclient.protocol._models import Response as Response
from payclient.protocol._phrases import plain as plain
from payclient.protocol._refusal import request_id_of as request_id_of
from payclient.protocol._secret import ApiKey as ApiKey
from payclient.protocol._wire import build_request as build_request
from payclient.protocol._wire import check_reference as check_reference
from payclient.protocol._wire import check_references as check_references
from payclient.protocol._wire import endpoint as endpoint
from payclient.protocol._wire import parse_response as parse_response
from payclient.protocol._wire import request_headers as request_headers
from payclient.protocol.transaction import DOCUMENTED as DOCUMENTED
from payclient.protocol.transaction import EMPTY as EMPTY
from payclient.protocol.transaction import JSONProblem as JSONProblem
from payclient.protocol.transaction import Transaction as Transaction
from payclient.protocol.transaction import is_list as is_list
from payclient.protocol.transaction import is_object as is_object
from payclient.protocol.transaction import kind as kind
from payclient.protocol.transaction import masked as masked
from payclient.protocol.transaction import read_json as read_json

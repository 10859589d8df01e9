"""The error tree: its shape, and that its members are plain values which survive copying."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from payclient import Transaction, errors

TREE = {
    errors.PayClientError: (Exception,),
    errors.ConfigurationError: (errors.PayClientError, ValueError),
    errors.InvalidReferenceError: (errors.PayClientError, ValueError),
    errors.ClientClosedError: (errors.PayClientError, RuntimeError),
    errors.KeySourceError: (errors.PayClientError,),
    errors.DeadlineExceededError: (errors.PayClientError, TimeoutError),
    errors.TransportError: (errors.PayClientError,),
    errors.ConnectionFailedError: (errors.TransportError,),
    errors.AttemptTimeoutError: (errors.TransportError, TimeoutError),
    errors.OutageError: (errors.TransportError,),
    errors.TLSVerificationError: (errors.TransportError,),
    errors.ProxyRefusedError: (errors.TransportError,),
    errors.ResponseError: (errors.PayClientError,),
    errors.AuthenticationError: (errors.ResponseError,),
    errors.PermissionDeniedError: (errors.ResponseError,),
    errors.TransactionNotFoundError: (errors.ResponseError,),
    errors.RateLimitedError: (errors.ResponseError,),
    errors.ServiceError: (errors.ResponseError,),
    errors.RejectedError: (errors.ResponseError,),
    errors.UnexpectedResponseError: (errors.ResponseError,),
    errors.ReferenceMismatchError: (errors.UnexpectedResponseError,),
    errors.WaitError: (errors.PayClientError,),
    errors.UnreachableStatusError: (errors.WaitError,),
    errors.StillOpenError: (errors.WaitError,),
    errors.WaitDeadlineError: (errors.WaitError, errors.DeadlineExceededError),
}
ANSWER = {
    "status_code": 429,
    "headers": {"retry-after": "7", "server": "nginx"},
    "body": "slow down",
    "request_id": "r-1",
    "retry_after": 7.0,
    "service_message": "slow down",
}
COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle-{protocol}": lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}

every_class = pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
every_copy = pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)


def made(kind):
    """Return an error of *kind* in which no attribute has its default."""
    options = {"attempts": 3}
    if issubclass(kind, errors.DeadlineExceededError):
        options["seconds"] = {"queued": 1.0, "attempts": 2.0}
    if issubclass(kind, errors.WaitError):
        options["transaction"] = Transaction(reference="T1", amount=15000, status="Pending")
        options.update(lookups=4, waited=9.5, statuses={"Pending": 0.5})
    if issubclass(kind, errors.TransportError):
        options["sent"] = "yes"
    if issubclass(kind, errors.OutageError):
        options.update(last_failure="ServiceError: down", outage_seconds=9.5, retry_after=0.5, refused=7)
    if issubclass(kind, errors.ResponseError):
        options.update(copy.deepcopy(ANSWER))
    if issubclass(kind, errors.TransactionNotFoundError):
        options["is_conclusive"] = False
    if issubclass(kind, errors.UnexpectedResponseError):
        options["problem"] = "data.amount: absent"
    return kind("what happened", **options)


def raised(kind):
    """Return an error of *kind* that was raised from another one."""
    try:
        raise made(kind) from errors.ServiceError("before", status_code=503)
    except errors.PayClientError as error:
        return error


def test_tree_is_complete():
    """The tree has every public error and no other."""
    assert {kind.__name__ for kind in TREE} | {"Sent", "Step"} == set(errors.__all__)


@every_class
def test_bases(kind):
    """Each error has the bases that the tree shows, so one `except` catches a branch, or the builtin beside it."""
    assert kind.__bases__ == TREE[kind]


@every_class
@every_copy
def test_copy_keeps_attributes(kind, duplicate):
    """A copy or pickle of an error has its class, its text and all of its attributes."""
    error = made(kind)
    twin = duplicate(error)
    assert (type(twin), str(twin), twin.args, vars(twin)) == (kind, str(error), error.args, vars(error))


@every_class
@every_copy
def test_copy_keeps_cause(kind, duplicate):
    """A copy or pickle of an error still says what it was raised from."""
    cause = duplicate(raised(kind)).__cause__
    assert (type(cause), str(cause), cause.status_code) == (errors.ServiceError, "before", 503)


@every_copy
def test_copy_keeps_silence(duplicate):
    """An error that hid its context hides it after copying too, and one that did not does not."""
    silent, open_ = made(errors.ServiceError), made(errors.ServiceError)
    silent.__suppress_context__ = True
    assert [duplicate(error).__suppress_context__ for error in (silent, open_)] == [True, False]


def test_copy_is_another_error():
    """A copy is a new exception, so raising it does not lengthen the traceback of the first."""
    error = raised(errors.ServiceError)
    assert copy.copy(error).__traceback__ is None


@every_class
def test_holds_plain_values(kind):
    """The attributes of an error are text, numbers and dictionaries of them, or the transaction of a wait."""
    found = list(vars(made(kind)).values())
    found += [item for value in found if isinstance(value, dict) for item in (*value, *value.values())]
    assert {type(value) for value in found} <= {str, int, bool, float, dict, Transaction}


@every_class
def test_message_alone_is_enough(kind):
    """Every error can be made from its message, which is what unpickling begins with."""
    assert kind("what happened").message == "what happened"


def test_without_message():
    """An error that was raised as a bare class has an empty message."""
    assert errors.PayClientError().message == ""


def test_text_names_request():
    """The text of an answer's error ends with when to come back, and with the service's name of the exchange."""
    assert str(made(errors.RejectedError)) == "what happened [retry after 7 s, request id r-1]"


def test_dictionaries_are_not_shared():
    """Two errors that were given no headers do not share the dictionary that stands for none."""
    first, second = errors.ServiceError("a"), errors.ServiceError("b")
    first.headers["server"] = "nginx"
    assert second.headers == {}


@every_class
def test_facts_as_json(kind):
    """A result backend of JSON can keep the facts of an error, the transaction of a wait by `as_json`."""
    error = made(kind)
    facts = json.loads(json.dumps(vars(error), default=Transaction.as_json))
    if "transaction" in facts:
        facts["transaction"] = Transaction.from_json(facts["transaction"])
    again = kind(error.message, **facts)
    assert (vars(again), str(again)) == (vars(error), str(error))

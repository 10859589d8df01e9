"""The error tree: its shape, and that its members are plain values which survive copying."""

import copy
import json
import pickle
from abc import ABC
from itertools import product

import payclient
from payclient import Transaction, errors
from support.misses import check_each

TREE = {
    errors.PayClientError: (errors._WithAttributes, Exception),
    errors.ConfigurationError: (errors.PayClientError, ValueError),
    errors.InvalidReferenceError: (errors.PayClientError, ValueError),
    errors.ClientClosedError: (errors.PayClientError, RuntimeError),
    errors.CouldNotAskError: (errors.PayClientError,),
    errors.KeySourceError: (errors.CouldNotAskError,),
    errors.DeadlineExceededError: (errors.CouldNotAskError, TimeoutError),
    errors.TransportError: (errors.CouldNotAskError,),
    errors.ConnectionFailedError: (errors.TransportError,),
    errors.AttemptTimeoutError: (errors.TransportError, TimeoutError),
    errors.OutageError: (errors.TransportError,),
    errors.OverloadedError: (errors.TransportError,),
    errors.TLSVerificationError: (errors.TransportError,),
    errors.ProxyRefusedError: (errors.TransportError,),
    errors.ResponseError: (errors.PayClientError,),
    errors.AuthenticationError: (errors.CouldNotAskError, errors.ResponseError),
    errors.PermissionDeniedError: (errors.CouldNotAskError, errors.ResponseError),
    errors.TransactionNotFoundError: (errors.ResponseError,),
    errors.RateLimitedError: (errors.CouldNotAskError, errors.ResponseError),
    errors.ServiceError: (errors.CouldNotAskError, errors.ResponseError),
    errors.RejectedError: (errors.ResponseError,),
    errors.UnexpectedResponseError: (errors.CouldNotAskError, errors.ResponseError),
    errors.ReferenceMismatchError: (errors.UnexpectedResponseError,),
    errors.WaitError: (errors.PayClientError,),
    errors.UnreachableStatusError: (errors.WaitError,),
    errors.WaitDeadlineError: (errors.WaitError, TimeoutError),
    errors.WaitUnansweredError: (errors.CouldNotAskError, errors.WaitDeadlineError),
}
ANSWER = {
    "status_code": 429,
    "headers": {"retry-after": "7", "server": "nginx"},
    "body": "slow down",
    "request_id": "r-1",
    "asked_pause": 7.0,
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

EVERY_COPY = tuple(product(TREE, COPIES))


def made(kind):
    """Return an error of *kind* in which no attribute has its default."""
    options = {"attempts": 3, "is_first": False}
    if issubclass(kind, errors.CouldNotAskError):
        options["retry_after"] = 0.5
    if issubclass(kind, errors.DeadlineExceededError):
        options["seconds"] = {"queued": 1.0, "attempts": 2.0}
    if issubclass(kind, errors.WaitError):
        options["transaction"] = Transaction(reference="T1", amount=15000, status="Pending")
        options.update(lookups=4, waited=9.5, statuses={"Pending": 0.5})
    if issubclass(kind, errors.TransportError):
        options["sent"] = "yes"
    if issubclass(kind, errors.OutageError):
        options.update(last_failure="ServiceError: down", outage_seconds=9.5, refused=7)
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
    assert {kind.__name__ for kind in TREE} == {name for name in payclient.__all__ if name.endswith("Error")}


def test_bases():
    """Each error has the bases that the tree shows, so one `except` catches a branch, or the builtin beside it."""
    check_each(TREE, lambda kind: kind.__bases__)


def test_web_answers():
    """Not found is 404, declined 422, an answered wait 409, could not ask 503; the rest is a mistake of the caller."""

    def expected(kind):
        if issubclass(kind, errors.InvalidReferenceError | errors.TransactionNotFoundError):
            return 404, {}
        if issubclass(kind, errors.RejectedError):
            return 422, {}
        if issubclass(kind, errors.WaitError) and not issubclass(kind, errors.CouldNotAskError):
            return 409, {}
        could_ask = errors.PayClientError, errors.ConfigurationError, errors.ClientClosedError, errors.ResponseError
        return (500, {}) if kind in could_ask else (503, {"Retry-After": "5"})

    check_each({kind: expected(kind) for kind in TREE}, lambda kind: (kind().http_status, kind().http_headers))
    assert {kind().detail for kind in TREE if kind().http_status != 500}.isdisjoint({kind().message for kind in TREE})


def test_retry_after():
    """`retry_after` is the pause that was asked for, the time to the next probe, or 5 s; a header is never 0."""
    cases = {
        errors.ServiceError(): (5.0, "5"),
        errors.ServiceError(asked_pause=7.5): (7.5, "8"),
        errors.RateLimitedError(asked_pause=0.0): (0.0, "1"),
        errors.OutageError(retry_after=0.5): (0.5, "1"),
        errors.KeySourceError(): (5.0, "5"),
    }
    check_each(cases, lambda error: (error.retry_after, error.http_headers["Retry-After"]))


def test_copy_keeps_attributes():
    """A copy or pickle of an error has its class, its text and all of its attributes."""

    def seen(error):
        return type(error), str(error), error.args, vars(error)

    expected = {(kind, name): seen(made(kind)) for kind, name in EVERY_COPY}
    check_each(expected, lambda case: seen(COPIES[case[1]](made(case[0]))))


def test_copy_keeps_cause():
    """A copy or pickle of an error still says what it was raised from."""

    def seen(case):
        kind, name = case
        cause = COPIES[name](raised(kind)).__cause__
        return type(cause), str(cause), getattr(cause, "status_code", None)

    check_each(dict.fromkeys(EVERY_COPY, (errors.ServiceError, "before", 503)), seen)


def test_copy_keeps_silence():
    """An error that hid its context hides it after copying too, and one that did not does not."""
    silent, open_ = made(errors.ServiceError), made(errors.ServiceError)
    silent.__suppress_context__ = True
    check_each(
        dict.fromkeys(COPIES, (True, False)),
        lambda name: tuple(COPIES[name](error).__suppress_context__ for error in (silent, open_)),
    )


def test_copy_is_another_error():
    """A copy is a new exception, so raising it does not lengthen the traceback of the first."""
    error = raised(errors.ServiceError)
    assert copy.copy(error).__traceback__ is None


def test_holds_plain_values():
    """The attributes of an error are text, numbers and dictionaries of them, or the transaction of a wait."""

    def others(kind):
        found = list(vars(made(kind)).values())
        found += [item for value in found if isinstance(value, dict) for item in (*value, *value.values())]
        return {type(value) for value in found} - {str, int, bool, float, dict, Transaction}

    check_each(dict.fromkeys(TREE, frozenset()), others)


def test_message_alone_is_enough():
    """Every error can be made from its message, which is what unpickling begins with."""
    check_each(dict.fromkeys(TREE, "what happened"), lambda kind: kind("what happened").message)


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


def test_copies_share_nothing():
    """A note or a header that is added to a copy of an error is on no other."""
    error = made(errors.ServiceError)
    error.add_note("first")
    before = str(vars(error))
    other = copy.copy(error)
    other.add_note("second")
    other.headers["server"] = "another"
    assert (str(vars(error)), other.__notes__) == (before, ["first", "second"])


def test_facts_as_json():
    """A result backend of JSON can keep the facts of an error, the transaction of a wait by `as_json`."""

    def restored(kind):
        error = made(kind)
        facts = json.loads(json.dumps(vars(error), default=Transaction.as_json))
        if "transaction" in facts:
            facts["transaction"] = Transaction.from_json(facts["transaction"])
        again = kind(error.message, **facts)
        return vars(again), str(again)

    check_each({kind: (vars(made(kind)), str(made(kind))) for kind in TREE}, restored)


def test_own_class():
    """A class of an application derives from ours as from any other: beside an `ABC`, and with its own annotations."""

    class UnpaidError(errors.RateLimitedError, ABC):
        reason: str

    error = UnpaidError("too many", status_code=429)
    assert (error.message, error.status_code) == ("too many", 429)

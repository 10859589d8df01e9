"""Policies without I/O: limiter, retry, deferral, single-flight and time-outs. Clock and randomness are arguments."""

from payclient.policies._deferral import PASSES, Deferral, Disposition, PendingRow
from payclient.policies._limiter import Limiter
from payclient.policies._retry import Again, Retries, RetryPolicy, Signal, classify, names_no_reference
from payclient.policies._single_flight import SingleFlight
from payclient.policies._timeouts import Clock, Timeout

__all__ = [
    "PASSES",
    "Again",
    "Clock",
    "Deferral",
    "Disposition",
    "Limiter",
    "PendingRow",
    "Retries",
    "RetryPolicy",
    "Signal",
    "SingleFlight",
    "Timeout",
    "classify",
    "names_no_reference",
]

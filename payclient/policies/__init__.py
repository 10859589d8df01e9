"""Policies without I/O: limiter, outages, retry, deferral, equal lookups, time-outs. Clock and chance are arguments."""

from payclient.policies._concurrency import Ticket
from payclient.policies._deferral import PASSES, Deferral, Disposition, PendingRow
from payclient.policies._limiter import Limiter
from payclient.policies._outage import Outage, is_answer
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
    "Outage",
    "PendingRow",
    "Retries",
    "RetryPolicy",
    "Signal",
    "SingleFlight",
    "Ticket",
    "Timeout",
    "classify",
    "is_answer",
    "names_no_reference",
]

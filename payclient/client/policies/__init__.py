"""
Internal: policies without I/O: limiter, retry, time-outs.

Clock and chance are arguments.
"""

from payclient.client.policies._capacity import Ticket as Ticket
from payclient.client.policies._limiter import Limiter as Limiter
from payclient.client.policies._limiter import Priority as Priority
from payclient.client.policies._retry import Retries as Retries
from payclient.client.policies._retry import RetryPolicy as RetryPolicy
from payclient.client.policies._retry import names_no_reference as names_no_reference
from payclient.client.policies._retry import pause_of as pause_of
from payclient.client.policies._timeouts import Clock as Clock
from payclient.client.policies._timeouts import Timeout as Timeout
from payclient.errors import Again as Again
from payclient.errors import Signal as Signal
from payclient.errors import classify as classify

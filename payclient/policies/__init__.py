"""
Internal: policies without I/O: limiter, outages, retry, deferral, equal lookups, time-outs.

Clock and chance are arguments.
"""

from payclient.policies._concurrency import Ticket as Ticket
from payclient.policies._deferral import PASSES as PASSES
from payclient.policies._deferral import Deferral as Deferral
from payclient.policies._deferral import Disposition as Disposition
from payclient.policies._deferral import PendingRow as PendingRow
from payclient.policies._deferral import is_passing as is_passing
from payclient.policies._limiter import Limiter as Limiter
from payclient.policies._outage import Outage as Outage
from payclient.policies._outage import is_answer as is_answer
from payclient.policies._outage import is_final as is_final
from payclient.policies._retry import Again as Again
from payclient.policies._retry import Retries as Retries
from payclient.policies._retry import RetryPolicy as RetryPolicy
from payclient.policies._retry import Signal as Signal
from payclient.policies._retry import classify as classify
from payclient.policies._retry import names_no_reference as names_no_reference
from payclient.policies._single_flight import SingleFlight as SingleFlight
from payclient.policies._timeouts import Clock as Clock
from payclient.policies._timeouts import Timeout as Timeout

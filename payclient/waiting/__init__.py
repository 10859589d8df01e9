"""Wait for transactions: the rules of a wait, shared polls, and watching many at once."""

from payclient.waiting._polls import Polls, wait_until_held
from payclient.waiting._wait import INTERVAL, MAX_INTERVAL, Condition, Terms, Wait
from payclient.waiting._watch import Change, Seen, watch

__all__ = [
    "INTERVAL",
    "MAX_INTERVAL",
    "Change",
    "Condition",
    "Polls",
    "Seen",
    "Terms",
    "Wait",
    "wait_until_held",
    "watch",
]

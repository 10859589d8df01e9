"""Internal: wait for transactions: the rules of a wait, shared polls, and watching many at once."""

from payclient.client.waiting._polls import Polls as Polls
from payclient.client.waiting._polls import poll_until as poll_until
from payclient.client.waiting._wait import INTERVAL as INTERVAL
from payclient.client.waiting._wait import MAX_INTERVAL as MAX_INTERVAL
from payclient.client.waiting._wait import Condition as Condition
from payclient.client.waiting._wait import Terms as Terms
from payclient.client.waiting._wait import Wait as Wait
from payclient.client.waiting._watch import Change as Change
from payclient.client.waiting._watch import Seen as Seen
from payclient.client.waiting._watch import watch as watch

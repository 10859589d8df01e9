"""Internal: wait for transactions: the rules of a wait, and shared polls."""

from payclient.client.waiting._polls import Polls as Polls
from payclient.client.waiting._polls import poll_until as poll_until
from payclient.client.waiting._wait import INTERVAL as INTERVAL
from payclient.client.waiting._wait import MAX_INTERVAL as MAX_INTERVAL
from payclient.client.waiting._wait import Condition as Condition
from payclient.client.waiting._wait import Terms as Terms
from payclient.client.waiting._wait import Wait as Wait

"""Print the status of each reference: `python script.py T0000000001DEMO T0000000002DEMO`."""

import sys

from payclient import Found
from payclient.blocking import Client

with Client() as client:
    for outcome in client.get_transactions(sys.argv[1:]):
        said = outcome.transaction.status if isinstance(outcome, Found) else outcome.error
        print(outcome.reference, said)

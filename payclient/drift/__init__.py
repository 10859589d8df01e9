"""Remember what the service was seen to do, and find the day on which that changes."""

from payclient.drift._recorder import Recorder
from payclient.drift._table import Table

__all__ = ["Recorder", "Table"]

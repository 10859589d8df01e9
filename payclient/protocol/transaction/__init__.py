"""Internal: a transaction, and its reading from JSON. Nothing here knows a request or an error of payclient."""

from payclient.protocol.transaction._model import ATTRIBUTES as ATTRIBUTES
from payclient.protocol.transaction._model import DOCUMENTED as DOCUMENTED
from payclient.protocol.transaction._model import EMPTY as EMPTY
from payclient.protocol.transaction._model import FieldProblem as FieldProblem
from payclient.protocol.transaction._model import Returnable as Returnable
from payclient.protocol.transaction._model import Transaction as Transaction
from payclient.protocol.transaction._model import documented_values as documented_values
from payclient.protocol.transaction._model import masked as masked
from payclient.protocol.transaction._model import read_documented as read_documented
from payclient.protocol.transaction._model import read_transaction as read_transaction

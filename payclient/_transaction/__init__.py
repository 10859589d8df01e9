"""Internal: a transaction, and its reading from JSON; nothing here knows a request or an error of payclient."""

from payclient._transaction._codec import FieldProblem as FieldProblem
from payclient._transaction._json import JSONProblem as JSONProblem
from payclient._transaction._json import is_list as is_list
from payclient._transaction._json import is_object as is_object
from payclient._transaction._json import kind as kind
from payclient._transaction._json import named as named
from payclient._transaction._json import read_json as read_json
from payclient._transaction._model import EMPTY as EMPTY
from payclient._transaction._model import Transaction as Transaction
from payclient._transaction._model import masked as masked
from payclient._transaction._model import read_transaction as read_transaction

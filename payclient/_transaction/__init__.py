"""A transaction, and how it is read from JSON; nothing here knows a request or an error of payclient."""

from payclient._transaction._codec import FieldProblem, read_transaction
from payclient._transaction._json import JSONProblem, is_list, is_object, kind, named, read_json
from payclient._transaction._model import EMPTY, Transaction, masked

__all__ = [
    "EMPTY",
    "FieldProblem",
    "JSONProblem",
    "Transaction",
    "is_list",
    "is_object",
    "kind",
    "masked",
    "named",
    "read_json",
    "read_transaction",
]

"""Record the behaviour of the service, and find the day of a change."""

from payclient.reconcile.drift._compare import (
    Acceptance,
    AcceptanceError,
    Comparison,
    Drift,
    Severity,
    Transition,
    compare,
    read_acceptances,
)
from payclient.reconcile.drift._contract import (
    CONTRACT,
    Contract,
    ContractError,
    ContractRecorder,
    GoldenAnswer,
    Side,
    contract_from_json,
)
from payclient.reconcile.drift._profile import Recorder, Table

__all__ = [
    "CONTRACT",
    "Acceptance",
    "AcceptanceError",
    "Comparison",
    "Contract",
    "ContractError",
    "ContractRecorder",
    "Drift",
    "GoldenAnswer",
    "Recorder",
    "Severity",
    "Side",
    "Table",
    "Transition",
    "compare",
    "contract_from_json",
    "read_acceptances",
]

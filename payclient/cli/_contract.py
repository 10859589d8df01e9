"""What a run remembers of the service: the contract, kept in its journal and in its report."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import datetime
from itertools import islice

from payclient import AsyncClient, __version__
from payclient._config import resolve_environment
from payclient.cli._connection import ConnectionOptions
from payclient.drift import CONTRACT, Contract, ContractError, ContractRecorder, Side, contract_from_json
from payclient.errors import PayClientError, TransactionNotFoundError
from payclient.reconcile import Bucket, Journal, Row, Rules
from payclient.report import PastRun

_PROXY_VARIABLES = ("PAYCLIENT_PROXY", "HTTPS_PROXY", "https_proxy")
_MAX_ROWS = 1_000_000
_DEADLINE = 30.0  # seconds, for one golden answer
_UNFINISHED = (Bucket.OPEN, Bucket.BREAK)


def contract_recorder(connection: ConnectionOptions, previous: PastRun | None) -> ContractRecorder:
    """Return what records the contract of a run, and knows the open rows and the golden answers of the *previous*."""
    side = Side(
        payclient=__version__,
        environment=str(resolve_environment(connection.environment)),
        transport=os.environ.get("PAYCLIENT_TRANSPORT") or "fast",
        proxy="proxy" if connection.proxy or any(map(os.environ.get, _PROXY_VARIABLES)) else "none",
    )
    if previous is None:
        return ContractRecorder(side=side)
    contract = _known((previous.folder / CONTRACT).read_text()) if previous.has_contract else None
    recorder = ContractRecorder(side=side, previous=contract)
    for line in islice(previous.lines(), _MAX_ROWS):
        if line.bucket in _UNFINISHED:
            row = line.row
            at = row.confirmed_at or row.observed_at
            if row.transaction is not None and at is not None:
                recorder.seed(row.transaction.reference, row.transaction.status, at.timestamp())
    return recorder


def offer(recorder: ContractRecorder, row: Row, rules: Rules) -> None:
    """Offer the answer of *row* as a golden one, if nothing is to happen to it any more."""
    is_final = row.service_status in rules.final_statuses and row.bucket is Bucket.MATCHED
    if is_final and row.transaction is not None and not row.reused_from:
        recorder.offer(row.transaction)


async def ask_golden(recorder: ContractRecorder, client: AsyncClient) -> None:
    """Ask for the golden answers, one after the other; the end of the run does not depend on them."""
    if not recorder.answers:
        return
    view = client.with_options(deadline=_DEADLINE)
    for reference in recorder.golden_references():
        try:
            with suppress(TransactionNotFoundError):
                await view.get_transaction(reference)
        except PayClientError:
            return


def keep_contract(recorder: ContractRecorder | None, journal: Journal, began: datetime) -> str | None:
    """Add what was recorded to what the journal has of the same run, and return it; None if there is nothing."""
    noted = journal.note(CONTRACT)
    if recorder is None or (noted is not None and not recorder.answers):  # nothing was left to ask for
        return noted
    contract = recorder.contract(began)
    if noted is not None and (before := _known(noted)) is not None:
        contract = before + contract
    text = json.dumps(contract.as_json(), separators=(",", ":"))
    journal.set_note(CONTRACT, text)
    return text


def _known(text: str) -> Contract | None:
    """Return a contract; None where a payclient with another format has written it: then memory begins again."""
    try:
        return contract_from_json(json.loads(text))
    except ContractError:
        return None

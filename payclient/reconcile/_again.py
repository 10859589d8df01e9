"""Judge the answers of a journal by other rules: in a copy, and without a lookup."""

from __future__ import annotations

import json

from payclient.reconcile._errors import JournalError
from payclient.reconcile._journal import Journal
from payclient.reconcile._rules import Rules

_IDENTITY = "identity"


def judge_again(journal: Journal, *, rules: Rules) -> int:
    """
    Turn a copy of a journal into that of a run with other rules.

    Args:
        journal: The copy. Its ledger and its answers stay as they are; what was derived from them by the rules is
            derived again.
        rules: How differences are judged from now on.

    Returns:
        The number of references that need a second lookup by these rules, and have none. They are unresolved; a run
        with this journal looks them up.

    Raises:
        JournalError: When the ledger was not read to its end.
        JournalWriteError: When it cannot be written.
    """
    if not journal.is_ledger_complete:
        message = "the run has not read its whole ledger, so there is nothing to judge; run the same command again"
        raise JournalError(message)
    journal.answers.mark_again(rules, journal.side_of)
    identity = json.loads(journal.note(_IDENTITY) or "{}")
    journal.set_note(_IDENTITY, json.dumps({**identity, "rules": rules.fingerprint}))
    return journal.answers.count_to_confirm()

"""`payclient explain`: one reference of a reconciliation, from the ledger to the finding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from payclient._models import masked
from payclient._visible import visible
from payclient.cli._reconciliation import about_of, journal_path
from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.cli._table import aligned
from payclient.ledger import ABSENT, Entry
from payclient.reconcile import Case, Journal, Observation, Row, judge, step_of

EXAMPLES = """
```console
$ payclient explain report T0000000033KGJ0D
```

Exit status: 0 when the ledger has the reference, 1 when it has not.
"""

_FIELDS = (
    *("merchant_reff", "amount", "fee", "amount_received", "status"),
    *("payment_method", "payment_name", "payment_code", "expdate"),
)


def explain(folder: Path, reference: str, /, *, streams: Annotated[Streams, Parameter(parse=False)]) -> int:
    """
    Show what the ledger says about one reference, what the service answered and when, and what follows.

    Args:
        folder: Of the report.
        reference: As it stands in the ledger.
        streams: Of the process.

    Returns:
        The exit status.
    """
    with Journal(journal_path(folder), must_exist=True) as journal:
        rules = about_of(journal).rules
        cases = list(journal.cases(reference))
        for case in cases:
            for line in _lines(case, judge(case, rules=rules)):
                streams.write(visible(line))
    if not cases:
        streams.write(f"the ledger has no row with the reference {visible(reference)}")
        return Exit.DIFFERENT
    return Exit.DONE


def _lines(case: Case, row: Row) -> Iterator[str]:
    yield f"line {row.line}, {row.reference or 'no reference'}: {row.bucket.upper()}"
    if row.reason:
        yield f"  why: {row.reason}"
    for finding in row.findings:
        yield f"  {finding.severity.word} {finding.code}: {finding.sentence}"
        if finding.waived:
            yield f"    does not count: {finding.waived}"
    yield f"  bridge: {step_of(row)}"
    if case.rows > 1:
        yield f"  rows with this reference: {case.rows}" + (
            ", of which this is not the first" if case.is_repeat else ""
        )
    looks = [("first look", case.first), ("second look", case.second)]
    yield from ("  " + line for line in aligned(_table(case, [(name, look) for name, look in looks if look])))
    yield ""


def _table(case: Case, looks: list[tuple[str, Observation]]) -> list[tuple[str, ...]]:
    """Return the ledger and each look side by side, a line per field that one of them has."""
    rows: list[tuple[str, ...]] = [("", "ledger", *(name for name, _ in looks))]
    rows.append(("at", "", *(look.at.isoformat(" ", "seconds") for _, look in looks)))
    rows.append(("answer", "", *(look.answer.value if look.transaction else look.message for _, look in looks)))
    for name in _FIELDS:
        ours = _text(name, getattr(case.entry, name, ABSENT) if isinstance(case.entry, Entry) else ABSENT)
        theirs = [_text(name, getattr(look.transaction, name, ABSENT)) for _, look in looks]
        if ours or any(theirs):
            rows.append((name, ours, *theirs))
    return rows


def _text(name: str, value: Any) -> str:
    if value is ABSENT:
        return ""
    if value is None:
        return "(empty)"
    return visible(masked(value) if name == "payment_code" else str(value), longest=60)

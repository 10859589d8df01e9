"""`payclient explain`: one reference of a reconciliation in full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from payclient._escape import escape_unprintable
from payclient.cli._reconciliation import about_of
from payclient.cli._status import Exit
from payclient.cli._streams import Streams, aligned
from payclient.ledger import ABSENT, Entry
from payclient.protocol import masked
from payclient.reconcile import Case, Journal, Observation, Row, Settled, judge, moved_by, step_of
from payclient.report import JOURNAL

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
    Show one reference in full: the ledger's values, the service's answers, and the findings.

    For a payment made twice, the other references are shown too.

    Args:
        folder: Folder of the report.
        reference: Reference as written in the ledger.
        streams: Streams of the process.
    """
    with Journal(folder / JOURNAL, must_exist=True) as journal:
        rules = about_of(journal).rules
        cases = list(journal.cases(reference, rules=rules))
        others = dict.fromkeys(other for case in cases for other in case.paid_with)
        for case in (*cases, *(case for other in others for case in journal.cases(other, rules=rules))):
            for line in _lines(case, judge(case, rules=rules)):
                streams.write(escape_unprintable(line))
    if not cases:
        streams.write(f"the ledger has no row with the reference {escape_unprintable(reference)}")
        return Exit.DIFFERENT
    return Exit.DONE


def _lines(case: Case, row: Row) -> Iterator[str]:
    yield f"{row.place}, {row.reference or 'no reference'}: {row.bucket.upper()}"
    if row.reason:
        yield f"  why: {row.reason}"
    if row.carried_from:
        is_of_ledger = row.other_side is None or row.other_side.is_in_ledger
        why = "the ledger does not list it any more" if is_of_ledger else "only the statement of that run listed it"
        yield f"  carried over from the run {row.carried_from}: {why}"
    if row.reused_from:
        yield f"  reused: the answer is from the run {row.reused_from}; this run did not look it up"
    for finding in row.findings:
        yield f"  {finding.severity.word} {finding.code}: {finding.sentence}"
        if (age := finding.history) is not None and age.first_seen is not None:
            yield f"    {age.state.label}; first seen {age.first_seen:%Y-%m-%d} in the run {age.first_run}"
        if finding.waived:
            yield f"    does not count: {finding.waived}"
    yield f"  bridge: {step_of(row).label}, {moved_by(row):+,}"
    if row.other_side is not None:
        yield f"  settled: {_settled(row.other_side.settled)}"
    if case.rows > 1:
        yield f"  rows with this reference: {case.rows}" + (
            ", of which this is not the first" if case.is_repeat else ""
        )
    lookups = [("first lookup", case.first), ("second lookup", case.second)]
    yield from ("  " + line for line in aligned(_table(case, [(name, lookup) for name, lookup in lookups if lookup])))
    yield ""


def _settled(settled: Settled | None) -> str:
    if settled is None:
        return "no"
    amounts = {"amount": settled.amount, "amount_received": settled.amount_received}
    stated = "".join(f", {name} {amount}" for name, amount in amounts.items() if amount is not None)
    return f"on {settled.where}{stated}"


def _table(case: Case, lookups: list[tuple[str, Observation]]) -> list[tuple[str, ...]]:
    """Return the ledger and each lookup side by side, one line per field that any of them has."""
    rows: list[tuple[str, ...]] = [("", "ledger", *(name for name, _ in lookups))]
    rows.append(("at", "", *(lookup.at.isoformat(" ", "seconds") for _, lookup in lookups)))
    rows.append(("answer", "", *(each.answer.value if each.transaction else each.message for _, each in lookups)))
    for name in _FIELDS:
        ours = _text(name, getattr(case.entry, name, ABSENT) if isinstance(case.entry, Entry) else ABSENT)
        theirs = [_text(name, getattr(lookup.transaction, name, ABSENT)) for _, lookup in lookups]
        if ours or any(theirs):
            rows.append((name, ours, *theirs))
    return rows


def _text(name: str, value: Any) -> str:
    if value is ABSENT:
        return ""
    if value is None:
        return "(empty)"
    return escape_unprintable(masked(value) if name == "payment_code" else str(value), max_length=60)

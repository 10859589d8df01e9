"""Which rows stand together on the page, and in which order."""

from __future__ import annotations

from payclient import Transaction
from payclient.ledger import Entry
from payclient.reconcile import Bucket, Code, Finding, Row, Severity, Total
from payclient.report._html import ALLOWED as ALLOWED_BY_A_RULE
from payclient.report._html import RowGroups


def test_paid_twice():
    """Rows of an invoice that was paid twice are adjacent, regardless of their order in the ledger."""
    groups = RowGroups(10)
    for line, reff in enumerate(("INV-1", "INV-2", "inv-1", "INV-2"), 2):
        reference = f"T{line}"
        transaction = Transaction(reference=reference, amount=5, status="Paid", merchant_reff=reff)
        finding = Finding(Code.PAID_TWICE, "paid twice")
        entry = Entry(line=line, reference=reference, amount=5)
        groups.add(Row(entry=entry, bucket=Bucket.BREAK, findings=(finding,), transaction=transaction))
    (group,) = groups.breaks(())
    assert [row.line for row in group.rows] == [2, 4, 3, 5]


CASE_ONLY = Finding(Code.MERCHANT_REFF_DIFFERS, "only case", severity=Severity.MEDIUM)
OTHER = Finding(Code.MERCHANT_REFF_DIFFERS, "other")
UNDERPAID = Finding(Code.UNDERPAID, "less")
NET = Finding(Code.NET_DIFFERS, "net")
ALLOWED = Finding(Code.UNDERPAID, "less", waived="within the tolerance")


def row(*findings, line=2, amount=100, service=None, bucket=Bucket.BREAK):
    transaction = None if service is None else Transaction(reference="A", amount=service, status="Paid")
    entry = Entry(line=line, reference="A", amount=amount)
    return Row(entry=entry, bucket=bucket, findings=findings, transaction=transaction)


def grouped(*rows, room=10):
    groups = RowGroups(room)
    for each in rows:
        groups.add(each)
    return groups


def test_breaks():
    """Breaks are grouped by their most severe finding, the most severe group first."""
    groups = grouped(row(UNDERPAID, NET), row(CASE_ONLY), row(NET), row(OTHER), row(UNDERPAID))
    assert [(group.severity, group.code, group.total.rows) for group in groups.breaks(())] == [
        ("critical", "merchant_reff_differs", 1),
        ("high", "underpaid", 2),
        ("high", "net_differs", 1),
        ("medium", "merchant_reff_differs", 1),
    ]


def test_room():
    """Of many rows those with the most money at stake are kept, those that come first among equals, and all count."""
    rows = [row(OTHER, line=line, amount=amount) for line, amount in enumerate([5, 70, 6, 70, 900])]
    (group,) = grouped(*rows, room=3).breaks(())
    assert ([each.line for each in group.rows], group.total) == ([4, 1, 3], Total(rows=5, ledger_amount=1051))


def test_rows_that_are_no_breaks():
    """A row without findings is in no group; one with findings is listed under the first, or under its bucket."""
    allowed = row(ALLOWED, bucket=Bucket.MATCHED)
    groups = grouped(row(bucket=Bucket.MATCHED), row(bucket=Bucket.OPEN), allowed)
    assert [(group.code, group.rows) for group in groups.remarks(())] == [("underpaid", (allowed,))]
    for bucket in (Bucket.UNRESOLVED, Bucket.REJECTED):
        found, plain = row(UNDERPAID, bucket=bucket), row(bucket=bucket, amount=1)
        groups = grouped(found, plain)
        assert (groups.of(bucket, ()).rows, groups.breaks(()), groups.remarks(())) == ((found, plain), [], [])


def test_remark_of_a_hint():
    """Only what a rule has waived is said to be allowed; a hint has the words of its code, such as an empty cell."""
    for code in Code:
        is_soft = Finding(code, "").is_soft
        (group,) = grouped(row(Finding(code, "", waived="" if is_soft else "agreed"), bucket=Bucket.MATCHED)).remarks(
            ()
        )
        assert group.advice == (code.advice if is_soft else ALLOWED_BY_A_RULE), code

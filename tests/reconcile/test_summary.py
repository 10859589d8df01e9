"""The verdict, the counts and the exit status of a whole reconciliation."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import attrs
import pytest

from payclient import Transaction, errors
from payclient.reconcile import (
    Answer,
    BreakState,
    Bucket,
    Case,
    Code,
    Decision,
    Finding,
    History,
    Observation,
    Resolution,
    Row,
    Rules,
    Severity,
    StatementSide,
    Status,
    Tally,
    Verdict,
    judge,
)
from payclient.reconcile._judgement.findings import FindingTotal
from payclient.reconcile._judgement.records import Answers, BreakChange, BreakRecord, PreviousRun
from payclient.reconcile._judgement.sides import observe
from payclient.reconcile._judgement.summary import FIELDS, Condition, Leakage
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry, UnreadSheet, UnusedColumn
from payclient.reconcile.report import About, LedgerAbout, Report
from payclient.reconcile.report.wording import in_words
from support.misses import check_table
from support.reconciling import NOON
from support.ruling import accepted

PREVIOUS = PreviousRun(run="20", folder="20", last_observed_at=None)


def row(bucket, *codes, **fields):
    entry = Entry(line=2, reference="T1", amount=100, status="paid")
    entry = RejectedEntry(line=2, reason="x") if bucket is Bucket.REJECTED else entry
    transaction = Transaction(reference="T1", amount=90 if codes else 100, status="Paid")
    findings = tuple(Finding(code, "") for code in codes)
    states = {"ledger_status": Status.PAID, "service_status": Status.PAID}
    given = {"entry": entry, "findings": findings, "transaction": transaction} | states | fields
    return Row(bucket=bucket, **given)


MATCHED, OPEN = row(Bucket.MATCHED), row(Bucket.OPEN)
BREAK, LOW = row(Bucket.BREAK, Code.UNDERPAID, Code.FEE_DIFFERS), row(Bucket.BREAK, Code.EXPIRY_DIFFERS)
LACKS_PROBE = row(Bucket.UNRESOLVED, lacks_probe=True)
UNRESOLVED, REJECTED = row(Bucket.UNRESOLVED), row(Bucket.REJECTED)


def summary(*rows, rules=None, previous=None):
    tally = Tally(rules or Rules(), previous=previous)
    for each in rows:
        tally.add(each)
    return tally.summary()


def test_verdict():
    """Unresolved rows never hide a break that matters from the exit status; breaks below a severity do not fail."""
    check_table(
        (
            ((), "medium", Verdict.EMPTY, 0),
            ((MATCHED, OPEN), "medium", Verdict.CLEAN, 0),
            ((MATCHED, BREAK), "medium", Verdict.BREAKS, 1),
            ((MATCHED, LOW), "medium", Verdict.BREAKS, 0),
            ((MATCHED, REJECTED), "medium", Verdict.BREAKS, 1),
            ((MATCHED, UNRESOLVED), "medium", Verdict.INCOMPLETE, 75),
            ((LOW, UNRESOLVED), "medium", Verdict.INCOMPLETE, 75),
            ((BREAK, UNRESOLVED), "medium", Verdict.INCOMPLETE, 1),
            ((REJECTED, UNRESOLVED), "medium", Verdict.INCOMPLETE, 1),
            ((BREAK, LACKS_PROBE), "medium", Verdict.INCOMPLETE, 3),
            *(((LOW,), severity, Verdict.BREAKS, 1) for severity in ("low", Severity.LOW, Severity.INFO)),
            ((LOW,), "critical", Verdict.BREAKS, 0),
        ),
        lambda rows, fail_on, verdict: (
            summary(*rows).exit_status(fail_on) if summary(*rows).verdict is verdict else None
        ),
    )
    assert summary(LOW).exit_status() == 0
    with pytest.raises(KeyError):
        summary(LOW).exit_status("severe")


def test_counts():
    """Rows and money are counted per bucket, per finding and per severity."""
    result = summary(MATCHED, BREAK, BREAK, LOW, UNRESOLVED)
    assert {bucket.value: total.rows for bucket, total in result.buckets.items()} == {
        "matched": 1,
        "open": 0,
        "break": 3,
        "unresolved": 1,
        "rejected": 0,
    }
    underpaid = result.codes[Code.UNDERPAID]
    assert (underpaid.rows, underpaid.ledger_amount, underpaid.service_amount) == (2, 200, 180)
    assert (result.breaks[Severity.HIGH], result.breaks[Severity.MEDIUM], result.breaks[Severity.LOW]) == (2, 0, 1)
    assert summary(row(Bucket.BREAK, *[Code.NOT_COMPARED] * 2)).codes[Code.NOT_COMPARED].rows == 1


def test_frozen():
    """A summary stays what it was when more rows come."""
    tally = Tally()
    tally.add(MATCHED)
    before = tally.summary()
    tally.add(BREAK)
    assert (before.rows, before.buckets[Bucket.BREAK].rows, before.codes, before.verdict) == (1, 0, {}, Verdict.CLEAN)


def test_sentence():
    """The sentence names every bucket that has rows."""
    result = summary(MATCHED, MATCHED, REJECTED)
    assert Report(result).says == "amount and status of 3 ledger rows: 2 matched, 1 rejected."
    assert Report(summary()).says == "No row was read, so none was compared."


def assumed(word, assume="paid"):
    entry, found = Entry(line=2, reference="T1"), Transaction(reference="T1", amount=90, status=word)
    seen = Observation(answer=Answer.FOUND, at=NOON, transaction=found)
    return judge(Case(entry=entry, first=seen, second=seen), rules=Rules(assume_status=assume))


def test_assumed():
    """Where the ledger has no status column, the sentence says that its rows were taken as paid."""
    result = summary(assumed("Paid"), assumed("Paid"))
    assert (result.verdict, Report(result).says) == (
        Verdict.PARTIAL,
        "amounts not compared; status (assumed paid) of 2 ledger rows: 2 matched.",
    )
    assert Report(result).remark.startswith(
        "Amounts not compared: no column of the ledger is used as the amount. "
        "Not compared, because no column of the ledger is used for it: merchant_reff,"
    )
    assert (
        summary(*map(assumed, ("Canceled", "Refunded", "Failed", "Expired", "Pending"))).breaks[Severity.CRITICAL] == 5
    )


def test_dashes_are_not_compared():
    """A column of dashes is none that was compared; an empty fee is one of 0."""
    entry = Entry(line=2, reference="T1", merchant_reff="-", status="Paid", fee=None)
    seen = Observation(answer=Answer.FOUND, at=NOON, transaction=Transaction(reference="T1", amount=9, status="Paid"))
    assert Report(summary(judge(Case(entry=entry, first=seen, second=seen)))).compared == "status and fee"


def test_not_compared():
    """Where nothing is assumed, the verdict is never clean, and says how many rows are not paid."""
    for words, not_paid, status in ((("Canceled", "Paid"), "1 of 2 is", 1), (("Paid", "Paid"), "0 of 2 are", 0)):
        result = summary(*(assumed(word, "none") for word in words))
        assert (result.verdict, result.exit_status()) == (Verdict.PARTIAL, status)
        assert Report(result).caution.endswith(f" Status not compared; {not_paid} not paid at the service.")


def test_not_answered():
    """A field that the ledger states, and no answered row has, is not compared for that reason."""
    entry = Entry(line=2, reference="T1", amount=9, status="Paid", payment_code="7")
    result = Report(summary(Row(entry=entry, bucket=Bucket.UNRESOLVED))).remark
    assert "Not compared, because no row with it was answered: amount, status, payment_code." in result
    assert "because no column of the ledger is used for it: merchant_reff, fee, amount_received," in result


def test_rejected_columns():
    """A column of the ledger whose rows are all rejected is not said to be missing."""
    tally = Tally()
    tally.add(REJECTED)
    ledger = LedgerAbout(name="", format="csv", size_bytes=0, sha256="", columns={"amount": "amount", "fee": "fee"})
    said = Report(tally.summary(About(ledger=ledger))).remark
    assert said.endswith("Not compared, because no row with it was answered: amount, fee.")


def test_tolerated():
    """Tolerated and accepted rows are counted separately from equal ones, also without an amount column."""
    waived = row(Bucket.MATCHED, findings=(Finding(Code.METHOD_DIFFERS, "", waived="agreed"),))
    assert Report(summary(MATCHED, waived)).says.endswith(": 2 matched (1 within tolerance or accepted).")
    without = attrs.evolve(waived, entry=Entry(line=2, reference="T1", status="Paid"), transaction=None)
    assert ": 1 matched (1 within tolerance or accepted)." in Report(summary(without)).says


def test_times():
    """The first and the last answer are found whatever the order, confirmations included."""
    early, late = row(Bucket.MATCHED, observed_at=NOON), NOON + timedelta(hours=3)
    middle = row(Bucket.BREAK, Code.UNDERPAID, observed_at=NOON + timedelta(hours=1), confirmed_at=late)
    result = summary(middle, early, REJECTED)
    assert (result.first_observed_at, result.last_observed_at) == (NOON, late)


def test_reused():
    """Only answers that were reused count as such."""
    reused = attrs.evolve(MATCHED, observed_at=NOON, reused_from="19")
    asked = attrs.evolve(MATCHED, observed_at=NOON + timedelta(hours=1))
    since = summary(reused, asked, previous=PREVIOUS).since
    assert since.reused == Answers(1, NOON, NOON)


def leaking(method, *findings, **more):
    found = tuple(Finding(Code(code), "", leakage=leakage, waived=waived) for code, leakage, waived in findings)
    transaction = Transaction(reference="T1", amount=0, status="paid", payment_method=method)
    return row(Bucket.BREAK, findings=found, transaction=transaction, **more)


def test_leakage():
    """Leakage is added up by payment method; what is waived, or is there a second time, is not in it."""
    found = summary(
        leaking("VA", ("short_received", 40_000, ""), ("fee_off_schedule", 500, "")),
        leaking("VA", ("fee_off_schedule", -200, "")),
        leaking("VA", ("short_received", 7, "accepted")),
        leaking("VA", ("short_received", 9, ""), is_repeat=True),
        leaking(None, ("short_received", 1, "")),
        leaking("QR", ("underpaid", 0, "")),
    ).leakage
    assert found == (
        Leakage(method="", rows=1, short_received=1, fee_off_schedule=0),
        Leakage(method="VA", rows=2, short_received=40_000, fee_off_schedule=300),
    )
    assert [*map(in_words, found)] == [
        "no method: 1 row, 1 not received",
        "VA: 2 rows, 40,000 not received, fees +300 against the schedule",
    ]
    many = summary(*(leaking(f"M{number}", ("short_received", 1, "")) for number in range(1_500))).leakage
    assert (len(many), many[0].method, sum(each.short_received for each in many)) == (1_001, "(other)", 1_500)


TWELVE = datetime(2026, 11, 20, 12)  # noqa: DTZ001  a ledger has no time zone


def created(at, **fields):
    return Row(entry=Entry(line=2, reference="A", created_at=at), bucket=Bucket.OPEN, **fields)


def test_period():
    """It is from the first to the last creation that a row states; a time without a zone has that of the rules."""
    east = TWELVE.replace(tzinfo=timezone(timedelta(hours=9)))
    times = (None, *(TWELVE + timedelta(hours=hours) for hours in (2, 0, 5)), ABSENT, east)
    found = summary(*map(created, times), rules=Rules(time_zone=ZoneInfo("Asia/Jakarta"))).period
    assert (found.first, found.last, found.lines, found.without) == (east, TWELVE + timedelta(hours=5), 4, 2)
    assert in_words(found) == (
        "2026-11-20 12:00:00+09:00 to 2026-11-20 17:00:00, by the creation of 4 rows; 2 rows without a time"
    )
    rejected = Row(entry=RejectedEntry(line=3, reason="no amount"), bucket=Bucket.REJECTED, reason="no amount")
    assert summary(created(TWELVE), rejected).period.without == 0  # its time may well be in the file
    assert in_words(summary(created(ABSENT)).period) == "unknown: no row of the ledger has a time of creation"


def test_period_of_lines():
    """Each line of a payment counts; a row that was carried over, or that only the statement has, does not."""
    parts = tuple(Entry(line=line, reference="A", created_at=TWELVE + timedelta(days=line)) for line in (2, 3))
    late, side = TWELVE + timedelta(days=9), StatementSide(settled=None, is_in_ledger=False)
    others = [created(late, carried_from="20"), created(late, other_side=side), REJECTED]
    found = summary(created(TWELVE + timedelta(days=2), parts=parts), *others, previous=PREVIOUS).period
    assert (found.first, found.last, found.lines, found.without) == (*(part.created_at for part in parts), 2, 0)


ENTRY = Entry(line=2, reference="T1", amount=100, status="paid")
ANA = accepted("T1", ledger=100, service=90)


def seen(amount=90, at=NOON):
    return Observation(
        answer=Answer.FOUND, at=at, transaction=Transaction(reference="T1", amount=amount, status="paid")
    )


def case(entry=ENTRY, first=None, second=None, **more):
    return Case(entry=entry, first=first or seen(), second=second or first or seen(), other_found=1, **more)


def states(expires, *cases):
    rules = Rules(accepted=[attrs.evolve(ANA, expires=expires)], time_zone=UTC)
    found = summary(*(judge(each, rules=rules) for each in cases), rules=rules)
    return [each.state.value for each in found.acceptances]


def test_acceptances():
    """An acceptance that meets nothing, has changed, has ended or ends in seven days of the answer is listed."""
    slow = observe(errors.AttemptTimeoutError("slow"), at=NOON)
    check_table(
        (
            *(
                (NOON.date() + timedelta(days=days), (case(),), expected)
                for days, expected in ((40, []), (8, []), (7, ["ends_soon"]), (0, ["ends_soon"]), (-1, ["ended"]))
            ),
            ("2026-12-01", (case(first=seen(at=NOON)),), []),  # the time of the answer counts
            ("2026-12-01", (case(first=seen(at=NOON + timedelta(days=30))),), ["ended"]),
            ("2026-12-31", (), ["met_no_row"]),
            ("2026-12-31", (case(attrs.evolve(ENTRY, reference="T2")),), ["met_no_row"]),
            ("2026-12-31", (case(first=seen(100)),), ["met_no_row"]),
            ("2026-12-31", (case(first=seen(89)),), ["changed"]),
            ("2026-12-31", (case(attrs.evolve(ENTRY, amount=101)),), ["changed"]),
            ("2026-12-31", (case(), case(is_repeat=True)), []),
            # Of several rows, the one that needs a review counts.
            ("2026-12-31", (case(attrs.evolve(ENTRY, amount=101)), case(is_repeat=True)), ["changed"]),
            # The row is unresolved.
            ("2026-12-31", (case(first=slow),), []),
            ("2026-12-31", (Case(entry=ENTRY, first=seen(), other_found=1),), []),
            ("2026-12-31", (Case(entry=ENTRY),), []),
        ),
        lambda expires, cases: states(expires, *cases),
    )
    (notice,) = summary(rules=Rules(accepted=[attrs.evolve(ANA, owner="A\x1b[2Jna")])).acceptances
    assert in_words(notice) == (
        "underpaid of 'T1', accepted by A<U+001B>[2Jna until 2026-12-31, matches no row: remove it"
    )


def test_still_there():
    """A break that was marked as corrected in the ledger is listed where it is still there; no other decision is."""
    said = {"run": "20", "owner": "Ana", "by": "ana", "at": NOON, "evidence": ""}
    corrected, raised = (
        Decision(reference="T1", code=code, resolution=resolution, **said)
        for code, resolution in (("underpaid", Resolution.CORRECTED), ("fee_differs", Resolution.RAISED))
    )
    tally = Tally(decisions={each.key: each for each in (corrected, raised)})
    for each in (BREAK, MATCHED):
        tally.add(each)
    assert tally.summary().still_there == (corrected,)


def test_ages():
    """An open finding is in the group of its age, its last day included; a resolved one is in none."""
    record = BreakRecord(
        code=Code.UNDERPAID,
        severity=Severity.HIGH,
        sentence="",
        sides=((9, 5),),
        ledger="",
        service="",
        first_seen=None,
        first_run="20",
        at_stake=4,
    )
    tally = Tally()
    for days in (5, 0, 7, 8, 30, 31, 60, 61, 90, 91):
        state = BreakState.RESOLVED if days == 5 else BreakState.STILL_OPEN
        history = History(state=state, first_seen=None, first_run="20", age_days=days)
        now = attrs.evolve(record, state=state)
        tally.add_change(BreakChange(reference=f"T{days}", was=record, now=now, history=history))
    found = tally.open_findings()
    assert [total.count for total in found.by_age.values()] == [2, 2, 2, 2, 1]
    assert (found.by_code, found.closing) == ({Code.UNDERPAID: found.closing}, FindingTotal(9, 36))
    assert found.old == FindingTotal(5, 20)


def compared_with(**more):
    return attrs.evolve(summary(MATCHED).compared, **more)


LEFT = (UnusedColumn("Type", {"charge": 38, "chargeback": 2}),)
CARRIED = attrs.evolve(UNRESOLVED, carried_from="night-1")
NO_AMOUNTS = {"fields": dict.fromkeys(FIELDS, 0), "assumed_paid": 1}
CONDITIONS = (
    ("nothing_read", (), {}, [], 0),
    ("nothing_found", (BREAK, LACKS_PROBE), {}, ["breaks"], 3),
    ("nothing_answered", (UNRESOLVED,), {}, [], 75),
    ("nothing_answered", (UNRESOLVED, CARRIED), {}, [], 75),
    ("unresolved", (MATCHED, UNRESOLVED), {}, [], 75),
    ("unresolved", (MATCHED, CARRIED), {}, [], 75),
    ("unresolved", (REJECTED, UNRESOLVED), {}, ["rejected"], 1),
    ("breaks", (BREAK, REJECTED), {"unused": LEFT}, [], 1),
    ("rejected", (MATCHED, REJECTED), {"unused": LEFT}, [], 1),
    ("amounts_left_out", (MATCHED,), NO_AMOUNTS, [], 0),
    ("sheets_left_out", (MATCHED,), {"unread_sheets": (UnreadSheet("Refunds", 2),)}, [], 0),
    ("columns_left_out", (MATCHED,), {"unused": LEFT}, [], 0),
    ("columns_left_out", (MATCHED,), {"unused": LEFT, "status_left_out": 2, "not_paid": 1}, [], 1),
    ("statement_left_out", (MATCHED,), {"unused_in_statement": LEFT}, [], 0),
    ("status_left_out", (MATCHED,), {"status_left_out": 2}, [], 0),
    ("status_left_out", (MATCHED,), {"status_left_out": 2, "not_paid": 1}, [], 1),
    ("newly_left_out", (MATCHED,), {"news": (("word", "Type: lost"),)}, [], 1),
    ("columns_left_out", (MATCHED,), {"unused": LEFT, "news": (("column", "Type"),)}, [], 1),
    ("clean", (MATCHED, OPEN), {}, [], 0),
    ("clean", (MATCHED, OPEN), {"ignored": LEFT}, [], 0),
)


def test_conditions():
    """The first condition that holds gives verdict and advice; one below it may still fail the run."""

    def found(rows, more):
        result = attrs.evolve(summary(*rows), compared=compared_with(**more))
        first = result.conditions[0]
        assert result.verdict is first.verdict
        assert Report(result).advice
        assert result.to_act_upon[0] is first
        return first.value, list(result.to_act_upon[1:]), result.exit_status()

    check_table([(rows, more, (name, also, status)) for name, rows, more, also, status in CONDITIONS], found)
    rest = {"not_tied", "not_known"}  # tests/reconcile/test_settlement.py and tests/reconcile/test_records.py have them
    assert {each.value for each in Condition} == {name for name, *_ in CONDITIONS} | rest


def test_ignored():
    """What is ignored stays counted next to the verdict, unless all rows say the same."""
    columns = (*LEFT, UnusedColumn("Currency", {"IDR": 40}), UnusedColumn("Gone", {"(empty)": 38, "(filled)": 2}))
    assert Report(attrs.evolve(summary(MATCHED), compared=compared_with(ignored=columns))).caution == (
        "Ignored by rule: Type: charge 38, chargeback 2; Gone: (empty) 38, (filled) 2."
    )


def test_fail_on_partial():
    """A verdict *partial* has exit status 1 if the caller says so; breaks count from medium on then."""
    partial = attrs.evolve(summary(MATCHED), compared=compared_with(unused=LEFT))
    assert [partial.exit_status(each) for each in ("info", "partial")] == [0, 1]
    assert [summary(each).exit_status("partial") for each in (MATCHED, LOW, BREAK)] == [0, 0, 1]

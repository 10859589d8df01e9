"""Batches of Arrow in, batches of Arrow out."""

import os
from contextlib import closing
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from payclient import ConfigurationError
from payclient.engines import LookupSpec, ReconcileSpec, arrow
from payclient.engines.arrow import _registries
from payclient.reconcile import Rules, Tolerance
from payclient.reconcile.ledger import LedgerError
from support.background import answered_by
from support.fakes import KEY, SAMPLE, answer, document

URL = "https://pay.example"
MISSING = answer(b'{"success": false, "message": "Transaction not found"}', 404, content_type="application/json")
REJECTED = answer(b'{"success": false, "message": "No"}', 422, content_type="application/json")
ODD = answer(b"<html>", 400)


def looked_up(background, batches, **options):
    spec = LookupSpec(base_url=URL, **options)
    with answered_by(background, spec):
        return list(arrow.lookup_batches(batches, spec))


def reconciled(background, batches, **options):
    spec = ReconcileSpec(base_url=URL, **{"prefix": "s_", **options})
    with answered_by(background, spec):
        return list(arrow.reconcile_batches(batches, spec))


def references(*names, **columns):
    return pa.record_batch({"reference": pa.array(names, pa.string()), **columns})


def test_found(background):
    """A found row has the ten fields, and the account of its lookup."""
    before = datetime.now(UTC)
    (batch,) = looked_up(background, [references("T1")])
    (row,) = batch.to_pylist()
    assert before <= row.pop("observed_at") <= datetime.now(UTC)
    account = {"outcome": "ok", "reason": None, "status_code": 200, "attempts": 1, "deviations": []}
    assert row == {**SAMPLE, "reference": "T1", "expdate": datetime.fromisoformat(SAMPLE["expdate"]), **account}


def test_outcomes(background, transport):
    """What became of a row that was not found is in its columns: the word, the reason, the status."""
    transport.script("T1", MISSING)
    transport.script("T2", REJECTED)
    transport.script("T3", ODD)
    (batch,) = looked_up(background, [references("T0", "T1", "T2", "T3", None, "")])
    rows = batch.select(["reference", "outcome", "status_code", "attempts"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("T0", "ok", 200, 1),
        ("T1", "not_found", 404, 1),
        ("T2", "rejected", 422, 1),
        ("T3", "unresolved", 400, 1),
        (None, "rejected", None, 0),
        ("", "rejected", None, 0),
    ]
    reasons = [reason and reason.partition(":")[0] for reason in batch.column("reason").to_pylist()]
    refused = ["InvalidReferenceError"] * 2
    assert reasons == [None, "TransactionNotFoundError", "RejectedError", "UnexpectedResponseError", *refused]
    assert [at is None for at in batch.column("observed_at").to_pylist()] == [False] * 4 + [True] * 2
    assert batch.column("amount").to_pylist() == [15000] + [None] * 5


def test_batches(background, transport):
    """Batches keep their order and sizes and have the promised schema; equal references are asked for once."""
    transport.script("T1", answer(document("T1", amount="15000")))
    given = [references("T1", "T2", "T1"), references(), references("T3", "T4", "T5", "T6", "T7"), references("T8")]
    got = looked_up(background, given, window=2)
    assert [each.column("reference").to_pylist() for each in got] == [each.column(0).to_pylist() for each in given]
    assert all(each.schema == arrow.lookup_schema(LookupSpec(base_url=URL)) for each in got)
    tolerated = ["amount: text '15000' read as integer"]
    assert got[0].column("deviations").to_pylist() == [tolerated, [], tolerated]
    assert len(transport.sent) == 8


def test_kept(background):
    """Kept columns come first, unchanged, whatever their types; a prefix makes room for names that ours have."""
    kept = {"n": pa.array([1, None], pa.int8()), "d": pa.array(["x", "y"]).dictionary_encode()}
    given = references("T1", "T2", **kept)
    (got,) = looked_up(background, [given], keep=["d", "n"])
    assert got.schema.names[:3] == ["d", "n", "reference"]
    assert [got.column(name).equals(kept[name]) for name in kept] == [True, True]
    assert got.schema == arrow.lookup_schema(LookupSpec(base_url=URL, keep=["d", "n"]), given.schema)
    (got,) = looked_up(background, [given], keep=None)
    assert got.schema.names[:3] == ["n", "d", "reference"]
    (got,) = looked_up(background, [references("T1", amount=pa.array([1]))], keep=["amount"], prefix="service_")
    assert (got.column("amount").to_pylist(), got.column("service_amount").to_pylist()) == ([1], [15000])
    assert arrow.lookup_schema(LookupSpec(base_url=URL)).names[0] == "reference"


def test_refused(background, transport):
    """Columns that are missing, would be there twice or are not text are refused before anything is asked."""
    for batches, options, message in (
        ([references("T1", amount=pa.array([1]))], {"keep": ["amount"]}, "name of an output column: amount"),
        ([pa.record_batch({"ref": ["T1"]})], {}, "no column is called 'reference': the columns are ref"),
        ([references("T1")], {"keep": ["n"]}, "no column is called 'n'"),
        ([pa.record_batch({"ref": pa.array([1])})], {"reference": "ref"}, "the column 'ref' must be text"),
        ([pa.record_batch({"ref": pa.array([b"T1"])})], {"reference": "ref"}, "the column 'ref' must be text"),
        ([references(), references("T2", n=pa.array([1]))], {}, "must have one schema"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            looked_up(background, batches, **options)
    assert transport.sent == []
    with pytest.raises(ConfigurationError, match="the schema of the batches is needed"):
        arrow.lookup_schema(LookupSpec(base_url=URL, keep=None))
    with pytest.raises(LedgerError, match="no column is called reference"):
        reconciled(background, [pa.record_batch({"a": ["x"]})])


def test_type_of_references(background):
    """References are text, however it is stored."""
    columns = [pa.array(["T1"], pa.large_string()), pa.array(["T1"], pa.string_view())]
    for column in (*columns, pa.array(["T1"]).dictionary_encode(), pa.array([None])):
        assert len(looked_up(background, [pa.record_batch({"ref": column})], reference="ref")[0]) == 1


def test_nothing(monkeypatch):
    """An empty partition needs neither a key nor a client."""
    monkeypatch.delenv("PAYCLIENT_API_KEY", raising=False)
    assert list(arrow.lookup_batches([], LookupSpec(base_url=URL))) == []
    assert list(arrow.reconcile_batches([], ReconcileSpec(base_url=URL))) == []


def test_public(monkeypatch):
    """The public functions use the client of the process, and read batches from any iterable."""
    monkeypatch.setenv("PAYCLIENT_API_KEY", KEY)
    spec = ReconcileSpec(base_url="http://127.0.0.1:1", stall_timeout=5)
    with closing(arrow.lookup_batches([references("")], spec)) as got:
        assert next(got).column("outcome").to_pylist() == ["rejected"]
    with closing(arrow.reconcile_batches([references(None)], spec)) as got:
        assert next(got).column("bucket").to_pylist() == ["rejected"]
    (background,) = _registries.pop(os.getpid())[1].values()
    background.stop(at_once=True)
    background.join()


def ledger(**columns):
    amounts = pa.array([15000, 14000])
    return pa.record_batch({"reference": ["T1", "T2"], "amount": amounts, "status": ["Canceled"] * 2, **columns})


def test_reconciled(background, transport):
    """An equal row is matched; a different one was looked up twice, and has a finding."""
    (batch,) = reconciled(background, [ledger()], keep=["amount"])
    names = ["s_reference", "amount", "s_amount", "s_bucket", "s_finding", "s_severity", "s_attempts"]
    assert [tuple(row.values()) for row in batch.select(names).to_pylist()] == [
        ("T1", 15000, 15000, "matched", None, None, 1),
        ("T2", 14000, 15000, "break", "overpaid", "high", 2),
    ]
    sentence = "amount is 14,000 in the ledger and 15,000 at the service, which is 1,000 more"
    finding = {"code": "overpaid", "severity": "high", "sentence": sentence, "ledger": "14000", "service": "15000"}
    assert batch.column("s_findings").to_pylist() == [[], [{**finding, "waived": None}]]
    assert [at is None for at in batch.column("s_confirmed_at").to_pylist()] == [True, False]
    assert batch.schema == arrow.reconcile_schema(
        ReconcileSpec(base_url=URL, keep=["amount"], prefix="s_"), ledger().schema
    )


ONE, FULL = answer(document("T2", amount=1)), answer(document("T2", amount=14000))
JUDGED = (
    # A difference that is gone in the second lookup does not count; one that was not confirmed is unresolved.
    ([ONE, FULL], {}, ("ok", "matched", "service_arithmetic", 2)),
    ([ONE, ODD], {}, ("unresolved", "unresolved", None, 2)),
    # A reference that is not found is missing when another one is found, and asked for twice.
    ([MISSING, MISSING], {}, ("not_found", "break", "missing_at_service", 2)),
    # Rules are part of the specification, and a waived difference gets no second lookup.
    ([], {"rules": Rules(tolerances={"amount": Tolerance(above=1000)})}, ("ok", "matched", "overpaid", 1)),
)


def test_judged(background, transport):
    """A row is judged as in a reconciliation: by the rules, and a difference by two answers."""
    for answers, options, expected in JUDGED:
        transport.script("T2", *answers)
        (batch,) = reconciled(background, [ledger()], **options)
        rows = batch.select(["s_outcome", "s_bucket", "s_finding", "s_attempts"]).to_pylist()
        assert [tuple(row.values()) for row in rows] == [("ok", "matched", None, 1), expected]
    (waived,) = batch.column("s_findings").to_pylist()[1]
    assert waived["waived"] == "within the tolerance of 1000 above"
    given = ledger().rename_columns(["reference", "Total", "status"])
    (batch,) = reconciled(background, [given], rules=Rules(columns={"amount": "Total"}))
    assert batch.column("s_finding").to_pylist() == [None, "overpaid"]


def test_second_lookup_fails(background, transport):
    """A difference that could not be confirmed shows the first answer, and the reason."""
    transport.script("T2", ONE, ODD)
    (batch,) = reconciled(background, [ledger()])
    row = batch.select(["s_status_code", "s_amount", "s_deviations"]).to_pylist()[1]
    assert tuple(row.values()) == (400, 1, [])
    assert "asking again failed" in batch.column("s_bucket_reason").to_pylist()[1]


def test_nothing_found(background, transport):
    """Where nothing is found at all, a row is unresolved; the canary makes the difference."""
    for name in ("T1", "T2"):
        transport.script(name, *[MISSING] * 4)
    (batch,) = reconciled(background, [ledger()])
    assert batch.column("s_bucket").to_pylist() == ["unresolved"] * 2
    assert "key or environment may be wrong" in batch.column("s_bucket_reason").to_pylist()[0]
    (batch,) = reconciled(background, [ledger()], canary="C1")
    assert batch.column("s_bucket").to_pylist() == ["break"] * 2


def test_unusable_row(background, transport):
    """A row that cannot be read is rejected with the reason, and not asked for."""
    given = pa.record_batch({"reference": ["T1", None, "T3"], "amount": pa.array(["15000", "1", "1.5"])})
    given = given.append_column("status", pa.array(["Canceled"] * 3))
    (batch,) = reconciled(background, [given])
    assert batch.column("s_bucket").to_pylist() == ["matched", "rejected", "rejected"]
    assert batch.column("s_reference").to_pylist() == ["T1", None, "T3"]
    assert "reference: the cell is empty" in batch.column("s_bucket_reason").to_pylist()[1]
    assert len(transport.sent) == 1


def test_unreadable_times_of_creation(background, caplog):
    """Rows whose time of creation cannot be read are judged without an age, and one warning names the first."""
    caplog.set_level("WARNING", "payclient")
    given = references("T1", "T2", status=pa.array(["Canceled"] * 2), created_at=pa.array(["yesterday", "today"]))
    (batch,) = reconciled(background, [given])
    assert batch.column("s_bucket").to_pylist() == ["matched", "matched"]
    (warning,) = [each for each in caplog.messages if "created_at" in each]
    assert warning.startswith("'created_at': 1 cell cannot be read: 'yesterday' is not a time")


def test_last_batch_is_asked_again(background, transport):
    """Differences in the last batch are asked for again after the source has ended."""
    given = [ledger(), pa.record_batch({"reference": ["T3"], "amount": [1], "status": ["Canceled"]})]
    got = reconciled(background, given)
    assert [each.column("s_bucket").to_pylist() for each in got] == [["matched", "break"], ["break"]]


def test_unused_column(background):
    """What nothing uses is ignored or kept by name: a batch has no verdict that could name it."""
    batch = references("T1", amount=pa.array([15000]), type=pa.array(["refund"]), tags=pa.array([["x"]]))
    with pytest.raises(LedgerError, match=r"the columns 'type', 'tags': .* with ignore=\('type', 'tags'\)"):
        reconciled(background, [batch])
    for options in ({"ignore": ["type", "tags"]}, {"ignore": ["type"], "keep": ["tags"]}):
        assert len(reconciled(background, [batch], **options)) == 1

"""A Parquet ledger is read strictly, lazily and without losing a row."""

import io
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.ledger import Entry, LedgerError, RejectedEntry
from support.ledgers import opened, read

TIME = datetime.fromisoformat("2026-11-21 10:00:05")


def written(columns, **options):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def one(**columns):
    """Return what becomes of a row with these one-value columns."""
    (row,) = read(written({"reference": ["T1"]} | columns))
    return row


def test_money(subtests):
    """Whole numbers of every type are money, and the scale of a decimal is not a thousands separator."""
    for amounts in [
        *(pa.array([15000], kind) for kind in (pa.int16(), pa.int64(), pa.uint64(), pa.float32(), pa.float64())),
        *(pa.array([Decimal(15000)], pa.decimal128(18, scale)) for scale in (0, 2, 3)),
        pa.array(["15000"]),
        pa.array(["15000"], pa.large_string()),
        pa.array(["15000"]).dictionary_encode(),
    ]:
        with subtests.test(amounts=amounts):
            assert one(amount=amounts) == Entry(line=1, reference="T1", amount=15000)
    assert one(amount=pa.array([Decimal(15)], pa.decimal128(18, 3))).amount == 15  # it is written as 15.000


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times(unit):
    """Times of every unit are read."""
    assert one(expdate=pa.array([TIME], pa.timestamp(unit))).expdate == TIME


def test_nanoseconds():
    """A time of creation with nanoseconds is read, without them."""
    nanoseconds = pa.array([1_795_000_000_000_000_005], pa.timestamp("ns"))
    assert one(created_at=nanoseconds).created_at == datetime.fromtimestamp(1_795_000_000, UTC).replace(tzinfo=None)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_texts(kind):
    """Texts of every type are read, with their leading zeros."""
    assert one(status=pa.array(["007"], pa.string()).cast(kind)).status == "007"


def test_names():
    """A column is found even if its name has dots, and parts of the name are not found."""
    assert read(written({"ref.": ["T1"], "ref2": ["x"]}))[0].reference == "T1"


@pytest.mark.parametrize("values", [([], ["re_1"]), ({"status": "paid"}, {"status": "lost"}), (False, True)], ids=str)
def test_unused(values):
    """A column of any type that nothing uses is named with its words: lists and structures, too."""
    with opened(written({"reference": ["T1", "T2"], "x": list(values)})) as ledger:
        assert len(list(ledger)) == 2
        assert [(each.name, dict(each.words)) for each in ledger.unused] == [("x", dict.fromkeys(map(str, values), 1))]


def test_rejected(subtests):
    """A row that cannot be used is rejected with why."""
    for columns, reason in [
        ({"reference": [12]}, "reference: 12 is a number, so leading zeros or digits may be lost"),
        ({"reference": [b"T1"]}, "reference: binary data is not text"),
        ({"reference": pa.array([b"T\xff"]).view(pa.string())}, "reference: cannot be read (UnicodeDecodeError)"),
        ({"amount": pa.nulls(1)}, "amount: the cell is empty"),
        ({"amount": [1e16]}, "is not a whole number of at most 15 digits"),
        ({"amount": [float("nan")]}, "amount: nan is not a whole number"),
        ({"amount": pa.array([2**64 - 1], pa.uint64())}, "is not a whole number of at most 18 digits"),
        ({"amount": [Decimal("1.50")]}, "amount: '1.50' is not a whole number"),
        ({"amount": [[1]]}, "amount: a list is not a whole number"),
        ({"expdate": pa.array([TIME], pa.timestamp("us", "Asia/Jakarta"))}, "has a time zone"),
        ({"expdate": [TIME.replace(microsecond=1)]}, "has a fraction of a second"),
        ({"expdate": [date(2026, 11, 21)]}, "a date without a time of day"),
        ({"expdate": [1795000000]}, "expdate: 1795000000 is not a time"),
        ({"expdate": pa.array([2**61], pa.timestamp("us"))}, "expdate: cannot be read"),
    ]:
        with subtests.test(columns=columns):
            row = one(**columns)
            assert (type(row), row.line, reason in row.reason) == (RejectedEntry, 1, True), row.reason


def test_rows_around_one_that_cannot_be_read():
    """A value that Python cannot hold costs its own row only."""
    references = pa.array([b"T0", b"T\xff", b"T9"]).view(pa.string())
    assert [row.reference for row in read(written({"reference": references}))] == ["T0", None, "T9"]


def test_groups_of_rows():
    """Rows go on counting from group to group and from batch to batch."""
    data = written({"reference": [f"T{n}" for n in range(10_000)]}, row_group_size=6_000)
    assert [(row.line, row.reference) for row in read(data)] == [(n + 1, f"T{n}") for n in range(10_000)]


GOOD = written({"reference": ["T1", "T2"], "amount": [1, 2], "expdate": [TIME, None]})


@pytest.mark.parametrize("length", [5, 30, len(GOOD) // 2, len(GOOD) - 1])
def test_cut(length):
    """A file that was cut is refused."""
    with pytest.raises(LedgerError, match="the Parquet file is damaged"):
        opened(GOOD[:length], format="parquet")


@given(st.integers(5, len(GOOD)), st.binary(max_size=4), st.integers(0, 4))
def test_any_bytes(place, data, lost):
    """A file with any damage gives entries or a `LedgerError`."""
    with suppress(LedgerError):
        read(GOOD[:place] + data + GOOD[place + lost :])

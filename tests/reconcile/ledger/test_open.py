"""A ledger reads the same whatever its format, and its format is told by name or content."""

import csv
import gzip
import io
import json
import subprocess
import sys
from contextlib import suppress
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.ledger import ABSENT, Dialect, Entry, LedgerChangedError, LedgerError, open_ledger
from payclient.reconcile.ledger import FIELDS as COLUMNS
from payclient.reconcile.ledger._open import SUFFIXES
from support.chance import examples
from support.misses import check_refused
from support.workbooks import by_openpyxl, by_xlsxwriter

FIELDS = tuple(name for name in COLUMNS if name not in ("currency", "direction"))  # which an entry does not keep
HEADER = ("reference", "amount")
ROWS = (("T1", 1), ("T2", 2))
ENTRIES = [("T1", 1), ("T2", 2)]
TIMES = ("expdate", "created_at")


def as_text(value):
    return value.isoformat(" ") if isinstance(value, datetime) else value


def as_csv(header, rows):
    text = io.StringIO()
    csv.writer(text).writerows([header, *([as_text(value) for value in row] for row in rows)])
    return text.getvalue().encode()


def as_json_lines(header, rows):
    return "\n".join(json.dumps(dict(zip(header, map(as_text, row), strict=True))) for row in rows).encode()


def as_parquet(header, rows):
    file = io.BytesIO()
    kinds = {"amount": pa.int64(), "fee": pa.int64(), "amount_received": pa.int64()} | dict.fromkeys(
        TIMES, pa.timestamp("us")
    )
    columns = {
        name: pa.array([row[place] for row in rows], kinds.get(name, pa.string())) for place, name in enumerate(header)
    }
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def as_xlsx(header, rows):
    return by_xlsxwriter(header, *rows, strings_to_formulas=False, strings_to_urls=False)


WRITERS = {"csv": as_csv, "jsonl": as_json_lines, "xlsx": as_xlsx, "parquet": as_parquet}
FILES = {name: write(HEADER, ROWS) for name, write in WRITERS.items()}


def read(ledger, **options):
    with open_ledger(ledger, **options) as opened:
        return opened.format, [(row.reference, row.amount) for row in opened]


@pytest.mark.parametrize("form", FILES)
def test_streams(form):
    """The format of a stream is recognised from its first bytes, even if it is not seekable."""

    class Pipe(io.RawIOBase):
        data = io.BytesIO(FILES[form])

        def read(self, _size=-1):
            return self.data.read(100)

    assert read(Pipe()) == (form, ENTRIES)


@pytest.mark.parametrize("form", FILES)
def test_content(form, tmp_path):
    """Without a known suffix, the format is recognised from the first bytes."""
    path = tmp_path / "ledger.2026"
    path.write_bytes(FILES[form])
    assert read(path) == (form, ENTRIES)


@pytest.mark.parametrize(("suffix", "form"), SUFFIXES.items())
def test_names(suffix, form, tmp_path):
    """Every suffix selects its format, in any case."""
    path = tmp_path / f"ledger{suffix.upper()}"
    path.write_bytes(FILES[form])
    assert read(path) == (form, ENTRIES)


def test_packed():
    """A file that is compressed with gzip is refused, and the message says what to do; Python reads its stream."""
    packed = gzip.compress(FILES["csv"])
    with pytest.raises(LedgerError, match="decompress it first"):
        open_ledger(io.BytesIO(packed))
    with gzip.open(io.BytesIO(packed)) as stream:
        assert read(stream) == ("csv", ENTRIES)


@pytest.mark.parametrize(
    ("named", "real"), [("csv", "xlsx"), ("xlsx", "csv"), ("parquet", "xlsx"), ("jsonl", "parquet")]
)
def test_misnamed(named, real, tmp_path):
    """A file whose content does not match its suffix is refused with both formats, unless the format was chosen."""
    path = tmp_path / f"ledger.{named}"
    path.write_bytes(FILES[real])
    with pytest.raises(LedgerError, match="reads it as it is"):
        open_ledger(path)
    assert read(path, format=real) == (real, ENTRIES)


def test_refused_content():
    """An old workbook, one with a password, and a web page that is called .xls are refused with the remedy."""
    page = r"this is a web page or XML, not a ledger: .* save it as \.xlsx"
    starts = "<html>", "\ufeff\r\n<!DOCTYPE html>", "<table>", "<?xml version='1.0'?>", "MIME-Version: 1"
    old = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), r"save it as \.xlsx without a password"
    rows = [old, *((f"{start}\nreference,amount\nT1,5\n".encode(), page) for start in starts)]
    check_refused(rows, LedgerError, lambda data: open_ledger(io.BytesIO(data)))


@pytest.mark.parametrize("header", ["PK,reference,amount", "PAR1,reference,amount", "PK\x03,reference,amount"])
def test_header_like_another_format(header):
    """A CSV header that begins like another format is still text."""
    assert read(io.StringIO(f"{header}\nx,T1,1\n")) == ("csv", [("T1", 1)])


OPTIONS = {
    "delimiter": ("jsonl", {"delimiter": ","}),
    "sheet": ("jsonl", {"sheet": "A"}),
    "header_row": ("jsonl", {"dialect": Dialect(header_row=2)}),
    "encoding": ("xlsx", {"dialect": Dialect(encoding="cp1252")}),
    "debit_columns": ("parquet", {"dialect": Dialect(debit_columns={"amount": "debit"})}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name):
    """An option that the format does not have is the caller's mistake, and the file is closed."""
    form, options = OPTIONS[name]
    with pytest.raises(ValueError, match=f"^{name} is an option of .*, and the ledger is {form}$"):
        open_ledger(io.BytesIO(FILES[form]), **options)


@pytest.mark.parametrize("form", FILES)
def test_empty(form, tmp_path):
    """An empty file of any name gives no rows, and a warning."""
    path = tmp_path / f"ledger.{form}"
    path.touch()
    with open_ledger(path) as ledger:
        assert (ledger.format, list(ledger), ledger.warnings) == (form, [], ("no row was read: the file is empty",))


@pytest.mark.parametrize("form", FILES)
def test_fingerprint(form, tmp_path):
    """A ledger of any format has the fingerprint of its whole file, and a change to the file is noticed."""
    path = tmp_path / f"ledger.{form}"
    path.write_bytes(FILES[form])
    with open_ledger(path) as ledger, open_ledger(io.BytesIO(FILES[form])) as stream:
        assert list(ledger) == list(stream)
        assert ledger.fingerprint.sha256 == stream.fingerprint.sha256
        assert (ledger.fingerprint.name, ledger.fingerprint.size_bytes) == (path.name, len(FILES[form]))
        ledger.check_unchanged()
        path.write_bytes(FILES[form] + b"\n")
        with pytest.raises(LedgerChangedError):
            ledger.check_unchanged()


def test_alike(subtests):
    """In every format, columns are found or chosen, an empty cell is None, and a column that is not there is absent."""
    for form, write in WRITERS.items():
        with subtests.test(form=form):
            data = write(("Kode", "amount", "fee", "ref2"), [("T1", 15000, None, "x")])
            with open_ledger(io.BytesIO(data), columns={"reference": "Kode"}) as ledger:
                (entry,) = ledger
            assert entry == Entry(line=entry.line, reference="T1", amount=15000, fee=None)
            assert (entry.status, ledger.columns.ignored) == (ABSENT, ("ref2",))


REJECTED = [
    (("", "1", "Paid"), "reference: the cell is empty"),
    (("T1", "", "Paid"), "amount: the cell is empty"),
    (("1.23457E+15", "1", "Paid"), "reference: '1.23457E+15' looks damaged by a spreadsheet"),
    (("T1\u00a0", "1", "Paid"), "reference: 'T1<U+00A0>' contains U+00A0"),
    (("T1", "15.000", "Paid"), "amount: '15.000' may mean 15 or 15000"),
    (("1001.0", "1.5", "Paid"), "amount: '1.5' is not a whole number"),
    (("reference", "total", "status"), "is the header again: were two files joined?"),
    (("T1", "500", "Paid\u00a0"), "status: 'Paid<U+00A0>' contains U+00A0"),
]


def test_rejected(subtests):
    """In every format, such a row is rejected with its line and why, and keeps what can be read, as all others are."""
    header, first, last = ("reference", "total", "status"), ("T0", "1", "Paid"), ("T9", "9", "Paid")
    for form, write in WRITERS.items():
        for row, reason in REJECTED:
            with subtests.test(form=form, row=row), open_ledger(io.BytesIO(write(header, [first, row, last]))) as rows:
                before, rejected, after = rows
                assert (before.reference, rejected.line, after.reference) == ("T0", before.line + 1, "T9")
                assert reason in rejected.reason
                assert rejected.amount == (int(row[1]) if row[1].isdigit() else None)
                assert rejected.reference == (row[0].strip() or None)
                assert rejected.status == (row[2] if row[2].isprintable() else None)


def test_refused(subtests, tmp_path):
    """In every format, a header that cannot be understood refuses the file, which is closed."""
    for form, write in WRITERS.items():
        for header, reason in (("total", "x"), "no column is called reference"), (("ref", "trx_id"), "both mean"):
            with subtests.test(form=form, header=header):
                path = tmp_path / f"ledger.{form}"
                path.write_bytes(write(header, [("1", "2")]))
                with pytest.raises(LedgerError, match=reason):
                    open_ledger(path)


def test_no_rows(subtests):
    """A ledger with a header, or nothing but blanks, gives no rows and a warning; one with rows gives none."""
    header = {form: WRITERS[form](HEADER, []) for form in ("csv", "xlsx", "parquet")}
    blank = {"csv": b"\n\r\n", "jsonl": b"\n \r\n", "xlsx": by_openpyxl(), "parquet": as_parquet((), [])}
    for files, warning in (
        (header, ("no row was read: the file has a header and no rows",)),
        (blank, ("no row was read: the file is empty",)),
    ):
        for form, data in files.items():
            with subtests.test(form=form, warning=warning), open_ledger(io.BytesIO(data), format=form) as ledger:
                assert (list(ledger), ledger.warnings) == ([], warning)


@pytest.mark.parametrize("form", FILES)
def test_time_of_creation(form):
    """Unreadable times of creation reject no row, and one warning counts them."""
    rows = [("T1", "2026-11-21"), ("T2", "yesterday"), ("T3", "21/11/2026")]
    with open_ledger(io.BytesIO(WRITERS[form](("reference", "Tanggal"), rows))) as ledger:
        assert [row.created_at for row in ledger] == [datetime.fromisoformat("2026-11-21"), None, None]
        (warning,) = ledger.warnings
    assert warning.startswith("'Tanggal': 2 cells cannot be read: 'yesterday' is not a time such as ")
    assert warning.endswith(": grace doesn't apply to such a row")


def test_missing_package():
    """Without pyarrow, a Parquet file is refused with what to install, and every other format is read."""
    script = (
        "import sys; sys.modules['pyarrow'] = None; from payclient.reconcile.ledger import open_ledger\n"
        "with open_ledger(sys.stdin.buffer) as ledger: print(len(list(ledger)))"
    )
    ends = [
        subprocess.run([sys.executable, "-c", script], input=FILES[form], capture_output=True, check=False)
        for form in ("xlsx", "parquet")
    ]
    assert ends[0].stdout == b"2\n"
    assert b"LedgerError: " in ends[1].stderr
    assert b"pip install 'payclient[parquet]'" in ends[1].stderr


WORDS = st.from_regex(r"[a-zA-Zé]([a-zA-Z019_é=+@# -]{0,10}[a-zA-Z0-9_é=+@#-])?", fullmatch=True)
MONEY = st.integers(1 - 10**15, 10**15 - 1)
MOMENTS = st.datetimes(min_value=datetime.fromisoformat("1971-01-01"), max_value=datetime.fromisoformat("2100-01-01"))
SECONDS = MOMENTS.map(lambda time: time.replace(microsecond=0))
KINDS = {"amount": MONEY} | dict.fromkeys(("fee", "amount_received"), MONEY | st.none())
KINDS |= {"reference": WORDS.map("{}1".format)} | dict.fromkeys(TIMES, SECONDS | st.none())
ROW = st.tuples(*(KINDS.get(field, WORDS | st.none()) for field in FIELDS))


@pytest.mark.parametrize("form", FILES)
@examples(30)
@given(rows=st.lists(ROW, min_size=1, max_size=5))
def test_round_trip(form, rows):
    """Entries that are written in any format are read back equal."""
    data = WRITERS[form](FIELDS, rows)
    with open_ledger(io.BytesIO(data), format=form, columns={"kind": "kind"}) as ledger:
        first = 2 if form in ("csv", "xlsx") else 1
        expected = [Entry(line=n, **dict(zip(FIELDS, row, strict=True))) for n, row in enumerate(rows, first)]
        assert list(ledger) == expected
        of_values = ("--fees-below-zero", "check the year")
        assert [each for each in ledger.warnings if not any(words in each for words in of_values)] == []


BEGINNINGS = [b"", b"{", b"PK\x03\x04", b"PAR1\x15", b"\x1f\x8b", b"\xef\xbb\xbf", b"reference\n", b'{"ref": "T1"}\n']


@given(st.sampled_from(BEGINNINGS), st.binary(max_size=60), st.sampled_from([None, *FILES]))
def test_any_bytes(beginning, data, form):
    """Any bytes in any format give entries or a `LedgerError`."""
    with suppress(LedgerError), open_ledger(io.BytesIO(beginning + data), format=form) as ledger:
        list(ledger)

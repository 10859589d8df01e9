"""
Ledgers as real programs write them, each with what it must be read as, written by hand.

A row is `(reference, amount)` if it is read, and `(reference, text)` if it is rejected with that text in its reason. A
ledger that is refused as a whole is one text. None is misread, none is dropped in silence, and each refusal names what
helps. Notations of cells are tested with the readers; here is what depends on the program.
"""

import csv
import shutil
import subprocess
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

import duckdb
import pandas as pd
import pytest
from attrs import frozen

from payclient.protocol import EMPTY
from payclient.reconcile.ledger import Dialect, LedgerError, RejectedEntry, open_ledger
from support.postgres_server import NEEDED, running
from support.workbooks import by_openpyxl, by_xlsxwriter

pytestmark = pytest.mark.programs

BOTH = [("T1", 15000), ("0012", 1250000)]
GERMAN = {"decimal": ",", "thousands": "."}
TIMES = [datetime.fromisoformat("2026-11-20 14:05:09"), datetime.fromisoformat("2026-12-01 00:00:00")]
NUMBERS = [("1", "store the column as text"), ("2", "store the column as text")]


@frozen(kw_only=True)
class Case:
    """What a ledger must be read as, and how it is declared."""

    expected: object = BOTH
    declared: Mapping = EMPTY
    delimiter: str | None = None
    times: object = None
    warning: str = ""


PLAIN = Case()
TIMED = Case(times=TIMES)


def check(case, path):
    """Read the ledger and compare it with what it must be read as."""
    try:
        with open_ledger(path, dialect=Dialect(**case.declared), delimiter=case.delimiter) as ledger:
            rows = list(ledger)
            warnings = ledger.warnings
    except LedgerError as error:
        assert isinstance(case.expected, str), f"refused: {error}"
        assert case.expected in str(error)
        return
    assert not isinstance(case.expected, str), f"read as {rows}"
    assert [row.reference for row in rows] == [reference for reference, _ in case.expected]
    for row, (_, expected) in zip(rows, case.expected, strict=True):
        if isinstance(expected, str):
            assert isinstance(row, RejectedEntry)
            assert expected in row.reason
        else:
            assert (getattr(row, "reason", ""), row.amount) == ("", expected)
    if case.times is not None:
        assert [row.created_at for row in rows] == case.times
    assert case.warning in "\n".join(warnings)


def frame(amount=(15000, 1250000), **columns):
    return pd.DataFrame({"reference": ["T1", "0012"], "amount": list(amount), **columns})


FLOATS = frame([15000.0, 1250000.0])
MISSING = frame(fee=[2500.0, None])
DATED = frame(created_at=TIMES)
INDEXED = pd.DataFrame(
    {"amount": [15000, 1250000]},
    index=pd.MultiIndex.from_tuples([("A", "T1"), ("A", "0012")], names=["shop", "reference"]),
)

CSV = [
    (frame(), {}, PLAIN),
    (frame(), {"index": True}, PLAIN),
    (frame(), {"sep": ";"}, PLAIN),
    (frame(), {"sep": "\t"}, PLAIN),
    (frame(), {"sep": "|"}, PLAIN),
    (frame(), {"sep": "|"}, Case(delimiter="|")),
    (FLOATS, {}, PLAIN),
    (FLOATS, {"float_format": "%.2f"}, PLAIN),
    (FLOATS, {"sep": ";", "decimal": ","}, Case(expected=[(name, "--decimal and --thousands") for name, _ in BOTH])),
    (FLOATS, {"sep": ";", "decimal": ","}, Case(declared={"decimal": ","})),
    (frame([15.5, 0.3]), {}, Case(expected=[("T1", "--minor-units 2"), ("0012", "--minor-units 2")])),
    # 0.30000000000000004, as text
    (
        frame([15.5, 0.1 + 0.2]),
        {},
        Case(declared={"minor_units": 2}, expected=[("T1", 1550), ("0012", "--minor-units 2")]),
    ),
    (frame([1.5e16, 1250000.0]), {}, Case(expected=[("T1", "damaged by a spreadsheet"), ("0012", 1250000)])),
    (MISSING, {}, PLAIN),
    (MISSING, {"na_rep": "NULL"}, Case(expected=[("T1", 15000), ("0012", "--null NULL")])),
    (MISSING, {"na_rep": r"\N"}, Case(declared={"null": r"\N"})),
    (frame(), {"encoding": "utf-8-sig"}, PLAIN),
    (frame(), {"encoding": "utf-16"}, Case(expected="--encoding utf-16")),
    (frame(), {"encoding": "utf-16"}, Case(declared={"encoding": "utf-16"})),
    (frame(note=["Café", ""]), {"encoding": "cp1252"}, Case(expected="--encoding cp1252")),
    (frame(note=["Café", "Zoë"]), {"encoding": "cp1252"}, Case(declared={"encoding": "cp1252"})),
    (frame(), {"quoting": csv.QUOTE_ALL}, PLAIN),
    (frame(), {"lineterminator": "\r\n"}, PLAIN),
    (frame(), {"compression": "gzip"}, Case(expected="decompress it first")),
    (DATED, {}, TIMED),
    (DATED, {"date_format": "%d/%m/%Y %H:%M:%S"}, Case(declared={"date_format": "%d/%m/%Y %H:%M:%S"}, times=TIMES)),
    (DATED, {"date_format": "%d/%m/%Y"}, Case(times=[None, None], warning="--date-format")),
]
"""Tables, the options with which pandas writes them as CSV, and what they are read as."""


def test_pandas_csv(tmp_path, subtests):
    """What `to_csv` writes is read as it is meant, or refused with what helps."""
    for number, (data, options, case) in enumerate(CSV):
        with subtests.test(number=number, options=options):
            path = tmp_path / f"{number}.csv{'.gz' if 'compression' in options else ''}"
            data.to_csv(path, **{"index": False, **options})
            check(case, path)


OTHERS = [
    ("json", frame(), {}, PLAIN),
    ("json", FLOATS, {}, PLAIN),
    ("json", frame(), {"lines": False}, Case(expected="jq -c '.[]'")),
    ("json", frame(reference=[1, 2]), {}, Case(expected=NUMBERS)),
    ("parquet", frame(), {}, PLAIN),
    ("parquet", DATED, {}, TIMED),
    ("parquet", frame([Decimal("150.00"), Decimal("12500.00")]), {}, Case(declared={"minor_units": 2})),
    ("parquet", frame(["15.000,00", "1.250.000,00"]), {}, Case(declared=GERMAN)),
    ("excel", frame(), {}, PLAIN),
    ("excel", frame(), {"index": True}, PLAIN),
    ("excel", frame(), {"engine": "xlsxwriter"}, PLAIN),
    ("excel", DATED, {}, TIMED),
    ("excel", frame(), {"startrow": 3, "startcol": 1}, PLAIN),
    ("excel", INDEXED, {"index": True}, Case()),
    ("excel", frame(reference=[1, 2]), {}, Case(expected=NUMBERS)),
]
USUAL = {"json": {"orient": "records", "lines": True}, "parquet": {}, "excel": {"index": False}}
SUFFIXES = {"json": "jsonl", "parquet": "parquet", "excel": "xlsx"}


def test_pandas(tmp_path, subtests):
    """What pandas writes in other formats is read as it is meant, or refused with what helps."""
    for number, (form, data, options, case) in enumerate(OTHERS):
        with subtests.test(number=number, form=form, options=options):
            path = tmp_path / f"{number}.{SUFFIXES[form]}"
            getattr(data, f"to_{form}")(path, **{**USUAL[form], **options})
            check(case, path)


HEADER = ("reference", "amount")


def rupiah(book):
    for cell in book.active["B"][1:]:
        cell.number_format = '"Rp" #,##0'


WORKBOOKS = [
    (by_openpyxl(HEADER, *BOTH, change=rupiah), PLAIN),
    (
        by_openpyxl((*HEADER, "date"), ("T1", 15000, date(2026, 11, 20)), ("0012", 1250000, TIMES[1])),
        Case(times=[datetime.fromisoformat("2026-11-20 00:00:00"), TIMES[1]]),
    ),
    # the stored result is 0, because XlsxWriter does not calculate
    (by_xlsxwriter(HEADER, ("T1", 15000), ("0012", "=1250*1000")), Case(expected=[("T1", 15000), ("0012", 0)])),
    (
        by_xlsxwriter(HEADER, ("T1", "15000"), ("0012", "1250000"), strings_to_numbers=True),
        Case(expected=[("T1", 15000), ("12", "leading zeros or digits may be lost")]),
    ),
]


def test_workbooks(tmp_path, subtests):
    """A format of cells changes no amount; a date, a formula and a text that was converted are read as stored."""
    for number, (data, case) in enumerate(WORKBOOKS):
        with subtests.test(number=number):
            path = tmp_path / f"{number}.xlsx"
            path.write_bytes(data)
            check(case, path)


SELECT = "SELECT * FROM (VALUES ('T1', 15000, {0}), ('0012', 1250000, {1})) AS t(reference, amount, {2})"
FEES = SELECT.format("2500", "NULL", "fee")
DAYS = SELECT.format("TIMESTAMP '2026-11-20 14:05:09'", "TIMESTAMP '2026-12-01'", "created_at")
DECIMALS = (
    "SELECT reference, amount::DECIMAL(18, 2) AS amount FROM (VALUES ('T1', 15000), ('0012', 1250000)) "
    "AS t(reference, amount)"
)
DUCKDB = [
    (FEES, "csv", "HEADER", PLAIN),
    (FEES, "csv", "HEADER, DELIMITER ';'", PLAIN),
    (FEES, "csv", "HEADER, FORCE_QUOTE *", PLAIN),
    (FEES, "csv", "HEADER, NULLSTR 'NULL'", Case(expected=[("T1", 15000), ("0012", "--null NULL")])),
    (FEES, "csv", "HEADER, NULLSTR 'NULL'", Case(declared={"null": "NULL"})),
    (FEES, "csv", "HEADER false", Case(expected="--header-row")),
    (DAYS, "csv", "HEADER", TIMED),
    (
        DAYS,
        "csv",
        "HEADER, TIMESTAMPFORMAT '%d.%m.%Y %H:%M:%S'",
        Case(declared={"date_format": "%d.%m.%Y %H:%M:%S"}, times=TIMES),
    ),
    (DECIMALS, "csv", "HEADER", PLAIN),
    (FEES, "jsonl", "ARRAY false", PLAIN),
    (FEES, "jsonl", "ARRAY true", Case(expected="jq -c '.[]'")),
    (FEES, "parquet", "COMPRESSION zstd", PLAIN),
    (DECIMALS, "parquet", "COMPRESSION zstd", PLAIN),
]


def test_duckdb(tmp_path, subtests):
    """What DuckDB writes is read as it is meant, or refused with what helps."""
    for number, (query, suffix, options, case) in enumerate(DUCKDB):
        with subtests.test(number=number, suffix=suffix, options=options), duckdb.connect() as db:
            path = tmp_path / f"{number}.{suffix}"
            form = {"jsonl": "json"}.get(suffix, suffix)
            db.execute(f"COPY ({query}) TO '{path}' (FORMAT {form}, {options})")
            check(case, path)


TABLE = """
CREATE TABLE ledger (reference text, amount numeric(18, 2), fee integer, created_at timestamp, price money);
INSERT INTO ledger VALUES ('T1', 15000, 2500, '2026-11-20 14:05:09', 15000), ('0012', 1250000, NULL, '2026-12-01', 7);
SET lc_monetary = 'C';
"""
COLUMNS = "reference, amount, fee, created_at"
GROUPED = "reference, to_char(amount, 'FM9G999G999D00') AS amount"
POSTGRES = [
    (COLUMNS, "csv, HEADER", TIMED),
    (COLUMNS, "csv, HEADER, DELIMITER ';', FORCE_QUOTE *", TIMED),
    (COLUMNS, "csv, HEADER, NULL 'NULL'", Case(declared={"null": "NULL"}, times=TIMES)),
    (COLUMNS, "text, HEADER", Case(expected=[("T1", 15000), ("0012", r"--null '\N'")])),
    (COLUMNS, "text, HEADER", Case(declared={"null": r"\N"}, times=TIMES)),
    (GROUPED, "csv, HEADER", Case(declared={"decimal": ".", "thousands": ","})),
]


@NEEDED
def test_postgres(tmp_path):
    r"""What `\copy` writes is read as it is, with the declaration for its null."""
    with running() as socket:
        psql = ["psql", "--host", str(socket), "--username", "shop", "--quiet", "--no-psqlrc", "postgres"]
        subprocess.run([*psql, "--command", TABLE], check=True, timeout=120)
        for place, (columns, form, case) in enumerate(POSTGRES):
            command = f"\\copy (SELECT {columns} FROM ledger) TO STDOUT WITH (FORMAT {form})"
            done = subprocess.run([*psql, "--command", command], check=True, capture_output=True, timeout=120)
            path = tmp_path / f"{place}.csv"
            path.write_bytes(done.stdout)
            check(case, path)


OFFICE = shutil.which("soffice") or shutil.which("libreoffice")


@pytest.mark.skipif(OFFICE is None, reason="needs LibreOffice: apt-get install libreoffice-calc")
@pytest.mark.parametrize("suffix", ["xlsx", "csv"])
def test_libreoffice(tmp_path, suffix):
    """A workbook that LibreOffice has saved again is read as it was."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "ledger.xlsx").write_bytes(by_openpyxl(HEADER, *BOTH))
    command = [OFFICE, "--headless", f"-env:UserInstallation=file://{tmp_path}/home", "--convert-to", suffix]
    subprocess.run([*command, "--outdir", tmp_path, source / "ledger.xlsx"], check=True, timeout=300)
    check(PLAIN, tmp_path / f"ledger.{suffix}")

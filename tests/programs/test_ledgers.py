"""
Ledgers as real programs write them, each with what it must be read as, written by hand.

A row is `(reference, amount)` if it is read, and `(reference, text)` if it is rejected with that text in its reason. A
ledger that is refused as a whole is one text. None is misread, none is dropped in silence, and each refusal names what
helps.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

import duckdb
import openpyxl
import pandas as pd
import pytest
import xlsxwriter
from attrs import frozen

from payclient.ledger import Dialect, LedgerError, RejectedEntry, open_ledger
from payclient.protocol import EMPTY
from support.postgres_server import NEEDED, running

pytestmark = pytest.mark.programs

BOTH = [("T1", 15000), ("0012", 1250000)]
GERMAN = {"decimal": ",", "thousands": "."}
TIMES = [datetime.fromisoformat("2026-11-20 14:05:09"), datetime.fromisoformat("2026-12-01 00:00:00")]
AMOUNTS = "--decimal and --thousands"


@frozen(kw_only=True)
class Case:
    """A ledger: what writes it, how it is declared, and what it must be read as."""

    name: str
    write: object
    expected: object = BOTH
    suffix: str = ".csv"
    declared: Mapping = EMPTY
    options: Mapping = EMPTY
    times: object = None
    warning: str = ""


def frame(**columns):
    return pd.DataFrame({"reference": ["T1", "0012"], "amount": [15000, 1250000], **columns})


def by_pandas(data=None, **options):
    def write(path):
        (frame() if data is None else data()).to_csv(path, **{"index": False, **options})

    return write


def by_pandas_json(data=None, **options):
    def write(path):
        (frame() if data is None else data()).to_json(path, **{"orient": "records", "lines": True, **options})

    return write


def by_pandas_excel(data=None, **options):
    def write(path):
        (frame() if data is None else data()).to_excel(path, **{"index": False, **options})

    return write


def by_pandas_parquet(data=None, **options):
    def write(path):
        (frame() if data is None else data()).to_parquet(path, **options)

    return write


def texts(*amounts):
    return lambda: frame(amount=list(amounts))


def dated():
    return frame(created_at=TIMES)


def indexed():
    keys = pd.MultiIndex.from_tuples([("A", "T1"), ("A", "0012")], names=["shop", "reference"])
    return pd.DataFrame({"amount": [15000, 1250000]}, index=keys)


PANDAS = [
    Case(name="pandas", write=by_pandas()),
    Case(name="pandas-index", write=by_pandas(index=True)),
    Case(name="pandas-semicolon", write=by_pandas(sep=";")),
    Case(name="pandas-tab", write=by_pandas(sep="\t"), suffix=".tsv"),
    Case(name="pandas-pipe", write=by_pandas(sep="|"), expected="no column is called reference"),
    Case(name="pandas-pipe-declared", write=by_pandas(sep="|"), options={"delimiter": "|"}),
    Case(name="pandas-float", write=by_pandas(lambda: frame(amount=[15000.0, 1250000.0]))),
    Case(name="pandas-two-decimals", write=by_pandas(lambda: frame(amount=[15000.0, 1250000.0]), float_format="%.2f")),
    Case(
        name="pandas-decimal-comma",
        write=by_pandas(lambda: frame(amount=[15000.0, 1250000.0]), sep=";", decimal=","),
        expected=[("T1", AMOUNTS), ("0012", AMOUNTS)],
    ),
    Case(
        name="pandas-decimal-comma-declared",
        write=by_pandas(lambda: frame(amount=[15000.0, 1250000.0]), sep=";", decimal=","),
        declared={"decimal": ","},
    ),
    Case(
        name="pandas-cents",
        write=by_pandas(lambda: frame(amount=[15.5, 0.3])),
        expected=[("T1", "--minor-units 2"), ("0012", "--minor-units 2")],
    ),
    Case(
        name="pandas-cents-declared",
        write=by_pandas(lambda: frame(amount=[15.5, 0.1 + 0.2])),
        declared={"minor_units": 2},
        expected=[("T1", 1550), ("0012", "--minor-units 2")],  # 0.30000000000000004, as text
    ),
    Case(
        name="pandas-exponent",
        write=by_pandas(lambda: frame(amount=[1.5e16, 1250000.0])),
        expected=[("T1", "damaged by a spreadsheet"), ("0012", 1250000)],
    ),
    Case(
        name="pandas-missing",
        write=by_pandas(lambda: frame(fee=[2500.0, None])),
        expected=[("T1", 15000), ("0012", 1250000)],
    ),
    Case(
        name="pandas-null-text",
        write=by_pandas(lambda: frame(fee=[2500.0, None]), na_rep="NULL"),
        expected=[("T1", 15000), ("0012", "--null NULL")],
    ),
    Case(
        name="pandas-null-declared",
        write=by_pandas(lambda: frame(fee=[2500.0, None]), na_rep=r"\N"),
        declared={"null": r"\N"},
    ),
    Case(name="pandas-utf-8-sig", write=by_pandas(encoding="utf-8-sig")),
    Case(name="pandas-utf-16", write=by_pandas(encoding="utf-16"), expected="--encoding utf-16"),
    Case(name="pandas-utf-16-declared", write=by_pandas(encoding="utf-16"), declared={"encoding": "utf-16"}),
    Case(
        name="pandas-cp1252",
        write=by_pandas(lambda: frame(note=["Café", ""]), encoding="cp1252"),
        expected="--encoding cp1252",
    ),
    Case(
        name="pandas-cp1252-declared",
        write=by_pandas(lambda: frame(note=["Café", "Zoë"]), encoding="cp1252"),
        declared={"encoding": "cp1252"},
    ),
    Case(name="pandas-quote-all", write=by_pandas(quoting=csv.QUOTE_ALL)),
    Case(name="pandas-crlf", write=by_pandas(lineterminator="\r\n")),
    Case(name="pandas-gzip", write=by_pandas(), suffix=".csv.gz"),
    Case(name="pandas-times", write=by_pandas(dated), times=TIMES),
    Case(
        name="pandas-date-format",
        write=by_pandas(dated, date_format="%d/%m/%Y %H:%M:%S"),
        declared={"date_format": "%d/%m/%Y %H:%M:%S"},
        times=TIMES,
    ),
    Case(
        name="pandas-date-format-refused",
        write=by_pandas(dated, date_format="%d/%m/%Y"),
        times=[None, None],
        warning="--date-format",
    ),
    Case(name="pandas-german-texts", write=by_pandas(texts("15.000,00", "1.250.000,00")), declared=GERMAN),
    Case(
        name="pandas-ambiguous",
        write=by_pandas(texts("15.000", "1250000")),
        expected=[("T1", "--decimal . or --thousands ."), ("0012", 1250000)],
    ),
    Case(
        name="pandas-indian",
        write=by_pandas(texts("15,000", "12,50,000")),
        declared={"thousands": ",", "grouping": "indian"},
    ),
    Case(
        name="pandas-swiss",
        write=by_pandas(texts("15'000.00", "1\u2019250\u2019000.00")),
        declared={"decimal": ".", "thousands": "'"},
    ),
    Case(
        name="pandas-rupiah",
        write=by_pandas(texts("Rp 15.000", "Rp1.250.000,-")),
        declared={**GERMAN, "currency_prefix": "Rp"},
    ),
    Case(
        name="pandas-accounting",
        write=by_pandas(texts("(15,000)", "1,250,000")),
        declared={"thousands": ",", "negative": "parentheses"},
        expected=[("T1", -15000), ("0012", 1250000)],
    ),
    Case(name="pandas-json", write=by_pandas_json(), suffix=".jsonl"),
    Case(name="pandas-json-float", write=by_pandas_json(lambda: frame(amount=[15000.0, 1250000.0])), suffix=".jsonl"),
    Case(
        name="pandas-json-list",
        write=by_pandas_json(lines=False),
        suffix=".jsonl",
        expected="jq -c '.[]'",
    ),
    Case(
        name="pandas-json-number",
        write=by_pandas_json(lambda: frame(reference=[1, 2])),
        suffix=".jsonl",
        expected=[("1", "store the column as text"), ("2", "store the column as text")],
    ),
    Case(name="pandas-parquet", write=by_pandas_parquet(), suffix=".parquet"),
    Case(name="pandas-parquet-times", write=by_pandas_parquet(dated), suffix=".parquet", times=TIMES),
    Case(
        name="pandas-parquet-decimal",
        write=by_pandas_parquet(lambda: frame(amount=[Decimal("150.00"), Decimal("12500.00")])),
        suffix=".parquet",
        declared={"minor_units": 2},
    ),
    Case(
        name="pandas-parquet-texts",
        write=by_pandas_parquet(texts("15.000,00", "1.250.000,00")),
        suffix=".parquet",
        declared=GERMAN,
    ),
    Case(name="pandas-excel", write=by_pandas_excel(), suffix=".xlsx"),
    Case(name="pandas-excel-index", write=by_pandas_excel(index=True), suffix=".xlsx"),
    Case(name="pandas-excel-xlsxwriter", write=by_pandas_excel(engine="xlsxwriter"), suffix=".xlsx"),
    Case(name="pandas-excel-times", write=by_pandas_excel(dated), suffix=".xlsx", times=TIMES),
    Case(
        name="pandas-excel-lower",
        write=by_pandas_excel(startrow=3, startcol=1),
        suffix=".xlsx",
    ),
    Case(
        name="pandas-excel-merged-index",
        write=by_pandas_excel(indexed, index=True),
        suffix=".xlsx",
        warning="the cells A2:A3 are merged",
    ),
    Case(
        name="pandas-excel-number",
        write=by_pandas_excel(lambda: frame(reference=[1, 2])),
        suffix=".xlsx",
        expected=[("1", "store the column as text"), ("2", "store the column as text")],
    ),
]


def by_openpyxl(*rows, change=lambda _: None):
    def write(path):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        change(book.active)
        book.save(path)

    return write


HEADER = ("reference", "amount")


def rupiah(sheet):
    for cell in sheet["B"][1:]:
        cell.number_format = '"Rp" #,##0'


OPENPYXL = [
    Case(name="openpyxl", write=by_openpyxl(HEADER, *BOTH)),
    Case(name="openpyxl-shown-as-rupiah", write=by_openpyxl(HEADER, *BOTH, change=rupiah)),
    Case(
        name="openpyxl-title",
        write=by_openpyxl(("Laporan November 2026",), (), HEADER, *BOTH),
        expected="--header-row 3 makes it the header",
    ),
    Case(
        name="openpyxl-title-declared",
        write=by_openpyxl(("Laporan November 2026",), (), HEADER, *BOTH),
        declared={"header_row": 3},
        warning="1 row above the header (row 3) is not read",
    ),
    Case(
        name="openpyxl-texts",
        write=by_openpyxl(HEADER, ("T1", "15.000,00"), ("0012", "1.250.000,00")),
        declared=GERMAN,
    ),
    Case(
        name="openpyxl-formula",
        write=by_openpyxl(HEADER, ("T1", 15000), ("0012", "=1250*1000")),
        expected=[("T1", 15000), ("0012", "save it")],
    ),
    Case(
        name="openpyxl-total",
        write=by_openpyxl(HEADER, *BOTH, ("Jumlah", 1265000)),
        declared={"skip_totals": True},
        warning="amount 1265000",
    ),
    Case(
        name="openpyxl-dates",
        write=by_openpyxl((*HEADER, "date"), ("T1", 15000, date(2026, 11, 20)), ("0012", 1250000, TIMES[1])),
        times=[datetime.fromisoformat("2026-11-20 00:00:00"), TIMES[1]],
    ),
    Case(
        name="openpyxl-currencies",
        write=by_openpyxl((*HEADER, "currency"), ("T1", 15000, "IDR"), ("0012", 1250000, "IDR"), ("T3", 7, "USD")),
        declared={"only_currency": "IDR"},
        warning="1 row left out, because it is in USD: line 4; amount 7",
    ),
    Case(
        name="openpyxl-mixed-currencies",
        write=by_openpyxl((*HEADER, "currency"), ("T1", 15000, "IDR"), ("T3", 7, "USD")),
        expected="--only-currency IDR",
    ),
]


def by_xlsxwriter(*rows, **options):
    def write(path):
        with xlsxwriter.Workbook(path, options) as book:
            sheet = book.add_worksheet()
            for place, row in enumerate((HEADER, *rows)):
                sheet.write_row(place, 0, row)

    return write


XLSXWRITER = [
    Case(name="xlsxwriter", write=by_xlsxwriter(*BOTH)),
    Case(name="xlsxwriter-inline", write=by_xlsxwriter(*BOTH, constant_memory=True)),
    Case(
        name="xlsxwriter-formula",
        write=by_xlsxwriter(("T1", 15000), ("0012", "=1250*1000")),
        expected=[("T1", 15000), ("0012", 0)],  # the stored result is 0, because XlsxWriter does not calculate
    ),
    Case(
        name="xlsxwriter-converted",
        write=by_xlsxwriter(("T1", "15000"), ("0012", "1250000"), strings_to_numbers=True),
        expected=[("T1", 15000), ("12", "leading zeros or digits may be lost")],
    ),
]

SELECT = "SELECT * FROM (VALUES ('T1', 15000, {0}), ('0012', 1250000, {1})) AS t(reference, amount, {2})"
PLAIN = SELECT.format("2500", "NULL", "fee")
TIMED = SELECT.format("TIMESTAMP '2026-11-20 14:05:09'", "TIMESTAMP '2026-12-01'", "created_at")
DECIMALS = (
    "SELECT reference, amount::DECIMAL(18, 2) AS amount FROM (VALUES ('T1', 15000), ('0012', 1250000)) "
    "AS t(reference, amount)"
)


def by_duckdb(query=PLAIN, options="FORMAT csv, HEADER"):
    def write(path):
        with duckdb.connect() as db:
            db.execute(f"COPY ({query}) TO '{path}' ({options})")

    return write


DUCKDB = [
    Case(name="duckdb", write=by_duckdb()),
    Case(name="duckdb-semicolon", write=by_duckdb(options="FORMAT csv, HEADER, DELIMITER ';'")),
    Case(name="duckdb-quoted", write=by_duckdb(options="FORMAT csv, HEADER, FORCE_QUOTE *")),
    Case(
        name="duckdb-null",
        write=by_duckdb(options="FORMAT csv, HEADER, NULLSTR 'NULL'"),
        expected=[("T1", 15000), ("0012", "--null NULL")],
    ),
    Case(
        name="duckdb-null-declared",
        write=by_duckdb(options="FORMAT csv, HEADER, NULLSTR 'NULL'"),
        declared={"null": "NULL"},
    ),
    Case(name="duckdb-times", write=by_duckdb(TIMED), times=TIMES),
    Case(
        name="duckdb-time-format",
        write=by_duckdb(TIMED, "FORMAT csv, HEADER, TIMESTAMPFORMAT '%d.%m.%Y %H:%M:%S'"),
        declared={"date_format": "%d.%m.%Y %H:%M:%S"},
        times=TIMES,
    ),
    Case(name="duckdb-decimals", write=by_duckdb(DECIMALS)),
    Case(name="duckdb-gzip", write=by_duckdb(options="FORMAT csv, HEADER, COMPRESSION gzip"), suffix=".csv.gz"),
    Case(name="duckdb-json", write=by_duckdb(options="FORMAT json"), suffix=".jsonl"),
    Case(
        name="duckdb-json-list",
        write=by_duckdb(options="FORMAT json, ARRAY true"),
        suffix=".jsonl",
        expected="jq -c '.[]'",
    ),
    Case(name="duckdb-parquet", write=by_duckdb(options="FORMAT parquet"), suffix=".parquet"),
    Case(
        name="duckdb-parquet-decimals",
        write=by_duckdb(DECIMALS, "FORMAT parquet"),
        suffix=".parquet",
    ),
    Case(name="duckdb-no-header", write=by_duckdb(options="FORMAT csv, HEADER false"), expected="--column reference="),
]


def excel_tab(path):
    with path.open("w", newline="", encoding="utf-16") as file:  # "Unicode text" of Excel
        csv.writer(file, dialect="excel-tab").writerows([HEADER, ("T1", "15.000"), ("0012", "1.250.000")])


def lines(*texts):
    return lambda path: path.write_bytes("\r\n".join(texts).encode("cp1252"))


TEXTS = [
    Case(
        name="excel-unicode-text",
        write=excel_tab,
        suffix=".txt",
        declared={"encoding": "utf-16", "thousands": "."},
    ),
    Case(name="excel-sep-line", write=lines("sep=;", "reference;amount", "T1;15000", "0012;1250000")),
    Case(
        name="excel-german",
        write=lines("Referenz;Betrag;Käufer", "T1;15.000,00 €;Zoë", "0012;1.250.000,00 €;"),
        declared={"profile": "excel-de"},
    ),
    Case(
        name="sap-trailing-sign",
        write=lines("reference;amount", "T1;15.000,00-", "0012;1.250.000,00"),
        declared={**GERMAN, "negative": "trailing"},
        expected=[("T1", -15000), ("0012", 1250000)],
    ),
    Case(
        name="bank-soll-haben",
        write=lines("reference;Soll;Haben", "T1;15.000,00;", "0012;;1.250.000,00"),
        declared={**GERMAN, "debit_columns": ["amount=Soll"]},
        options={"columns": {"amount": "Haben"}},
        expected=[("T1", -15000), ("0012", 1250000)],
    ),
]

CASES = [*PANDAS, *OPENPYXL, *XLSXWRITER, *DUCKDB, *TEXTS]
WORKBOOKS = {case.name for case in (*OPENPYXL, *XLSXWRITER)}


def check(case, path):
    """Read the ledger and compare it with what it must be read as."""
    declared = dict(case.declared)
    dialect = Dialect.named(declared.pop("profile"), **declared) if "profile" in declared else Dialect(**declared)
    try:
        with open_ledger(path, dialect=dialect, **case.options) as ledger:
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


def test_number_of_cases():
    """The corpus has at least sixty ledgers, each with its own name."""
    names = {case.name for case in CASES}
    assert (len(names), len(names) >= 60) == (len(CASES), True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ledger(case, tmp_path):
    """The ledger is read as it is meant, or refused with what helps."""
    path = tmp_path / f"ledger{'.xlsx' if case.name in WORKBOOKS else case.suffix}"
    case.write(path)
    check(case, path)


TABLE = """
CREATE TABLE ledger (reference text, amount numeric(18, 2), fee integer, created_at timestamp, price money);
INSERT INTO ledger VALUES ('T1', 15000, 2500, '2026-11-20 14:05:09', 15000), ('0012', 1250000, NULL, '2026-12-01', 7);
SET lc_monetary = 'C';
"""
COLUMNS = "SELECT reference, amount, fee, created_at FROM ledger"
POSTGRES = [
    (f"\\copy ({COLUMNS}) TO STDOUT WITH (FORMAT csv, HEADER)", {}, BOTH),
    (f"\\copy ({COLUMNS}) TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ';', FORCE_QUOTE *)", {}, BOTH),
    (f"\\copy ({COLUMNS}) TO STDOUT WITH (FORMAT csv, HEADER, NULL 'NULL')", {"null": "NULL"}, BOTH),
    (f"\\copy ({COLUMNS}) TO STDOUT WITH (FORMAT text, HEADER)", {}, [("T1", 15000), ("0012", r"--null '\N'")]),
    (f"\\copy ({COLUMNS}) TO STDOUT WITH (FORMAT text, HEADER)", {"null": r"\N"}, BOTH),
    (
        (
            "\\copy (SELECT reference, to_char(amount, 'FM9G999G999D00') AS amount FROM ledger) TO STDOUT "
            "WITH (FORMAT csv, HEADER)"
        ),
        {"decimal": ".", "thousands": ","},
        BOTH,
    ),
]


@NEEDED
def test_postgres(tmp_path):
    r"""What `\copy` writes is read as it is, with the declaration for its null."""
    with running() as socket:
        psql = ["psql", "--host", str(socket), "--username", "shop", "--quiet", "--no-psqlrc", "postgres"]
        subprocess.run([*psql, "--command", TABLE], check=True, timeout=120)
        for place, (command, declared, expected) in enumerate(POSTGRES):
            done = subprocess.run([*psql, "--command", command], check=True, capture_output=True, timeout=120)
            path = tmp_path / f"{place}.csv"
            path.write_bytes(done.stdout)
            is_timed = "created_at" in command and expected == BOTH
            times = TIMES if is_timed else None
            check(Case(name=str(place), write=None, declared=declared, expected=expected, times=times), path)


OFFICE = shutil.which("soffice") or shutil.which("libreoffice")


@pytest.mark.skipif(OFFICE is None, reason="needs LibreOffice: apt-get install libreoffice-calc")
@pytest.mark.parametrize("suffix", ["xlsx", "csv"])
def test_libreoffice(tmp_path, suffix):
    """A workbook that LibreOffice has saved again is read as it was."""
    source = tmp_path / "source"
    source.mkdir()
    by_openpyxl(HEADER, *BOTH)(source / "ledger.xlsx")
    command = [OFFICE, "--headless", f"-env:UserInstallation=file://{tmp_path}/home", "--convert-to", suffix]
    subprocess.run([*command, "--outdir", tmp_path, source / "ledger.xlsx"], check=True, timeout=300)
    check(Case(name=suffix, write=None), tmp_path / f"ledger.{suffix}")

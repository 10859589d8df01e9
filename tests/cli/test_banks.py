"""Statements as banks write them: every amount and sign is right, or the file is refused with what helps."""

import re
import shlex
from itertools import takewhile

import pytest
from attrs import frozen

from payclient._shared.escape import plural


@frozen(kw_only=True)
class Bank:
    """A file, the options that its messages lead to in their order, and what is read with all of them."""

    text: str
    options: tuple[str, ...]
    rows: dict[str, int]
    rejected: int = 0
    encoding: str = "utf-8"


BCA = """\
No. rekening : ,'1234567890,,,,,
Periode : ,01/11/2026 - 30/11/2026,,,,,
Tanggal Transaksi,Keterangan,Cabang,Jumlah,,Saldo,
'20/11/2026,T1,'0000,"150,000.00",CR,"1,150,000.00",
'20/11/2026,T2,'0000,"20,000.00",DB,"1,130,000.00",
'21/11/2026,T3,'0000,"7,000.00",CR,"1,137,000.00",
Saldo Akhir : ,"1,137,000.00",,,,,
"""
MANDIRI = """\
Account No,Date,Val. Date,Transaction Code,Description,Description,Reference No.,Debit,Credit,
1310012345678,20/11/26,20/11/26,8912,MCM InhouseTrf,DARI PT A,T1,.00,150000.00,
1310012345678,20/11/26,20/11/26,8912,MCM InhouseTrf,KE PT B,T2,20000.00,.00,
1310012345678,21/11/26,21/11/26,8912,SA,,T3,.00,7000.00,
"""
BNI = """\
Post Date,Value Date,Branch,Journal No.,Description,Amount,Db/Cr,Balance
20/11/26 10.05.09,20/11/26 10.05.09,0259,T1,TRF DARI A,"150,000.00",K,"1,150,000.00"
20/11/26 11.05.09,20/11/26 11.05.09,0259,T2,TRF KE B,"20,000.00",D,"1,130,000.00"
21/11/26 09.00.00,21/11/26 09.00.00,0259,T3,TRF DARI C,"7,000.00",K,"1,137,000.00"
21/11/26 09.00.00,21/11/26 09.00.00,0259,T4,KOREKSI,"5,000.00",X,"1,142,000.00"
"""
SAP = """\
Belegnummer;Zuordnung;S/H;Betrag in Hauswährung;Währung;Buchungsdatum
1400000017;T1;H;150.000,00;IDR;20.11.2026
1400000018;T2;S;20.000,00;IDR;20.11.2026
1400000019;T3;H;7.000,00;IDR;21.11.2026
"""
MT940 = """\
Datum;Kennzeichen;Betrag;Referenz
20.11.2026;C;150000,;T1
20.11.2026;D;20000,;T2
21.11.2026;RC;7000,;T3
21.11.2026;RD;8000,;T4
"""

BANKS = {
    "BCA": Bank(
        text=BCA,
        options=("--column reference=Keterangan", "--header-row 3", "--column direction='#5'", "--thousands ,"),
        rows={"T1": 150000, "T2": -20000, "T3": 7000},
        rejected=1,  # the balance below the table
    ),
    "Mandiri": Bank(
        text=MANDIRI,
        options=("--column amount=Credit --debit-column amount=Debit", "--decimal ."),
        rows={"T1": 150000, "T2": -20000, "T3": 7000},
    ),
    "BNI": Bank(
        text=BNI,
        options=("--column reference='Journal No.'", "--thousands ,"),
        rows={"T1": 150000, "T2": -20000, "T3": 7000},
        rejected=1,  # a letter that is not known
    ),
    "SAP": Bank(
        text=SAP,
        options=(
            "--column reference=Zuordnung",
            "--column amount='Betrag in Hauswährung'",
            "--decimal , --thousands .",
        ),
        rows={"T1": 150000, "T2": -20000, "T3": 7000},
    ),
    "MT940": Bank(
        text=MT940,
        options=("--column direction=Kennzeichen", "--decimal ,"),
        rows={"T1": 150000, "T2": -20000, "T3": -7000, "T4": 8000},
    ),
}


@pytest.fixture
def read(command, tmp_path):
    """Show how the file of a bank is read."""

    def read(bank, *options):
        path = tmp_path / "bank.csv"
        path.write_bytes(bank.text.encode(bank.encoding))
        return command("ledger", str(path), *shlex.split(" ".join(options)))

    return read


def first_rows(shown):
    """Return the amounts of the first rows, as they are shown, by their references."""
    table = shown.partition("first rows, as read:\n")[2]
    lines = [re.split(" {2,}", line.strip()) for line in takewhile(lambda line: line[:1] == " ", table.splitlines())]
    rows = [dict(zip(lines[0], each, strict=False)) for each in lines[1:]]
    return {row["reference"]: int(row["amount"]) for row in rows}


@pytest.mark.parametrize("name", BANKS)
def test_bank(name, read):
    """Without one of its options nothing is read otherwise than with all: the file is refused, or its rows are."""
    bank = BANKS[name]
    found = read(bank, *bank.options).out
    assert first_rows(found) == bank.rows
    assert f"\nrejected: {plural(bank.rejected, 'row')}\n" in found
    misread = {}
    for place, option in enumerate(bank.options):
        result = read(bank, *bank.options[:place], *bank.options[place + 1 :])
        rows = first_rows(result.out)
        if wrong := rows.items() - bank.rows.items():
            misread[option] = wrong
        assert not rows or len(rows) < len(bank.rows), option
    assert misread == {}


@pytest.mark.parametrize("name", BANKS)
def test_led(name, read):
    """From the file alone, each message names the next option."""
    bank, unnamed = BANKS[name], []
    for place, option in enumerate(bank.options):
        result = read(bank, *bank.options[:place])
        said = {word for words in result.following for word in words}
        if not said.issuperset(shlex.split(option)) and "reference=" not in option:  # which has it, only people know
            unnamed.append((option, said))
    assert unnamed == []

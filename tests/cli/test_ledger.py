"""`payclient ledger` shows how a ledger is read, without a key, a service or a folder."""

import pytest

LEDGER = """\
Kode;Jumlah;Status;Catatan
T1;15.000,00;Lunas;a
T2;7.000,00;Lunas;b
T1;15.000,00;Batal;c
;abc;;
TOTAL;37.000,00;;
"""
GERMAN = ("--decimal", ",", "--thousands", ".", "--column", "reference=Kode")


@pytest.fixture
def ledger(command, tmp_path):
    """Run the command on a ledger with this content."""

    def ledger(*arguments, content=LEDGER, **options):
        path = tmp_path / "ledger.csv"
        path.write_text(content)
        return command("ledger", str(path), *arguments, **options)

    return ledger


def test_lines(ledger):
    """Format, columns, first rows, totals, repeated references and rejected rows are shown, worst reason first."""
    result = ledger(*GERMAN)
    assert (result.status, result.err) == (1, "")
    assert (
        result.out.partition("Next: ")[0]
        == """\
format: csv, utf-8, delimiter ';', header in row 1
columns:
  Kode     reference  text
  Jumlah   amount     whole number, decimal ',', thousands '.'
  Status   status     text
  Catatan  not used
rows: 5, with 2 different references
first rows, as read:
  line  reference  amount  status
     2  T1          15000  Lunas
     3  T2           7000  Lunas
     4  T1          15000  Batal
by status:
  Lunas  2 rows  22,000
  Batal   1 row  15,000
give each of these words a meaning in the rules file:
[statuses]  # paid, pending, canceled, expired, failed, refunded
"Lunas" = "?"
"Batal" = "?"
duplicates: 1 row
  T1: 2 rows
rejected: 2 rows
  1 row, first on line 5: reference: the cell is empty; amount: 'abc' is not a number; --null abc reads it as an empty cell
  1 row, first on line 6: is a totals row: it has 'TOTAL', and its amount is not added to the total; --skip-totals leaves it out
totals rows: 37,000, which would be counted twice
not used: Catatan: a 1, b 1, c 1, (empty) 1
  if a column matters, use it with --column FIELD=NAME, or give its words a meaning in [lines.kind] of
  the rules; if it isn't about the payments, ignore it with --ignore-column NAME
"""  # noqa: E501  as it is printed
    )


def test_totals(ledger):
    """The sum that totals rows would add is said, and their first lines; with --skip-totals it is among the rest."""
    rows = "".join(f"T{n},5\nTotal,{5 * n}\n" for n in range(1, 8))
    content = f"reference,amount\n{rows}"
    assert "\ntotals rows: 140, which would be counted twice\n" in ledger(content=content).out
    assert "\ntotals rows:" not in ledger("--skip-totals", content=content).out


def test_many_words(ledger):
    """Words and reasons beyond the first fifty are counted together: a wrong column has many."""
    rows = "".join(f"T{n},{n},word{n}\n" for n in range(200))
    shown = ledger(content=f"reference,amount,status\n{rows}").out.partition("by status:\n")[2].splitlines()
    assert shown[50].split() == ["others", "150", "rows", f"{sum(range(50, 200)):,}"]
    assert shown[51][:1] != " "


def test_rules(ledger, tmp_path):
    """The rules file declares as well, and options override single values of it."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[columns]\nreference = "Kode"\n[ledger]\ndecimal = "."\nthousands = "."\n')
    result = ledger("--rules", str(rules))
    assert (result.status, "ledger.decimal and thousands must differ" in result.err) == (2, True)
    rules.write_text('[columns]\nreference = "Kode"\n[ledger]\nthousands = "."\n')
    assert "rejected: 2 rows" in ledger("--rules", str(rules), "--decimal", ",").out


def test_declared(ledger):
    """What is declared of each column is shown, and what could not be read; a name in the header cannot act."""
    content = "reference;amount;D/C;date;status;\x1b[31mnote\nT1;15,00;C;20.11.2026;;x\nT2;7,00;D;soon;Paid;x\n"
    declared = ("--decimal", ",", "--thousands", ".", "--currency-suffix", "€", "--minor-units", "2")
    out = ledger(*declared, "--date-format", "%d.%m.%Y", "--encoding", "cp1252", content=content).out
    for told in (
        "format: csv, cp1252, delimiter ';', header in row 1",
        "  amount            amount      number, decimal ',', thousands '.', '€', times 100",
        "  D/C               direction   credit or debit",
        "  date              created_at  %d.%m.%Y",
        "  <U+001B>[31mnote  not used",
        "  (empty)  1 row  1,500",
        "warning: 'date': 1 cell cannot be read: 'soon' ",
    ):
        assert told in out, out


def test_debits(ledger):
    """A column of debits is shown as what it is."""
    options = ("--debit-column", "amount=soll", "--column", "amount=haben")
    result = ledger(*options, content="ref;soll;haben\nT1;;15\nT2;7;\n")
    assert ("\n  soll   amount, below zero\n" in result.out, result.out.count("-7\n")) == (True, 1)


def test_whole_units(ledger, tmp_path):
    """Zero is a declaration too: it overrides a rules file that counts cents."""
    (tmp_path / "cents.toml").write_text("[ledger]\nminor_units = 2\n")
    options = ("--rules", str(tmp_path / "cents.toml"), "--minor-units", "0")
    assert "T1          15000\n" in ledger(*options, content="reference,amount\nT1,15000\n").out


def test_saved(ledger, tmp_path):
    """The rules file that is written has the options and what is suggested, and the ledger is shown as it reads it."""
    rules, again = tmp_path / "new.toml", tmp_path / "again.toml"
    result = ledger("--column", "reference=Kode", "--skip-totals", "--save-rules", str(rules))
    assert (result.status, "T1          15000" in result.out) == (1, False)  # one row holds no number
    content = LEDGER.replace(";abc;;\n", "")
    result = ledger("--column", "reference=Kode", "--skip-totals", "--save-rules", str(again), content=content)
    assert (result.status, result.err) == (0, "")
    assert again.read_text() == (  # nothing is ignored that nobody named
        '[ledger]\nskip_totals = true\ndecimal = ","\nthousands = "."\n\n[columns]\nreference = "Kode"\n'
    )
    assert "T1          15000" in result.out
    to_write = f"Next: write the [statuses] lines into {again}, then: payclient ledger "
    assert result.out.splitlines()[-1].startswith(to_write)  # two words have no meaning
    rules.write_text('[statuses]\nlunas = "paid"\nbatal = "canceled"\n')
    result = ledger("--rules", str(rules), *GERMAN, "--skip-totals", "--ignore-column", "Catatan", content=content)
    assert result.out.splitlines()[-1].startswith("Next: payclient ledger ")


def test_saved_beside_rules(ledger, tmp_path):
    """What the given rules file has is kept; what it says otherwise is not overridden, and no file is written."""
    rules, new = tmp_path / "rules.toml", tmp_path / "new.toml"
    rules.write_text('[ledger]\nthousands = "."\n[statuses]\nlunas = "paid"\n')
    content = "reference,amount,status\nT1,15.000,Lunas\n"
    refused = ledger("--rules", str(rules), "--thousands", ",", "--save-rules", str(new), content=content)
    assert (refused.status, "cannot add ledger.thousands" in refused.err, new.exists()) == (2, True, False)
    saved = ledger("--rules", str(rules), "--null=-", "--save-rules", str(new), content=content)
    assert (saved.status, new.read_text()) == (0, rules.read_text().replace("thousands", 'null = ["-"]\nthousands'))
    again = ledger("--rules", str(rules), "--null=-", "--save-rules", str(new), content=content)
    assert again.status == 2  # never written over
    odd = ledger("--null", "\udcff", "--save-rules", str(tmp_path / "odd.toml"), content="reference,amount\nT1,1\n")
    assert (odd.status, "not UTF-8" in odd.err, (tmp_path / "odd.toml").exists()) == (2, True, False)


def test_saved_from_a_file(command):
    """Standard input cannot be read twice, so nothing is saved from it."""
    result = command("ledger", "-", "--save-rules", "rules.toml", stdin=b"reference\nT1\n")
    assert (result.status, "--save-rules needs the ledger as a file" in result.err) == (2, True)


def test_following(ledger, tmp_path):
    """The command that follows is said with the options that matter, or those among which a person has to decide."""
    last = ledger("--delimiter", ",", content="reference,amount\nT1,5\n").out.splitlines()[-1]
    assert last == f"Next: payclient reconcile {tmp_path / 'ledger.csv'} --out report --delimiter ,"
    ways = {"15.000": [["--thousands", "."], ["--decimal", "."]], "abc": [["--null", "abc"]], "15.0.0": []}
    for cell, options in ways.items():
        following = ledger(content=f"reference,amount\nT1,{cell}\n").following
        saved = ["--save-rules", "rules.toml"]
        assert following == [["ledger", str(tmp_path / "ledger.csv"), *each, *saved] for each in options]

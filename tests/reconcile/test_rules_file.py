"""A rules file is read exactly, or refused with its line and its key."""

from datetime import UTC, date, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile import (
    STRICT,
    BusinessDays,
    Calendar,
    FeeSchedule,
    Kind,
    Rules,
    RulesError,
    StatementRules,
    Tolerance,
    parse_rules,
    read_rules,
    rules_as_json,
    rules_from_json,
)
from payclient.reconcile._judgement.rules import line_of
from payclient.reconcile.ledger import Dialect
from support.chance import examples
from support.misses import check_table
from support.ruling import accepted

TEXT = """\
time_zone = "Asia/Jakarta"
grace = "36h"
require = ["amount"]
ignore_columns = ["Rabatt"]
not_found_messages = ["Kode tak dikenal"]
[columns]
amount = "Betrag"
[tolerances.amount]
below = 500
above_percent = 0.5
[tolerances]
fee = { above = 1 }
[statuses]
Settled = "paid"
[fees.VA]
flat = 4000
percent = 0.70
rounding = "up"
[[accepted]]
code = "underpaid"
reference = "T1"
ledger = 100
service = 99
reason = "agreed"
owner = "Ana"
expires = 2026-12-31
"""
RULES = Rules(
    time_zone=ZoneInfo("Asia/Jakarta"),
    grace=timedelta(hours=36),
    columns={"amount": "Betrag"},
    require=["amount"],
    ignore_columns=["Rabatt"],
    not_found_messages=["Kode tak dikenal"],
    tolerances={"amount": Tolerance(below=500, above_percent="0.5"), "fee": Tolerance(above=1)},
    statuses={"settled": "paid"},
    fees={"VA": FeeSchedule(flat=4000, percent=Decimal("0.7"), rounding="up")},
    accepted=[accepted("T1", ledger=100, service=99)],
)


def refusal(text):
    with pytest.raises(RulesError) as caught:
        parse_rules(text, name="rules.toml")
    return str(caught.value), caught.value.line


def test_everything(tmp_path):
    """Every key means what it says, in a file with a byte order mark and the line ends of any system, and in quotes."""
    quoted = TEXT.replace("0.5\n", '"0.5"\n').replace("2026-12-31", '"2026-12-31"')
    for content in (
        TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        quoted.encode(),
    ):
        (tmp_path / "rules.toml").write_bytes(content)
        assert read_rules(tmp_path / "rules.toml") == RULES
    assert {parse_rules(text) == STRICT for text in ("", "# nothing\n", "accepted = []")} == {True}


REFUSED = (
    ("below = 500", "below = -500", 9, "tolerances.amount.below must be a whole number that is not negative, got -500"),
    ("below = 500", "beneath = 500", 9, "tolerances.amount: unknown key 'beneath': the keys are above, below, "),
    ("0.5\n", "nan\n", 10, "tolerances.amount.above_percent must be a percentage from 0 to 100 "),
    ("{ above = 1 }", "1", 12, "tolerances.fee must be a table of keys and values, got 1"),
    ("above = 1 ", "up = 1 ", 12, "tolerances.fee: unknown key 'up'"),
    ("fee =", "fees =", 12, "tolerances: unknown field 'fees' (did you mean 'fee'?): the fields are amount, fee, "),
    ('"36h"', "36", 2, "grace must be a duration such as '90m', '12h' or '1d 12h', or '2 business days', got 36"),
    *(
        ("Asia/Jakarta", zone, 1, "time_zone must be a name such as Asia/Jakarta, or an offset such as +07:00, got ")
        for zone in ("Asia/Nowhere", "../../etc", "Asia", "")
    ),
    ("[columns]", "[column]", 6, "unknown key 'column' (did you mean 'columns'?): the keys are time_zone, grace, "),
    ("amount =", "sum =", 7, "columns: unknown field 'sum'"),
    ('"Betrag"', "3", 7, "columns.amount must be the name of a column, got 3"),
    ('"paid"', '"paidd"', 14, "statuses.Settled must be one of paid, pending, "),
    ("Settled", "1", 14, "statuses: '1' is not a word"),
    ('"up"', '"even"', 18, "fees.VA.rounding must be one of half_up, up, down, got 'even'"),
    ("[fees.VA]", "[fees.VA]\nmaximum = 1\nminimum = 2", 16, "fees.VA.maximum must be at least the minimum 2, got 1"),
    ("[[accepted]]", "[accepted]", 19, "accepted must be a list of tables, each under [[accepted]]"),
    ('owner = "Ana"\n', "", 19, "accepted lacks owner; owner must be given"),
    ("2026-12-31", "2026-12-31T10:00:00", 26, "accepted.expires must be a date such as 2026-12-31, got "),
    ("ledger = 100\nservice = 99\n", "", 19, "accepted.largest_difference must be given, or both ledger and service"),
    ("ledger = 100\n", "", 19, "accepted.largest_difference must be given, or both ledger and service"),
    ("service = 99", "service = 9.9", 23, "accepted.service must be text or a whole number"),
    ('["amount"]', '"amount"', 3, "require must be a list of texts, each with a word in it, got 'amount'"),
    ('["amount"]', '["sum"]', 3, "require: unknown field 'sum': the fields are "),
    ('["Rabatt"]', "[1]", 4, "ignore_columns must be a list of texts, each with a word in it, got "),
    ('["Kode tak dikenal"]', '["…"]', 5, "not_found_messages must be a list of texts, each with a word in it"),
    ("flat = 4000", "flat = ", 16, "it is not TOML: Invalid value"),
    ("flat = 4000", "flat = 1\nflat = 2", 17, "it is not TOML: Cannot overwrite a value"),
)
SUM = '[lines]\nof_one_reference = "sum"\n'
KINDS = f'{SUM}[lines.kind]\ncolumn = "Type"\n'
DATES = "calendar.holidays must be a list of dates"
REFUSED_ALONE = (
    ('[lines]\nof_one_reference = "add"\n', 2, "lines.of_one_reference must be one of duplicate, sum, got 'add'"),
    (f'{SUM}of_one_invoice = "sum"\n', 3, "lines: unknown key 'of_one_invoice'"),
    ('[lines.kind]\ncolumn = "Type"\n', 1, "lines.kind needs of_one_reference = 'sum'"),
    (f'{SUM}[lines.kind]\ncharge = ["x"]\n', 3, "lines.kind lacks column"),
    (f'{KINDS}charge = "x"\n', 5, "lines.kind.charge must be a list of words, got 'x'"),
    (f'{KINDS}fee = [" "]\n', 5, "lines.kind.fee must be a list of words"),
    (f'{KINDS}charge = ["x"]\nfee = ["X"]\n', 6, "lines.kind.fee: 'X' is listed under charge already"),
    ("lines = 3\n", 1, "lines must be a table"),
    ('[statement]\nsettles_within = "soon"\n', 2, "statement.settles_within must be a duration"),
    ("[statement.columns]\nfees = 'x'\n", 2, "statement.columns: unknown field 'fees'"),
    ("[statement.columns]\nfee = ' '\n", 2, "statement.columns.fee must be the name of a column"),
    ("[statement]\nnew_lines_only = 1\n", 2, "statement.new_lines_only must be true or false"),
    ('[statement]\nignore_columns = "x"\n', 2, "statement.ignore_columns must be a list of names"),
    ('[statement.reading]\ndecimal = "x"\n', 2, "statement.reading.decimal must be a point or a comma"),
    ("[statement.kind]\ncharge = ['x']\n", 1, "statement.kind lacks column"),
    ("[statement]\npayout = 3\n", 2, "statement: unknown key 'payout'"),
    *((f"[calendar]\nholidays = {days}\n", 2, DATES) for days in ("[[1]]", "3", "'x'", "[2026-12-25T00:00:00]")),
    ("[calendar]\nweekend = []\n", 2, "calendar: unknown key 'weekend'"),
    ("[ledger]\ndecimals = 1", 2, "ledger: unknown key 'decimals' (did you mean 'decimal'?): the keys are encoding, "),
    ('[ledger]\nencoding = "utf-8"\ndecimal = ";"', 3, "ledger.decimal must be a point or a comma, got ';'"),
    ('[ledger]\ndecimal = ","\nthousands = ","', 2, "ledger.decimal and thousands must differ"),
    ('[ledger]\ndate_format = ["%d/%m"]', 2, "ledger.date_format must have day, month and year"),
    ("ledger = 3", 1, "ledger must be a table of keys and values, got 3"),
    *(
        (f'grace = "{text}"', 1, "grace must be a duration")
        for text in (
            "-1h",
            "1.5h",
            "1 week",
            "12",
            "36",
            "1h 1d",
            "1h1h",
            "\u0663h",
            "",
            "2 days",
            "1000 business days",
        )
    ),
)


def test_refused():
    """The first fault is named with its line, its key and what to write instead."""
    texts = [(TEXT.replace(old, new, 1), line, message) for old, new, line, message in REFUSED]
    texts.append(
        (
            *(TEXT + TEXT[TEXT.index("[[accepted]]") :], 27),
            "accepted: underpaid of 'T1' is listed twice: keep one, with one last day",
        )
    )
    misses = []
    for text, line, message in (*texts, *REFUSED_ALONE):
        found, found_line = refusal(text)
        if found_line != line or not found.startswith(f"rules.toml, line {line}: {message}"):
            misses.append((message, line, found))
    assert misses == []


def test_no_toml():
    """Text that is not TOML is refused as such, and cannot act on the terminal that shows the message."""
    for text in ("a = [" * 5000, "a = " + "9" * 5000, "\x00", "a = '\n"):
        assert "it is not TOML" in refusal(text)[0]
    for text in ('"\\u001b[2J\\u202e" = 1', '[fees."\\u001b[2J"]\nflat = "\\u202e"'):
        assert refusal(text)[0].isprintable()


def test_times():
    """A time zone has a name or is an offset; a duration is days, hours, minutes and seconds, in this order."""
    for text, zone in (
        ("UTC", UTC),
        ("+07:00", timezone(timedelta(hours=7))),
        ("UTC-03:30", timezone(-timedelta(hours=3, minutes=30))),
        ("Europe/Berlin", ZoneInfo("Europe/Berlin")),
    ):
        assert parse_rules(f'time_zone = "{text}"').time_zone == zone
    cases = (("90m", 5400), ("1d 12h", 129600), ("2h30m", 9000), ("5s", 5), ("0s", 0), (" 3d ", 259200))
    for text, seconds in cases:
        assert parse_rules(f'grace = "{text}"').grace == timedelta(seconds=seconds)


def test_unreadable_file(tmp_path):
    """A file that cannot be read, or is another, is refused by its name, without its folder."""
    (tmp_path / "rules.toml").write_bytes(b"a = 1\nb = '\xe9'\n")
    for name, message in (
        ("none.toml", "the rules file none.toml cannot be read: No such file or directory"),
        ("rules.toml", "rules.toml, line 2: it isn't UTF-8: save the file in that encoding"),
    ):
        with pytest.raises(RulesError) as caught:
            read_rules(tmp_path / name)
        assert str(caught.value) == message


def test_json_refused():
    """Rules in JSON are read as strictly, without a line."""
    with pytest.raises(RulesError) as caught:
        rules_from_json({"tolerances": {"amount": {"below": 1.0}}})
    assert (caught.value.key, caught.value.line) == (("tolerances", "amount", "below"), 0)


PIECES = st.sampled_from(
    [
        *TEXT.splitlines(),
        *(
            "[tolerances.fee]",
            "[[fees]]",
            "[statuses.x]",
            "fees = 1",
            "accepted = [1]",
            'x = """',
            '"""',
            "below = 0x1F",
        ),
        *("percent = inf", "percent = '7'", "expires = 10:00:00", "code = {}", "columns.amount = []", "]", "a.b.c = 1"),
    ]
)


@examples(300)
@given(lines=st.lists(PIECES, max_size=12))
def test_any_text(lines):
    """Any text gives rules, or an error that names a line of it."""
    try:
        rules = parse_rules("\n".join(lines), name="r")
    except RulesError as error:
        assert error.line in range(len(lines) + 1)
        assert error.line
    else:
        assert isinstance(rules, Rules)


TEXT_TOML_LINES = '''# rules
zone = "Asia/Jakarta"

[tolerances.amount]
below = 500   # whole units

above = 1
[tolerances]
fee = { above = 1, below = 2 }
"amount received".above = 3

[[accepted]]
code = "a"
reason = """
code = "b"
[tolerances.x]
"""
owner = "Ana"

[[accepted]]
code = "b"
list = [
  1,
  { x = 2 },
]
[accepted.more]
z = 1
'''


LINES = (
    *((key, 0) for key in ((), ("nothing",), ("accepted ", 0))),
    # A key that is not there is where the table around it begins.
    (("accepted", 1, "owner"), 20),
    (("tolerances", "fee", "x", "y"), 9),
    (("zone", "x"), 2),
    (("zone",), 2),
    (("tolerances",), 4),
    (("tolerances", "amount"), 4),
    (("tolerances", "amount", "below"), 5),
    (("tolerances", "amount", "above"), 7),
    (("tolerances", "fee"), 9),
    (("tolerances", "fee", "below"), 9),
    (("tolerances", "amount received", "above"), 10),
    (("accepted",), 12),
    (("accepted", 0, "code"), 13),
    (("accepted", 0, "reason"), 14),
    (("accepted", 0, "owner"), 18),
    (("accepted", 1), 20),
    (("accepted", 1, "code"), 21),
    (("accepted", 1, "list"), 22),
    (("accepted", 1, "list", 1, "x"), 22),
    (("accepted", 1, "more", "z"), 27),
)


def test_line():
    """Headers, dotted keys, inline tables and values of several lines are on the line where they begin."""
    for end in ("\n", "\r\n"):
        check_table(LINES, lambda key, end=end: line_of(TEXT_TOML_LINES.replace("\n", end), key))


@given(before=st.lists(st.sampled_from(["", "# x", "a = 1"]), max_size=40), after=st.integers(0, 40))
def test_anywhere(before, after):
    """A key is reported with its line, with any text before and after it."""
    lines = [f"{line.replace('a', f'a{place}')}" for place, line in enumerate(before)]
    text = "\n".join([*lines, "key = 1", *["# y"] * after])
    assert line_of(text, ("key",)) == len(lines) + 1


def test_ledger():
    """The table `ledger` declares how a ledger is written; JSON keeps all of it."""
    rules = parse_rules('[ledger]\nencoding = "cp1252"\nheader_row = 4\nthousands = "space"\n')
    assert rules == Rules(ledger=Dialect(encoding="cp1252", header_row=4, thousands="space"))
    assert rules_from_json(rules_as_json(rules)) == rules
    assert rules.fingerprint == STRICT.fingerprint  # it does not change how a row is judged


STATEMENT = """
[statement]
settles_within = "3d"
ignore_columns = ["Total"]
new_lines_only = true
[statement.columns]
reference = "Psp Reference"
[statement.reading]
decimal = ","
[statement.kind]
column = "Type"
charge = ["Settled"]
refund = ["Refunded"]
ignore = ["MerchantPayout"]
"""


def test_statement():
    """A statement has its own columns, ways of writing, kinds and time; JSON keeps all of it."""
    rules = parse_rules(STATEMENT)
    statement = rules.statement
    assert (statement.settles_within, statement.new_lines_only) == (timedelta(days=3), True)
    assert (statement.columns, statement.reading.decimal) == ({"reference": "Psp Reference"}, ",")
    assert [statement.kind_of(word) for word in ("settled", "REFUNDED", "x")] == [Kind.CHARGE, Kind.REFUND, None]
    assert StatementRules().kind_of("anything") is Kind.CHARGE
    assert rules_from_json(rules_as_json(rules)) == rules
    assert rules.fingerprint != STRICT.fingerprint
    assert "statement" not in rules_as_json(STRICT)


def test_calendar():
    """A rules file lists holidays, as dates or as text; JSON keeps them in order."""
    rules = parse_rules(
        'grace = "1 business day"\nstatement.settles_within = "2 business days"\n'
        "[calendar]\nholidays = [2027-01-01, '2026-12-25']\n"
    )
    assert rules.calendar == Calendar(holidays=[date(2026, 12, 25), date(2027, 1, 1)])
    assert (rules.grace, rules.statement.settles_within) == (BusinessDays(1), BusinessDays(2))
    plain = rules_as_json(rules)
    assert plain["calendar"] == {"holidays": ["2026-12-25", "2027-01-01"]}
    assert rules_from_json(plain) == rules
    assert rules.fingerprint != attrs.evolve(rules, calendar=Calendar()).fingerprint
    assert "calendar" not in rules_as_json(STRICT)

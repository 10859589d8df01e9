"""A rules file is read exactly, or refused with its line and its key."""

from __future__ import annotations

from datetime import UTC, date, timedelta, timezone
from decimal import Decimal
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.ledger import Dialect
from payclient.reconcile import (
    STRICT,
    Accepted,
    FeeSchedule,
    Rules,
    RulesError,
    Tolerance,
    parse_rules,
    read_rules,
    rules_as_json,
    rules_from_json,
)
from payclient.reconcile.rules._rules_file import line_of
from support.chance import examples

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
    accepted=[
        Accepted(
            code="underpaid",
            reference="T1",
            reason="agreed",
            owner="Ana",
            expires=date(2026, 12, 31),
            ledger=100,
            service=99,
        ),
    ],
)


def refusal(text):
    with pytest.raises(RulesError) as caught:
        parse_rules(text, name="rules.toml")
    return str(caught.value), caught.value.line


def test_everything():
    """Every key means what it says."""
    assert parse_rules(TEXT) == RULES


@pytest.mark.parametrize("text", ["", "# nothing\n", "[accepted]\n".replace("[accepted]", "accepted = []")])
def test_nothing(text):
    """A file without rules is strict."""
    assert parse_rules(text) == STRICT


@pytest.mark.parametrize(
    "content",
    [TEXT.encode(), TEXT.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + TEXT.encode()],
)
def test_file(tmp_path, content):
    """A file may have a byte order mark and the line ends of any system."""
    (tmp_path / "rules.toml").write_bytes(content)
    assert read_rules(tmp_path / "rules.toml") == RULES


REFUSED = (
    (
        "below = 500",
        "below = -500",
        9,
        "tolerances.amount.below must be a whole number that is not negative, got -500",
    ),
    (
        "below = 500",
        "below = 1.5",
        9,
        "tolerances.amount.below must be a whole number that is not negative, got 1.5",
    ),
    (
        "below = 500",
        "below = true",
        9,
        "tolerances.amount.below must be a whole number that is not negative, got True",
    ),
    (
        "below = 500",
        "beneath = 500",
        9,
        "tolerances.amount: there is no key 'beneath'; the keys are above, below, ",
    ),
    ("0.5\n", "nan\n", 10, "tolerances.amount.above_percent must be a percentage from 0 to 100 "),
    ("{ above = 1 }", "1", 12, "tolerances.fee must be a table of keys and values, got 1"),
    ("above = 1 ", "up = 1 ", 12, "tolerances.fee: there is no key 'up'"),
    ("fee =", "fees =", 12, "tolerances: there is no field 'fees'; the fields are amount, fee, amount_received"),
    ('"36h"', "36", 2, "grace must be a duration such as '90m', '12h' or '1d 12h', or '2 business days', got 36"),
    ('"36h"', '"36"', 2, "grace must be a duration such as"),
    ('"36h"', '""', 2, "grace must be a duration such as"),
    (
        "Asia/Jakarta",
        "Asia/Nowhere",
        1,
        "time_zone must be a name such as Asia/Jakarta, or an offset such as +07:00, got ",
    ),
    ("Asia/Jakarta", "../../etc", 1, "time_zone must be a name"),
    ("Asia/Jakarta", "Asia", 1, "time_zone must be a name"),
    ("Asia/Jakarta", "", 1, "time_zone must be a name"),
    (
        "[columns]",
        "[column]",
        6,
        "there is no key 'column'; the keys are time_zone, grace, calendar, assume_status, ",
    ),
    ("amount =", "sum =", 7, "columns: there is no field 'sum'"),
    ('"Betrag"', "3", 7, "columns.amount must be the name of a column, got 3"),
    ('"paid"', '"paidd"', 14, "statuses.Settled must be one of paid, pending, "),
    ("Settled", "Canceled", 14, "statuses.Canceled must not be paid: 'Canceled' always means canceled"),
    ("Settled", "1", 14, "statuses: '1' is not a word"),
    ('"up"', '"even"', 18, "fees.VA.rounding must be one of half_up, up, down, got 'even'"),
    (
        "[fees.VA]",
        "[fees.VA]\nmaximum = 1\nminimum = 2",
        16,
        "fees.VA.maximum must be at least the minimum 2, got 1",
    ),
    ("[[accepted]]", "[accepted]", 19, "accepted must be a list of tables, each under [[accepted]]"),
    ('owner = "Ana"\n', "", 19, "accepted has no owner; owner must be given"),
    ('"agreed"', '""', 24, "accepted.reason must be text that is not empty, got ''"),
    ("2026-12-31", "2026-12-31T10:00:00", 26, "accepted.expires must be a date such as 2026-12-31, got "),
    (
        "ledger = 100\nservice = 99\n",
        "",
        19,
        "accepted.largest_difference must be given, or both ledger and service",
    ),
    ("ledger = 100\n", "", 19, "accepted.largest_difference must be given, or both ledger and service"),
    ("service = 99", "service = 9.9", 23, "accepted.service must be text or a whole number"),
    ("underpaid", "underpaidd", 20, "accepted.code must be one of "),
    ('["amount"]', '"amount"', 3, "require must be a list of texts, each with a word in it, got 'amount'"),
    ('["amount"]', '["sum"]', 3, "require: there is no field 'sum'; the fields are "),
    ('["Rabatt"]', "[1]", 4, "ignore_columns must be a list of texts, each with a word in it, got "),
    ('["Kode tak dikenal"]', '["…"]', 5, "not_found_messages must be a list of texts, each with a word in it"),
    ("flat = 4000", "flat = ", 16, "it is not TOML: Invalid value"),
    ("flat = 4000", "flat = 1\nflat = 2", 17, "it is not TOML: Cannot overwrite a value"),
)


def test_refused(subtests):
    """The first fault is named with its line, its key and what to write instead."""
    for old, new, line, message in REFUSED:
        with subtests.test(old=old, new=new):
            found, found_line = refusal(TEXT.replace(old, new, 1))
            assert found.startswith(f"rules.toml, line {line}: {message}")
            assert found_line == line


def test_twice():
    """A difference that is accepted twice is refused at its second place."""
    block = TEXT[TEXT.index("[[accepted]]") :]
    assert refusal(TEXT + block) == (
        "rules.toml, line 27: accepted: underpaid of 'T1' is listed twice; keep one, with one last day",
        27,
    )


@pytest.mark.parametrize("text", ["a = [" * 5000, "a = " + "9" * 5000, "\x00", "a = '\n"])
def test_no_toml(text):
    """Text that is not TOML is refused as such."""
    assert "it is not TOML" in refusal(text)[0]


def test_hostile():
    """A name or a value of a file cannot act on the terminal that shows the message."""
    assert refusal('"\\u001b[2J\\u202e" = 1')[0].isprintable()
    assert refusal('[fees."\\u001b[2J"]\nflat = "\\u202e"')[0].isprintable()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UTC", UTC),
        ("+07:00", timezone(timedelta(hours=7))),
        ("UTC-03:30", timezone(-timedelta(hours=3, minutes=30))),
        ("Europe/Berlin", ZoneInfo("Europe/Berlin")),
    ],
)
def test_time_zone(text, expected):
    """A time zone has a name, or is an offset from UTC."""
    assert parse_rules(f'time_zone = "{text}"').time_zone == expected


def test_grace(subtests):
    """A duration is days, hours, minutes and seconds, in this order."""
    cases = (("90m", 5400), ("1d 12h", 129600), ("2h30m", 9000), ("5s", 5), ("0s", 0), (" 3d ", 259200))
    for text, seconds in cases:
        with subtests.test(text=text, seconds=seconds):
            assert parse_rules(f'grace = "{text}"').grace == timedelta(seconds=seconds)


def test_no_grace(subtests):
    """What is no duration is refused."""
    cases = ("-1h", "1.5h", "1 week", "12", "1h 1d", "1h1h", "٣h", "1h "[:0])
    for text in cases:
        with subtests.test(text=text):
            assert "grace must be a duration" in refusal(f'grace = "{text}"')[0]


def test_quoted():
    """Percentages and days may stand in quotes, as they do in JSON."""
    text = TEXT.replace("0.5\n", '"0.5"\n').replace("2026-12-31", '"2026-12-31"')
    assert parse_rules(text) == RULES


def test_no_file(tmp_path):
    """A file that cannot be read is refused by its name, without its folder."""
    with pytest.raises(RulesError, match=r"^the rules file none.toml cannot be read: No such file or directory$"):
        read_rules(tmp_path / "none.toml")


def test_other_encoding(tmp_path):
    """A file in another encoding is refused with the line."""
    (tmp_path / "rules.toml").write_bytes(b"a = 1\nb = '\xe9'\n")
    with pytest.raises(RulesError, match=r"^rules.toml, line 2: it is not UTF-8"):
        read_rules(tmp_path / "rules.toml")


def test_too_large(tmp_path):
    """A file that is no rules file is not read to its end."""
    (tmp_path / "ledger.csv").write_bytes(b"#" * (4 * 2**20 + 1))
    with pytest.raises(RulesError, match=r"has more than 4194304 bytes"):
        read_rules(tmp_path / "ledger.csv")


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
    ],
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


def test_line(subtests):
    """Headers, dotted keys, inline tables and values of several lines are on the line where they begin."""
    for (key, line), end in product(LINES, ("\n", "\r\n")):
        with subtests.test(key=key, line=line, end=end):
            assert line_of(TEXT_TOML_LINES.replace("\n", end), key) == line


@pytest.mark.parametrize(
    ("key", "line"),
    [(("accepted", 1, "owner"), 20), (("tolerances", "fee", "x", "y"), 9), (("zone", "x"), 2)],
)
def test_missing(key, line):
    """A key that is not there is where the table around it begins."""
    assert line_of(TEXT_TOML_LINES, key) == line


@pytest.mark.parametrize("key", [(), ("nothing",), ("accepted ", 0)])
def test_nowhere(key):
    """What is in no table has no line."""
    assert line_of(TEXT_TOML_LINES, key) == 0


@given(before=st.lists(st.sampled_from(["", "# x", "a = 1"]), max_size=40), after=st.integers(0, 40))
def test_anywhere(before, after):
    """A key is reported with its line, with any text before and after it."""
    lines = [f"{line.replace('a', f'a{place}')}" for place, line in enumerate(before)]
    text = "\n".join([*lines, "key = 1", *["# y"] * after])
    assert line_of(text, ("key",)) == len(lines) + 1


def test_ledger():
    """The table `ledger` declares how a ledger is written, over a profile if it names one; JSON keeps all of it."""
    rules = parse_rules('[ledger]\nprofile = "excel-de"\nheader_row = 4\nthousands = "space"\n')
    assert rules == Rules(ledger=Dialect.named("excel-de", header_row=4, thousands="space"))
    assert rules_from_json(rules_as_json(rules)) == rules
    assert rules.fingerprint == STRICT.fingerprint  # it does not change how a row is judged


def test_unusable_ledger(subtests):
    """What cannot be declared is refused with its line and its key."""
    cases = (
        ("[ledger]\ndecimals = 1", 2, "ledger: there is no key 'decimals'; the keys are profile, encoding, "),
        ('[ledger]\nencoding = "utf-8"\ndecimal = ";"', 3, "ledger.decimal must be one of . and , got ';'"),
        ('[ledger]\ndecimal = ","\nthousands = ","', 2, "ledger.decimal and thousands must differ"),
        ('[ledger]\nprofile = "excel-xx"', 2, "ledger.profile must be one of excel-de, "),
        ("[ledger]\nprofile = []", 2, "ledger.profile must be one of excel-de, "),
        ('[ledger]\ndate_format = ["%d/%m"]', 2, "ledger.date_format must have day, month and year"),
        ("ledger = 3", 1, "ledger must be a table of keys and values, got 3"),
    )
    for text, line, message in cases:
        with subtests.test(text=text, line=line):
            with pytest.raises(RulesError) as caught:
                parse_rules(text, name="rules.toml")
            assert str(caught.value).startswith(f"rules.toml, line {line}: {message}")

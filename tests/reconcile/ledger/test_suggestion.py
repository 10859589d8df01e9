"""What would read a ledger is suggested only if every cell agrees, and two ways are called ambiguous."""

import random
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.ledger import Dialect
from payclient.reconcile.ledger._notation import Suggester, TimeFormat, TimeReader, _read_all, candidates
from reconcile.ledger.test_money import MARKS
from support.chance import examples
from support.ledgers import opened


def suggested(*cells, column="amount", **declared):
    """Return the suggestions for a ledger with one column of *cells*."""
    rows = [f'T{place},"{cell}"' for place, cell in enumerate(cells)]
    text = "\n".join([f"reference,{column}", *rows])
    with opened(text, dialect=Dialect(**declared)) as ledger:
        list(ledger)
        return [str(each) for each in ledger.suggestions]


def test_amounts(subtests):
    """One notation that reads every amount is suggested with what it makes of the first."""
    for cells, options in [
        (("15.000,00", "7.000,00"), "--decimal , --thousands ."),
        (("15.000", "1.250.000"), "--thousands ."),
        (("1,250,000.00", "15000"), "--thousands ,"),
        (("Rp 15.000,00", "Rp7.000,00"), "--decimal , --thousands . --currency-prefix Rp"),
        (("15\u202f000,00 €", "7,00 €"), "--decimal , --thousands space --currency-suffix '€'"),
        (("1'500'000", "7"), "--thousands apostrophe"),
        (("(1,250,000)", "1,250,000"), "--thousands , --negative parentheses"),
        (("1.250.000-", "7"), "--thousands . --negative trailing"),
        (("1.250.000,-", "7"), "--decimal , --thousands ."),
        (("15000,00",), "--decimal ,"),
        (("1,250,000 CR", "7 DB"), "--thousands , --negative debit"),
        (("1,250,000 DB", "7 DB"), "--thousands , --negative debit"),
        (("CR 15000", "DB 20000"), "--negative debit"),
        (("CR Rp 15.000", "DB Rp 20.000,00"), "--decimal , --thousands . --negative debit --currency-prefix Rp"),
        (("C15000", "D20000"), "--negative debit"),
        (("Soll 15000", "7"), "--negative debit"),
        (("S$ 15000", "7"), "--currency-prefix 'S$'"),
        (("S/ 15000", "S/ 7"), "--currency-prefix S/"),
    ]:
        with subtests.test(cells=cells):
            (text,) = suggested(*cells)
            assert f"all can be read with {options} (first: " in text


def test_sentence():
    """The sentence counts the rows, and shows the first refused amount and what it would be."""
    (text,) = suggested("500", "15.000,00", "7.000,00")
    assert text == (
        "2 rows have amounts that cannot be read: all can be read with --decimal , --thousands . (first: "
        "'15.000,00' → 15000)"
    )


def test_empty_cells():
    """A text for an empty cell is suggested where a cell may be empty; an amount may not, so nothing reads it."""
    (text,) = suggested("1,250,000", "NULL", column="fee")
    assert "all can be read with --thousands , --null NULL (first: " in text
    assert suggested("1,250,000", "NULL") == []


def test_ambiguous_amount():
    """Fifteen and fifteen thousand are both named, with the option for each; one clear row decides."""
    (text,) = suggested("15.000", "7.500")
    assert "all can be read with --thousands ." in text  # seven and a half is not an amount
    (text,) = suggested("15.000", "7.000")
    assert text == (
        "2 rows have amounts that cannot be read. They are ambiguous: "
        "all can be read with --thousands . ('15.000' → 15000) "
        "or --decimal . ('15.000' → 15), so declare the right one"
    )


def test_no_suggestion(subtests):
    """Rows that no notation reads together get none."""
    for cells in [
        ("15.000,00", "7,000.00"),
        ("Rp 15.000", "USD 7.000"),
        ("15.000,50", "1.000"),
        ("1.23457E+15",),
        ("abc", "15.0000,0"),
        ("1.2.3", "15,000"),
        ("K 15000", "K 20000"),  # a direction before amounts, or a currency
        ("D15000", "D20000"),
        ('=""15000""',),
        ("15000**", "15000"),
    ]:
        with subtests.test(cells=cells):
            assert suggested(*cells) == []


def test_no_need():
    """A ledger in which no amount is refused gets no suggestion; nor one whose declaration reads it."""
    assert suggested("15000.00", "7") == []
    assert suggested("15.000", decimal=",", thousands=".") == []


def test_beyond_what_is_declared():
    """What is declared stays, and only what is missing is suggested."""
    (text,) = suggested("15.000,00", thousands=".")
    assert "all can be read with --decimal , (first: " in text


def test_times(subtests):
    """One order of day, month and year that fits every time is suggested."""
    for cells, options in [
        (("20/11/2026", "01/02/2026"), "--date-format %d/%m/%Y"),
        (("11/20/2026 2:05 PM",), "--date-format '%m/%d/%Y %I:%M %p'"),
        (("20.11.2026", "20.11.2026 14:05"), "--date-format %d.%m.%Y --date-format '%d.%m.%Y %H:%M'"),
        (("20 Nov 2026",), "--date-format '%d %b %Y'"),
        (("20-Nov-26 02.05.09 PM",), "--date-format '%d-%b-%y %I.%M.%S %p'"),
        (("20-Nov-26",), "--date-format %d-%b-%y"),
        (("2026/11/20",), "--date-format %Y/%m/%d"),
        (("31/12/99",), "--date-format %d/%m/%y"),
    ]:
        with subtests.test(cells=cells):
            (text,) = suggested(*cells, column="created_at")
            assert f"all can be read with {options} (first: " in text


@pytest.mark.parametrize(
    ("cells", "ways"),
    [
        (("10/11/2026", "09/09/2026"), ["--date-format %d/%m/%Y ('10/11/2026' → 2026-11-10 00:00:00)", "%m/%d/%Y"]),
        (("2026/10/11",), ["--date-format %Y/%m/%d", "--date-format %Y/%d/%m"]),
        (("20/11/26",), ["--date-format %d/%m/%y", "--date-format %y/%m/%d"]),
    ],
)
def test_ambiguous_times(cells, ways):
    """Orders that fit every time and differ are all named."""
    (text,) = suggested(*cells, column="created_at")
    assert "They are ambiguous: " in text
    assert [way for way in ways if way not in text] == []


def test_no_format():
    """Times in two orders, beside readable ones, or that no order reads get no suggestion."""
    many = [("20/11/2026", other) for other in ("11/20/2026", "2026-11-20", "yesterday")]
    assert [cells for cells in (*many, ("31/02/2026",)) if suggested(*cells, column="created_at")] == []


def test_typed_cell():
    """A refused cell that is not text is not one that a notation would read, so there is no suggestion."""
    lines = '{"reference": "T1", "amount": "1.250.000"}\n{"reference": "T2", "amount": 1.5}\n'
    for text, count in ((lines, 0), (lines.replace("1.5", "15"), 1)):
        with opened(text) as ledger:
            list(ledger)
            assert len(ledger.suggestions) == count


def test_repeated_header():
    """A header that is repeated is not a text for an empty cell."""
    assert "--null" not in suggested("1.250.000", "amount", "15.000")[0]


def test_name_of_the_column():
    """A cell with the name of its column, part of a repeated header, is counted in no suggestion and stops none."""
    text = '{{"reference": "T1", "amount": "{}"}}\n{{"reference": "T2", "amount": "amount"}}\n'
    for amount, count in (("\u22125", 0), ("1.250.000", 1)):
        with opened(text.format(amount)) as ledger:
            list(ledger)
            assert [each.rows for each in ledger.suggestions] == [1] * count


MANY = st.lists(st.tuples(st.integers(0, 10**9), st.booleans()), min_size=1, max_size=6)


@given(st.data(), MANY)
@examples(300)
def test_nothing_is_guessed(data, amounts):
    """If a suggestion is not called ambiguous, no notation reads every amount and one of them differently."""
    decimal = data.draw(st.sampled_from([None, ".", ","]))
    mark = data.draw(st.sampled_from([each for each in MARKS if each is None or each != decimal]))
    cells = [_cell(number, MARKS[mark] if is_grouped else "", decimal) for number, is_grouped in amounts]
    suggester = Suggester(Dialect())
    for cell in cells:
        if not cell.isdigit():
            suggester.add_amount(cell)
    suggester.refuse({"amounts": cells[0]})
    found = list(suggester.suggestions())
    ways = {values for each in candidates(cells, Dialect()) if (values := _read_all(cells, each)) is not None}
    if found and not found[0].is_ambiguous:
        assert len(ways) == 1
    if not found:  # the plain notation reads them, or none does
        assert len(ways) <= 1 or all(cell.isdigit() for cell in cells)


def _cell(number, mark, decimal):
    digits = str(number)
    groups = [digits[max(place - 3, 0) : place] for place in range(len(digits), 0, -3)][::-1]
    return mark.join(groups) + (f"{decimal}00" if decimal else "")


def test_memory_is_flat():
    """The shapes of amounts are remembered, not the amounts: a hundred thousand of them are a few."""
    suggester = Suggester(Dialect())
    numbers = random.Random(7)
    for _ in range(20_000):
        suggester.add_amount(f"{numbers.randrange(10, 99)}.{numbers.randrange(100, 999)},00")
    assert len(suggester._seen["amounts"].cells) < 20


DAYS = {
    f"{one}{mark}{two}{mark}{three}"
    for mark in ("/", ".", "-")
    for year in ("%Y", "%y")
    for one, two, three in (("%d", "%m", year), ("%m", "%d", year), (year, "%m", "%d"), (year, "%d", "%m"))
    if (mark, one) != ("-", "%Y")  # it is read without a declaration
}
NAMED = {"%d %b %Y", "%b %d, %Y", "%d-%b-%y"}
CLOCKS = ["", " %H:%M", "T%H:%M:%S", " %H.%M", " %I:%M %p"]


@given(
    st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)), min_size=1, max_size=4),  # noqa: DTZ001
    st.sampled_from(sorted(DAYS | NAMED)),
    st.sampled_from(CLOCKS),
)
@examples(300)
def test_no_time_is_guessed(times, day, clock):
    """A suggestion for times is ambiguous exactly if two orders of day, month and year read every cell, differently."""
    cells = [time.strftime(f"{day}{clock}") for time in times]
    suggester = Suggester(Dialect())
    for cell in cells:
        suggester.add_time(cell)
    suggester.refuse({"times": cells[0]})
    (found,) = suggester.suggestions()
    forms = [TimeFormat(f"{each}{clock}") for each in DAYS | NAMED]
    ways = {read for form in forms if None not in (read := tuple(map(form.read, cells)))}
    assert tuple(map(TimeFormat(f"{day}{clock}").read, cells)) in ways
    assert found.is_ambiguous == (len(ways) > 1)
    for reading in found.remedies:
        reader = TimeReader(tuple(way.value for way in reading.ways))
        assert tuple(map(reader.read_creation, cells)) in ways

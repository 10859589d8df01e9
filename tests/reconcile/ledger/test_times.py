"""A time is read in the format that is declared, or refused."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.ledger import CellProblem
from payclient.reconcile.ledger._notation import TimeFormat, TimeReader
from support.chance import examples
from support.misses import check_refused, check_table

NAIVE = datetime.fromisoformat


def test_formats():
    """Each part is read by its own rule, with the months of five languages."""
    check_table(
        [
            ("%d/%m/%Y", "20/11/2026", NAIVE("2026-11-20")),
            ("%d/%m/%Y", "1/2/2026", NAIVE("2026-02-01")),
            ("%m/%d/%y %I:%M %p", "11/20/26 2:05 PM", NAIVE("2026-11-20 14:05")),
            ("%m/%d/%y %I:%M %p", "11/20/26 12:05 AM", NAIVE("2026-11-20 00:05")),
            ("%d.%m.%Y %H:%M:%S", "20.11.2026 14:05:09", NAIVE("2026-11-20 14:05:09")),
            ("%d %b %Y", "20 Nop 2026", NAIVE("2026-11-20")),
            ("%d. %B %Y", "20. März 2026", NAIVE("2026-03-20")),
            ("%d-%b-%y", "20-déc.-26", NAIVE("2026-12-20")),
            ("%d-%m-%y", "20-11-99", NAIVE("1999-11-20")),
            ("%d.%m.%y", "01.02.68", NAIVE("2068-02-01")),  # two digits mean 1969 to 2068, as documented
            ("%d.%m.%y", "01.02.69", NAIVE("1969-02-01")),
            ("%d.%m.%y", "01.02.00", NAIVE("2000-02-01")),
            ("%Y%m%d%H%M%S", "20261120140509", NAIVE("2026-11-20 14:05:09")),
            ("%Y-%m-%dT%H:%M:%S%z", "2026-11-20T14:05:09Z", datetime(2026, 11, 20, 14, 5, 9, tzinfo=UTC)),
            ("%Y-%m-%d %H:%M:%S.%f", "2026-11-20 14:05:09.123456789", NAIVE("2026-11-20 14:05:09.123456")),
        ],
        lambda text, cell: TimeFormat(text).read(cell),
    )


def test_other_texts():
    """A day that does not exist, and anything written in another way, is not read."""
    cells = ["31/02/2026", "20/13/2026", "20-11-2026", "20/11/26", "20/11/2026 10:00", "\u0662/1/2026"]
    assert [cell for cell in cells if TimeFormat("%d/%m/%Y").read(cell)] == []


def test_unusable_formats():
    """A format without a whole date, or with a part of doubtful meaning, is refused."""
    texts = ["%d/%m", "%q", "", *(f"%d/%m/%Y {part}" for part in ("%d", "%I:%M", "%M", "%p", "%")), "%Y/%y/%m/%d"]
    check_refused([(text, "date_format") for text in texts], ValueError, TimeFormat)


def test_two_formats():
    """With several formats, a cell that two of them read differently is refused, and others are read."""
    reader = TimeReader(("%d/%m/%Y", "%m/%d/%Y"))
    assert reader.read_creation("20/11/2026") == NAIVE("2026-11-20")
    assert reader.read_creation("11/11/2026") == NAIVE("2026-11-11")
    with pytest.raises(CellProblem, match="is another day with each of"):
        reader.read_creation("10/11/2026")


@pytest.mark.parametrize(
    ("text", "cell", "reason"),
    [
        ("%d/%m/%Y", "20/11/2026", "without a time of day"),
        ("%d/%m/%Y %H:%M%z", "20/11/2026 10:00+07:00", "has a time zone"),
        ("%d/%m/%Y %H:%M:%S.%f", "20/11/2026 10:00:00.5", "fraction of a second"),
        ("%d/%m/%Y %H:%M", "2026-11-20 10:00", "is not a time written '%d/%m/%Y %H:%M'"),
    ],
)
def test_expiry(text, cell, reason):
    """An expiry has a time of day, no zone and no fraction, whatever its format."""
    with pytest.raises(CellProblem, match=reason):
        TimeReader((text,)).read(cell)


@given(
    st.datetimes(NAIVE("1970-01-01"), NAIVE("2068-12-31")),
    st.sampled_from(["%d/%m/%Y", "%m-%d-%Y", "%Y.%m.%d", "%d.%m.%y", "%d %b %Y", "%B %d, %Y"]),
    st.sampled_from(["", " %H:%M:%S", "T%H:%M:%S", " %I:%M:%S %p"]),
    st.sampled_from([0, 7, -9]),
)
@examples(300)
def test_round_trip(time, day, clock, zone):
    """A time that is written in any declared format is read back as it was."""
    form, time = f"{day}{clock}", time.replace(microsecond=0)
    written = time.strftime(form)
    if zone and clock:
        form, written = f"{form} %z", f"{written} {'+' if zone > 0 else '-'}{abs(zone):02}:00"
    read = TimeReader((form,)).read_creation(written)
    assert read.replace(tzinfo=None) == (time if clock else time.replace(hour=0, minute=0, second=0))
    assert read.utcoffset() == (timedelta(hours=zone) if zone and clock else None)


MONTHS = {
    "English": "January February March April May June July August September October November December",
    "Indonesian": "Januari Februari Maret April Mei Juni Juli Agustus September Oktober November Desember",
    "German": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "Austrian": "Jänner Februar Mrz Apr. Mai Jun Jul Aug. Sept. Okt. Nov. Dez.",
    "French": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "Spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "short Indonesian": "Jan Feb Mar Apr Mei Jun Jul Ags Sep Okt Nov Des",
    "short French": "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
    "short Spanish": "ene feb mar abr may jun jul ago sept oct nov dic",
}


def test_months():
    """The names of the months are known in five languages, and abbreviated."""
    known = {(name, number) for names in MONTHS.values() for number, name in enumerate(names.split(), 1)}
    assert {(name, TimeFormat("%d %b %Y").read(f"7 {name} 2026").month) for name, _ in known} == known

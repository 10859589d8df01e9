"""Each profile that comes with the package reads a file of its kind."""

from __future__ import annotations

import io
from datetime import datetime

import pytest

from payclient.ledger import Dialect, Entry, open_ledger, profiles
from payclient.ledger._columns import FIELDS

NAIVE = datetime.fromisoformat
FILES = {
    "excel-de": (
        "Referenz;Betrag;Gebühren;Datum\nT1;15.000,00 €;2.500,00;20.11.2026 14:05\nT2;7.000;0;01.02.2026\n".encode(
            "cp1252"
        ),
        [
            Entry(line=2, reference="T1", amount=15000, fee=2500, created_at=NAIVE("2026-11-20 14:05")),
            Entry(line=3, reference="T2", amount=7000, fee=0, created_at=NAIVE("2026-02-01")),
        ],
    ),
    "excel-fr": (
        "Référence;Montant;Date de création\nT1;15\u00a0000,00 €;20/11/2026\n".encode("cp1252"),
        [Entry(line=2, reference="T1", amount=15000, created_at=NAIVE("2026-11-20"))],
    ),
    "excel-id": (
        b"Kode Referensi;Jumlah;Tanggal\nT1;Rp15.000,00;20/11/2026 14.05\n",
        [Entry(line=2, reference="T1", amount=15000, created_at=NAIVE("2026-11-20 14:05"))],
    ),
}


@pytest.mark.parametrize("name", profiles())
def test_profile(name):
    """The file is read as it is meant, without a warning."""
    data, entries = FILES[name]
    with open_ledger(io.BytesIO(data), dialect=Dialect.named(name)) as ledger:
        assert (list(ledger), ledger.warnings) == (entries, ())


@pytest.mark.parametrize("name", profiles())
def test_profile_is_usable(name):
    """A profile declares what a ledger can have, for fields that there are."""
    assert Dialect.named(name).profile == name
    assert set(profiles()[name].columns) <= set(FIELDS)


def test_byte_order_mark():
    """A byte order mark says that the file is UTF-8, so a profile reads what the program saves as UTF-8 too."""
    data = "\ufeffReferenz;Gebühren\nT1;2.500,00\n".encode()
    with open_ledger(io.BytesIO(data), dialect=Dialect.named("excel-de")) as ledger:
        assert [row.fee for row in ledger] == [2500]


def test_unknown_profile():
    """A profile that does not exist is refused, and those that do are named."""
    with pytest.raises(ValueError, match="profile must be one of excel-de, "):
        Dialect.named("excel-xx")

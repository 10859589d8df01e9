"""What the cells of an unused column may be: money, or a word that decides what a row means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from unicodedata import category

from attrs import define, field

from payclient.ledger._cells import BLANK, CellProblem
from payclient.ledger._columns import normalise_name
from payclient.ledger._dialect import Dialect
from payclient.ledger._direction import MAX_WORDS, ONLY_TOGETHER, SIDES, opposites, sign_of
from payclient.ledger._money import MoneyReader
from payclient.ledger._suggestion import candidates, shape_of

_MAX_CELLS = 1000
_MAX_SHAPES = 5000
_MAX_WORDS = 50
_MAX_LENGTH = 40
_MAX_SYMBOL = 4
_ANY = Dialect(minor_units=4)
_FILLED = re.compile("[1-9]")
_LETTERS = re.compile(r"[^\d\s.,'\u2019()+\u2212\u2013\u2014-]+")
_DECORATION = re.compile(
    r"^=?\"|\"$|^=(?=[0-9])|^\*+|\*+$|\s*\((?:cr|dr|db|c|d|h|s|k)\)$",
    re.IGNORECASE,
)
"""What programs put around an amount besides what can be declared."""
_LETTER = re.compile(r"^[cdhsk](?=[-+]?[0-9])", re.IGNORECASE)
_NUMERIC = "0123456789.,\u2019' "
_CODE = re.compile(r"0\d+|\d{13,}")
_YEARS = range(1900, 2101)
_CURRENCIES = frozenset(
    " ".join(
        (
            "aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd btn bwp byn bzd cad",
            "cdf chf clp cny cop crc cup cve czk djf dkk dop dzd egp ern etb eur fjd fkp gbp gel ghs gip gmd gnf gtq",
            "gyd hkd hnl htg huf idr ils inr iqd irr isk jmd jod jpy kes kgs khr kmf kpw krw kwd kyd kzt lak lbp lkr",
            "lrd lsl lyd mad mdl mga mkd mmk mnt mop mru mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen",
            "pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sdg sek sgd shp sle sos srd ssp stn svc syp szl thb",
            "tjs tmt tnd top try ttd twd tzs uah ugx usd uyu uzs ves vnd vuv wst xaf xcd xof xpf yer zar zmw zwg",
            "euro euros dollar dollars rupiah franken franc francs peso pesos real reais pound pounds yen rupees",
            "rp rs rm kr fr sfr ft k\u010d z\u0142 lei tl",
        ),
    ).split(),
)


_DASHES = frozenset({"-", "\u2013", "\u2212"})
_NEGATIONS = frozenset({"not", "nicht", "belum"})
_BOOKED = frozenset({"booked", "gebucht", "posted", "cleared"})
_FLAG_ENDS = frozenset({"indicator", "ind", "flag", "kz", "kennzeichen", "indikator", "indicador", "indicateur"})
_NO_SIGN_OF_FLAG = frozenset({"in", "out"})  # opt_in, sold_out
_YES = ("yes y true t 1 x ja j wahr", "ya benar oui o vrai si verdadero sim verdadeiro")
_NO = ("no n false f 0 nein falsch", "tidak salah non faux falso nao")
_FLAGS: Mapping[str, bool] = MappingProxyType(
    {**dict.fromkeys(" ".join(_YES).split(), True), **dict.fromkeys(" ".join(_NO).split(), False)}
)


class Decides(StrEnum):
    """What the words of a column may decide."""

    SIGN = "the sign of amounts"
    KIND = "what a line is"
    STATE = "whether a line is booked"


def _words(what: Decides, *texts: str) -> dict[str, Decides]:
    return dict.fromkeys(" ".join(texts).split(), what)


_MEANINGS: Mapping[str, Decides] = MappingProxyType(
    {
        **_words(
            Decides.KIND,
            "refund refunds refunded chargeback chargebacks dispute reversal reversed rvsl rvslind payout payouts",
            "withdrawal disbursement adjustment fee fees void voided pengembalian pencairan penarikan pembatalan biaya",
            "storno stornierung erstattung ruckerstattung rueckerstattung rucklastschrift ruecklastschrift auszahlung",
            "entgelt gebuhr gebuehr",
            "remboursement annulation frais reembolso devolucion retiro contracargo anulacion comision",
        ),
        **_words(
            Decides.STATE,
            "pending pdng unbooked uncleared unposted announced expected provisional vorgemerkt angekundigt",
            "angekuendigt tertunda attente prevu pendiente previsto",
        ),
    },
)


@define
class Evidence:
    """
    The cells of one unused column; memory does not grow with the ledger.

    Attributes:
        name: Of the column.
        place: Its position.
        looks_for_money: Whether money is looked for in every cell, and not only words.
        seen: Texts of cells that need not be added again.
    """

    name: str
    place: int
    looks_for_money: bool
    has_formatted: bool = field(init=False, default=False)
    """Whether a cell can be read as an amount, and not as a mere number."""
    seen: set[str] = field(init=False, factory=set)
    _has_empty: bool = field(init=False, default=False)
    _has_lettered: bool = field(init=False, default=False)
    """Whether a cell is such an amount behind one letter, which is as often a code."""
    _shapes: dict[str, tuple[bool, bool]] = field(init=False, factory=dict)
    _not_money: set[str] = field(init=False, factory=set)
    """Texts around digits that are never beside an amount."""
    _words: dict[str, str] | None = field(init=False, factory=dict)
    _numbers: list[int] = field(init=False, factory=lambda: [0, 0])
    """The greatest whole number, and the last one."""
    _is_running: bool = field(init=False, default=True)
    _are_years: bool = field(init=False, default=True)
    _has_code: bool = field(init=False, default=False)
    _is_single: bool = field(init=False, default=True)

    @property
    def is_done(self) -> bool:
        """Whether no further cell can matter."""
        return self._words is None and (self.has_formatted or not self.looks_for_money)

    def add(self, cell: Any) -> None:
        """Take a cell of the next row."""
        text = "" if cell is None else str(cell).removesuffix(".0")
        if text in self.seen:
            return
        if len(self.seen) < _MAX_CELLS and len(text) <= _MAX_LENGTH:
            self.seen.add(text)
        text = text.strip(BLANK)
        if not text:
            self._has_empty = True
            return
        self._add_word(text)
        if self.looks_for_money and len(text) <= _MAX_LENGTH and _FILLED.search(text):
            self._add_number(text)

    def _add_word(self, text: str) -> None:
        if self._words is not None:
            has_letters = any(map(str.isalpha, text))
            self._words.setdefault(normalise_name(text) if has_letters else text, text)
            if len(self._words) > _MAX_WORDS or len(text) > _MAX_LENGTH:
                self._words = None

    def _add_number(self, text: str) -> None:
        if not text.isdecimal():
            around = text.strip(_NUMERIC)
            if around not in self._not_money:
                self._add_formatted(text)
                if len(self._not_money) < _MAX_SHAPES and not _is_around_money(around):
                    self._not_money.add(around)
        elif _CODE.fullmatch(text):
            self._has_code = True
        else:
            number, (greatest, last) = int(text), self._numbers
            self._is_running = self._is_running and (not greatest or abs(number - last) == 1)
            self._is_single = self._is_single and not greatest
            self._are_years = self._are_years and number in _YEARS
            self._numbers = [max(greatest, number), number]

    def _add_formatted(self, text: str) -> None:
        shape = shape_of(text)
        if shape not in self._shapes and len(self._shapes) < _MAX_SHAPES:
            self._shapes[shape] = may_be_money(text), may_be_money(_LETTER.sub("", text))
        is_money, is_lettered = self._shapes.get(shape, (True, True))
        self.has_formatted = self.has_formatted or is_money
        self._has_lettered = self._has_lettered or is_lettered

    @property
    def is_constant(self) -> bool:
        """Whether every cell that was seen has the same text, as a code of the company has."""
        return len(self.seen) - self._has_empty < 2

    @property
    def has_amounts(self) -> bool:
        """Whether the column may hold amounts, whatever its name: codes, years and running numbers are none."""
        are_counts = (self._is_running and not self._is_single) or self._are_years
        return self.has_formatted or (self._numbers[0] >= 1000 and not self._has_code and not are_counts)

    @property
    def has_numbers(self) -> bool:
        """Whether a column with a name like money may hold amounts: codes and flags are none."""
        return self.has_formatted or self._has_lettered or (self._numbers[0] > 1 and not self._has_code)

    @property
    def are_directions(self) -> bool:
        """Whether every text says credit or debit, so that a column of directions reads it."""
        return None not in {sign_of(text) for text in (self._words or {}).values()}

    @property
    def are_unknown(self) -> bool:
        """Whether a column of directions could not read both sides of its only two texts."""
        return bool(self._opposites()) and not self.are_directions

    def decisive(self) -> Iterator[tuple[Decides, str]]:
        """Yield what its words may decide, each with the first such word."""
        words = self._words or {}
        debits = [text for word, text in words.items() if sign_of(text) == -1 or -1 in _sides(word)]
        has_credits = any(sign_of(text) == 1 or 1 in _sides(word) for word, text in words.items())
        are_plain = self.are_directions and words.keys() - _MEANINGS.keys() - ONLY_TOGETHER - _DASHES
        are_dashes = bool(words) and words.keys() <= _DASHES and self._has_empty
        if debits and (has_credits or are_plain or are_dashes):
            yield Decides.SIGN, debits[0]
        elif pair := self._opposites():
            yield Decides.SIGN, pair
        if words and _FLAGS.keys() >= words.keys():
            yield from self._flagged(words)
        for word, text in words.items():
            for what in _meanings(word):
                yield what, text

    def _opposites(self) -> str:
        """Return the debit if there are just two texts, which may be credit and debit; otherwise an empty text."""
        words = {word: text for word, text in (self._words or {}).items() if word not in _DASHES}
        pair = opposites(words) if len(words) == 2 else None
        return words[pair[1]] if pair else ""

    def _flagged(self, words: Mapping[str, str]) -> Iterator[tuple[Decides, str]]:
        """Yield what a column of yes and no decides by its name."""
        parts = normalise_name(self.name).split("_")
        for name in reversed(parts) if parts[-1] in _FLAG_ENDS else parts[-1:]:
            what, is_usual = (Decides.STATE, True) if name in _BOOKED else (_MEANINGS.get(name), False)
            if what is None and len(name) > 1 and name in SIDES.keys() - ONLY_TOGETHER - _NO_SIGN_OF_FLAG:
                what, is_usual = Decides.SIGN, SIDES[name] > 0
            unusual = next((text for word, text in words.items() if _FLAGS[word] is not is_usual), None)
            if what is not None and unusual is not None:
                yield what, unusual
                return


def _parts(word: str) -> list[str]:
    """Return the parts of a short text in the form of a name; none if it is a longer text or has digits."""
    parts = word.split("_")
    return parts if len(parts) <= MAX_WORDS and word.replace("_", "").isalpha() else []


def _sides(word: str) -> set[int]:
    """Return the signs that the words in a text of several have; `in` is left out, which is in any sentence."""
    return {SIDES[part] for part in _parts(word) if part in SIDES and len(part) > 1 and part != "in"}


def _meanings(word: str) -> Iterator[Decides]:
    """Yield all that a short text in the form of a name decides; nothing for a longer text."""
    parts = _parts(word)
    if not _NEGATIONS.isdisjoint(parts):
        yield Decides.STATE
    yield from dict.fromkeys(_MEANINGS[part] for part in parts if part in _MEANINGS)
    debits = [part for part in parts if SIDES.get(part, 1) < 0 and part not in ONLY_TOGETHER]
    if any(len(part) > 2 or (part == parts[-1] and len(part) > 1) for part in debits):
        yield Decides.SIGN


def may_be_money(text: str) -> bool:
    """Return whether *text* is an amount in any notation that can be declared; the reader itself is asked."""
    text = _DECORATION.sub("", text)
    return _is_around_money(text) and any(_reads(text, dialect) for dialect in candidates([text], _ANY))


def _is_around_money(text: str) -> bool:
    """Return whether all words and signs in *text* may be beside an amount."""
    marks = (mark.strip(".").casefold() for mark in _LETTERS.findall(_DECORATION.sub("", text)))
    return all(mark in SIDES or _is_currency(mark) for mark in marks if mark)


def _is_currency(mark: str) -> bool:
    return mark in _CURRENCIES or (len(mark) <= _MAX_SYMBOL and any(category(each) == "Sc" for each in mark))


def _reads(text: str, dialect: Dialect) -> bool:
    try:
        return MoneyReader(dialect).read(text) is not None
    except CellProblem:
        return False

"""The words for credit and debit, beside an amount or in another column."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from payclient._escape import quote
from payclient.ledger._cells import CellProblem, as_option, read_word
from payclient.ledger._columns import normalise_name
from payclient.ledger._errors import LedgerError


def _words(sign: int, *texts: str) -> Mapping[str, int]:
    return dict.fromkeys(" ".join(texts).split(), sign)


SIDES: Mapping[str, int] = MappingProxyType(
    {
        **_words(
            1,
            "c cr crdt credit credited k kredit h haben gutschrift rd credito abono haber ingreso avoir masuk zugang",
            "in incoming inbound inflow deposit received receipt positive eingang einzahlung einnahme erhalten positiv",
            "pemasukan setoran terima penerimaan diterima positif entrada entrante deposito ingresos recibido recebido",
            "positivo entree entrant encaissement recette depot recu",
        ),
        **_words(
            -1,
            "d db dr dbit debit debited debet s soll lastschrift rc debito cargo debe egreso keluar abgang",
            "out outgoing outbound outflow withdrawal sent negative belastung abbuchung ausgang auszahlung ausgabe",
            "gesendet negativ pengeluaran penarikan dikirim negatif salida saliente saida egresos retiro retirada",
            "saque enviado negativo sortie sortant decaissement depense retrait envoye",
        ),
    },
)
"""Each word with its sign, as a bank statement means it, in the languages of the profiles."""

ONLY_TOGETHER = frozenset(
    _words(0, "n sent gesendet dikirim enviado envoye received erhalten diterima recibido recebido recu")
)
"""Words that say a direction only next to their opposite; alone they are more often states."""

MAX_WORDS = 4
"""A cell of more words is text that people write."""

_SIGNS = {"+": 1, "1": 1, "+1": 1, "-": -1, "\u2212": -1, "-1": -1}
_LETTERS = {"p": 1, "n": -1}
"""Positive and negative; beside an amount they may be a currency."""
_NEUTRAL = frozenset(
    _words(
        0,
        "transfer trf payment paid money cash funds uang dana transaksi transaction geld zahlung bank virement",
        "transferencia pago pagamento paiement",
    )
)


def sign_of(text: str) -> int | None:
    """
    Return 1 for a text that means credit, -1 for debit; None if it is neither. Case and accents do not matter.

    A short text such as `Debit Transfer` means what its only word of direction does, if the others change nothing.
    """
    name = normalise_name(text)
    if sign := _SIGNS.get(text) or SIDES.get(name) or _LETTERS.get(name):
        return sign
    words = name.split("_")
    if len(words) > MAX_WORDS:
        return None
    signs = {SIDES.get(word, 0) for word in words if word not in _NEUTRAL}
    return next(iter(signs)) or None if len(signs) == 1 else None


class DirectionReader:
    """Reads the column of directions: words in all its cells, or signs in all; a dash next to words is no debit."""

    def __init__(self) -> None:
        self._are_signs: bool | None = None

    def read(self, cell: Any) -> int | None:
        """
        Return the sign that a cell gives to the amounts of its row, or None for an empty cell.

        Raises:
            CellProblem: When it is not known what it means.
            LedgerError: When it is a sign and others are words, or the other way round.
        """
        word = read_word(cell)
        if word is None:
            return None
        sign = sign_of(word)
        if sign is None:
            message = f"{quote(word)} is not known to mean credit or debit"
            raise CellProblem(message)
        if self._are_signs not in (None, word in _SIGNS):
            message = (
                f"the column of directions has both words and signs, such as {quote(word)}; if a sign stands for an "
                f"empty cell, {as_option('null', '-')} says so"
            )
            raise LedgerError(message)
        self._are_signs = word in _SIGNS
        return sign

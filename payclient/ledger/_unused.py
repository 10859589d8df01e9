"""Refuse a ledger with an unused column that may be needed, or without a required one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from payclient._escape import quote
from payclient.ledger._cells import as_option, as_word
from payclient.ledger._columns import Columns, column_names, field_of, listed, normalise_name
from payclient.ledger._dialect import Dialect
from payclient.ledger._direction import SIDES
from payclient.ledger._entry import COMPARED
from payclient.ledger._errors import LedgerError
from payclient.ledger._evidence import Decides, Evidence

_MONEY = frozenset(
    " ".join(
        (
            "amount amounts amt total totals subtotal sum gross net fee fees price charge charges",
            "jumlah nominal nilai biaya harga bayar diterima bersih",
            "betrag summe gesamt brutto netto gebuhr gebuehr preis",
            "montant somme brut frais prix importe monto valor comision precio",
            "dmbtr wrbtr",
        ),
    ).split(),
)
_NOT_MONEY = frozenset(
    " ".join(
        (
            "at by on date time id no number nr ref reference code type status state currency count quantity qty items",
            "units method channel percent percentage rate name note is has tanggal kode nomor metode",
            "balance saldo kontostand solde",
        ),
    ).split(),
)
_FLOWS = frozenset(
    " ".join(
        (
            "payout payouts settlement settled refund refunds refunded discount tip tax vat deposit deposits",
            "withdrawal withdrawals inflow outflow debit debits credit credits paid receipts",
            "mutasi debet kredit setoran penarikan masuk keluar pemasukan pengeluaran diskon potongan ppn",
            "soll haben gutschrift gutschriften lastschrift lastschriften belastung umsatz eingang ausgang einnahme",
            "ausgabe mwst ust rabatt debe haber abono abonos cargo cargos ingreso ingresos egreso egresos debito",
            "credito encaissement decaissement versement retrait recette depense tva iva",
            "chargeback chargebacks money zahlung zahlungen erlos erlose pajak pago pagos pagamento paiement",
        ),
    ).split(),
).union(word for word in SIDES if len(word) > 3)
"""Words for money that came or went; also for other things, so the cells decide."""
_ENDS = ("betrag", "summe", "amount")
_USES: Mapping[Decides, str] = MappingProxyType(
    {
        Decides.SIGN: "choose it with --column direction={name}",
        Decides.KIND: "give its words a meaning in the table [lines.kind] of the rules file",
        Decides.STATE: "choose it with --column status={name}, list its words in [lines.kind] of the rules file",
    },
)
_MEANT: Mapping[Decides, frozenset[str]] = MappingProxyType(
    {
        Decides.SIGN: frozenset({"direction"}),
        Decides.KIND: frozenset({"kind"}),
        Decides.STATE: frozenset({"kind", "status"}),
    },
)
"""The fields of which one says the same already."""


def known_columns(dialect: Dialect, columns: Columns) -> Sequence[str]:
    """Return the unused columns that a dialect or its profile knows, also those before which it prefers another one."""
    of_profile = [name for names in dialect.columns.values() for name in names]
    known = {*dialect.ignore_columns, *dialect.debit_columns.values(), *of_profile}
    return [name for name in columns.ignored if name in known]


def unused_columns(columns: Columns, ignored: Collection[str] = ()) -> list[Evidence]:
    """Return the evidence, still empty, of each column that is neither used nor *ignored* by name."""
    left_out = {name.strip() for name in ignored}
    return [
        Evidence(name, place, looks_for_money="amount" not in columns.used or is_flow_name(name))
        for place, name in enumerate(column_names(columns.header))
        if place not in columns.places.values() and name not in left_out
    ]


def check_use(
    columns: Columns,
    *,
    chosen: Mapping[str, str],
    ignored: Collection[str],
    required: Collection[str],
) -> None:
    """
    Check that no unused column has a name like money or like a field, and that required fields have a column.

    Raises:
        LedgerError: When a column is unused or missing; the message says which option helps.
        ValueError: When *required* has an unknown field.
    """
    if unknown := next((name for name in required if name not in COMPARED), None):
        message = f"require: there is no field {unknown!r}; the fields are {', '.join(COMPARED)}"
        raise ValueError(message)
    names = column_names(columns.header)
    if not names:
        return  # an empty file has nothing to use
    if missing := next((name for name in ignored if name.strip() not in names), None):
        message = f"no column is called {quote(missing)}, which was to be ignored; there are {listed(names)}"
        raise LedgerError(message, line=1)
    if missing := next((name for name in required if name not in columns.used), None):
        message = f"no column was found for {missing}, which is required; there are {listed(names)}; choose one with "
        raise LedgerError(f"{message}--column {missing}=NAME", line=1)
    left = [name for name in columns.ignored if name not in {each.strip() for each in ignored}]
    if doubled := [name for name in left if field_of(name) in set(COMPARED) - set(chosen)]:
        _refuse(doubled, f"could be {field_of(doubled[0])} as well and is not used", field_of(doubled[0]))
    if money := [name for name in left if is_money_name(name)]:
        _refuse(money, "looks like money and is not used", "amount")


def check_values(columns: Columns, unused: Sequence[Evidence]) -> None:
    """
    Check that no unused column may hold money that is missing, or decides what a row means.

    Raises:
        LedgerError: When one does; the message says which option helps.
    """
    if flows := [each.name for each in unused if is_flow_name(each.name) and each.has_numbers]:
        _refuse(flows, "holds what looks like money and is not used", "amount", use=_sides_of(flows, columns))
    varied_first = sorted(unused, key=lambda each: each.is_constant)
    if "amount" not in columns.used and (money := [each.name for each in varied_first if each.has_amounts]):
        _refuse(money, "holds what looks like money and is not used", "amount")
    for each in sorted(unused, key=lambda each: not each.are_directions):
        for what, word in each.decisive():
            if _MEANT[what].isdisjoint(columns.used):
                use = _USES[what].format(name=as_word(each.name))
                if what is Decides.SIGN and each.are_unknown:
                    use = "list its words as charge and refund in the table [lines.kind] of the rules file"
                message = (
                    f"the column {quote(each.name)} has {quote(word)}, which decides {what}, and is not used; "
                    f"{use}, or leave it out with {as_option('ignore-column', each.name)}"
                )
                raise LedgerError(message, line=1)


def is_money_name(name: str) -> bool:
    """Return whether a column called *name* probably holds money, and not a time, a code or a count."""
    words = normalise_name(name).split("_")
    has_money = any(word in _MONEY or word.endswith(_ENDS) for word in words)
    return has_money and not _NOT_MONEY.intersection(words)


def is_flow_name(name: str) -> bool:
    """Return whether a column called *name* may hold money that came or went, if its cells are numbers."""
    words = normalise_name(name).split("_")
    return not _FLOWS.isdisjoint(words) and _NOT_MONEY.isdisjoint(words)


def _sides_of(names: Sequence[str], columns: Columns) -> str:
    """Return the options for a column of credits and one of debits; empty if there are not both."""
    signs = {name: {SIDES.get(word) for word in normalise_name(name).split("_")} for name in names}
    debit = next((name for name in names if -1 in signs[name]), None)
    credit = next((name for name in names if 1 in signs[name]), None)
    if debit is None or (credit is None and "amount" not in columns.used):
        return ""
    chosen = "" if credit is None or "amount" in columns.used else f"--column amount={as_word(credit)} "
    return f"{chosen}--debit-column amount={as_word(debit)}"


def _refuse(names: Sequence[str], what: str, field: str | None, *, use: str = "") -> None:
    first = names[0]
    use = use or f"--column {field}={'NAME' if names[1:] else as_word(first)}"
    others = f" (and so {'is' if len(names) == 2 else 'are'} {listed(names[1:])})" if names[1:] else ""
    it = "the right one" if names[1:] and use.endswith("=NAME") else "it"
    message = (
        f"the column {quote(first)} {what}{others}; choose {it} with {use}, "
        f"or leave it out with {as_option('ignore-column', 'NAME' if it != 'it' else first)}"
    )
    raise LedgerError(message, line=1)

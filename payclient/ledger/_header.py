"""Find the row of a ledger that names the columns, or say which row that seems to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

from payclient._escape import plural
from payclient.ledger._cells import LedgerError
from payclient.ledger._columns import Finder, normalise_name
from payclient.ledger._dialect import Dialect, Profile, profiles

_MAX_SEARCHED = 50
_Row = TypeVar("_Row")


def to_header(rows: Iterator[tuple[int, _Row]], dialect: Dialect, *, empty: _Row) -> tuple[int, _Row, list[str]]:
    """Return the number and the cells of the header, and a warning about rows above it; 0 if there is no row."""
    # *rows* are those that are not empty, with their numbers; those below the header are left for the caller.
    wanted, skipped = dialect.header_row, 0
    for line, row in rows:
        if wanted is None or line == wanted:
            warning = (
                f"{plural(skipped, 'row')} above the header (row {line}) {'is' if skipped == 1 else 'are'} not read"
            )
            return line, row, [warning] if skipped else []
        if line > wanted:
            break
        skipped += 1
    if wanted is None or not skipped:
        return 0, empty, []
    message = f"row {wanted} is empty, so it cannot be the header that --header-row {wanted} declares"
    raise LedgerError(message, line=wanted)


def with_hint(
    error: LedgerError,
    rows: Iterable[tuple[int, Sequence[str]]],
    find: Finder,
    dialect: Dialect,
    *,
    header: Sequence[str],
) -> LedgerError:
    """Return *error*, which says that a *header* cannot be used, with its profile or the row below that can be used."""
    if not dialect.profile and (profile := next(filter(partial(_is_of, header), profiles().values()), None)):
        message = f"{error}; it is that of {profile.about}: --profile {profile.name}"
        return LedgerError(message, line=error.line)
    if dialect.header_row is not None:
        return error
    fitting = [line for line, cells in islice(rows, _MAX_SEARCHED) if _is_header(cells, find)]
    if len(fitting) != 1:
        return error
    message = f"{error}; row {fitting[0]} has such columns: --header-row {fitting[0]} makes it the header"
    return LedgerError(message, line=error.line)


def _is_of(header: Sequence[str], profile: Profile) -> bool:
    names = set(map(normalise_name, header))
    known = (map(normalise_name, profile.columns.get(field, ())) for field in ("reference", "amount"))
    return all(not names.isdisjoint(each) for each in known)


def _is_header(cells: Sequence[str], find: Finder) -> bool:
    try:
        find(cells)
    except LedgerError:
        return False
    return True

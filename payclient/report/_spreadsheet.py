"""Write cells that no spreadsheet runs."""

from __future__ import annotations

from payclient._visible import visible

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What starts a formula in a spreadsheet, the full-width forms included."""


def spreadsheet_cell(value: object) -> str | int:
    """
    Return *value* as a cell that no spreadsheet runs: numbers stay numbers, text stays text.

    Source:
        OWASP, CSV injection.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = "" if value is None else visible(str(value))
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text

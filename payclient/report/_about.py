"""What a report says about the run that it is of: which ledger, which service, which rules."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from types import MappingProxyType

from attrs import field, frozen

from payclient.reconcile import STRICT, Rules


def _read_only(columns: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(columns))


@frozen(kw_only=True)
class LedgerAbout:
    """
    The ledger that was read.

    Attributes:
        name: The file's name without its folder; empty for a stream.
        format: `csv`, `jsonl`, `xlsx` or `parquet`.
        size_bytes: How much was read.
        sha256: Of all that was read, in hexadecimal.
        columns: The name in the header, by field.
        ignored_columns: The other columns, in their order.
        warnings: What a person should know about the reading.
    """

    name: str
    format: str
    size_bytes: int
    sha256: str
    columns: Mapping[str, str] = field(converter=_read_only)
    ignored_columns: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@frozen(kw_only=True)
class About:
    """
    The run; without clock, so that the same run gives the same bytes.

    Attributes:
        ledger: What was read; None when it was not a file that we read.
        rules: How differences were judged.
        base_url: Address of the service; empty when it is not known.
        environment: `live` or `sandbox`; empty when it is not known.
        key_fingerprint: By which the API key is known again, never the key; empty when it is not known.
        canary: The reference that was asked first, if one was.
        ended_by: The failure that ended the run early; empty when it was not.
        payclient_version: Of the package that wrote the report.
    """

    ledger: LedgerAbout | None = None
    rules: Rules = STRICT
    base_url: str = ""
    environment: str = ""
    key_fingerprint: str = ""
    canary: str | None = None
    ended_by: str = ""
    payclient_version: str = field(factory=lambda: version("payclient"))

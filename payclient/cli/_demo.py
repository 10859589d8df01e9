"""`payclient demo`: a reconciliation from end to end, on a seeded dataset whose breaks are known."""

import csv
import tempfile
from collections.abc import Mapping, Sequence
from itertools import count, islice, repeat
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter, validators

from payclient import AsyncClient, Environment
from payclient._shared.escape import plural
from payclient.cli._connection import ConnectionOptions
from payclient.cli._process import Exit, OwnStreams
from payclient.cli._reconcile import Reconciliation
from payclient.cli._report import verdict_lines
from payclient.cli._sandbox import SandboxService, serving
from payclient.reconcile import Code, Row
from payclient.reconcile.folders import write_again
from payclient.reconcile.ledger import COMPARED, open_ledger
from payclient.reconcile.report import verify
from payclient.testing import Latency

_METHODS = (("VA", "Virtual Account"), ("QR", "QR Code"), ("STORE", "Convenience Store"))
_ROWS_PER_KIND = 1000

Fields: TypeAlias = Mapping[str, Any]
"""The fields of one transaction on one side."""

_SAME: Fields = {}
_PENDING = {"status": "Pending", "expdate": "2099-12-31 23:59:59"}
_KINDS: tuple[tuple[set[Code], Fields, Fields | None], ...] = (
    ({Code.MISSING_AT_SERVICE}, _SAME, None),
    ({Code.MERCHANT_REFF_DIFFERS}, _SAME, {"merchant_reff": "{merchant_reff}-B"}),
    ({Code.PAYMENT_CODE_DIFFERS}, {"payment_code": "8800000000000009"}, _SAME),
    ({Code.UNDERPAID, Code.NET_DIFFERS}, _SAME, {"amount": -1000, "amount_received": -1000}),
    ({Code.OVERPAID, Code.NET_DIFFERS}, _SAME, {"amount": 1000, "amount_received": 1000}),
    ({Code.FEE_DIFFERS, Code.NET_DIFFERS}, _SAME, {"fee": 500, "amount_received": -500}),
    ({Code.PAID_NOT_RECORDED}, {"status": "Pending"}, _SAME),
    ({Code.RECORDED_NOT_PAID}, _SAME, {"status": "Expired"}),
    ({Code.LATE_PAYMENT}, {"status": "Expired"}, _SAME),
    ({Code.REFUND_NOT_RECORDED}, _SAME, {"status": "Refunded"}),
    ({Code.REFUND_NOT_MADE}, {"status": "Refunded"}, _SAME),
    (set(), _PENDING, _PENDING),
)
"""The findings, and what changes in the ledger and at the service, which may lack the transaction."""

_Planted: TypeAlias = tuple[Fields, Fields | None, set[Code]]
"""A ledger row, the transaction of the service, and the findings to expect."""

MIN_ROWS = len(_KINDS) + 4
"""Room for one discrepancy of each kind. Two kinds take two rows."""


def generate(rows: int, *, seed: int) -> list[_Planted]:
    """Return *rows* ledger rows. Most of them match. The same seed gives the same rows."""
    random = Random(seed)  # noqa: S311  made-up data, not a secret
    both = map(agreed, count(1), repeat(random))
    planted: list[_Planted] = []
    for _ in range(max(1, rows // _ROWS_PER_KIND)):
        for codes, ledger, service in _KINDS:
            fields = next(both)
            planted.append((_changed(fields, ledger), None if service is None else _changed(fields, service), codes))
        listed, first, second = next(both), next(both), next(both)
        second = {**second, "merchant_reff": first["merchant_reff"]}
        planted += [(listed, answer, {Code.DUPLICATE_REFERENCE}) for answer in (listed, None)]
        planted += [(paid, paid, {Code.PAID_TWICE}) for paid in (first, second)]
    planted += [(fields, fields, set()) for fields in islice(both, rows - len(planted))]
    random.shuffle(planted)
    return planted


def agreed(number: int, random: Random) -> Fields:
    """Return a transaction with that *number*, paid on both sides."""
    amount, fee = random.randrange(10, 5000) * 1000, random.randrange(1, 10) * 500
    method, name = random.choice(_METHODS)
    return {
        "reference": f"T{number:010d}DEMO",
        "merchant_reff": f"INV-{number:06d}",
        "payment_method": method,
        "payment_name": name,
        "amount": amount,
        "fee": fee,
        "amount_received": amount - fee,
        "payment_code": f"88{random.randrange(10**14):014d}",
        "expdate": f"2026-{random.randrange(1, 13):02d}-{random.randrange(1, 29):02d} 23:59:59",
        "status": "Paid",
    }


def _changed(fields: Fields, changes: Fields) -> Fields:
    """Return *fields* with *changes*: a text, which may name fields, replaces one. A number is added."""
    new = {
        name: value.format(**fields) if isinstance(value, str) else fields[name] + value
        for name, value in changes.items()
    }
    return {**fields, **new}


_RATE_LIMIT = "500/s"
_FAULT_SHARE = 0.02
_MAX_SHOWN = 20
_CONCURRENCY = 32
_REPRODUCED = "CHECKED: the report was written again from its journal, and every file has the same bytes."


async def demo(
    *,
    rows: Annotated[int, Parameter(validator=validators.Number(gte=MIN_ROWS), metavar="NUMBER")] = 10_000,
    seed: Annotated[int, Parameter(metavar="NUMBER")] = 1,
    out: Annotated[Path | None, Parameter(metavar="FOLDER")] = None,
    streams: OwnStreams,
) -> int:
    """
    Reconcile a generated ledger with the sandbox, and check the findings.

    Exactly the planted breaks must be found. The sandbox runs on a loopback port, limits the rate, and fails now and
    then with status 500, web pages, truncated answers or closed connections. Then the report is written again
    from its journal, and must have the same bytes.

    Args:
        rows: Number of ledger rows.
        seed: Seed of the ledger and of the faults.
        out: Folder for the ledger and the report. Default: a new temporary folder, which is kept.
        streams: Streams of the process.

    Examples:
        $ payclient demo
        $ payclient demo --rows 500 --out demo-report
    """
    folder = out or Path(tempfile.mkdtemp(prefix="payclient-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    service = SandboxService(rate_limit=_RATE_LIMIT, fault_share=_FAULT_SHARE, latency=Latency(seconds=0.01), seed=seed)
    planted = generate(rows, seed=seed)
    with (folder / "ledger.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ("reference", *COMPARED), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row, _, _ in planted)
    streams.tell(
        f"{plural(len(planted), 'row')} in {folder / 'ledger.csv'}; the sandbox takes {_RATE_LIMIT}, and "
        f"{_FAULT_SHARE:.0%} of its responses fail"
    )
    judged, report = list[Row](), folder / "report"
    service.load(transaction for _, transaction, _ in planted if transaction is not None)
    async with (
        serving(service) as base_url,
        AsyncClient(
            api_key=service.api_key, base_url=base_url, environment=Environment.SANDBOX, max_concurrency=_CONCURRENCY
        ) as client,
    ):
        with open_ledger(folder / "ledger.csv") as ledger:
            job = Reconciliation(
                ledger=ledger,
                out=report,
                client=client,
                connection=ConnectionOptions(environment=Environment.SANDBOX, max_concurrency=_CONCURRENCY),
                streams=streams,
            )
            done = await job.run(judged.append)
    manifest = (report / "manifest.json").read_bytes()
    write_again(report)
    is_same = not verify(report) and (report / "manifest.json").read_bytes() == manifest
    files = (f"{path}  {path.stat().st_size:,} bytes" for path in sorted(report.iterdir()) if path.is_file())
    written = _REPRODUCED if is_same else "CHECK FAILED: the report written again from its journal differs."
    is_passed, checked = check(planted, judged)
    streams.show([*verdict_lines(done), "", *files, "", *checked, written])
    return Exit.DONE if is_passed and is_same else Exit.DIFFERENT


def check(planted: Sequence[_Planted], rows: Sequence[Row]) -> tuple[bool, list[str]]:
    """Return whether *rows* have exactly the planted findings, and it in words."""
    different = [
        f"  line {row.line}: {', '.join(sorted(codes)) or 'nothing'}, planted {', '.join(sorted(wanted)) or 'nothing'}"
        for row, (*_, wanted) in zip(rows, planted, strict=False)
        if (codes := {finding.code for finding in row.findings}) != wanted
    ]
    missing = len(planted) - len(rows)
    if not different and not missing:
        findings = plural(sum(len(codes) for *_, codes in planted), "finding")
        return True, [f"CHECKED: planted {findings}, found exactly these, and no other."]
    counts = f"{plural(len(different), 'row')} not as planted, {plural(missing, 'row')} missing"
    return False, [f"CHECK FAILED: {counts}", *different[:_MAX_SHOWN]]

"""`payclient demo`: a reconciliation from end to end, on a seeded dataset in which every break is known."""

import asyncio
import csv
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from attrs import frozen
from cyclopts import Parameter, validators

from payclient import AsyncClient, Environment
from payclient._shared.escape import plural
from payclient.cli._output import Worst, verdict_lines
from payclient.cli._progress import ProgressMode
from payclient.cli._reconcile import Reconciliation
from payclient.cli._sandbox import SandboxService, serving
from payclient.cli._streams import FOLDER, NUMBER, Exit, OwnStreams, Streams
from payclient.reconcile import Bucket, Code, Row, Severity
from payclient.reconcile.folders import write_again
from payclient.reconcile.ledger import COMPARED, open_ledger
from payclient.reconcile.report import verify
from payclient.testing import Latency

COLUMNS: tuple[str, ...] = ("reference", *COMPARED)
_METHODS = (("VA", "Virtual Account"), ("QR", "QR Code"), ("STORE", "Convenience Store"))
_PASSED, _AHEAD = "2020-01-31 23:59:59", "2099-12-31 23:59:59"
_ROWS_PER_KIND = 1000

Fields: TypeAlias = Mapping[str, Any]
"""The fields of one transaction, as one side has them."""

_SAME: Fields = MappingProxyType({})


@frozen
class Expected:
    bucket: Bucket
    findings: frozenset[tuple[Code, Severity]] = frozenset()


@frozen(kw_only=True)
class Dataset:
    """Both sides, and the expected result of each ledger row, in the order of the ledger."""

    ledger: tuple[Fields, ...]
    transactions: tuple[Fields, ...]
    expected: tuple[Expected, ...]


_Kind: TypeAlias = tuple[Expected, Fields, Fields | None]
"""The expected result, and what changes in the ledger and at the service, which may lack the transaction."""


def plus(more: Any) -> Callable[[Any], Any]:
    """Return a function that adds *more* to an amount or a text."""
    return lambda value: value + more


def _expected(*codes: Code, bucket: Bucket = Bucket.BREAK, severity: Severity | None = None) -> Expected:
    return Expected(bucket, frozenset((code, severity or code.severity) for code in codes))


def _break(
    *codes: Code, severity: Severity | None = None, ledger: Fields = _SAME, service: Fields | None = _SAME
) -> _Kind:
    return _expected(*codes, severity=severity), ledger, service


def _both(fields: Fields, *codes: Code, bucket: Bucket = Bucket.BREAK) -> _Kind:
    return _expected(*codes, bucket=bucket), fields, fields


_LESS, _MORE = ({name: plus(change) for name in ("amount", "amount_received")} for change in (-1000, 1000))
_PLAIN = _both({}, bucket=Bucket.MATCHED)
_KINDS: tuple[_Kind, ...] = (
    _break(Code.MISSING_AT_SERVICE, service=None),
    _break(Code.MERCHANT_REFF_DIFFERS, service={"merchant_reff": plus("-B")}),
    _break(Code.MERCHANT_REFF_DIFFERS, severity=Severity.MEDIUM, ledger={"merchant_reff": str.lower}),
    _break(Code.METHOD_DIFFERS, service={"payment_method": "CARD", "payment_name": "Card"}),
    _break(Code.PAYMENT_CODE_DIFFERS, ledger={"payment_code": plus("9")}),
    _break(Code.UNDERPAID, Code.NET_DIFFERS, service=_LESS),
    _break(Code.OVERPAID, Code.NET_DIFFERS, service=_MORE),
    _break(Code.FEE_DIFFERS, Code.NET_DIFFERS, service={"fee": plus(500), "amount_received": plus(-500)}),
    _break(Code.NET_DIFFERS, ledger={"amount_received": plus(100)}),
    _both({"amount_received": 0}, Code.SHORT_RECEIVED),
    _break(Code.PAID_NOT_RECORDED, ledger={"status": "Pending"}),
    _break(Code.RECORDED_NOT_PAID, service={"status": "Expired"}),
    _break(Code.LATE_PAYMENT, ledger={"status": "Expired"}),
    _break(Code.REFUND_NOT_RECORDED, service={"status": "Refunded"}),
    _break(Code.REFUND_NOT_MADE, ledger={"status": "Refunded"}),
    _break(Code.CLOSED_DIFFERENTLY, ledger={"status": "Expired"}, service={"status": "Canceled"}),
    _break(Code.UNKNOWN_STATUS, service={"status": "Settled"}),
    _break(Code.EXPIRY_DIFFERS, ledger={"expdate": _AHEAD}),
    _break(
        Code.PENDING_ON_ONE_SIDE,
        ledger={"status": "Pending", "expdate": _AHEAD},
        service={"status": "Canceled", "expdate": _AHEAD},
    ),
    _both({"status": "Pending", "expdate": _PASSED}, Code.STALE_PENDING),
    _both({"amount_received": plus(1)}, Code.SERVICE_ARITHMETIC, bucket=Bucket.MATCHED),
    (_expected(Code.NOT_COMPARED, bucket=Bucket.MATCHED), {"merchant_reff": ""}, _SAME),
    # A number where a text is documented; the ledger, being text, has the same digits.
    (_expected(Code.TOLERATED_DEVIATION, bucket=Bucket.MATCHED), _SAME, {"payment_code": int}),
    _both({"status": "Pending", "expdate": _AHEAD}, bucket=Bucket.OPEN),
    _both({"status": "Canceled"}, bucket=Bucket.MATCHED),
    (Expected(Bucket.REJECTED), {"amount": "1.5E+07"}, _SAME),
)
_REPEATED, _PAID_TWICE = _expected(Code.DUPLICATE_REFERENCE), _expected(Code.PAID_TWICE)

MIN_ROWS = len(_KINDS) + 4
"""Room for one discrepancy of each kind; two kinds take two rows."""


def generate(rows: int, *, seed: int) -> Dataset:
    """Return a dataset with *rows* ledger rows, most of which match. The same seed gives the same dataset."""
    if rows < MIN_ROWS:
        message = f"rows must be at least {MIN_ROWS}, got {rows}"
        raise ValueError(message)
    random = Random(seed)  # noqa: S311  made-up data, not a secret
    agreed = _agreed(random)
    per_kind = max(1, rows // _ROWS_PER_KIND)
    generated = [_apply(kind, next(agreed)) for kind in _KINDS * per_kind]
    for _ in range(per_kind):
        repeated, first, second = next(agreed), next(agreed), next(agreed)
        second = {**second, "merchant_reff": first["merchant_reff"]}
        generated += [(repeated, repeated, _REPEATED), (repeated, None, _REPEATED)]
        generated += [(each, each, _PAID_TWICE) for each in (first, second)]
    generated += [_apply(_PLAIN, next(agreed)) for _ in range(rows - len(generated))]
    random.shuffle(generated)
    ledger, transactions, expected = zip(*generated, strict=True)
    return Dataset(ledger=ledger, transactions=tuple(filter(None, transactions)), expected=expected)


def as_expected(row: Row) -> Expected:
    """Return the result that reconciliation gave *row*, for comparison with the expected one."""
    return Expected(row.bucket, frozenset((finding.code, finding.severity) for finding in row.findings))


def _agreed(random: Random) -> Iterator[Fields]:
    for number in count(1):
        amount, fee = random.randrange(10, 5000) * 1000, random.randrange(1, 10) * 500
        method, name = random.choice(_METHODS)
        yield {
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


def _apply(kind: _Kind, fields: Fields) -> tuple[Fields, Fields | None, Expected]:
    expected, ledger, service = kind
    return _changed(fields, ledger), None if service is None else _changed(fields, service), expected


def _changed(fields: Fields, changes: Fields) -> Fields:
    """Return *fields* with *changes*; a function in them gets the original value."""
    new = {name: change(fields[name]) if callable(change) else change for name, change in changes.items()}
    return {**fields, **new}


EXAMPLES = """
$ payclient demo
$ payclient demo --rows 500 --out demo-report
"""

_RATE_LIMIT = "500/s"
_FAULT_SHARE = 0.02
_LATENCY = 0.01
_MAX_SHOWN = 20
_CONCURRENCY = 32
_KILL_AFTER = 5.0
"""Seconds until the first run is killed: long enough to start, too short to finish with the default rows."""
_REPRODUCED = "CHECKED: the report was written again from its journal, and every file has the same bytes."


async def demo(
    *,
    rows: Annotated[int, Parameter(validator=validators.Number(gte=MIN_ROWS)), NUMBER] = 10_000,
    seed: Annotated[int, NUMBER] = 1,
    out: Annotated[Path | None, FOLDER] = None,
    progress: Annotated[ProgressMode, Parameter(metavar="MODE", show_choices=False)] = ProgressMode.AUTO,
    streams: OwnStreams,
) -> int:
    """
    Reconcile a generated ledger with the sandbox, and check what is found.

    Exactly the planted breaks must be found. The sandbox runs on a loopback port, limits the rate, and fails now and
    then with status 500, web pages, truncated answers or closed connections. The first run is killed midway; the second
    resumes from its journal. Then the report is written again from the journal alone, and must have the same bytes.

    Args:
        rows: Number of ledger rows.
        seed: Seed of the ledger and of the faults.
        out: Folder for the ledger and the report. Default: a new temporary folder, which is kept.
        progress: Progress on standard error: `auto`, `live`, `plain` or `none`.
        streams: Streams of the process.
    """
    folder = out or Path(tempfile.mkdtemp(prefix="payclient-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    service = SandboxService(
        rate_limit=_RATE_LIMIT, fault_share=_FAULT_SHARE, latency=Latency(seconds=_LATENCY), seed=seed
    )
    is_passed = await _run_once(generate(rows, seed=seed), folder, service, progress, streams)
    return Exit.DONE if is_passed else Exit.DIFFERENT


async def _run_once(
    dataset: Dataset, folder: Path, service: SandboxService, progress: ProgressMode, streams: Streams
) -> bool:
    with (folder / "ledger.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(dataset.ledger)
    streams.tell(
        f"{plural(len(dataset.ledger), 'row')} in {folder / 'ledger.csv'}; the sandbox takes {_RATE_LIMIT}, and "
        f"{_FAULT_SHARE:.0%} of its responses fail",
    )
    found, worst, report = list[Row](), Worst(), folder / "report"
    service.load(dataset.transactions)
    async with (
        serving(service) as base_url,
        AsyncClient(
            api_key=service.api_key,
            base_url=base_url,
            environment=Environment.SANDBOX,
            max_concurrency=_CONCURRENCY,
        ) as client,
    ):
        streams.tell(await _run_and_kill(folder, base_url, service.api_key))
        with open_ledger(folder / "ledger.csv") as ledger:
            job = Reconciliation(
                ledger=ledger,
                out=report,
                client=client,
                environment=Environment.SANDBOX,
                concurrency=_CONCURRENCY,
                progress=progress,
                streams=streams,
            )
            summary = await job.run(worst.add, found.append)
    manifest = (report / "manifest.json").read_bytes()
    write_again(report)
    is_same = not verify(report) and (report / "manifest.json").read_bytes() == manifest
    files = (f"{path}  {path.stat().st_size:,} bytes" for path in sorted(report.iterdir()) if path.is_file())
    written = _REPRODUCED if is_same else "CHECK FAILED: the report written again from its journal differs."
    is_passed, checked = check(dataset.expected, found)
    streams.show([*verdict_lines(summary, worst, rules=job.rules), "", *files, "", *checked, written])
    return is_passed and is_same


async def _run_and_kill(folder: Path, base_url: str, api_key: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "payclient", "reconcile", str(folder / "ledger.csv")),
        *("--out", str(folder / "report"), "--quiet", "--max-concurrency", str(_CONCURRENCY)),
        env={
            **os.environ,
            "PAYCLIENT_API_KEY": api_key,
            "PAYCLIENT_BASE_URL": base_url,
            "PAYCLIENT_ENVIRONMENT": "sandbox",
        },
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_KILL_AFTER):
            await process.wait()
    except TimeoutError:
        return f"the first run was killed after {_KILL_AFTER:g} s, without a warning"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return f"the first run ended by itself within {_KILL_AFTER:g} s, so there was nothing to kill"


def check(expected: Sequence[Expected], rows: Sequence[Row]) -> tuple[bool, list[str]]:
    """Compare *rows* with the planted results; return whether exactly those were found, and it in words."""
    different = [(row, it) for row, it in zip(rows, expected, strict=False) if as_expected(row) != it]
    missed = len(expected) - len(rows)
    if not different and not missed:
        planted = sum(len(verdict.findings) for verdict in expected)
        return True, [f"CHECKED: {planted} findings were planted; exactly these were found, and no other."]
    head = f"CHECK FAILED: {plural(len(different), 'row')} not as planted, {plural(missed, 'row')} missing"
    shown = different[:_MAX_SHOWN]
    return False, [head, *(f"  line {row.line}: {_words(as_expected(row))}, planted {_words(it)}" for row, it in shown)]


def _words(verdict: Expected) -> str:
    findings = sorted(f"{code} ({severity.word})" for code, severity in verdict.findings)
    return " ".join((verdict.bucket, *findings))

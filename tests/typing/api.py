"""Every public name used once, as an application would; only type-checked, never run."""

import ssl
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, assert_never, assert_type
from zoneinfo import ZoneInfo

import httpx

import payclient
from payclient import *
from payclient import transports
from payclient.blocking import Client
from payclient.engines import *
from payclient.engines import ray, spark
from payclient.engines.arrow import *
from payclient.reconcile import *
from payclient.reconcile.folders import *
from payclient.reconcile.ledger import *
from payclient.reconcile.report import *
from payclient.transports.fast import FastTransport


def transaction(found: Transaction) -> None:
    """Fields of each type, and what is said about them."""
    assert_type((found.reference, found.amount, found.fee), tuple[str, int, int | None])
    assert_type((found.raw, found.deviations), tuple[Mapping[str, Any], tuple[str, ...]])
    assert_type(found.expires_at(ZoneInfo("Asia/Jakarta")), datetime | None)


def outcome(outcome: Outcome) -> str:
    """An outcome is one of two, and a checker knows when both were treated."""
    match outcome:
        case Found(reference, found):
            assert_type(found, Transaction)
            return reference
        case Failed(reference, error, index=index):
            assert_type(error, PayClientError)
            return f"{index}: {reference}"
        case _:
            assert_never(outcome)


def truth_of_outcome(outcome: Outcome) -> None:
    """A checker refuses a test of the truth of an outcome: mypy sees that nothing after it runs."""
    if outcome:  # pyright: ignore[reportGeneralTypeIssues]
        print("found?")  # type: ignore[unreachable]


def record(attempt: Attempt) -> None:
    """A record per attempt."""
    assert_type((attempt.reference, attempt.status, attempt.seconds), tuple[str, int | None, float])


def counters(stats: Stats) -> None:
    """A snapshot of a client."""
    assert_type((stats.lookups, stats.limit, stats.is_ready), tuple[int, float, bool])


@contextmanager
def trace() -> Generator[Callable[[Attempt], object]]:
    """What is entered around each lookup."""
    yield record


class Canned:
    """A transport of one's own."""

    async def send(self, request: transports.Request) -> transports.Response:
        """Answer without asking anyone."""
        assert_type((request.url, request.headers), tuple[str, Mapping[str, str]])
        assert_type(request.authorization(), str)
        return transports.Response(200, {}, request.body, is_truncated=False, connection=None)

    async def discard(self, response: transports.Response) -> None:
        """Have no connection."""
        assert_type((response.status_code, response.body), tuple[int, bytes])

    async def aclose(self) -> None:
        """Have nothing to close."""


async def references() -> AsyncIterator[str]:
    """References that come from somewhere."""
    yield "T0000000033KGJ0D"


def clients() -> list[AsyncClient]:
    """A client and everything it takes."""
    transport: transports.Transport = Canned()
    builtin: transports.Transport = transports.HttpxTransport()
    fast: transports.Transport = FastTransport()
    theirs = httpx.AsyncClient()
    policy = RetryPolicy(max_attempts=4, initial_backoff=0.25, max_backoff=8, max_retry_after=900)
    return [
        AsyncClient(client_cert="cert.pem", client_key=Path("key.pem")),
        AsyncClient(proxy="http://proxy:3128", trust_env=False, ca_file=Path("ca.pem")),
        AsyncClient(ssl_context=ssl.create_default_context(), connect_timeout=2.0, keepalive=10),
        AsyncClient(
            api_key="k",
            base_url="https://pay.example",
            environment="sandbox",
            max_concurrency=8,
            max_rate=250,
            workers=4,
            timeout=10,
            deadline=None,
            retry=policy,
            transport=transport,
            on_attempt=record,
            tracing=trace,
            on_outage="wait",
        ),
        AsyncClient(environment=Environment.LIVE, retry=None, http_client=theirs),
        AsyncClient(not_found_messages=["unknown code"], application="shop/1.2"),
        AsyncClient(transport=builtin),
        AsyncClient(transport=fast),
        AsyncClient(transport="fast"),
    ]


async def lookups(client: AsyncClient) -> None:
    """One, a few, many."""
    assert_type(await client.get_transaction("T0000000033KGJ0D"), Transaction)
    assert_type(await client.get_transaction("T0000000033KGJ0D", deadline=2.0, fresh=True), Transaction)
    assert_type(await client.get_transactions(("a", "b"), concurrency=2), list[Outcome])
    async with client.stream_transactions(references(), concurrency=8, stall_timeout=60) as stream:
        assert_type(stream, AsyncIterator[Outcome])
        async for found in stream:
            outcome(found)
    async with client.stream_transactions(["a"], fresh={"a"}), client.with_options(timeout=1, deadline=None) as view:
        assert_type(view, AsyncClient)
    client.set_max_rate(125.0, workers=2)
    client.set_max_rate(None)
    counters(client.stats)
    await client.aclose()


async def waits(client: AsyncClient) -> None:
    """Until it is so, and whether a claim is true."""
    paid = await client.wait_for(
        "a", until={"Paid"}, unless=lambda seen: seen.amount == 0, deadline=900, appear=0, interval=1, max_interval=5
    )
    assert_type(paid, Transaction)
    found = await client.confirm("a", amount=15000, merchant_reff="INV-7", status={"Paid"}, deadline=2.0)
    assert_type(found, Confirmation)
    for difference in found.differences:
        assert_type(difference, FieldDifference)
        assert_type((difference.expected, difference.found), tuple[str | int | tuple[str, ...], str | int | None])
    assert_type(found.transaction, Transaction | None)


def without_a_loop() -> None:
    """The same, waited for."""
    with Client(AsyncClient(api_key=lambda: "k")) as pay:
        assert_type(pay.get_transaction("a", deadline=2.0), Transaction)
        assert_type(pay.get_transactions(["a"], concurrency=2), list[Outcome])
        assert_type(pay.wait_for("a", until={"Paid"}, deadline=9), Transaction)
        assert_type(pay.confirm("a", amount=1, status={"Paid"}), Confirmation)
    with Client(deadline=5.0, proxy=None) as pay, pay.stream_transactions(["a"], concurrency=2) as outcomes:
        assert_type(next(outcomes), Outcome)
    pay.set_max_rate(5.0, workers=2)
    assert_type((pay.stats, pay.with_options(timeout=2.0)), tuple[Stats, Client])
    pay.close()


def values(transaction: Transaction) -> None:
    """A transaction as JSON, and back."""
    fields = assert_type(transaction.as_json(with_payment_code=True), dict[str, str | int | None])
    assert_type(Transaction.from_json(fields), Transaction)
    assert_type(dict(transaction), dict[str, str | int | None])


def why_not_sent(error: OutageError | OverloadedError) -> object:
    """What each says of the client that did not send a lookup."""
    if isinstance(error, OverloadedError):
        return assert_type((error.retry_after, error.waiting), tuple[float, int])
    return assert_type((error.last_failure, error.outage_seconds, error.refused), tuple[str, float, int])


def where(error: PayClientError) -> object:
    """Each error, and what it has beside its text."""
    assert_type((error.message, error.attempts), tuple[str, int])
    assert_type((error.http_status, error.detail, error.http_headers), tuple[int, str, dict[str, str]])
    assert_type((error.is_first, error.is_retryable), tuple[bool, bool])
    match error:
        case OutageError() | OverloadedError() | WaitUnansweredError():
            return assert_type(error.retry_after, float)
        case WaitDeadlineError() | UnreachableStatusError() | WaitError():
            assert_type((error.lookups, error.waited, error.statuses), tuple[int, float, dict[str, float]])
            return assert_type(error.transaction, Transaction | None)
        case DeadlineExceededError():
            return assert_type(error.seconds, dict[str, float])
        case ConnectionFailedError() | AttemptTimeoutError() | TLSVerificationError() | TransportError():
            return assert_type(error.sent, Literal["yes", "no", "unknown"])
        case ReferenceMismatchError() | UnexpectedResponseError():
            return assert_type(error.problem, str)
        case RateLimitedError():
            return assert_type((error.retry_after, error.asked_pause), tuple[float, float | None])
        case TransactionNotFoundError() | RejectedError() | ServiceError():
            return assert_type(error.request_id, str | None)
        case AuthenticationError() | PermissionDeniedError() | CouldNotAskError():
            return assert_type(error.retry_after, float)
        case ResponseError():
            return assert_type((error.headers, error.body), tuple[dict[str, str], str])
        case ConfigurationError() | InvalidReferenceError() | ClientClosedError() | KeySourceError() | _:
            return assert_type(error.args, tuple[Any, ...])


def branches() -> None:
    """Each error is caught by the builtin beside it too."""
    builtin: dict[type[Exception], type[PayClientError]] = {
        ValueError: InvalidReferenceError,
        TimeoutError: DeadlineExceededError,
        RuntimeError: ClientClosedError,
    }
    value: ValueError = ConfigurationError("x")
    late: TimeoutError = AttemptTimeoutError("x", attempts=1, sent="unknown")
    closed: RuntimeError = ClientClosedError("x")
    assert_type(payclient.__version__, str)
    print(builtin, value, late, closed)


def settled(row: Row) -> Settled | None:
    """The other side of a row, and the rules for it."""
    rules = Rules(grace=BusinessDays(2), calendar=Calendar(holidays=["2026-12-25"]))
    assert_type((rules.grace, rules.calendar.holidays), tuple[timedelta | BusinessDays, tuple[date, ...]])
    assert_type(StatementRules(settles_within="3d", ignore_columns=["Tax"]).settles_within, timedelta | BusinessDays)
    return None if row.other_side is None else row.other_side.settled


def judging(finding: Finding) -> Rules:
    """The rules of a reconciliation, and how to read and keep them."""
    rules = Rules(
        columns={"amount": "Total"},
        tolerances={"amount": Tolerance(below=500, above_percent="0.5"), "fee": Tolerance(below_percent=Decimal(1))},
        statuses={"settled": "paid", "done": Status.PAID},
        grace=timedelta(hours=2),
        time_zone=ZoneInfo("Asia/Jakarta"),
        fees={"VA": FeeSchedule(flat=4000, percent="0.7", minimum=1, maximum=None, rounding="half_up")},
        accepted=[
            Accepted(
                code="underpaid",
                reference="T1",
                reason="x",
                owner="Ana",
                expires=date(2026, 12, 31),
                largest_difference=500,
            )
        ],
    )
    kinds = Kinds(column="Type", charge=["charge"], refund=("refund",))
    assert_type(Lines(of_one_reference="sum", kind=kinds).kind, Kinds | None)
    assert_type(rules.tolerances["amount"].waiver(1, 2), str)
    assert_type(rules.read_status("settled"), Status | None)
    assert_type((rules.grace, rules.time_zone, rules.fingerprint), tuple[timedelta | BusinessDays, tzinfo | None, str])
    assert_type(rules.fees["VA"].fee_of(1), int)
    assert_type(rules.acceptance(Code.UNDERPAID, "T1"), Accepted | None)
    assert_type(rules.accepted[0].days_left(datetime.now(rules.time_zone), None), int)
    assert_type((finding.waived, finding.is_decisive, finding.code.is_soft), tuple[str, bool, bool])
    try:
        print(read_rules(Path("rules.toml")), read_rules("rules.toml"))
        return parse_rules("", name="rules")
    except RulesError as error:
        assert_type((error.key, error.line), tuple[tuple[str | int, ...], int])
    return rules


def ledger(file: Path) -> list[str]:
    """A ledger of any format, read row by row."""
    try:
        with open_ledger(file, columns={"amount": "Total"}, format="csv") as rows:
            assert_type(rows, Ledger)
            assert_type((rows.columns, rows.delimiter), tuple[Columns, str | None])
            reasons = [row.reason for row in rows if isinstance(row, RejectedEntry)]
            rows.check_unchanged()
            return reasons
    except LedgerError as error:
        assert_type((error.line, error.offset), tuple[int, int | None])
        return []


def dialect(file: Path) -> Dialect:
    """How a ledger is written, declared value by value."""
    own = Dialect(decimal=",", thousands=".", date_format="%d/%m/%Y", null=["NULL"])
    with open_ledger(file, dialect=own) as opened:
        assert_type((opened.dialect, opened.header_row), tuple[Dialect, int])
        assert_type([excluded.why for excluded in opened.excluded], list[str])
        assert_type([unused.name for unused in opened.unused], list[str])
        assert_type([suggestion.is_ambiguous for suggestion in opened.suggestions], list[bool])
    assert_type(Rules(ledger=own).ledger, Dialect)
    return assert_type(Dialect(header_row=4), Dialect)


def entry() -> Entry:
    """An entry of one's own, with some fields left out."""
    own = Entry(line=1, reference="T1", amount=15000, status=None, fee=ABSENT)
    assert own.amount is not ABSENT
    return own


def report(folder: Path, rows: list[Row], ledger: Ledger) -> list[str]:
    """The files of a report, and what can be said about them afterwards."""
    about = About(ledger=LedgerAbout(name="", format="csv", size_bytes=0, sha256="", columns={}), rules=Rules())
    with ReportFiles(folder, rules=about.rules, formats=["rows.parquet"]) as files:
        for row in rows:
            files.add(row)
        assert_type(files.finish(about, ledger=ledger).summary, Summary)
    return [f"{problem.file}: {problem.what}" for problem in verify(folder)]


def engines(batches: list[Any], rules: Rules) -> Iterator[Any]:
    """Batches of Arrow, looked up and reconciled where they are."""
    spec = LookupSpec(base_url="https://pay.example", environment="sandbox", keep=["order_id"], prefix="service_")
    ledger = ReconcileSpec(base_url="https://pay.example", key_file=Path("key"), rules=rules, canary="T1", keep=None)
    assert_type((spec.environment, ledger.rules), tuple[Environment, str])
    assert_type(ReconcileSpec(ignore=["tax"]).ignore, tuple[str, ...])
    print(lookup_schema(spec), reconcile_schema(ledger, batches[0].schema))
    assert_type(lookup_batches(iter(batches), spec), Iterator[Any])
    return reconcile_batches(batches, ledger)


def on_spark(df: Any, ledger: Any, spec: LookupSpec, rules: ReconcileSpec) -> None:
    """The same in Spark, whose own types are not looked at."""
    spark.lookup(df, spec, reference="trx_id", partitions=8).write.parquet("answers")
    spark.reconcile(ledger, rules, output="rows", checkpoint="state", partitions=8).awaitTermination()


def on_ray(ds: Any, spec: LookupSpec) -> None:
    """The same in Ray Data, whose own types are not looked at."""
    ray.write(ray.lookup(ds, spec, reference="trx_id", workers=4, cpus=0.5, rows=5000, retries=2), "answers")


def folders(folder: Path) -> None:
    run = open_past_run(folder)
    with RunDiff(run, open_past_run(folder)) as found:
        print(found.verdict, found.exit_status(Severity.MEDIUM))
    report = write_again(folder, print)
    assert_type(report, Report)
    print(report.summary.verdict, report.about.rules.fingerprint)

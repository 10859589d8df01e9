"""A whole reconciliation, over a lookup function in memory."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from payclient import errors
from payclient.reconcile import Bucket, Journal, Phase, Rules, StoppedError, reconcile
from payclient.reconcile.ledger import Entry, RejectedEntry
from support.fakes import ScriptedTransport, client
from support.reconciling import DOWN, MALFORMED, NOON, NOT_FOUND, Clock, Service, entry, paid

WEB_PAGE = errors.UnexpectedResponseError("the answer is a web page", status_code=200)
MOVED = errors.UnexpectedResponseError("the answer is a redirect", status_code=302)


async def rows_of(entries, lookup, **options):
    options = {"clock": Clock(), "concurrency": 3} | options
    return [row async for row in reconcile(entries, lookup, **options)]


async def until_error(entries, lookup, **options):
    """Return the rows that came before a run ended with an error, and the error."""
    rows = []
    try:
        async for row in reconcile(entries, lookup, **({"clock": Clock()} | options)):
            rows.append(row)
    except errors.PayClientError as error:
        return rows, error
    return rows, None


def buckets(rows):
    return [row.bucket.value for row in rows]


DENIED, DECLINED = errors.PermissionDeniedError("no"), errors.RejectedError("no")
AGREES, LESS, PENDING, INVOICE = {}, {"amount": 90}, {"status": "pending"}, {"merchant_reff": "INV"}
LOOKUPS = (
    # Only what differs, is not found or cannot be used is asked again, after everything was asked once.
    (
        "ABCDE",
        {"A": [AGREES], "B": [LESS], "D": [DECLINED], "E": [DENIED]},
        "ABCDEBCD",
        "matched break break break unresolved",
    ),
    # A difference that follows an unusable answer is asked for once more, because it was seen once.
    ("AB", {"A": [AGREES], "B": [MALFORMED, LESS]}, "ABABB", "matched break"),
    # When nothing else is found, nothing is missing, and nothing is asked a second time.
    ("AB", {}, "AB", "unresolved unresolved"),
    ("A", {"A": [LESS, NOT_FOUND]}, "AA", "unresolved"),
    # A canary is asked first and makes "not found" credible; without an answer it proves nothing, and stops nothing.
    ("A", {"C": [AGREES]}, "CAA", "break"),
    ("A", {"C": [DENIED]}, "CA", "unresolved"),
    ("", {"C": [AGREES]}, "", ""),
    # A reference on several rows is asked once.
    ("ABA", {"A": [AGREES], "B": [AGREES]}, "AB", "break matched break"),
    # Two payments of one invoice are both asked again; a second lookup brings the suspicion, or takes it off.
    ("ABE", {"A": [INVOICE], "B": [INVOICE], "E": [AGREES]}, "ABEAB", "break break matched"),
    ("AB", {"A": [INVOICE], "B": [INVOICE | PENDING, INVOICE]}, "ABBA", "break break"),
    ("AB", {"A": [INVOICE], "B": [INVOICE, INVOICE | PENDING]}, "ABAB", "matched break"),
)


async def test_lookups():
    """Each reference is asked for once, and what must be confirmed a second time."""
    for ledger, answers, asked, expected in LOOKUPS:
        service = Service(
            {
                name: [paid(name, **each) if isinstance(each, dict) else each for each in several]
                for name, several in answers.items()
            }
        )
        canary = "C" if "C" in answers else None
        rows = await rows_of([entry(n, name) for n, name in enumerate(ledger)], service, concurrency=1, canary=canary)
        assert (" ".join(buckets(rows)), "".join(service.asked)) == (expected, asked), answers


async def test_moved():
    """A payment that arrived between the two looks is matched and marked, with both times."""
    (row,) = await rows_of([entry(2, "A")], Service({"A": [paid("A", status="pending"), paid("A")]}))
    assert (row.bucket, row.is_changed_during_run) == (Bucket.MATCHED, True)
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert (row.observed_at, row.confirmed_at) == (noon + timedelta(seconds=1), noon + timedelta(seconds=2))


async def test_repeats():
    """Each row of a repeated reference is marked, and each payment of one invoice has the name of the other."""
    service = Service({name: [paid(name, merchant_reff="INV")] for name in "AB"})
    rows = await rows_of([entry(2, "A"), entry(3, "B"), entry(4, "A")], service)
    assert [row.is_repeat for row in rows] == [False, False, True]
    assert [row.primary.sentence[-3:] for row in rows[:2]] == ["'B'", "'A'"]


async def test_paid_twice_or_once():
    """Case and spacing make no other invoice; what is not paid, or names none, is no second payment."""
    for first, second, code in (
        ({"merchant_reff": "INV-CASE"}, {"merchant_reff": "inv-case"}, "paid_twice"),
        ({"merchant_reff": "INV 7"}, {"merchant_reff": " INV\u00a0 7 "}, "paid_twice"),
        ({"merchant_reff": "INV"}, {"merchant_reff": "INV", "status": "pending"}, None),
        *(({"merchant_reff": reff}, {"merchant_reff": reff}, None) for reff in (None, "", "-", "N/A", "null", "0")),
    ):
        service = Service({"A": [paid("A", **first)], "B": [paid("B", **second)]})
        ledger = [Entry(line=2, reference="A"), Entry(line=3, reference="B")]
        rows = await rows_of(ledger, service, rules=Rules(assume_status="none"))
        assert [row.primary and row.primary.code for row in rows] == [code, code], (first, second)


@pytest.mark.virtual_time
async def test_unusable_answer():
    """A reference whose answer cannot be used is asked twice, at once and not for minutes, and is a break."""
    loop, service = asyncio.get_running_loop(), Service({"A": [paid("A")], "B": [MALFORMED]})
    rows = await rows_of([entry(2, "A"), entry(3, "B"), entry(4, "A")], service, concurrency=1)
    assert (buckets(rows)[1], rows[1].primary.code) == ("break", "unusable_answer")
    assert (service.asked.count("B"), loop.time()) == (2, 0.0)


@pytest.mark.virtual_time
async def test_unusable_answer_of_the_last_row(tmp_path):
    """A run that resumes for one row asks a reference that was found before, and does not wait as in an outage."""
    loop, answers, ledger = asyncio.get_running_loop(), {"A": [paid("A")], "B": [DOWN]}, [entry(2, "A"), entry(3, "B")]

    async def run():
        with Journal(tmp_path / "journal.sqlite") as journal:
            service = Service(answers)
            return [row async for row in reconcile(ledger, service, journal=journal, clock=Clock())], service.asked

    assert buckets((await run())[0]) == ["matched", "unresolved"]
    answers["B"], began = [MALFORMED], loop.time()
    rows, asked = await run()
    assert (buckets(rows), asked.count("B"), loop.time() - began) == (["matched", "break"], 2, 0.0)
    assert (await run())[1] == []


async def test_unusable_second_is_asked_again(tmp_path):
    """The next run asks again for a difference whose second answer could not be used."""
    ledger = [entry(2, "A"), entry(3, "B")]

    async def run(*answers):
        with Journal(tmp_path / "journal.sqlite") as journal:
            service = Service({"A": [paid("A")], "B": list(answers)})
            rows = [row async for row in reconcile(ledger, service, journal=journal, clock=Clock())]
            return buckets(rows)

    assert await run(paid("B", amount=90), MALFORMED) == ["matched", "unresolved"]
    assert await run(paid("B", amount=90)) == ["matched", "break"]


async def test_no_probe_asks_again(tmp_path):
    """What was not believed for lack of a known-good probe is asked again by the next run, and by then may be found."""
    ledger = [entry(2, "A"), entry(3, "B")]

    async def run(service, **options):
        with Journal(tmp_path / "journal.sqlite") as journal:
            options |= {"journal": journal, "clock": Clock(), "concurrency": 1}
            return buckets([row async for row in reconcile(ledger, service, **options)]), service.asked

    assert await run(Service({})) == (["unresolved", "unresolved"], ["A", "B"])
    assert await run(Service({}), canary=None) == (["unresolved", "unresolved"], ["A", "B"])
    with_canary = Service({"C": [paid("C")], "B": [paid("B")]})
    assert await run(with_canary, canary="C") == (["break", "matched"], ["C", "A", "B", "A"])


@pytest.mark.virtual_time
async def test_confirm_after():
    """The second lookup waits for `confirm_after`, and the progress says so."""
    loop, service, told, start = asyncio.get_running_loop(), Service({"A": [paid("A", amount=5)]}), [], NOON
    options = {"clock": lambda: start + timedelta(seconds=loop.time()), "on_progress": told.append}
    rows = [row async for row in reconcile([entry(2, "A")], service, confirm_after=600, **options)]
    assert (buckets(rows), loop.time()) == (["break"], pytest.approx(600))
    assert "until 12:10:00 UTC for the second lookup" in {each.waiting for each in told}


@pytest.mark.virtual_time
async def test_confirm_after_is_resumed(tmp_path):
    """A stop ends the wait at once, and the next run waits for the rest of it only."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    service = Service({"A": [paid("A", amount=5)]})

    async def run(**options):
        with Journal(tmp_path / "journal.sqlite") as journal:
            options |= {"journal": journal, "clock": lambda: NOON + timedelta(seconds=loop.time())}
            return buckets([row async for row in reconcile([entry(2, "A")], service, confirm_after=600, **options)])

    loop.call_later(200, stop.set)
    with pytest.raises(StoppedError):
        await run(stop=stop)
    assert loop.time() == pytest.approx(200)
    assert (await run(), loop.time()) == (["break"], pytest.approx(600))


@pytest.mark.virtual_time
@pytest.mark.parametrize("error", [DOWN, MOVED])
async def test_held_up(error):
    """When all that is under way has failed and waits to be asked again, progress says for what, and until when."""
    told, service = [], Service({"A": [paid("A")], "B": [error, paid("B")]})
    rows = await rows_of([entry(2, "A"), entry(3, "B")], service, on_progress=told.append)
    until = "gives up after 4 failures each or 15m without an answer"
    assert f"to retry 1 reference, first 'B' ({type(error).__name__}); {until}" in {each.waiting for each in told}
    assert (told[-1].waiting, buckets(rows)) == ("", ["matched", "matched"])


@pytest.mark.virtual_time
async def test_held_up_before_the_first_answer():
    """Before any answer no row is to blame, and progress says that the service has to answer first."""
    told = []
    await rows_of([entry(3, "B")], Service({"B": [DOWN, paid("B")]}), on_progress=told.append)
    until = "gives up after 15m without an answer"
    assert f"to retry 1 reference, first 'B' (ServiceError); {until}" in {each.waiting for each in told}


async def test_canary():
    """If the canary is missing, nothing else is asked. To ask for it is a part of asking, as progress says."""
    service, told = Service({"A": [paid("A")]}), []
    rows, error = await until_error([entry(2, "A")], service, canary="CANARY", on_progress=told.append)
    assert [(each.phase, each.done, each.total) for each in told[:2]] == [(Phase.READING, 1, 1), (Phase.ASKING, 0, 1)]
    assert isinstance(error, errors.ConfigurationError)
    assert "does not know the canary 'CANARY'" in str(error)
    assert (buckets(rows), service.asked) == (["unresolved"], ["CANARY"])


async def test_fatal():
    """A failure that is the same for everybody is raised after every row was given, the unasked ones unresolved."""
    refused = errors.AuthenticationError("the service refuses the API key", status_code=401)
    service = Service({"A": [paid("A")], "B": [paid("B", amount=5)], "C": [refused], "D": [paid("D")]})
    rows, error = await until_error([entry(n, r) for n, r in enumerate("ABCD")], service, concurrency=1)
    assert error is refused
    assert (buckets(rows), service.asked) == (["matched", "unresolved", "unresolved", "unresolved"], ["A", "B", "C"])


@pytest.mark.virtual_time
async def test_stalled():
    """A service that answers nothing ends the run, and every row is reported with its own failure."""
    async with asyncio.timeout(3600):
        rows, error = await until_error([entry(2, "A")], Service({"A": [DOWN]}), stall_timeout=60)
    assert isinstance(error, errors.DeadlineExceededError)
    assert (buckets(rows), rows[0].error) == (["unresolved"], "ServiceError")


async def test_bugs_stay_bugs():
    """An exception of the lookup function that is not ours comes out as itself, at once."""

    async def lookup(_reference):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await rows_of([entry(2, "A")], lookup)


async def test_bad_ledger():
    """A ledger that fails while it is read fails before anything is asked."""

    def entries():
        yield entry(2, "A")
        message = "line 3"
        raise ValueError(message)

    service = Service({"A": [paid("A")]})
    with pytest.raises(ValueError, match="line 3"):
        await rows_of(entries(), service)
    assert service.asked == []


async def test_async_entries():
    """The ledger may come from an asynchronous source."""

    async def entries():
        for line, reference in enumerate("AB"):
            await asyncio.sleep(0)
            yield entry(line, reference)

    assert buckets(await rows_of(entries(), Service({"A": [paid("A")], "B": [paid("B")]}))) == ["matched"] * 2


@pytest.mark.parametrize("rows", [0, 1])
async def test_left_early(rows):
    """Leaving the loop early, or before the first row, leaves no task behind."""
    service = Service({"A": [paid("A")], "B": [paid("B")]})
    async with aclosing(reconcile([entry(2, "A"), entry(3, "B")], service, clock=Clock())) as each:
        for _ in range(rows):
            await anext(each)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.virtual_time
async def test_cancelled():
    """Cancelling a run in the middle of its lookups leaves no task behind."""

    async def lookup(_reference):
        await asyncio.sleep(3600)

    async def consume():
        async for _ in reconcile([entry(n, f"T{n}") for n in range(9)], lookup, clock=Clock()):
            pass

    task = asyncio.create_task(consume())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_clock():
    """Whatever zone the clock tells, rows carry UTC; one without a zone is refused."""
    clock = Clock(datetime(2026, 11, 21, 19, tzinfo=ZoneInfo("Asia/Jakarta")))
    (row,) = await rows_of([entry(2, "A")], Service({"A": [paid("A")]}), clock=clock)
    assert row.observed_at.isoformat() == "2026-11-21T12:00:01+00:00"
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    with pytest.raises(ValueError, match="clock must return an aware datetime"):
        await rows_of([entry(2, "A")], Service({"A": [paid("A")]}), clock=lambda: naive)


async def test_progress():
    """Progress is reported at the start of each phase and for each answer, with the differences and their money."""
    told = []
    answers = {"A": [paid("A")], "B": [paid("B", amount=90)], "C": [errors.PermissionDeniedError("no")]}
    service = Service(answers)
    await rows_of([entry(n, r) for n, r in enumerate("ABC")], service, concurrency=1, on_progress=told.append)
    assert [
        (each.phase, each.done, each.total, each.differences, each.differences_amount, each.unresolved) for each in told
    ] == [
        (Phase.READING, 3, 3, 0, 0, 0),
        (Phase.ASKING, 0, 3, 0, 0, 0),
        (Phase.ASKING, 1, 3, 0, 0, 0),
        (Phase.ASKING, 2, 3, 1, 100, 0),
        (Phase.ASKING, 3, 3, 1, 100, 1),
        (Phase.CONFIRMING, 0, 1, 1, 100, 0),
        (Phase.CONFIRMING, 1, 1, 1, 100, 0),
    ]


async def test_others_get_their_turn():
    """Reading and judging many rows lets the rest of the event loop run."""
    turns = 0

    async def others():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(others())
    await rows_of([RejectedEntry(line=n, reason="x") for n in range(2000)], Service({}))
    task.cancel()
    assert turns >= 10


async def test_hostile_references():
    """References of any characters, NUL included, are kept apart and kept whole."""
    names = ["\U0010ffff", "a\0b", "a", "A", "a ", "é", "e\u0301", "' OR 1=1 --"]
    service = Service({name: [paid(name)] for name in names})
    rows = await rows_of([entry(n, name) for n, name in enumerate(names)], service)
    assert ([row.reference for row in rows], set(buckets(rows))) == (names, {"matched"})


async def test_transaction_comes_back():
    """The row's transaction is the one that was answered, deviations included."""
    told = paid(
        "A",
        amount=10**17,
        fee=1,
        amount_received=10**17 - 1,
        merchant_reff="M",
        payment_method="VA",
        payment_name="Bank",
        payment_code="007",
        expdate=datetime.fromisoformat("2026-11-21 10:00:00"),
        deviations=("odd",),
    )
    (row,) = await rows_of([Entry(line=1, reference="A")], Service({"A": [told]}))
    assert (row.transaction, row.transaction.deviations) == (told, ("odd",))


async def test_second_lookup_over_a_fresh_connection():
    """Only the second lookup of a reference goes over a new connection, with no word of the caller."""
    transport = ScriptedTransport()
    async with client(transport) as pay:
        await rows_of([entry(1, "A")], pay.get_transaction)
    assert [request.needs_fresh_connection for request in transport.sent] == [False, True]


@pytest.mark.virtual_time
@pytest.mark.parametrize("error", [DOWN, WEB_PAGE], ids=["500", "web page"])
async def test_one_row_that_always_fails(error):
    """A row that always fails holds a small run for 40 s at most, wherever it stands: others took less than 5 s."""
    loop, began = asyncio.get_running_loop(), 0.0
    for names in ("AB", "BA"):
        service = Service({"A": [paid("A")], "B": [error]})
        rows = await rows_of([entry(n, name) for n, name in enumerate(names)], service, concurrency=2)
        assert {row.reference: row.bucket.value for row in rows} == {"A": "matched", "B": "unresolved"}
        assert service.asked.count("B") <= 5
        began, taken = loop.time(), loop.time() - began
        assert taken < 40


@pytest.mark.virtual_time
async def test_longer_run_waits_longer():
    """A pass of the last row is worth as much time as all others took: here 5, 20 and 60 s, each up to half less."""
    loop, asked = asyncio.get_running_loop(), []

    async def lookup(reference):
        asked.append(reference)
        await asyncio.sleep(60)
        if reference == "B":
            raise DOWN
        return paid(reference)

    await rows_of([entry(2, "A"), entry(3, "B")], lookup, concurrency=1)
    assert loop.time() - 60 * len(asked) > (5 + 20 + 60) / 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("rows", [2, 4])
async def test_redirected_row(rows):
    """A row that is always redirected is unresolved wherever it stands, also in the phase of the second lookups."""
    for place in range(rows):
        for answers in ([MOVED], [paid("R", amount=5), MOVED]):
            references = ["R" if n == place else f"T{n}" for n in range(rows)]
            service = Service({name: [paid(name)] for name in references} | {"R": answers})
            found, error = await until_error([entry(n, name) for n, name in enumerate(references)], service)
            assert error is None
            assert buckets(found) == ["unresolved" if name == "R" else "matched" for name in references]


@pytest.mark.virtual_time
async def test_redirected_second_lookup():
    """A reference that was answered once, and is redirected then, shows no wrong address, even if it is alone."""
    found, error = await until_error([entry(2, "R")], Service({"R": [paid("R", amount=5), MOVED]}))
    assert (buckets(found), error) == (["unresolved"], None)


@pytest.mark.virtual_time
async def test_redirected_rows_in_the_next_run(tmp_path):
    """Rows that are always redirected are unresolved in the next run too, where nothing else is left to look up."""
    ledger = [entry(2, "A"), *(entry(n, f"R{n}") for n in range(3, 8))]
    answers = {"A": [paid("A")]} | {f"R{n}": [MOVED] for n in range(3, 8)}
    for _ in range(2):
        with Journal(tmp_path / "journal.sqlite") as journal:
            found, error = await until_error(ledger, Service(answers), journal=journal)
        assert (buckets(found), error) == (["matched", *["unresolved"] * 5], None)


@pytest.mark.virtual_time
@pytest.mark.parametrize("rows", [1, 2, 3, 9])
async def test_redirected_ledger(rows):
    """Three redirects and no answer end the run, and a ledger of one or two rows too, within half a minute."""
    loop, service = asyncio.get_running_loop(), Service({f"T{n}": [MOVED] for n in range(rows)})
    found, error = await until_error([entry(n, f"T{n}") for n in range(rows)], service)
    assert (error, buckets(found), len(service.asked)) == (MOVED, ["unresolved"] * rows, 3)
    assert loop.time() < 30

"""Rules are plain values that say how differences are judged."""

import copy
import io
import json
import pickle
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import reduce
from itertools import product
from pathlib import Path
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile import (
    STRICT,
    Accepted,
    Calendar,
    Code,
    FeeSchedule,
    Finding,
    Journal,
    Kind,
    Kinds,
    Lines,
    Meta,
    Rules,
    RulesError,
    StatementRules,
    Status,
    Tolerance,
    judge_again,
    read_status,
    reconcile,
    rules_as_json,
    rules_from_json,
)
from payclient.reconcile._judgement.rules import LineKinds, check_currencies
from payclient.reconcile.ledger import Dialect, Entry, LedgerError, RejectedEntry, UnusedColumn, open_ledger
from support.misses import check_table
from support.ruling import DAYS, accepted, rules_of

ROOT = Path(__file__).parents[2]
ACCEPTED = accepted("T1", largest_difference=500)
BOUNDED = attrs.asdict(ACCEPTED)
OTHER = attrs.evolve(ACCEPTED, reference="T2")
FULL = Rules(
    columns={"amount": "Betrag"},
    tolerances={"amount": Tolerance(below=500, above_percent="0.5")},
    statuses={"Settled": "paid"},
    grace=timedelta(hours=36),
    material_from=1_000_000,
    time_zone=ZoneInfo("Asia/Jakarta"),
    fees={"VA": FeeSchedule(flat=4000, percent="0.70", maximum=9000, rounding="up")},
    accepted=[OTHER, ACCEPTED],
)


def test_used():
    """Each rule is read by the package, beyond its declaration, and by a test."""
    for folder in ("payclient", "tests"):
        text = "\n".join(module.read_text(encoding="utf-8") for module in (ROOT / folder).rglob("*.py"))
        names = [each.name for each in attrs.fields(Rules) if each.init]
        assert [name for name in names if not re.search(rf"\.{name}\b|\b{name}=", text)] == [], folder


def test_read_status():
    """The six words, and those of the rules, are read whatever their letters; every other word is unknown."""
    rules = Rules(statuses={"Settled": "paid", "Partially  Paid": Status.PENDING})
    check_table(
        (
            *(("SETTLED", Status.PAID), ("_settled ", Status.PAID), ("partially-paid", Status.PENDING)),
            *((word, Status.PAID) for word in ("Paid", " PAID ", "_paid-")),
            *((word, Status.CANCELED) for word in ("Canceled", "cancelled")),
            *(("pending", Status.PENDING), ("EXPIRED", Status.EXPIRED)),
            *(("failed", Status.FAILED), ("Refunded", Status.REFUNDED)),
            *((word, None) for word in ("other", "success", "unpaid", "1", "00", "2", "", " ", "pa id", None)),
        ),
        rules.read_status,
    )
    assert read_status("Paid", {"paid": Status.FAILED}) is Status.PAID  # what everybody knows keeps its meaning
    assert Rules(statuses={"Paid": "paid", "Done": "paid", "DONE": "paid"}).statuses == {"paid": "paid", "done": "paid"}


ZONE = "a name such as Asia/Jakarta, or an offset such as +07:00, got "
DURATION = "a duration such as '90m', '12h' or '1d 12h', or '2 business days', got "
WHOLE = "a whole number that is not negative, got "
FILLED = "text that is not empty, got "
DAY = "a date such as 2026-12-31, got "
INEXACT = [-1, 101, 0.5, "half", " 5", "1_0", "1e1", "", "0.0000001", Decimal("NaN"), Decimal("Infinity"), True, []]
REFUSED = (
    # What a file can say is refused by the tests of a file, too.
    (Rules, "columns", [{"amount": " "}, {"amount": 1}], "columns.amount must be the name of a column, got "),
    (Rules, "tolerances", [{"expdate": Tolerance()}], "tolerances: unknown field 'expdate': the fields are "),
    (Rules, "grace", [timedelta(seconds=-1), timedelta(milliseconds=1), 3600], f"grace must be {DURATION}"),
    (Rules, "time_zone", [timezone(timedelta(seconds=1)), 7], f"time_zone must be {ZONE}"),
    (Rules, "accepted", [[ACCEPTED, OTHER, ACCEPTED]], "accepted: underpaid of 'T1' is listed twice"),
    # A word that is known keeps its meaning, a word has one meaning, and a number has none.
    (Rules, "statuses", [{"Paid": "failed"}], "statuses.Paid must not be failed: 'Paid' always means paid"),
    (Rules, "statuses", [{"CANCELLED": "expired"}], "statuses.CANCELLED must not be expired: 'CANCELLED' always"),
    (Rules, "statuses", [{"done": "paidd"}, {"done": ["paid"]}], "statuses.done must be one of paid, pending, "),
    (Rules, "statuses", [{"Done": "paid", "done ": "failed"}], "statuses.done  must be paid, as the same word "),
    (Rules, "statuses", [{"1": "paid"}, {"-0.0": "paid"}, {"\uff11": "paid"}, {"": "paid"}], "statuses: '"),
    (Rules, "methods", [{"a": ""}, {"a": 1}, {"a": ["VA"]}], "methods.a must be the service's word for the payment "),
    (Rules, "methods", [{"": "VA"}], "methods. must be the service's word for the payment "),
    (Rules, "methods", [{"Bank": "VA", "bank ": "QR"}], "methods.bank  must be VA, as the same word in other "),
    (Rules, "final_statuses", [["pending"]], "final_statuses must not have pending, which is not the end of a payment"),
    (Rules, "final_statuses", ["paid", 1], "final_statuses must be a list of statuses, got "),
    (Rules, "final_statuses", [["odd"]], "final_statuses must be one of paid, pending, "),
    # Numbers are exact: a bound is whole, and a percentage from 0 to 100 has few places.
    (Tolerance, "below", [-1, 1.0, "5", True, 10**18 + 1], f"below must be {WHOLE}"),
    (Tolerance, "above_percent", INEXACT, "above_percent must be a percentage from 0 to 100"),
    (FeeSchedule, "flat", [-1, Decimal(1)], f"flat must be {WHOLE}"),
    (FeeSchedule, "minimum", [None], f"minimum must be {WHOLE}"),
    (FeeSchedule, "maximum", [5.0], f"maximum must be {WHOLE}"),
    (FeeSchedule, "percent", [None, "101"], "percent must be a percentage"),
    (FeeSchedule, "rounding", ["half_even", ["up"]], "rounding must be one of half_up, up, down"),
    # An acceptance is complete, and names both values or a largest difference: else it would hide any later one.
    (Accepted, "code", ["underpayed", ["underpaid"]], "code must be one of not_in_ledger, "),
    (Accepted, "reference", ["", 1], f"reference must be {FILLED}"),
    (Accepted, "reason", [" \n"], f"reason must be {FILLED}"),
    (Accepted, "owner", [None], f"owner must be {FILLED}nothing"),
    (Accepted, "ledger", [True], "ledger must be text or a whole number"),
    (Accepted, "service", [1.5], "service must be text or a whole number"),
    (Accepted, "largest_difference", [-1], f"largest_difference must be {WHOLE}"),
    (Accepted, "expires", [datetime(2026, 12, 31), "31.12.2026", "20261231", "2026-02-30"], f"expires must be {DAY}"),  # noqa: DTZ001
)


TABLES = (
    *((Rules, ()), (Calendar, ("calendar",)), (Dialect, ("ledger",)), (Tolerance, ("tolerances", "fee"))),
    *((FeeSchedule, ("fees", "VA")), (Lines, ("lines",)), (Kinds, ("lines", "kind")), (Meta, ("meta",))),
    (StatementRules, ("statement",)),
)
"""The tables of a rules file that may have any keys, with their places."""


def problem_of(document):
    try:
        rules_from_json(document)
    except (TypeError, ValueError) as error:
        return error
    return None


def refusal(kind, fields):
    with pytest.raises(RulesError) as caught:
        kind(**fields)
    return caught.value


def test_refused():
    """What cannot be a rule is refused when it is made, by the name of its field."""
    misses = []
    for kind, name, values, message in REFUSED:
        for value in values:
            error = refusal(kind, (BOUNDED if kind is Accepted else {}) | {name: value})
            if error.key[0] != name or not str(error).startswith(message):
                misses.append((message, error))
    assert misses == []
    assert refusal(Rules, {"statuses": {"1": "paid"}}).key == ("statuses", "1")
    assert str(refusal(FeeSchedule, {"minimum": 5, "maximum": 4})) == "maximum must be at least the minimum 5, got 4"
    for bounds in ({}, {"ledger": 100}, {"service": 100}, {"ledger": 100, "largest_difference": 5}):
        error = refusal(Accepted, BOUNDED | {"largest_difference": None} | bounds)
        assert str(error).startswith("largest_difference must be given, or both ledger and service")


def test_number_is_refused():
    """A number with a fraction, alone or in a list or table, is refused for each key of a file, by the key's name."""
    misses = []
    for kind, path in TABLES:
        for name, value in product((each.name for each in attrs.fields(kind) if each.init), (3.5, [3.5], {"x": 3.5})):
            table = ({"column": "Type"} if kind is Kinds else {}) | {name: value}
            error = problem_of(reduce(lambda value, part: {part: value}, reversed(path), table))
            if not isinstance(error, RulesError) or error.key[: len(path) + 1] != (*path, name):
                misses.append((*path, name, value, error))
    assert misses == []


def test_unchangeable():
    """A table that was given can be changed without the rules."""
    given_to = {"settled": "paid"}
    rules = Rules(statuses=given_to)
    given_to["done"] = "paid"
    assert rules.read_status("done") is None
    with pytest.raises(TypeError):
        rules.statuses["done"] = Status.PAID


def test_as_json():
    """In plain values, rules have the shape of a rules file; without rules, every difference counts."""
    assert Rules() == STRICT
    assert rules_as_json(STRICT) == {
        "time_zone": None,
        "grace": "0s",
        "assume_status": "paid",
        "columns": {},
        "tolerances": {},
        "statuses": {},
        "fees": {},
        "accepted": [],
    }
    assert rules_as_json(FULL) == {
        "time_zone": "Asia/Jakarta",
        "grace": "1d 12h",
        "assume_status": "paid",
        "material_from": 1_000_000,
        "columns": {"amount": "Betrag"},
        "tolerances": {"amount": {"below": 500, "above_percent": "0.5"}},
        "statuses": {"settled": "paid"},
        "fees": {"VA": {"flat": 4000, "percent": "0.7", "minimum": 0, "maximum": 9000, "rounding": "up"}},
        "accepted": [
            {
                "code": "underpaid",
                "reference": name,
                "largest_difference": 500,
                "reason": "agreed",
                "owner": "Ana",
                "expires": "2026-12-31",
            }
            for name in ("T1", "T2")
        ],
    }


def test_zone():
    """Any time zone survives a round trip."""
    for zone, text in (
        (UTC, "UTC"),
        (ZoneInfo("UTC"), "UTC"),
        (timezone(timedelta(hours=7), "WIB"), "+07:00"),
        (timezone(timedelta(hours=-3, minutes=-30)), "-03:30"),
        (ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
    ):
        rules = Rules(time_zone=zone)
        assert rules_as_json(rules)["time_zone"] == text
        assert rules_from_json(rules_as_json(rules)) == rules


@given(rules=rules_of(days=DAYS))
def test_round_trip(rules):
    """Rules that went through JSON are the same, and have the same fingerprint."""
    again = rules_from_json(json.loads(json.dumps(rules_as_json(rules))))
    assert (again, again.fingerprint) == (rules, rules.fingerprint)


CHANGES = (
    ({"tolerances": {}}, False),
    ({"statuses": {"settled": "failed"}}, False),
    ({"grace": timedelta(hours=1)}, False),
    ({"time_zone": UTC}, False),
    ({"time_zone": None}, False),
    ({"fees": {"VA": FeeSchedule(flat=4001)}}, False),
    ({"accepted": [ACCEPTED]}, False),
    ({"lines": Lines(of_one_reference="sum")}, False),
    ({"statement": StatementRules(settles_within="3d")}, False),
    ({"not_found_messages": ["Kode tak dikenal"]}, False),
    ({"lines": Lines()}, True),
    ({"final_statuses": ["paid"]}, True),
    ({}, True),
    ({"columns": {}}, True),
    ({"accepted": [ACCEPTED, OTHER]}, True),
    ({"tolerances": {"amount": Tolerance(below=500, above_percent="0.500")}}, True),
    ({"statuses": {"SETTLED": "paid"}}, True),
)


def test_fingerprint():
    """The fingerprint tells any change of a judgement, not how it is written, and is that of earlier versions."""
    check_table(CHANGES, lambda change: attrs.evolve(FULL, **change).fingerprint == FULL.fingerprint)
    assert FULL.fingerprint == "2ac3db5ab966f638120ced1a4566a861ef77ec507b47729e26c20433631d92dc"
    assert STRICT.fingerprint == "5a5d62f6edbadb77a8b48cb2135315afeb0e91a9ede21748a7d58d97e39777bb"


def test_error():
    """The error keeps its key and its line when it is copied, and is one of configuration."""
    error = RulesError("no", key=("accepted", 0), line=3)
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(again), again.key, again.line, isinstance(again, ValueError)) == ("no", ("accepted", 0), 3, True)


def test_fee():
    """Flat and percentage are added, rounded as the schedule says, and then bounded."""
    check_table(
        (
            ({}, 15_000, 0),
            ({"flat": 4_000}, 15_000, 4_000),
            ({"percent": "0.7"}, 15_000, 105),
            ({"flat": 1_000, "percent": "0.7"}, 15_000, 1_105),
            ({"percent": "0.7", "minimum": 200}, 15_000, 200),
            ({"percent": "0.7", "minimum": 105}, 15_000, 105),
            ({"percent": "0.7", "maximum": 100}, 15_000, 100),
            ({"flat": 50, "maximum": 0}, 15_000, 0),
            ({"percent": 1}, 150, 2),
            ({"percent": 1}, 149, 1),
            ({"percent": 1, "rounding": "up"}, 101, 2),
            ({"percent": 1, "rounding": "up"}, 100, 1),
            ({"percent": 1, "rounding": "down"}, 199, 1),
            ({"percent": 1}, -150, 0),
            ({"flat": 10, "percent": 1}, -150, 9),
        ),
        lambda schedule, amount: FeeSchedule(**schedule).fee_of(amount),
    )


@given(
    amount=st.integers(0, 10**18), millionths=st.integers(0, 10**8), rounding=st.sampled_from(["half_up", "up", "down"])
)
def test_exact(amount, millionths, rounding):
    """For any amount, the percentage is rounded once, from its exact value."""
    fee = FeeSchedule(percent=Decimal(millionths).scaleb(-6), rounding=rounding).fee_of(amount)
    down, rest = divmod(amount * millionths, 10**8)
    expected = {"down": down, "up": down + bool(rest), "half_up": down + (2 * rest >= 10**8)}[rounding]
    assert fee == expected


def test_tolerance():
    """A difference is within when every bound of its own side holds, and there is one."""
    check_table(
        (
            ({"below": 500}, 10_000, 9_500, "within the tolerance of 500 below"),
            ({"below": 500}, 10_000, 9_499, ""),
            ({"below": 500}, 10_000, 10_001, ""),
            ({"above": 500}, 10_000, 10_500, "within the tolerance of 500 above"),
            ({"above": 500}, 10_000, 10_501, ""),
            ({"above": 500}, 10_000, 9_999, ""),
            ({"above": 0}, 10_000, 10_001, ""),
            ({"below_percent": "0.50"}, 10_000, 9_950, "within the tolerance of 0.5 % below"),
            ({"below_percent": "0.50"}, 10_000, 9_949, ""),
            ({"above_percent": 1}, 10_000, 10_100, "within the tolerance of 1 % above"),
            ({"above_percent": 1}, 10_000, 10_101, ""),
            ({"below": 60, "below_percent": "0.5"}, 10_000, 9_950, "within the tolerance of 60 and 0.5 % below"),
            ({"below": 60, "below_percent": "0.5"}, 10_000, 9_945, ""),
            ({"below": 40, "below_percent": "0.5"}, 10_000, 9_955, ""),
            ({}, 10_000, 9_999, ""),
            # A percentage is one of the ledger's number without its sign.
            ({"below_percent": 1}, -100, -101, "within the tolerance of 1 % below"),
        ),
        lambda bounds, ours, theirs: Tolerance(**bounds).waiver(ours, theirs),
    )


MONEY = st.integers(-(10**18), 10**18)


@given(ours=MONEY, theirs=MONEY, percent=st.decimals(0, 100, places=6))
def test_exact_of_tolerance(ours, theirs, percent):
    """For any numbers, the percentage is compared exactly."""
    is_within = bool(Tolerance(above_percent=percent, below_percent=percent).waiver(ours, theirs))
    millionths = int(percent.scaleb(6))
    assert is_within == (abs(theirs - ours) * 100 * 10**6 <= abs(ours) * millionths)


@given(ours=MONEY, theirs=MONEY, bound=st.integers(0, 10**18))
def test_sides(ours, theirs, bound):
    """What one side allows says nothing of the other."""
    assert not (Tolerance(above=bound).waiver(ours, theirs) and theirs < ours)
    assert not (Tolerance(below=bound).waiver(ours, theirs) and theirs > ours)


JAKARTA = ZoneInfo("Asia/Jakarta")


def test_acceptance():
    """An acceptance is found by code and reference together, and holds on its last day, in its zone or anywhere."""
    assert FULL.acceptance(Code.UNDERPAID, "T1") is ACCEPTED
    assert (FULL.acceptance(Code.OVERPAID, "T1"), FULL.acceptance(Code.UNDERPAID, "T3")) == (None, None)
    assert Accepted(**BOUNDED | {"code": Code.UNDERPAID, "expires": "2026-12-31"}) == ACCEPTED
    check_table(
        (
            ("2026-12-31T16:59:59", JAKARTA, True),
            ("2026-12-31T17:00:00", JAKARTA, False),
            ("2026-12-31T23:59:59", UTC, True),
            ("2027-01-01T00:00:00", UTC, False),
            ("2027-01-01T11:59:59", None, True),
            ("2027-01-01T12:00:00", None, False),
        ),
        lambda at, zone: ACCEPTED.days_left(datetime.fromisoformat(at).replace(tzinfo=UTC), zone) >= 0,
    )


def test_waiver():
    """The sentence of an acceptance names the owner, the last day and the reason, and cannot act on a terminal."""
    assert ACCEPTED.waiver == "accepted by Ana until 2026-12-31: agreed"
    waiver = attrs.evolve(ACCEPTED, reason="\x1b[2J\u202e" + "x" * 5000).waiver
    assert (waiver.isprintable(), len(waiver) < 1000) == (True, True)


SIDES = {"largest_difference": None, "ledger": 15_000, "service": 14_500}


def test_covers():
    """It holds for what was accepted, and no longer when either side has changed or more money is at stake."""

    def covers(fields, code, ledger, service):
        found = Finding(Code(code), "", ledger=ledger, service=service).weighed(15_000, 14_500)
        return Accepted(**BOUNDED | {"code": code} | fields).covers(found)

    check_table(
        (
            ({}, "underpaid", 15_000, 14_500, True),
            ({}, "underpaid", 15_000, 14_499, False),
            ({}, "underpaid", 99_999, 0, False),
            (SIDES, "underpaid", 15_000, 14_500, True),
            (SIDES, "underpaid", 15_000, 14_501, False),
            (SIDES, "underpaid", 15_001, 14_500, False),
            ({"ledger": 15_000, "service": 14_500, "largest_difference": 499}, "underpaid", 15_000, 14_500, False),
            ({}, "fee_differs", None, 500, True),
            ({}, "fee_differs", None, 501, False),
            ({}, "recorded_not_paid", "Paid", "Pending", False),
            ({"largest_difference": 15_000}, "recorded_not_paid", "Paid", "Pending", True),
            (SIDES | {"ledger": "Paid", "service": "Pending"}, "recorded_not_paid", "Paid", "Pending", True),
            (SIDES | {"ledger": "Paid", "service": "Pending"}, "recorded_not_paid", "Paid", "Refunded", False),
            (SIDES | {"service": ""}, "missing_at_service", 15_000, None, True),
            (SIDES | {"service": ""}, "missing_at_service", 99_999, None, False),
            (SIDES | {"ledger": "T2", "service": "INV"}, "paid_twice", "T2", "INV", True),
            (SIDES | {"ledger": "T2", "service": "INV"}, "paid_twice", "T2, T3", "INV", False),
        ),
        covers,
    )
    for leakage in (500, -500, 501):  # of a leakage, what is lacking is bounded, to either side
        finding = Finding(Code.SHORT_RECEIVED, "", leakage=leakage).weighed(15_000, 15_000)
        assert attrs.evolve(ACCEPTED, code=Code.SHORT_RECEIVED).covers(finding) is (abs(leakage) <= 500)
    unknown = Finding(Code.MISSING_AT_SERVICE, "", ledger="T1").weighed(None, None)
    assert not attrs.evolve(ACCEPTED, code=Code.MISSING_AT_SERVICE).covers(unknown)


def test_kinds():
    """A word means its kind whatever its case, spaces and dashes; without a rule, every line is a charge."""
    lines = Rules().lines
    assert (lines.of_one_reference, lines.kind_of("anything")) == ("duplicate", Kind.CHARGE)
    kinds = Kinds(column="Type", charge=["Charge"], refund=["Payment-Refund"], ignore=["payout", "top up"])
    summed = Lines(of_one_reference="sum", kind=kinds)
    found = [summed.kind_of(word) for word in ("CHARGE", "payment refund", "Payout ", "other", None)]
    assert found == [Kind.CHARGE, Kind.REFUND, Kind.IGNORE, None, None]
    # Lines that are left out are counted by word, with what they state.
    lines, ignored = (("Payout", -5), ("charge", 7), ("payout", None), ("TOP-UP", 3), (None, 1)), LineKinds(kinds)
    taken = [ignored.leaves_out(Entry(line=2, reference="T1", kind=kind), amount) for kind, amount in lines]
    assert taken == [True, False, True, True, False]
    assert [(each.word, each.lines, each.amount) for each in ignored.ignored] == [("payout", 2, -5), ("top up", 1, 3)]


async def _reconciled(entries, rules, statement=None):
    return [row async for row in reconcile(entries, None, rules=rules, statement=statement)]


def _opened(text, **options):
    return open_ledger(io.StringIO(text), **options)


KINDS_WITHOUT_MEANING = r"a column is read as kind: list its words .* in the table \[{}\]"


async def test_kind_without_meaning():
    """A column that is used as the kind needs words for it in Python too: else a refund counts as a receipt."""
    text = "reference,amount,Type\nT1,100000,payment\nT2,50000,refund\n"
    with pytest.raises(RulesError, match=KINDS_WITHOUT_MEANING.format("lines.kind")):
        await _reconciled(_opened(text, columns={"kind": "Type"}), STRICT)
    entries = [Entry(line=2, reference="T1", amount=1)]
    with pytest.raises(RulesError, match=KINDS_WITHOUT_MEANING.format("statement.kind")):
        await _reconciled(entries, STRICT, _opened(text, columns={"kind": "Type"}, is_statement=True))
    kinds = Kinds(column="Type", charge=("payment",), refund=("refund",))
    with Journal() as journal:
        for entry in _opened(text, columns={"kind": "Type"}):
            journal.add(entry)
        journal.finish_ledger()
        assert judge_again(journal, rules=Rules(lines=Lines(of_one_reference="sum", kind=kinds))) == 0
        with pytest.raises(RulesError, match=KINDS_WITHOUT_MEANING.format("lines.kind")):
            judge_again(journal, rules=STRICT)


async def test_limits_without_age():
    """A limit on the age of rows is refused if no row has one."""
    entries = [Entry(line=2, reference="T1", amount=1), RejectedEntry(line=3, reason="x")]
    with pytest.raises(RulesError, match=r"grace needs the age of each row, .* --column created_at=NAME"):
        await _reconciled(entries, Rules(grace="3d"))
    within = Rules(statement=StatementRules(settles_within="3d"))
    with pytest.raises(RulesError, match="settles_within needs the age of each row"):
        await _reconciled(entries, within, [])
    assert len(await _reconciled(entries[1:], Rules(grace="3d"))) == 1


async def test_two_currencies():
    """A ledger and a statement in two currencies are never compared; a currency of the statement alone is named."""
    statement = _opened("reference,amount,currency\nT1,5,USD\n", is_statement=True)
    assert (len(list(statement)), statement.unused) == (1, ())
    check_currencies(_opened("reference,amount\nT1,5\n"), statement)
    assert statement.unused == (UnusedColumn("currency", {"USD": 1}),)
    statement = _opened("reference,amount,currency\nT1,5,USD\n", is_statement=True)
    ledger = _opened("reference,amount,currency\nT1,5,IDR\n")
    with pytest.raises(LedgerError, match="has amounts in USD, and the ledger in IDR, which are never compared"):
        await _reconciled(ledger, STRICT, statement)
    statement = _opened("reference,Paid [USD]\nT1,5\n", columns={"amount": "Paid [USD]"}, is_statement=True)
    ledger = _opened("reference,amount,currency\nT1,5,IDR\n")
    with pytest.raises(LedgerError, match="has amounts in USD, and the ledger in IDR, which are never compared"):
        await _reconciled(ledger, STRICT, statement)

"""Rules of each kind for examples, and any rules at all for laws."""

from datetime import UTC, date, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from payclient.reconcile import Accepted, Code, FeeSchedule, Rules, Status, Tolerance


def accepted(reference, code="underpaid", **bounds):
    """Return a difference that Ana accepted to the end of the year, within these bounds."""
    return Accepted(code=code, reference=reference, reason="agreed", owner="Ana", expires=date(2026, 12, 31), **bounds)


SOME_RULES = Rules(
    columns={"amount": "Betrag"},
    tolerances={"amount": Tolerance(above=500)},
    statuses={"berhasil": "paid"},
    grace=timedelta(hours=12),
    time_zone=ZoneInfo("Asia/Jakarta"),
    fees={"VA": FeeSchedule(flat=2500)},
    accepted=[accepted("A", largest_difference=500)],
)
PERCENT = st.decimals(0, 100, places=2)
ZONES = st.sampled_from([None, UTC, ZoneInfo("Asia/Jakarta"), timezone(timedelta(hours=-3, minutes=-30))])
GRACES = st.sampled_from([timedelta(0), timedelta(minutes=90), timedelta(days=2)])


def sometimes(**fields):
    return st.fixed_dictionaries({}, optional=fields)


def accepted_of(codes, references, days):
    """Return accepted differences, each at most once."""
    one = st.builds(
        Accepted,
        code=codes,
        reference=references,
        reason=st.just("agreed"),
        owner=st.sampled_from(["Ana", "Budi"]),
        largest_difference=st.sampled_from([0, 3, 10**9]),
        expires=days,
    )
    return st.lists(one, unique_by=lambda each: (each.code, each.reference), max_size=10)


def rules_of(*, most=10, references=("A", "B", "C", "D", "E"), words=("settled", "Done "), methods=("VA", "QR"), days):
    """
    Return any rules.

    Args:
        most: The largest absolute tolerance and fee.
        references: That differences are accepted of.
        words: That get a meaning.
        methods: That have a schedule of fees.
        days: On which acceptances end.
    """
    money = st.integers(0, most)
    tolerance = sometimes(above=money, below=money, above_percent=PERCENT, below_percent=PERCENT)
    schedule = st.builds(
        lambda minimum, more, fields: FeeSchedule(
            minimum=minimum, maximum=None if more is None else minimum + more, **fields
        ),
        money,
        st.none() | money,
        sometimes(flat=money, percent=PERCENT, rounding=st.sampled_from(["half_up", "up", "down"])),
    )
    return st.builds(
        Rules,
        tolerances=sometimes(
            **dict.fromkeys(("amount", "fee", "amount_received"), tolerance.map(lambda t: Tolerance(**t)))
        ),
        statuses=sometimes(**dict.fromkeys(words, st.sampled_from(list(Status)))),
        grace=GRACES,
        time_zone=ZONES,
        fees=sometimes(**dict.fromkeys(methods, schedule)),
        accepted=accepted_of(st.sampled_from(list(Code)), st.sampled_from(references), days),
    )


DAYS = st.dates(date(2026, 11, 19), date(2026, 11, 23))
"""Around the day on which the clock of the tests stands."""

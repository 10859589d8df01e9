"""How long the service asked to wait."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.protocol._refusal import retry_after
from support.misses import check_table

NOW = datetime(2030, 1, 31, 12, 0, 0, tzinfo=UTC)
END = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
EPOCH = int(NOW.timestamp())


def ask(headers, *, is_throttled=True):
    return retry_after(headers, is_throttled=is_throttled, now=lambda: NOW)


RETRY_AFTER = {
    "now": ("0", 0.0),
    "seconds": ("120", 120.0),
    "padded": (" 120 ", 120.0),
    "fraction": ("1.5", 1.5),
    "a-day": ("86400", 86400.0),
    "unix-time": (str(EPOCH + 30), 30.0),
    "unix-time-in-milliseconds": (str((EPOCH + 30) * 1000), 30.0),
    "date": ("Thu, 31 Jan 2030 12:00:30 GMT", 30.0),
    "date-with-zone": ("Thu, 31 Jan 2030 19:00:30 +0700", 30.0),
    "obsolete-date": ("Thursday, 31-Jan-30 12:00:30 GMT", 30.0),
    "asctime": ("Thu Jan 31 12:00:30 2030", 30.0),
    "past-is-now": ("Thu, 31 Jan 2030 11:59:00 GMT", 0.0),
    "far-future": ("Fri, 31 Dec 9999 23:59:59 GMT", (END - NOW).total_seconds()),
    "year-99999": ("Fri, 31 Dec 99999 23:59:59 GMT", None),
    "date-of-64-characters": (f"Thu, 31 Jan 2030 12:00:30 GMT ({'x' * 32})", 30.0),
    "date-of-65-characters": (f"Thu, 31 Jan 2030 12:00:30 GMT ({'x' * 33})", None),
    "empty": ("", None),
    "negative": ("-1", None),
    "inf": ("inf", None),
    "nan": ("nan", None),
    "exponent": ("1e3", None),
    "5000-digits": ("9" * 5000, None),
    "arabic-digits": ("\u0661\u0662", None),
    "words": ("soon", None),
    "repeated": ("5, 5", None),
    "nul": ("\x00" * 20, None),
}


def test_retry_after():
    """`Retry-After` is seconds or a date; a past date means now, and an unreadable value is ignored."""
    check_table(RETRY_AFTER.values(), lambda value: ask({"retry-after": value}))


def test_rate_limit_headers(subtests):
    """Without a usable `Retry-After`, the reset of the rate-limit headers counts, but only for a throttled request."""
    cases = {
        "x-ratelimit-seconds": ({"x-ratelimit-reset": "30"}, 30.0),
        "x-ratelimit-moment": ({"x-ratelimit-reset": str(EPOCH + 30)}, 30.0),
        "x-ratelimit-milliseconds": ({"x-ratelimit-reset": str((EPOCH + 30) * 1000)}, 30.0),
        "most-seconds": ({"x-ratelimit-reset": "999999999"}, 999999999.0),
        "first-moment": ({"x-ratelimit-reset": "1000000000"}, 0.0),
        "last-moment": ({"x-ratelimit-reset": "999999999999"}, 999999999999.0 - EPOCH),
        "first-milliseconds": ({"x-ratelimit-reset": "1000000000000"}, 0.0),
        "x-ratelimit-past": ({"x-ratelimit-reset": str(EPOCH - 30)}, 0.0),
        "x-rate-limit": ({"x-rate-limit-reset": "30"}, 30.0),
        "ratelimit-reset": ({"ratelimit-reset": "30"}, 30.0),
        "draft-combined": ({"ratelimit": "limit=100, remaining=0, reset=30"}, 30.0),
        "draft-structured": ({"ratelimit": '"default";r=0;t=30'}, 30.0),
        "draft-fraction": ({"ratelimit": '"default";r=0;t=1.5'}, 1.5),
        "draft-moment": ({"ratelimit": f'"default";r=0;t={EPOCH + 30}'}, 30.0),
        "draft-milliseconds": ({"ratelimit": f"limit=100, remaining=0, reset={(EPOCH + 30) * 1000}"}, 30.0),
        "draft-nonsense": ({"ratelimit": f"reset={'9' * 14}"}, None),
        "draft-without-reset": ({"ratelimit": "limit=100"}, None),
        "negative": ({"x-ratelimit-reset": "-3"}, None),
        "retry-after-wins": ({"retry-after": "5", "x-ratelimit-reset": "30"}, 5.0),
        "unusable-does-not-win": ({"retry-after": "soon", "x-ratelimit-reset": "30"}, 30.0),
        "left": ({"x-ratelimit-remaining": "500", "x-ratelimit-reset": "3600"}, None),
        "left-elsewhere": ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "30", "remaining": "5"}, 30.0),
        "left-structured": ({"ratelimit": '"hour";r=500;t=3600'}, None),
        "unreadable-left": ({"x-ratelimit-remaining": "many", "x-ratelimit-reset": "30"}, 30.0),
        "nothing": ({}, None),
    }
    for case, (headers, seconds) in cases.items():
        with subtests.test(case):
            assert ask(headers) == seconds
            assert ask(headers, is_throttled=False) == (5.0 if "retry-after-wins" in case else None)


@pytest.fixture
def local_zone(monkeypatch):
    """Let the machine's own time be seven hours ahead of UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "WIB-7")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows cannot change the zone of a process")
def test_date_without_zone(local_zone):
    """A date without a zone is UTC, wherever the machine is."""
    assert ask({"retry-after": "Thu Jan 31 12:00:30 2030"}) == 30.0


def test_service_clock():
    """A moment is measured against the service's own `Date`: its clock may differ from ours."""
    headers = {"retry-after": "Thu, 31 Jan 2030 10:00:30 GMT", "date": "Thu, 31 Jan 2030 10:00:00 GMT"}
    assert ask(headers) == 30.0


def test_damaged_date():
    """A `Date` that cannot be read is as good as none."""
    assert ask({"retry-after": "Thu, 31 Jan 2030 12:00:30 GMT", "date": "yesterday, about noon"}) == 30.0


words = st.sampled_from(["Thu,", "31", "Jan", "2030", "12:00:30", "GMT", "+9999999", "-0700", "99999", "1e9", "", ":"])
values = st.text(max_size=70) | st.lists(words, max_size=8).map(" ".join) | st.integers().map(str)
names = st.sampled_from(["retry-after", "x-ratelimit-reset", "ratelimit", "ratelimit-reset", "date"])


@given(st.dictionaries(names, values))
def test_any_headers(headers):
    """Any headers give None or a finite number of seconds, 0 or more."""
    seconds = ask(headers)
    assert seconds is None or 0 <= seconds < 10**13

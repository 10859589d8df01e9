"""How long the service asked to wait."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.protocol._retry_after import retry_after

NOW = datetime(2030, 1, 31, 12, 0, 0, tzinfo=UTC)
END = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
EPOCH = int(NOW.timestamp())


def ask(headers):
    return retry_after(headers, now=lambda: NOW)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param("0", 0.0, id="now"),
        pytest.param("120", 120.0, id="seconds"),
        pytest.param(" 120 ", 120.0, id="padded"),
        pytest.param("1.5", 1.5, id="fraction"),
        pytest.param("86400", 86400.0, id="a-day"),
        pytest.param("Thu, 31 Jan 2030 12:00:30 GMT", 30.0, id="date"),
        pytest.param("Thu, 31 Jan 2030 19:00:30 +0700", 30.0, id="date-with-zone"),
        pytest.param("Thursday, 31-Jan-30 12:00:30 GMT", 30.0, id="obsolete-date"),
        pytest.param("Thu Jan 31 12:00:30 2030", 30.0, id="asctime"),
        pytest.param("Thu, 31 Jan 2030 11:59:00 GMT", 0.0, id="past-is-now"),
        pytest.param("Fri, 31 Dec 9999 23:59:59 GMT", (END - NOW).total_seconds(), id="far-future"),
        pytest.param("Fri, 31 Dec 99999 23:59:59 GMT", None, id="year-99999"),
        pytest.param(f"Thu, 31 Jan 2030 12:00:30 GMT ({'x' * 32})", 30.0, id="date-of-64-characters"),
        pytest.param(f"Thu, 31 Jan 2030 12:00:30 GMT ({'x' * 33})", None, id="date-of-65-characters"),
        pytest.param("", None, id="empty"),
        pytest.param("-1", None, id="negative"),
        pytest.param("inf", None, id="inf"),
        pytest.param("nan", None, id="nan"),
        pytest.param("1e3", None, id="exponent"),
        pytest.param("9" * 5000, None, id="5000-digits"),
        pytest.param("\u0661\u0662", None, id="arabic-digits"),
        pytest.param("soon", None, id="words"),
        pytest.param("5, 5", None, id="repeated"),
        pytest.param("\x00" * 20, None, id="nul"),
    ],
)
def test_retry_after(value, seconds):
    """`Retry-After` is seconds or a date; a past date means now, and an unreadable value is ignored."""
    assert ask({"retry-after": value}) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"x-ratelimit-reset": "30"}, 30.0, id="x-ratelimit-seconds"),
        pytest.param({"x-ratelimit-reset": str(EPOCH + 30)}, 30.0, id="x-ratelimit-moment"),
        pytest.param({"x-ratelimit-reset": str((EPOCH + 30) * 1000)}, 30.0, id="x-ratelimit-milliseconds"),
        pytest.param({"x-ratelimit-reset": "999999999"}, 999999999.0, id="most-seconds"),
        pytest.param({"x-ratelimit-reset": "1000000000"}, 0.0, id="first-moment"),
        pytest.param({"x-ratelimit-reset": "999999999999"}, 999999999999.0 - EPOCH, id="last-moment"),
        pytest.param({"x-ratelimit-reset": "1000000000000"}, 0.0, id="first-milliseconds"),
        pytest.param({"x-ratelimit-reset": str(EPOCH - 30)}, 0.0, id="x-ratelimit-past"),
        pytest.param({"x-rate-limit-reset": "30"}, 30.0, id="x-rate-limit"),
        pytest.param({"ratelimit-reset": "30"}, 30.0, id="ratelimit-reset"),
        pytest.param({"ratelimit": "limit=100, remaining=0, reset=30"}, 30.0, id="draft-combined"),
        pytest.param({"ratelimit": '"default";r=0;t=30'}, 30.0, id="draft-structured"),
        pytest.param({"ratelimit": "limit=100"}, None, id="draft-without-reset"),
        pytest.param({"x-ratelimit-reset": "-3"}, None, id="negative"),
        pytest.param({"retry-after": "5", "x-ratelimit-reset": "30"}, 5.0, id="retry-after-wins"),
        pytest.param({"retry-after": "soon", "x-ratelimit-reset": "30"}, 30.0, id="unusable-does-not-win"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_rate_limit_headers(headers, seconds):
    """Without a usable `Retry-After`, the reset of the rate-limit headers counts."""
    assert ask(headers) == seconds


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

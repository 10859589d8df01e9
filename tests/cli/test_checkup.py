"""What the doctor makes of what it saw."""

from __future__ import annotations

import pytest

from payclient import errors
from payclient.cli._doctor import (
    Check,
    Checkup,
    State,
    advice_for,
    check_certificate,
    check_clock,
    steps_in_words,
)

NOW = 1_790_000_000.0
DATE = "Mon, 21 Sep 2026 14:13:20 GMT"
BANK = "Bank, Bank Root"
ISSUER = ((("countryName", "ID"),), (("organizationName", "Bank"),), (("commonName", "Bank Root"),))


def certificate(days):
    at = {20: "Oct 11 14:13:20 2026 GMT", 21: "Oct 12 14:13:20 2026 GMT", -1: "Sep 20 14:13:20 2026 GMT"}
    return {"issuer": ISSUER, "notAfter": at[days]}


@pytest.mark.parametrize(
    ("days", "is_public", "expected"),
    [
        (21, True, [("TLS", "ok", f"TLSv1.3, issued by {BANK}"), ("certificate", "ok", "expires in 21 days")]),
        (
            20,
            None,
            [("TLS", "ok", "TLSv1.3, issued by Bank, Bank Root"), ("certificate", "look", "expires in 20 days")],
        ),
        (
            21,
            False,
            [
                ("TLS", "look", "TLSv1.3, issued by Bank, Bank Root, which is not a public authority"),
                ("certificate", "ok", "expires in 21 days"),
            ],
        ),
    ],
)
def test_certificate(days, is_public, expected):
    """A stranger's authority and a certificate about to expire want a look, and say what to do."""
    checkup = Checkup()
    check_certificate("TLSv1.3", certificate(days), NOW, checkup, is_public=is_public)
    assert [(check.topic, check.state, check.text) for check in checkup.checks] == expected
    assert [bool(check.advice) for check in checkup.checks] == [state == "look" for _, state, _ in expected]


def test_issuer_without_a_name():
    """An issuer that has neither an organisation nor a name is said to have none."""
    checkup = Checkup()
    check_certificate("TLSv1.2", {"notAfter": "Oct 12 14:13:20 2026 GMT"}, NOW, checkup, is_public=True)
    assert checkup.checks[0].text == "TLSv1.2, issued by an authority without a name"


@pytest.mark.parametrize(
    ("date", "ahead", "seconds", "state", "text"),
    [
        (DATE, 0, 0, "ok", "within 60 s of the service's"),
        (DATE, 60, 0, "ok", "within 60 s of the service's"),
        (DATE, 65, 10, "ok", "within 60 s of the service's"),
        (DATE, 61, 0, "look", "61 s ahead of the service's"),
        (DATE, -3600, 10, "look", "3600 s behind the service's"),
        (None, 0, 0, "ok", "not compared: the service names no date"),
        ("yesterday", 0, 0, "ok", "not compared: the service names no date"),
    ],
)
def test_clock(date, ahead, seconds, state, text):
    """A clock that differs by more than a minute, beside the time of the answer, wants a look."""
    checkup = Checkup()
    check_clock(date, NOW + ahead, seconds, checkup)
    assert [(check.state, check.text) for check in checkup.checks] == [(state, text)]


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (errors.AuthenticationError("x"), "check the key"),
        (errors.PermissionDeniedError("x"), "check the key's rights"),
        (errors.RateLimitedError("x"), "come back later"),
        (errors.ProxyRefusedError("x", step="proxy"), "check the proxy's address"),
        (errors.ConnectionFailedError("x", step="name"), "check the host"),
        (errors.AttemptTimeoutError("x", step="waiting"), "try again"),
        (errors.ConnectionFailedError("x"), ""),
        (errors.ServiceError("x"), "try again later"),
    ],
)
def test_advice(error, advice):
    """What to do depends on the step at which a lookup failed, or on who refused it."""
    assert advice_for(error).startswith(advice)
    assert bool(advice_for(error)) == bool(advice)


def test_steps():
    """Each step takes until the next one begins."""
    assert steps_in_words([("name", 1.0), ("connect", 1.25), ("tls", 1.5), ("sending", 2.0)]) == (
        "name 0.250 s, connect 0.250 s, tls 0.500 s"
    )


def test_checkup():
    """A checkup is as good as its worst check; advice stands below it."""
    checkup = Checkup()
    assert checkup.state is State.OK
    checkup.add("one", State.WRONG, "broken", "mend it")
    checkup.add("two", State.LOOK, "odd")
    assert checkup.checks == [Check("one", State.WRONG, "broken", "mend it"), Check("two", State.LOOK, "odd")]
    assert checkup.as_rows() == [("wrong", "one", "broken"), ("", "", "-> mend it"), ("look", "two", "odd")]
    assert checkup.as_json() == {
        "status": "wrong",
        "checks": [
            {"topic": "one", "state": "wrong", "text": "broken", "advice": "mend it"},
            {"topic": "two", "state": "look", "text": "odd", "advice": ""},
        ],
    }

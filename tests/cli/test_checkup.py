"""What the doctor makes of what it saw."""

from __future__ import annotations

from payclient import errors
from payclient.cli._doctor import Check, State, advice_for, certificates, clock, in_json, steps_in_words, table

NOW = 1_790_000_000.0
DATE = "Mon, 21 Sep 2026 14:13:20 GMT"
BANK = "Bank, Bank Root"
ISSUER = ((("countryName", "ID"),), (("organizationName", "Bank"),), (("commonName", "Bank Root"),))


def certificate(days):
    at = {20: "Oct 11 14:13:20 2026 GMT", 21: "Oct 12 14:13:20 2026 GMT", -1: "Sep 20 14:13:20 2026 GMT"}
    return {"issuer": ISSUER, "notAfter": at[days]}


def test_certificate():
    """A stranger's authority and a certificate about to expire need attention, and say what to do."""
    issued, expires = f"TLSv1.3, issued by {BANK}", "expires in {} days"
    strange = f"{issued}, which is not a public authority"
    for days, is_public, tls, end in (
        (21, True, ("ok", issued), ("ok", expires.format(21))),
        (20, None, ("ok", issued), ("look", expires.format(20))),
        (21, False, ("look", strange), ("ok", expires.format(21))),
    ):
        found = list(certificates("TLSv1.3", certificate(days), NOW, is_public=is_public))
        assert [(each.topic, each.state, each.text) for each in found] == [("TLS", *tls), ("certificate", *end)]
        assert [bool(each.advice) for each in found] == [each.state == "look" for each in found]


def test_issuer_without_a_name():
    """An issuer that has neither an organisation nor a name is said to have none."""
    tls, _ = certificates("TLSv1.2", {"notAfter": "Oct 12 14:13:20 2026 GMT"}, NOW, is_public=True)
    assert tls.text == "TLSv1.2, issued by an authority without a name"


def test_clock():
    """A clock that differs by more than a minute, beside the time of the answer, needs attention."""
    near, unknown = "within 60 s of the service's", "not compared: the service names no date"
    cases = {
        (DATE, 0, 0): ("ok", near),
        (DATE, 60, 0): ("ok", near),
        (DATE, 65, 10): ("ok", near),
        (DATE, 61, 0): ("look", "61 s ahead of the service's"),
        (DATE, -3600, 10): ("look", "3600 s behind the service's"),
        (None, 0, 0): ("ok", unknown),
        ("yesterday", 0, 0): ("ok", unknown),
    }
    found = {case: clock(case[0], NOW + case[1], case[2]) for case in cases}
    assert {case: (each.state, each.text) for case, each in found.items()} == cases


def test_advice():
    """What to do depends on the step at which a lookup failed, or on who refused it."""
    for error, advice in (
        (errors.AuthenticationError("x"), "check the key"),
        (errors.PermissionDeniedError("x"), "check the key's rights"),
        (errors.RateLimitedError("x"), "come back later"),
        (errors.ProxyRefusedError("x", step="proxy"), "check the proxy's address"),
        (errors.ConnectionFailedError("x", step="name"), "check the host"),
        (errors.AttemptTimeoutError("x", step="waiting"), "try again"),
        (errors.ConnectionFailedError("x"), ""),
        (errors.ServiceError("x"), "try again later"),
    ):
        found = advice_for(error)
        assert (found[: len(advice)], bool(found)) == (advice, bool(advice)), repr(error)


def test_steps():
    """Each step takes until the next one begins."""
    assert steps_in_words([("name", 1.0), ("connect", 1.25), ("tls", 1.5), ("sending", 2.0)]) == (
        "name 0.250 s, connect 0.250 s, tls 0.500 s"
    )


def test_checkup():
    """A checkup is as good as its worst check; advice stands below it."""
    checks = [Check("one", State.WRONG, "broken", "mend it"), Check("two", State.LOOK, "odd")]
    assert table(checks) == ["wrong  one  broken", "            -> mend it", "look   two  odd"]
    assert in_json([]) == {"status": "ok", "checks": []}
    assert in_json(checks) == {
        "status": "wrong",
        "checks": [
            {"topic": "one", "state": "wrong", "text": "broken", "advice": "mend it"},
            {"topic": "two", "state": "look", "text": "odd", "advice": ""},
        ],
    }

"""The rules of a wait, one at a time and without I/O."""

import pytest

from payclient import ConfigurationError, ServiceError, Transaction, TransactionNotFoundError, UnreachableStatusError
from payclient.client._confirm import Wait

MISSING = TransactionNotFoundError("no such transaction", status_code=404)


def seen(status, **fields):
    return Transaction(reference="T1", amount=1, status=status, **fields)


def begun(*, random=lambda: 1.0, **terms):
    terms = {"until": {"Paid"}, "unless": (), "deadline": 900.0, "appear": 10.0, **terms}
    terms = {"interval": 2.0, "max_interval": 30.0, **terms}
    return Wait(reference="T1", began_at=100.0, random=random, **terms)


def test_refused_terms(subtests):
    """What cannot be waited for is refused, with the argument and what it must be."""
    cases = (
        ({"until": "Paid"}, "until must be a set of statuses, such as {'Paid'}, or a predicate, got 'Paid'"),
        ({"until": None}, "until must be a set of statuses, such as {'Paid'}, or a predicate, got None"),
        ({"until": ["Paid", 1]}, "until must be a set of statuses"),
        ({"until": {""}}, "until must be a set of statuses"),
        ({"until": set()}, "until must be a set of statuses, such as {'Paid'}, or a predicate, got set()"),
        ({"unless": "Canceled"}, "unless must be a set of statuses"),
        ({"unless": ["Paid", "Canceled"]}, "until and unless both name 'Paid'"),
        ({"until": ["A", "B"], "unless": ["B", "A"]}, "until and unless both name 'A', 'B'"),
        ({"interval": 0}, "interval must be a number of seconds above 0, got 0"),
        ({"interval": 31.0}, "interval must be at most max_interval, got 31 and 30"),
        ({"max_interval": float("inf")}, "max_interval must be a number of seconds above 0, got inf"),
        ({"appear": -1}, "appear must be a number of seconds, 0 or more, got -1"),
    )
    for terms, problem in cases:
        with subtests.test(terms=terms, problem=problem):
            with pytest.raises(ConfigurationError) as caught:
                begun(**terms)
            assert str(caught.value).startswith(problem)


async def test_async_predicate():
    """An async predicate, which would always seem to hold, is refused."""

    async def is_paid(transaction):
        return transaction.status == "Paid"

    with pytest.raises(ConfigurationError, match="until must be a plain function"):
        begun(until=is_paid)


@pytest.mark.parametrize("status", ["paid", "PAID", "Paid ", "Pending"])
def test_words_are_exact(status):
    """A status that is written otherwise is another status: none is taken for final that was not named."""
    assert begun().take(seen(status), 101.0) is None


def test_until_goes_before_unless():
    """Where predicates overlap, what was waited for has come."""
    assert begun(unless=lambda _: True).take(seen("Paid"), 101.0) == seen("Paid")


@pytest.mark.parametrize(("chance", "part"), [(0.0, 0.8), (1.0, 1.0)])
def test_intervals(chance, part):
    """Intervals grow by half to the longest one; chance takes off a fifth at most."""
    wait, now, found = begun(random=lambda: chance), 100.0, []
    for _ in range(10):
        wait.take(seen("Pending"), now)
        found.append(wait.due_at - now)
        now = wait.due_at
    planned = [2.0, 3.0, 4.5, 6.75, 10.125, 15.1875, 22.78125, 30.0, 30.0, 30.0]
    assert found == pytest.approx([part * each for each in planned])


@pytest.mark.parametrize(("at", "is_raised"), [(109.9, False), (110.0, True)])
def test_appears(at, is_raised):
    """Not found is tolerated for `appear` seconds from the beginning."""
    wait = begun(appear=10.0)
    if is_raised:
        with pytest.raises(TransactionNotFoundError):
            wait.take(MISSING, at)
    else:
        assert wait.take(MISSING, at) is None


def test_disappears():
    """What was found counts `appear` from when it was found last."""
    wait = begun(appear=10.0)
    wait.take(seen("Pending"), 200.0)
    assert wait.take(MISSING, 209.0) is None
    with pytest.raises(TransactionNotFoundError):
        wait.take(MISSING, 210.0)


def test_raised_error_is_a_copy():
    """Several waits for one reference each raise their own error, so no traceback grows by that of another."""
    with pytest.raises(TransactionNotFoundError) as caught:
        begun(appear=0).take(MISSING, 100.0)
    assert caught.value is not MISSING


def test_answer_forgets_failure():
    """A failure before the last answer is not the cause of a deadline."""
    wait = begun()
    wait.take(ServiceError("down", status_code=503), 101.0)
    failed = wait.exceeded(1000.0).__cause__
    wait.take(seen("Pending"), 102.0)
    assert (str(failed), wait.exceeded(1000.0).__cause__) == ("down", None)


def test_status_that_comes_back():
    """Of a status that was seen several times, the first time is told."""
    wait = begun(unless={"Canceled"})
    for status, at in (("Pending", 101.0), ("Review", 102.0), ("Pending", 103.0)):
        wait.take(seen(status), at)
    with pytest.raises(UnreachableStatusError) as caught:
        wait.take(seen("Canceled"), 104.0)
    assert caught.value.statuses == {"Pending": 1.0, "Review": 2.0, "Canceled": 4.0}


def test_deadline():
    """The error of a deadline says what was seen last, how long the wait took, and in how many lookups."""
    wait = begun()
    unseen = wait.exceeded(1000.0)
    wait.take(seen("Pending"), 101.0)
    assert str(unseen) == "'T1' was not seen after 900 s and 0 lookups"
    assert str(wait.exceeded(1000.0)) == "'T1' is 'Pending' after 900 s and 1 lookup"


def test_almost_the_word():
    """The error of a deadline says if a status that was seen differs in its capital letters only."""
    wait = begun(until={"paid", "settled"})
    wait.take(seen("Paid"), 101.0)
    assert str(wait.exceeded(1000.0)) == (
        "'T1' is 'Paid' after 900 s and 1 lookup: statuses are compared exactly, and until has 'paid', 'settled'"
    )


def test_hostile_status():
    """A status with control characters is harmless in a message."""
    assert "\x1b" not in str(_unreachable("\x1b[31mCanceled"))


def _unreachable(status):
    with pytest.raises(UnreachableStatusError) as caught:
        begun(unless={status}).take(seen(status), 101.0)
    return caught.value

"""One test of many cases, which reports every case that is not as expected."""

import re

import pytest


def check_each(expected, actual):
    """
    Fail with each case of *expected* for which *actual* returns another value.

    Args:
        expected: The expected value, by case; at least one.
        actual: Called with each case.
    """
    assert expected
    found = {case: actual(case) for case in expected}
    misses = [
        f"{case!r}: {found[case]!r}, expected {expected[case]!r}" for case in expected if found[case] != expected[case]
    ]
    if misses:
        pytest.fail("\n".join([f"{len(misses)} of {len(expected)} cases:", *misses]), pytrace=False)


def check_table(rows, actual):
    """Fail with each of *rows* whose last value is not that of `actual` with the others, and with that value."""
    assert rows
    found = [(row, actual(*row[:-1])) for row in rows]
    misses = [f"{row!r}: {value!r}" for row, value in found if value != row[-1]]
    if misses:
        pytest.fail("\n".join([f"{len(misses)} of {len(found)} rows:", *misses]), pytrace=False)


def check_refused(rows, kind, call):
    """Fail with each of *rows* for which a call raises no error of *kind* that has its last value, a pattern."""

    def found(*row):
        try:
            return f"no error, but {call(*row[:-1])!r}"
        except kind as error:
            return row[-1] if re.search(row[-1], str(error)) else str(error)

    check_table([(*row, row[-1]) for row in rows], found)


def refusal(kind, call, *args, **options):
    """Return the text of the error of *kind* that a call raises."""
    with pytest.raises(kind) as caught:
        call(*args, **options)
    return str(caught.value)

"""What can be a reference."""

from __future__ import annotations

import pytest

from payclient._reference import check_reference
from payclient.errors import InvalidReferenceError


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param("T0000000033KGJ0D", id="as-documented"),
        pytest.param("x", id="one-character"),
        pytest.param("x" * 256, id="longest"),
        pytest.param(" R 1 ", id="spaces"),
        pytest.param('"}\\', id="quotes"),
        pytest.param("référence-№7-😀", id="not-ascii"),
        pytest.param("=1+1", id="formula"),
    ],
)
def test_accepted(reference):
    """A reference that prints is sent as it is: the contract shows no format, and the answer must echo it."""
    assert check_reference(reference) is reference


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        pytest.param("", "reference is empty", id="empty"),
        pytest.param("   ", "reference is empty", id="spaces-only"),
        pytest.param("\t\n", "reference is empty", id="white-space-only"),
        pytest.param("x" * 257, "reference must have at most 256 characters, got 257", id="too-long"),
        pytest.param(None, "reference must be a string, got NoneType", id="none"),
        pytest.param(7, "reference must be a string, got int", id="number"),
        pytest.param(b"R", "reference must be a string, got bytes", id="bytes"),
        pytest.param("R\n", r"reference has a character at position 1 that does not print ('\n')", id="newline"),
        pytest.param("R\x00", r"reference has a character at position 1 that does not print ('\x00')", id="nul"),
        pytest.param("\x7fR", r"reference has a character at position 0 that does not print ('\x7f')", id="delete"),
        pytest.param("R\xa0", r"reference has a character at position 1 that does not print ('\xa0')", id="nbsp"),
        pytest.param("R\u200b", r"reference has a character at position 1 that does not print ('\u200b')", id="zero"),
        pytest.param("R\u202e", r"reference has a character at position 1 that does not print ('\u202e')", id="bidi"),
        pytest.param("R\ud800", r"reference has a character at position 1 that does not print ('\ud800')", id="half"),
    ],
)
def test_refused(reference, message):
    """What no format would allow is refused, and the message is ASCII and says where the fault is."""
    with pytest.raises(InvalidReferenceError) as caught:
        check_reference(reference)
    assert str(caught.value) == message

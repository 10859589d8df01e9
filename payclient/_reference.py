"""What can be a reference: checked before anything is sent."""

from __future__ import annotations

from payclient.errors import InvalidReferenceError

LONGEST_REFERENCE = 256


def check_reference(reference: object) -> str:
    """
    Return *reference* unchanged if it can name a transaction.

    The specification shows no format, so this refuses only what no format would allow. Nothing is
    stripped: the answer must carry the very same code.

    Raises:
        InvalidReferenceError: When it is not a string, empty, only white space, longer than 256
            characters, or holds a character that is not printable.
    """
    if not isinstance(reference, str):
        problem = f"must be a string, got {type(reference).__name__}"
    elif not reference.strip():
        problem = "is empty"
    elif len(reference) > LONGEST_REFERENCE:
        problem = f"must have at most {LONGEST_REFERENCE} characters, got {len(reference)}"
    elif not reference.isprintable():
        place = next(i for i, character in enumerate(reference) if not character.isprintable())
        problem = f"has a character at position {place} that does not print ({reference[place]!a})"
    else:
        return reference
    message = f"reference {problem}"
    raise InvalidReferenceError(message)

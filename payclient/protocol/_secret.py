"""The API key: validated at construction, and never printed or pickled."""

from __future__ import annotations

import hashlib
import re
from typing import NoReturn

from payclient.errors import ConfigurationError
from payclient.protocol._redaction import Redaction

_MAX_LENGTH = 4096
_MIN_REDACTED = 8
"""A shorter key is not redacted: it would match inside ordinary words and numbers."""
_HEADER = re.compile(r"(?i)(authorization\s*:\s*)?bearer[:\s]")


class ApiKey:
    """A key that cannot be printed, pickled or copied by accident."""

    __slots__ = ("_bearer", "_redaction", "_text")

    def __init__(self, key: object) -> None:
        problem = _problem(key)
        self._text = str(key).strip()
        self._bearer = f"Bearer {self._text}"
        self._redaction = Redaction(self._text) if len(self._text) >= _MIN_REDACTED else str
        del key  # a traceback may come with the local variables of its frames
        if problem:
            message = f"api_key {problem}"
            raise ConfigurationError(message)

    def authorization(self) -> str:
        """Return the value of the `Authorization` header; do not keep it in a variable."""
        # Transaction detail specification, part 5, rule 1.
        return self._bearer

    @property
    def fingerprint(self) -> str:
        """A short, non-reversible fingerprint of the key: 12 hexadecimal digits."""
        return hashlib.sha256(b"payclient key " + self._text.encode()).hexdigest()[:12]

    def redact(self, text: str) -> str:
        """Return *text* without the key, which some services echo."""
        return self._redaction(text)

    def __repr__(self) -> str:
        return "ApiKey('…')"

    def __reduce__(self) -> NoReturn:
        message = "an API key cannot be pickled or copied; configure it where it is used"
        raise TypeError(message)


def _problem(key: object) -> str:
    """Return the problem with the key and its place, never its text; "" if there is none."""
    if not isinstance(key, str):
        return f"must be a string, got {type(key).__name__}"
    text = key.strip()
    if not text:
        return "is empty; pass api_key=… or set PAYCLIENT_API_KEY"
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`":
        return "is in quotes; pass it without them"
    if _HEADER.match(text):
        return "begins with 'Bearer', which payclient adds; pass the key alone"
    place = next((i for i, character in enumerate(text) if not "!" <= character <= "~"), None)
    if place is not None:
        return f"has a character at position {place} that is not visible ASCII"
    return f"must have at most {_MAX_LENGTH} characters, got {len(text)}" if len(text) > _MAX_LENGTH else ""

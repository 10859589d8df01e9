"""The API key: validated once, shown never."""

from __future__ import annotations

import hashlib
from typing import NoReturn

from payclient.errors import ConfigurationError

_LONGEST = 4096
_SHORTEST_REDACTED = 8
"""A shorter key is no secret, and would be found inside ordinary words and numbers."""


class ApiKey:
    """
    A key that cannot be printed, pickled or copied by accident.

    Args:
        key: Surrounding white space is dropped: a key read from a file often ends in a newline,
            which would otherwise surface, together with the key, in the text of an exception of
            the HTTP library.

    Raises:
        ConfigurationError: When the key is empty or holds anything but visible ASCII.
    """

    __slots__ = ("_bearer", "_text")

    def __init__(self, key: object) -> None:
        # The messages name the fault and its place, never the text.
        if not isinstance(key, str):
            message = f"api_key must be a string, got {type(key).__name__}"
            raise ConfigurationError(message)
        text = key.strip()
        if not text:
            message = "api_key is empty; pass api_key=… or set PAYCLIENT_API_KEY"
            raise ConfigurationError(message)
        place = next((i for i, character in enumerate(text) if not "!" <= character <= "~"), None)
        if place is not None:
            message = f"api_key has a character at position {place} that is not visible ASCII"
            raise ConfigurationError(message)
        if len(text) > _LONGEST:
            message = f"api_key must have at most {_LONGEST} characters, got {len(text)}"
            raise ConfigurationError(message)
        self._text = text
        self._bearer = f"Bearer {text}"

    def authorization(self) -> str:
        """
        Return the value of the `Authorization` header; do not keep it in a variable.

        Source:
            Transaction detail specification, part 5, rule 1.
        """
        return self._bearer

    def fingerprint(self) -> str:
        """Return eight hexadecimal digits that tell two keys apart and give neither away."""
        return hashlib.sha256(self._text.encode()).hexdigest()[:8]

    def redact(self, text: str) -> str:
        """Return *text* without the key: some services echo the request on their error pages."""
        if len(self._text) < _SHORTEST_REDACTED:
            return text
        return text.replace(self._text, "[api key]")

    def __repr__(self) -> str:
        return "ApiKey('…')"

    def __reduce__(self) -> NoReturn:
        message = "an API key cannot be pickled or copied; configure it where it is used"
        raise TypeError(message)

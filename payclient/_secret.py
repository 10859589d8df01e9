"""The API key: validated once, shown never."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import NoReturn
from urllib.parse import quote

from payclient.errors import ConfigurationError

_LONGEST = 4096
_TELLING = 12
"""So many characters of the beginning are the key, even if the rest does not follow."""
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
        problem = _problem(key)
        self._text = str(key).strip()
        self._bearer = f"Bearer {self._text}"
        del key  # a traceback may come with the local variables of its frames
        if problem:
            message = f"api_key {problem}"
            raise ConfigurationError(message)

    def authorization(self) -> str:
        """
        Return the value of the `Authorization` header; do not keep it in a variable.

        Source:
            Transaction detail specification, part 5, rule 1.
        """
        return self._bearer

    @property
    def fingerprint(self) -> str:
        """By what the key is known again, in 12 hexadecimal digits; it does not lead back to the key."""
        return hashlib.sha256(b"payclient key " + self._text.encode()).hexdigest()[:12]

    def redact(self, text: str) -> str:
        """
        Return *text* without the key: some services echo the request on their error pages.

        The key is also found as JSON and URLs write it, and where *text* was cut in the middle of it.
        """
        if len(self._text) >= _SHORTEST_REDACTED:
            for written in _spellings(self._text):
                text = _without(text, written)
        return text

    def __repr__(self) -> str:
        return "ApiKey('…')"

    def __reduce__(self) -> NoReturn:
        message = "an API key cannot be pickled or copied; configure it where it is used"
        raise TypeError(message)


def _problem(key: object) -> str:
    """Name the fault and its place, never the text; "" when there is none."""
    if not isinstance(key, str):
        return f"must be a string, got {type(key).__name__}"
    text = key.strip()
    if not text:
        return "is empty; pass api_key=… or set PAYCLIENT_API_KEY"
    place = next((i for i, character in enumerate(text) if not "!" <= character <= "~"), None)
    if place is not None:
        return f"has a character at position {place} that is not visible ASCII"
    return f"must have at most {_LONGEST} characters, got {len(text)}" if len(text) > _LONGEST else ""


def _spellings(key: str) -> Iterable[str]:
    """Return *key* as it is, as JSON and PHP's JSON write it, and as it stands in a URL."""
    in_json = json.dumps(key)[1:-1]
    return dict.fromkeys((key, in_json, in_json.replace("/", "\\/"), quote(key, safe="")))


def _without(text: str, secret: str) -> str:
    beginning, rest = secret[:_TELLING], secret[_TELLING:]
    first, *others = text.split(beginning)
    return first + "".join("[api key]" + other[_agreement(other, rest) :] for other in others)


def _agreement(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)

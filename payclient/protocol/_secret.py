"""The API key: validated at construction, never printed or pickled, and redacted from text in its usual encodings."""

import hashlib
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from html import unescape
from itertools import takewhile
from typing import NoReturn

from payclient.errors import ConfigurationError

REMOVED = "[api key]"
"""The text that replaces the secret."""

_MIN_PREFIX = 12
"""Redact a prefix of at least this length: the text may have been truncated."""
_MAX_LAYERS = 3
_ESCAPE = re.compile(
    r"\\++(?:u00([0-9a-f]{2})|u\{0*([0-9a-f]{2})\}|x([0-9a-f]{2}))"  # JSON, JSON in JSON, JavaScript
    r"|%([0-9a-f]{2})"
    r"|&\#x0*([0-9a-f]{2})(?![0-9a-f]);?"
    r"|(&\#0*[0-9]{2,3}(?![0-9]);?|&[a-z]{2,24};)"
    r"|\\++",  # PHP's JSON writes a slash like this
    re.IGNORECASE,
)


class Redaction:
    """Redacts a secret from texts."""

    # It is found in plain text, in base64 (at any offset, also URL-safe), in up to three layers of the escapes of
    # HTML, JSON and URLs, and where a text was truncated in the middle of it.

    __slots__ = ("_beginnings", "_secrets")

    def __init__(self, secret: str) -> None:
        self._secrets = tuple(dict.fromkeys(text for text in (*_layers(secret), *_in_base64(secret.encode())) if text))
        self._beginnings = tuple(written[:_MIN_PREFIX] for written in self._secrets)

    def __call__(self, text: str) -> str:
        # Two loops of `in`, because each response is searched: a regular expression takes seven times as long.
        for layer in _layers(text) if "\\" in text or "%" in text or "&" in text else (text,):
            for beginning in self._beginnings:
                if beginning in layer:
                    return self._redacted(text)
        return text

    def _redacted(self, text: str) -> str:
        spans: list[tuple[int, int]] = []
        plain, places = text, list(range(len(text) + 1))
        for _ in range(_MAX_LAYERS + 1):
            spans += [(places[start], places[end]) for start, end in self._found(plain)]
            plain, places = _unescaped(plain, places)
        shown, done = "", 0
        for start, end in sorted(spans):
            if start >= done:
                shown += text[done:start] + REMOVED
            done = max(done, end)
        return shown + text[done:]

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        for beginning, secret in zip(self._beginnings, self._secrets, strict=True):
            start = text.find(beginning)
            while start >= 0:
                end = start + sum(takewhile(bool, map(str.__eq__, text[start : start + len(secret)], secret)))
                yield start, end
                start = text.find(beginning, end)


def _layers(text: str) -> list[str]:
    """Return *text*, and *text* unescaped once, twice and three times."""
    layers = [text, text.replace("\\/", "/")]  # the only escape in an ordinary response of PHP, and fast
    while len(layers) < _MAX_LAYERS + 2 and any(map(layers[-1].__contains__, "\\%&")):
        layers.append(_ESCAPE.sub(_character, layers[-1]))
    return layers


def _unescaped(text: str, places: list[int]) -> tuple[str, list[int]]:
    """Return *text* without one layer of escapes, and the position of each character in the original text."""
    characters: list[str] = []
    kept: list[int] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        plain = _character(match)
        characters += (text[end : match.start()], plain)
        kept += (*places[end : match.start()], *[places[match.start()]] * len(plain))
        end = match.end()
    return "".join((*characters, text[end:])), [*kept, *places[end:]]


def _character(match: re.Match[str]) -> str:
    if match[6]:
        return unescape(match[6])
    digits = next(filter(None, match.groups()), "")
    return chr(int(digits, 16)) if digits else ""


def _in_base64(secret: bytes) -> Iterator[str]:
    """Yield, for each offset, the characters of its base64 that do not depend on the neighbouring bytes."""
    for before, first in enumerate((0, 2, 3)):
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(b"\0" * before + secret).decode()[first : (before + len(secret)) * 8 // 6]


_MAX_LENGTH = 4096
_MIN_REDACTED = 8
"""A shorter key is not redacted: it would match inside ordinary words and numbers."""
_HEADER = re.compile(r"(?i)(authorization\s*:\s*)?bearer[:\s]")


class ApiKey:
    """A key that cannot be printed, pickled or copied by accident."""

    __slots__ = ("_bearer", "_text", "redact")

    redact: Callable[[str], str]
    """Return a text without the key. Some services echo it."""

    def __init__(self, key: object) -> None:
        problem = _problem(key)
        self._text = str(key).strip()
        self._bearer = f"Bearer {self._text}"
        self.redact = Redaction(self._text) if len(self._text) >= _MIN_REDACTED else str
        del key  # a traceback may include the local variables of its frames
        if problem:
            advice = "" if self._text else ": pass api_key=… or set PAYCLIENT_API_KEY"
            raise ConfigurationError(f"api_key {problem}{advice}", option="api_key", problem=problem)

    def authorization(self) -> str:
        """Return the value of the `Authorization` header. Do not keep it in a variable."""
        # Transaction detail specification, part 5, rule 1.
        return self._bearer

    @property
    def fingerprint(self) -> str:
        """A short, non-reversible fingerprint of the key: 12 hexadecimal digits."""
        return hashlib.sha256(b"payclient key " + self._text.encode()).hexdigest()[:12]

    def __repr__(self) -> str:
        return "ApiKey('…')"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key can't be pickled or copied: configure it where it is used")


def _problem(key: object) -> str:
    """Return the problem with the key and its place, never its text. "" without one."""
    text = key.strip() if isinstance(key, str) else ""
    place = next((i for i, character in enumerate(text) if not "!" <= character <= "~"), None)
    problems = (
        (not isinstance(key, str), f"must be a string, got {type(key).__name__}"),
        (not text, "is empty"),
        (len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`", "is in quotes: pass it without them"),
        (_HEADER.match(text), "begins with 'Bearer', which payclient adds: pass only the key"),
        (place is not None, f"has a character at position {place} that is not visible ASCII"),
        (len(text) > _MAX_LENGTH, f"must have at most {_MAX_LENGTH} characters, got {len(text)}"),
    )
    return next((problem for holds, problem in problems if holds), "")

"""The host, port and scheme that a request is sent to."""

from __future__ import annotations

from urllib.parse import urlsplit

from attrs import frozen

_DEFAULT_PORTS = {"http": 80, "https": 443}


@frozen
class Origin:
    """Where requests go: those with the same origin share connections."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        """Return the origin of an absolute URL."""
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme])

    def __str__(self) -> str:
        """Return host and port as the `Host` header has them: without a port that the scheme implies."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

"""The options for the service: its address, the key, time-outs and limits."""

import os
from pathlib import Path
from typing import Annotated, Any, cast

from attrs import asdict, frozen
from cyclopts import Group, Parameter

from payclient import AsyncClient, Environment
from payclient._shared.options import MAX_CONCURRENCY, OPTIONS, TIMEOUT
from payclient.cli._process import RARE, RefusalError, Seconds, Streams, Texts, shown
from payclient.client import ClientOptions, decode_key, read_key_file
from payclient.transports import NetworkOptions, Transport, TransportName


@Parameter(name="*", group=Group("Service", sort_key=10))
@frozen(kw_only=True)
class ConnectionOptions:
    """
    The service, and the limits of lookups.

    Attributes:
        base_url: Address of the service, `https://…`. Default: `PAYCLIENT_BASE_URL`.
        environment: `live` or `sandbox`. Default: `PAYCLIENT_ENVIRONMENT`, or else `live`.
        api_key_file: File with the key, `-` for standard input. Default: `PAYCLIENT_API_KEY`.
        timeout: Time for one attempt.
        max_rate: Maximum of attempts per second. The client adapts below it.
        proxy: Proxy, without a password. Default: `PAYCLIENT_PROXY`, or `HTTPS_PROXY`.
        ca_file: PEM file of authorities to trust. Default: `SSL_CERT_FILE`, or the system's.
        max_concurrency: Maximum of attempts in flight. The client adapts below it.
        not_found_messages: Whole message that means "no such transaction". May be repeated.
        client_cert: PEM file with the certificate to show to the service.
        client_key: PEM file with its key, if that is in another file.
    """

    base_url: Annotated[str | None, Parameter(metavar="URL")] = None
    environment: Annotated[Environment | None, Parameter(metavar="NAME", show_choices=False)] = None
    api_key_file: Annotated[Path | None, Parameter(allow_leading_hyphen=True, metavar="FILE")] = None
    timeout: Seconds = TIMEOUT
    max_rate: Annotated[float | None, Parameter(metavar="NUMBER")] = None
    proxy: Annotated[str | None, Parameter(metavar="URL")] = None
    ca_file: Annotated[Path | None, Parameter(metavar="FILE")] = None
    max_concurrency: Annotated[int, Parameter(metavar="NUMBER"), RARE] = MAX_CONCURRENCY
    not_found_messages: Annotated[Texts, Parameter(name="--not-found-message", metavar="TEXT"), RARE] = ()
    client_cert: Annotated[Path | None, Parameter(metavar="FILE"), RARE] = None
    client_key: Annotated[Path | None, Parameter(metavar="FILE"), RARE] = None

    @property
    def takes_key_from_stdin(self) -> bool:
        """Whether standard input has the key, and nothing else."""
        return self.api_key_file == Path("-")

    def client(
        self,
        streams: Streams,
        *,
        deadline: float | None = None,
        not_found_messages: tuple[str, ...] = (),
        transport: Transport | None = None,
    ) -> AsyncClient:
        """Return a client for the service. The caller closes it, and the *transport*, built for `network`."""
        self.check()
        default: TransportName | None = None if os.environ.get("PAYCLIENT_TRANSPORT") else "fast"
        options = {
            **self._given("client", "view"),
            "api_key": self._api_key(streams),
            "not_found_messages": (*self.not_found_messages, *not_found_messages),
            "deadline": deadline,
            "transport": transport or default,
            **({} if transport else self.network()),
        }
        return AsyncClient(**cast("ClientOptions", options))

    def check(self, *files: Path | None) -> None:
        """Refuse to ask without an address and a key. The message also names those of the *files* that are missing."""
        unset = dict[str, str]()
        if self.base_url is None and not os.environ.get("PAYCLIENT_BASE_URL"):
            unset["PAYCLIENT_BASE_URL"] = "no service address: pass --base-url https://… or set PAYCLIENT_BASE_URL"
        if self.api_key_file is None and not os.environ.get("PAYCLIENT_API_KEY", "").strip():
            unset["PAYCLIENT_API_KEY"] = "no API key: set PAYCLIENT_API_KEY or pass --api-key-file PATH"
        if unset:
            missing = (
                f"{shown(file)} does not exist" for file in files if file and f"{file}" != "-" and not file.exists()
            )
            message = ", and ".join((*unset.values(), *missing))
            raise RefusalError(message, option="api_key", first=f"set {' and '.join(unset)}")

    def network(self) -> NetworkOptions:
        return cast("NetworkOptions", self._given("network"))

    def _given(self, *scopes: str) -> dict[str, Any]:
        """Return the options of these *scopes*, by their names in `AsyncClient`."""
        return asdict(self, filter=lambda option, _: option.name in OPTIONS and OPTIONS[option.name].scope in scopes)

    def _api_key(self, streams: Streams) -> str | None:
        """Return the key from the file or standard input. None when the client takes it from the environment."""
        if self.api_key_file is None:
            return None
        try:
            return decode_key(streams.stdin) if self.takes_key_from_stdin else read_key_file(self.api_key_file)
        except OSError as error:
            message = f"--api-key-file: the file cannot be read: {error.strerror}"  # its name may be the key itself
            raise RefusalError(message, option="api_key", is_last=True) from error

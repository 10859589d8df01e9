"""
Fakes of the payment service, for tests of your own application.

`FakeService` is the service in memory. `serve` runs it on a socket (extra `testing`).
`payclient.testing.respx` has routes for respx. The pytest fixtures `pay_service` and `pay_client`
are available whenever payclient is installed.
"""

# The names are loaded at their first use: pytest imports this package at the start of every run,
# because of the plugin in it.

from typing import TYPE_CHECKING

from payclient._shared.lazy import load_at_first_use

if TYPE_CHECKING:
    from payclient.testing._serve import serve
    from payclient.testing._service import Assumptions, FakeService, Latency, ReceivedRequest, Reply, changed, envelope

__all__ = ["Assumptions", "FakeService", "Latency", "ReceivedRequest", "Reply", "changed", "envelope", "serve"]

if not TYPE_CHECKING:  # type checkers read the imports above, and so notice a name that is not there
    __getattr__, __dir__ = load_at_first_use(__name__, "_service", "_serve", is_internal=True)

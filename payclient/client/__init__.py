"""Internal: the client: options, one lookup, many lookups, waits. Its room is `policies`."""

# The names are loaded at their first use, so the reconciliation can use a stream without the client.

from payclient._shared.lazy import load_at_first_use

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from payclient.client._client import AsyncClient as AsyncClient
    from payclient.client._client import ClientOptions as ClientOptions
    from payclient.client._client import OptionChanges as OptionChanges
    from payclient.client._client import Shared as Shared
    from payclient.client._config import Options as Options
    from payclient.client._config import decode_key as decode_key
    from payclient.client._config import read_key_file as read_key_file
    from payclient.client._config import resolve_application as resolve_application
    from payclient.client._config import resolve_base_url as resolve_base_url
    from payclient.client._config import resolve_environment as resolve_environment
    from payclient.client._config import resolve_messages as resolve_messages
    from payclient.client._config import resolve_rate as resolve_rate
    from payclient.client._confirm import Confirmation as Confirmation
    from payclient.client._confirm import FieldDifference as FieldDifference
    from payclient.client._session import closed as closed
    from payclient.client._session import running_loop as running_loop
    from payclient.client._stream import PASSES as PASSES
    from payclient.client._stream import LookupFunction as LookupFunction
    from payclient.client._stream import is_passing as is_passing
    from payclient.client._stream import stream as stream
    from payclient.client._telemetry import Attempt as Attempt
    from payclient.client._telemetry import Stats as Stats
    from payclient.client.policies import RetryPolicy as RetryPolicy

_ROOMS = ("policies", "_telemetry", "_stream", "_config", "_confirm", "_session", "_client")
"""From the lowest up, so that the search of a name loads what its own room needs anyway."""

if not TYPE_CHECKING:  # type checkers read the imports above, and so notice a name that is not there
    __getattr__, __dir__ = load_at_first_use(__name__, *_ROOMS, is_internal=True)

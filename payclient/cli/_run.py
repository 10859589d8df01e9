"""From the command line to one command, and from whatever ends it to an exit status."""

from __future__ import annotations

import asyncio
import errno
import inspect
import re
import signal
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import attrs
from cyclopts import CycloptsError

from payclient.cli._app import app
from payclient.cli._status import Exit, status_of
from payclient.cli._streams import Streams, abandon
from payclient.errors import ConfigurationError, PayClientError
from payclient.reconcile import JournalWriteError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a disk says that is full or fails: the same command may well succeed when that is mended."""
_KEY_AS_ARGUMENT = re.compile(r"--(api[-_]?)?(key|token)(=|$)")


def run(arguments: Sequence[str], streams: Streams) -> int:
    """Run one command; whatever happens, the user gets one line and the shell a status."""
    streams = attrs.evolve(streams, arguments=tuple(arguments))
    try:
        status = _dispatch(arguments, streams)
        streams.stdout.flush()
    except CycloptsError as error:
        error.verbose = False
        return _end(streams, Exit.USAGE, f"{' '.join(str(error).split())} (see payclient --help)")
    except PayClientError as error:
        return _end(streams, status_of(error), str(error))
    except BrokenPipeError:
        abandon(streams.stdout)
        return Exit.CLOSED
    except (OSError, ModuleNotFoundError) as error:
        return _end(streams, Exit.AGAIN if _is_disk_at_fault(error) else Exit.USAGE, _in_words(error))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _end(streams, Exit.INTERRUPTED, "interrupted")
    except Exception:  # noqa: BLE001  the last boundary: Python's own status for it, 1, means something else here
        for line in traceback.format_exc().splitlines():
            streams.tell(line)
        return _end(streams, Exit.BUG, "this is a bug of payclient; please report the lines above")
    return status


def _end(streams: Streams, status: Exit, message: str) -> Exit:
    streams.tell(f"payclient: {message}")
    return status


def _is_disk_at_fault(error: OSError | ModuleNotFoundError) -> bool:
    return isinstance(error, JournalWriteError) or getattr(error, "errno", None) in _NO_ROOM


def _in_words(error: OSError | ModuleNotFoundError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _dispatch(arguments: Sequence[str], streams: Streams) -> int:
    if any(_KEY_AS_ARGUMENT.match(argument) for argument in arguments):
        message = (
            "the key is never an argument, which others could read: set PAYCLIENT_API_KEY or pass --api-key-file PATH"
        )
        raise ConfigurationError(message)
    command: Callable[..., Any]
    command, bound, injected = app.parse_args(
        list(arguments), console=streams.console(), exit_on_error=False, print_error=False
    )
    given = {"streams": streams, "app": app}
    result = command(*bound.args, **bound.kwargs, **{name: given[name] for name in injected})
    if inspect.iscoroutine(result):
        result = asyncio.run(_interruptible(result))
    return result if isinstance(result, int) else Exit.DONE


async def _interruptible(command: Coroutine[Any, Any, Any]) -> Any:
    """
    Let SIGTERM do what SIGINT does in `asyncio.run`.

    The first one cancels, so that the command ends in order; the second one ends it at once.
    """
    loop, task = asyncio.get_running_loop(), asyncio.create_task(command)

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        return await task
    finally:
        signal.signal(signal.SIGTERM, before)

"""`payclient get`: look up some transactions."""

import asyncio
import codecs
import json
import os
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from shutil import get_terminal_size
from threading import Thread
from typing import Annotated, Any, BinaryIO

from attrs import define, field
from cyclopts import Parameter
from rich.cells import cell_len

from payclient import errors
from payclient._shared.escape import escape_unprintable
from payclient._shared.options import DEADLINE
from payclient.cli._connection import ConnectionOptions
from payclient.cli._streams import Deadline, Exit, JsonFlag, OwnStreams, Streams, aligned, refuse, status_of
from payclient.protocol import Found, Outcome, masked

_COLUMNS = (
    *("reference", "status", "amount", "fee", "amount_received"),
    *("payment_method", "payment_code", "expdate", "merchant_reff", "note"),
)
_MONEY = frozenset({"amount", "fee", "amount_received"})
_WORDS = (
    (errors.TransactionNotFoundError, "not found"),
    (errors.RejectedError, "declined"),
    (errors.InvalidReferenceError, "not a reference"),
)
_HAS_DIGIT = re.compile("[0-9]").search
_BETWEEN_CELLS = re.compile("[,;\t|]")
_BY_URGENCY = (Exit.DONE, Exit.DIFFERENT, Exit.AGAIN, Exit.REFUSED, Exit.BUG)
_MAX_ROWS = 1000
"""Rows that are kept back to be aligned and sorted."""


def most_urgent(statuses: Iterable[Exit]) -> Exit:
    return max(statuses, key=_BY_URGENCY.index, default=Exit.DONE)


def record_of(outcome: Outcome) -> dict[str, Any]:
    """Return *outcome* as a flat JSON object. `error` is there only without a transaction."""
    if isinstance(outcome, Found):
        transaction = outcome.transaction
        return {**transaction.as_json(with_payment_code=True), "deviations": list(transaction.deviations)}
    error = outcome.error
    return {
        "reference": outcome.reference,
        "error": type(error).__name__,
        "message": str(error),
        "is_retryable": error.is_retryable,
    }


@define
class Outcomes:
    # JSON is one line per outcome, as it arrives, in ASCII, for any terminal and any encoding. A table is in the order
    # of the references. Beyond a thousand rows, there are several.

    _streams: Streams
    as_json: bool
    _waiting: list[Outcome] = field(init=False, factory=list)
    seen: set[Exit] = field(init=False, factory=set)
    is_any_asked: bool = field(init=False, default=False)

    def add(self, outcome: Outcome) -> None:
        error = None if isinstance(outcome, Found) else outcome.error
        self.seen.add(Exit.DONE if error is None else status_of(error))
        self.is_any_asked |= not isinstance(error, errors.InvalidReferenceError)
        if self.as_json:
            self._streams.write(json.dumps(record_of(outcome)))
            return
        self._waiting.append(outcome)
        if len(self._waiting) == _MAX_ROWS:
            self.write_table()

    def write_table(self) -> None:
        rows = [_cells(outcome) for outcome in sorted(self._waiting, key=lambda outcome: outcome.index)]
        self._waiting.clear()
        lines = _table(rows) if rows else []
        if self._streams.stdout.isatty() and max(map(cell_len, lines), default=0) > get_terminal_size().columns:
            lines = _blocks(rows)
        self._streams.show(lines)


def _cells(outcome: Outcome) -> dict[str, str]:
    if isinstance(outcome, Found):
        fields = outcome.transaction.as_json(with_payment_code=True)
        cells = {name: "" if value is None else escape_unprintable(str(value)) for name, value in fields.items()}
        note = escape_unprintable("; ".join(outcome.transaction.deviations))
        return {**cells, "payment_code": masked(cells["payment_code"]), "note": note}
    error = outcome.error
    words = next((words for kind, words in _WORDS if isinstance(error, kind)), "no answer")
    return {"reference": escape_unprintable(outcome.reference), "status": words, "note": escape_unprintable(str(error))}


def _table(rows: Sequence[dict[str, str]]) -> list[str]:
    """Lay *rows* out side by side, without the columns that are empty in all of them."""
    columns = [name for name in _COLUMNS if any(row.get(name) for row in rows)]
    right = [place for place, name in enumerate(columns) if name in _MONEY]
    return aligned([columns, *([row.get(name, "") for name in columns] for row in rows)], right=right)


def _blocks(rows: Sequence[dict[str, str]]) -> list[str]:
    """Lay *rows* out one below the other, a line per field, for terminals that are narrower than the table."""
    width = max(len(name) for name in _COLUMNS)
    blocks = ([f"{name:{width}}  {row[name]}" for name in _COLUMNS if row.get(name)] for row in rows)
    return [line for block in blocks for line in (*block, "")][:-1]


EXAMPLES = """
$ payclient get T0000000001DEMO
$ payclient get T0000000001DEMO T0000000002DEMO --environment sandbox
$ payclient get --json - < references.txt | jq .status
$ payclient get --api-key-file /run/secrets/pay T0000000001DEMO

Exit status: 0 all found. 1 some not found or declined. 2 usage. 3 the service refuses the key or this computer.
75 some lookups failed: try again. 130 interrupted.
"""


_CHUNK_BYTES = 64 * 1024
_MAX_LINE = 64 * 1024


async def read_references(stream: BinaryIO) -> AsyncIterator[str]:
    """Yield the lines that are not blank, without the white space around them. Lazily."""
    # Bytes that are not UTF-8 become characters that no reference may have: they cost their own line and no other.
    decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    rest = ""
    while chunk := await _read(stream):
        *lines, rest = (rest + decoder.decode(chunk)).split("\n")
        if len(rest) > _MAX_LINE:
            refuse(f"standard input has a line of more than {_MAX_LINE} characters: give one reference per line")
        for line in lines:
            if line.strip():
                yield line.strip()
    if rest := (rest + decoder.decode(b"", final=True)).strip():
        yield rest


async def _read(stream: BinaryIO) -> bytes:
    """Return the next bytes. None at the end."""
    # A daemon thread waits for it, which is never joined: a terminal can block it for ever. It reads from the system,
    # because one of Python's own locks, still locked by a thread when the interpreter ends, is fatal.
    arrival: Future[bytes] = Future()
    arrival.set_running_or_notify_cancel()  # a cancelled caller stops waiting. The thread cannot stop

    def read() -> None:
        try:
            try:
                number = stream.fileno()
            except OSError:  # a stream in memory
                arrival.set_result(stream.read(_CHUNK_BYTES))
            else:
                arrival.set_result(os.read(number, _CHUNK_BYTES))
        except (OSError, ValueError) as error:
            arrival.set_exception(error)

    Thread(target=read, daemon=True, name="payclient-stdin").start()
    return await asyncio.wrap_future(arrival)


async def _references(stream: BinaryIO) -> AsyncIterator[str]:
    """Yield the lines of *stream*. Refuse the header of a ledger, because its rows are not references."""
    is_first = True
    async for line in read_references(stream):
        if is_first and not _HAS_DIGIT(line):
            from payclient.reconcile.ledger import LedgerError, find_columns  # noqa: PLC0415  most input need not load it

            with suppress(LedgerError):
                find_columns(_BETWEEN_CELLS.split(line))
                refuse("standard input begins with the header of a ledger: give one reference per line, and no header")
        is_first = False
        yield line


async def get(
    *references: Annotated[str, Parameter(name="REFERENCE", allow_leading_hyphen=True)],
    as_json: JsonFlag = False,
    deadline: Deadline = DEADLINE,
    connection: ConnectionOptions = ConnectionOptions(),  # noqa: B008  frozen
    streams: OwnStreams,
) -> int:
    """
    Look up transactions.

    Args:
        references: References of the service. A single `-` reads any number from standard input, one per line, then
            temporary failures are retried until they pass, and answers appear in the order of completion.
        as_json: One JSON object per line: the ten fields and `deviations`, or `error`, `message`, `is_retryable`.
        deadline: Time for all lookups together, waits included. With `-`, for each lookup. `none` for no limit.
        connection: The service, and the limits of lookups.
        streams: Streams of the process.
    """
    if not references:
        refuse("get needs at least one reference, or - to read them from standard input")
    is_stream = references == ("-",)
    if "-" in references and (not is_stream or connection.takes_key_from_stdin):
        refuse("standard input is either all references or the key: name - once")
    shown = Outcomes(streams, as_json=as_json)
    async with connection.client(streams, deadline=deadline) as client:
        try:
            if is_stream:
                async with client.stream_transactions(_references(streams.stdin)) as outcomes:
                    async for outcome in outcomes:
                        shown.add(outcome)
            else:
                for outcome in await client.get_transactions(references):
                    shown.add(outcome)
        finally:
            shown.write_table()
    status = most_urgent(shown.seen)
    if shown.is_any_asked and Exit.DONE not in shown.seen:
        from payclient.cli._next import diagnosis, lines_of  # noqa: PLC0415  it imports reconciliation

        if status is Exit.DIFFERENT:
            streams.warn("no transaction was found: is it the key of this service and environment?")
        for line in lines_of([diagnosis(streams.call)], streams.call):
            streams.tell(line)
    return status

"""
Look up in Ray Data, in actors of its cluster.

Ray's own defaults are for work that may be done any number of times. Here a task is tried again only so often, what
could hang is refused, and what is written is written into an empty folder. The extra `ray` brings Ray.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
import warnings
from importlib import import_module
from typing import Any, TypeAlias

import attrs
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.fs as pa_fs  # type: ignore[import-untyped]

try:  # by their names, because types are checked where Ray, which is large, is not installed
    _ray: Any = import_module("ray")
    _data: Any = import_module("ray.data")
    _exceptions: Any = import_module("ray.exceptions")
except ModuleNotFoundError as _missing:
    _message = "payclient.engines.ray needs Ray Data; install it with: pip install 'payclient[ray]'"
    raise ModuleNotFoundError(_message, name=_missing.name) from _missing

from payclient.engines._resident import share_rate
from payclient.engines._roll import SIGNS_EVERY, Roll
from payclient.engines._spec import LookupSpec
from payclient.engines.arrow import lookup_batches, lookup_schema
from payclient.errors import ConfigurationError

__all__ = ["lookup", "write"]

_arrow: Any = pa
_files: Any = pa_fs
_Actor: TypeAlias = Any
_Dataset: TypeAlias = Any
_Table: TypeAlias = Any

_BATCH_ROWS = 1000
_TASKS_AT_ONCE = 2  # so that an actor has rows to ask for while the last of a block are slow


def lookup(
    ds: _Dataset,
    spec: LookupSpec,
    reference: str | None = None,
    *,
    workers: int,
    cpus: float = 1.0,
    rows: int = 10_000,
    retries: int = 3,
) -> _Dataset:
    """
    Look up the references of a `ray.data.Dataset`.

    Nothing is asked until the result is used, and each use asks again: give it to `write`, and read what was written.
    The workers share the rate of *spec*: an actor of the cluster knows which of them live, and those that are left
    share anew what one that has gone had.

    Args:
        ds: With the column of the references.
        spec: What is asked, and how.
        reference: Name of the column with the references; that of *spec* if not given.
        workers: Actors, each in a process of its own.
        cpus: What each reserves.
        rows: How many a task has at most. What is under way in a worker that is killed is asked again: two tasks.
        retries: How often a task is done again whose worker has died. Ray's own default is for ever.

    Returns:
        A dataset with the columns of `payclient.engines.arrow.lookup_schema`.

    Raises:
        ConfigurationError: When Ray would hang, lose rows or show the key, or a number is below its least.
    """
    for name, value, least in (("workers", workers, 1), ("rows", rows, 1), ("retries", retries, 0)):
        if value < least:
            problem = f"{name} must be at least {least}, got {value}"
            raise ConfigurationError(problem)
    spec = attrs.evolve(spec, reference=reference or spec.reference, workers=workers)
    _check_cluster(spec, workers * cpus)
    _check_context(ds.context)
    chosen = ds if spec.keep is None else ds.select_columns(list(dict.fromkeys((spec.reference, *spec.keep))))
    # A task whose blocks were read in part, when its worker died, has to make the same blocks again: it makes one.
    blocks = chosen.repartition(target_num_rows_per_block=rows)
    with warnings.catch_warnings():
        # Ray means to give up options like `max_task_retries` with version 2.64, which the extra therefore excludes.
        warnings.filterwarnings("ignore", "`ray_remote_args` is deprecated")
        return blocks.map_batches(
            _Worker,
            fn_constructor_args=(spec, _roll(spec)),  # of the driver, which outlives every worker
            batch_format="pyarrow",
            batch_size=None,
            compute=_data.ActorPoolStrategy(size=workers),
            num_cpus=cpus,
            max_concurrency=_TASKS_AT_ONCE,
            max_restarts=-1,
            max_task_retries=retries,
        )


def write(ds: _Dataset, output: str) -> None:
    """
    Write *ds* as Parquet files into a folder that is empty or not there, and last a file `_SUCCESS`.

    Ray adds to what is there. After a run that was killed, some rows would be in the folder twice.

    Args:
        ds: What `lookup` gave.
        output: A path that every node can write to, or the address of a bucket's folder.

    Raises:
        ConfigurationError: When there is something in the folder.
    """
    files, path = _files.FileSystem.from_uri(output) if "://" in output else (_files.LocalFileSystem(), output)
    if files.get_file_info(_files.FileSelector(path, allow_not_found=True)):
        problem = f"{output} is not empty, and what is written would be added to it; delete it or choose another folder"
        raise ConfigurationError(problem)
    files.create_dir(path, recursive=True)  # no rows make none
    ds.write_parquet(output)
    with files.open_output_stream(f"{path}/_SUCCESS"):
        pass


def _check_cluster(spec: LookupSpec, cpus: float) -> None:
    if not _ray.is_initialized():
        problem = "Ray is not connected: call ray.init() first, with the address of the cluster if there is one"
        raise ConfigurationError(problem)
    there = _ray.cluster_resources().get("CPU", 0)
    if there < cpus + 1:
        problem = f"the workers take {cpus:g} CPUs, and reading and writing one more, but the cluster has {there:g}"
        raise ConfigurationError(f"{problem}: it would wait for ever; take fewer workers, or less than a CPU for each")
    if spec.key_variable in (_ray.get_runtime_context().runtime_env.get("env_vars") or {}):
        problem = (
            f"{spec.key_variable} is in the runtime_env, and Ray shows it to everybody; use key_file, or the nodes'"
        )
        raise ConfigurationError(f"{problem} own environment")


def _check_context(context: Any) -> None:
    if context.max_errored_blocks:
        problem = "DataContext.max_errored_blocks must be 0: rows of a failed task would be missing without a word"
        raise ConfigurationError(problem)


class _Worker:
    """What each actor does."""

    def __init__(self, spec: LookupSpec, roll: _Actor) -> None:
        self._spec = spec
        self._roll = roll
        self._name = uuid.uuid4().hex
        share_rate(spec, workers=spec.workers)  # for what it raises: here, where no row is blamed for it
        threading.Thread(target=self._sign, name="payclient-roll", daemon=True).start()

    async def __call__(self, table: _Table) -> _Table:
        return await asyncio.to_thread(self._look_up, table)

    def _look_up(self, table: _Table) -> _Table:
        schema = lookup_schema(self._spec, table.schema)
        batches = table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)
        return _arrow.Table.from_batches(list(lookup_batches(batches, self._spec)), schema)

    def _sign(self) -> None:
        """Take part in the roll, as long as the process lives; in a thread, because Ray's event loop may be held up."""
        known, rest = self._spec.workers, threading.Event()
        while not rest.wait(SIGNS_EVERY):
            try:
                living = _ray.get(self._roll.sign.remote(self._name, self._spec.workers), timeout=SIGNS_EVERY)
            except _exceptions.GetTimeoutError:
                continue
            except _exceptions.RayError:  # another job made it, and has ended
                self._roll = _roll(self._spec)
                continue
            if living != known:
                known = living
                share_rate(self._spec, workers=living)


def _roll(spec: LookupSpec) -> _Actor:
    """Return the actor that all workers with one key share, whatever job they are of; made anew when it has gone."""
    name = f"{spec.base_url} {spec.environment} {spec.key_file or spec.key_variable}"
    actor = _ray.remote(num_cpus=0)(Roll)
    return actor.options(name=name, namespace="payclient", get_if_exists=True).remote()

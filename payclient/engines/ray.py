"""
Look up in Ray Data, in actors of its cluster.

Ray's defaults assume work that may be repeated any number of times. Here a task is retried a limited number of times,
configurations that would hang are refused, and output goes to an empty folder. The extra `ray` brings Ray.
"""

import asyncio
import warnings
from importlib import import_module
from typing import Any, TypeAlias

import attrs

from payclient._shared.version import from_extra
from payclient.engines._spec import LookupSpec
from payclient.engines.arrow import background_client, lookup_batches, lookup_schema
from payclient.errors import ConfigurationError

__all__ = ["lookup", "write"]

with from_extra("ray", "payclient.engines.ray needs Ray Data"):
    # Imported by name, so types can be checked without Ray, which is large.
    _ray: Any = import_module("ray")
    _data: Any = import_module("ray.data")
_arrow: Any = import_module("pyarrow")
_files: Any = import_module("pyarrow.fs")
_Dataset: TypeAlias = Any
_Table: TypeAlias = Any


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

    The dataset is lazy, and each use of it repeats the lookups: pass it to `write`, and read the files.
    Each worker has a fixed share of the rate of *spec*. Ray replaces a worker that dies.

    Args:
        ds: With the column of the references.
        spec: The service, its limits and the columns.
        reference: Name of the column with the references. Default: the one of *spec*.
        workers: Actors, each in its own process.
        cpus: CPUs that each reserves.
        rows: Largest number of rows of a task. When a worker is killed, its two current tasks are repeated.
        retries: Repetitions of a task whose worker dies. Ray's default is without limit.

    Returns:
        A dataset with the columns of `payclient.engines.arrow.lookup_schema`.

    Raises:
        ConfigurationError: When Ray would hang, lose rows or reveal the key, or a number is below its minimum.
    """
    for name, value, least in (("workers", workers, 1), ("rows", rows, 1), ("retries", retries, 0)):
        if value < least:
            raise ConfigurationError(f"{name} must be at least {least}, got {value}")
    spec = attrs.evolve(spec, reference=reference or spec.reference, workers=workers)
    _check_cluster(spec, workers * cpus)
    if ds.context.max_errored_blocks:
        problem = "DataContext.max_errored_blocks must be 0: otherwise rows of a failed task would be missing silently"
        raise ConfigurationError(problem)
    chosen = ds if spec.keep is None else ds.select_columns(list(dict.fromkeys((spec.reference, *spec.keep))))
    # If a worker dies when part of its output has been read, the retry must produce the same blocks, so it makes one.
    blocks = chosen.repartition(target_num_rows_per_block=rows)
    with warnings.catch_warnings():
        # Ray plans to drop options such as `max_task_retries` in version 2.64, so the extra excludes that version.
        warnings.filterwarnings("ignore", "`ray_remote_args` is deprecated")
        return blocks.map_batches(
            _Worker,
            fn_constructor_args=(spec,),
            batch_format="pyarrow",
            batch_size=None,
            compute=_data.ActorPoolStrategy(size=workers),
            num_cpus=cpus,
            max_concurrency=2,  # so an actor has other lookups to do while the last ones of a block are slow
            max_restarts=-1,
            max_task_retries=retries,
        )


def write(ds: _Dataset, output: str) -> None:
    """
    Write *ds* as Parquet files into an empty or new folder, then a file `_SUCCESS`.

    Ray adds to a folder that exists, so after a killed run some rows would be there twice.

    Args:
        ds: The result of `lookup`.
        output: A path that every node can write to, or the address of a bucket's folder.

    Raises:
        ConfigurationError: When there is something in the folder.
    """
    files, path = _files.FileSystem.from_uri(output) if "://" in output else (_files.LocalFileSystem(), output)
    if files.get_file_info(_files.FileSelector(path, allow_not_found=True)):
        problem = f"{output} is not empty, and rows would be added to it: delete it or choose another folder"
        raise ConfigurationError(problem)
    files.create_dir(path, recursive=True)  # without rows, Ray makes none
    ds.write_parquet(output)
    with files.open_output_stream(f"{path}/_SUCCESS"):
        pass


def _check_cluster(spec: LookupSpec, cpus: float) -> None:
    if not _ray.is_initialized():
        problem = "Ray is not connected: call ray.init() first, with the address of the cluster if there is one"
        raise ConfigurationError(problem)
    if (there := _ray.cluster_resources().get("CPU", 0)) < cpus + 1:
        problem = f"the workers need {cpus:g} CPUs, and reading and writing one more, but the cluster has {there:g}"
        raise ConfigurationError(f"{problem}: Ray would wait forever, so use fewer workers, or set cpus below 1")
    if spec.key_variable in (_ray.get_runtime_context().runtime_env.get("env_vars") or {}):
        problem = (
            f"{spec.key_variable} is in the runtime_env, which Ray shows on the dashboard: use key_file, "
            "or set the variable on the nodes"
        )
        raise ConfigurationError(problem)


class _Worker:
    def __init__(self, spec: LookupSpec) -> None:
        self._spec = spec
        background_client(spec)  # raises here, rather than in the first task, if the key is missing

    async def __call__(self, table: _Table) -> _Table:
        return await asyncio.to_thread(self._look_up, table)

    def _look_up(self, table: _Table) -> _Table:
        schema = lookup_schema(self._spec, table.schema)
        batches = table.combine_chunks().to_batches(max_chunksize=1000)
        return _arrow.Table.from_batches(list(lookup_batches(batches, self._spec)), schema)

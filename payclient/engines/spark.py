"""
Look up and reconcile in Spark, in the Python workers of its executors.

By the DataFrame API alone, so that it works over Spark Connect too. The extra `spark` brings PySpark; the executors
need payclient and pyarrow.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import attrs
import pyarrow as pa  # type: ignore[import-untyped]

try:  # by their names, because types are checked where PySpark, which is large, is not installed
    _types: Any = import_module("pyspark.sql.types")
    _of_arrow: Any = import_module("pyspark.sql.pandas.types")
except ModuleNotFoundError as _missing:
    _message = "payclient.engines.spark needs PySpark; install it with: pip install 'payclient[spark]'"
    raise ModuleNotFoundError(_message, name=_missing.name) from _missing

from payclient.engines._judging import Judging
from payclient.engines._spec import LookupSpec, ReconcileSpec
from payclient.engines.arrow import lookup_batches, lookup_schema, reconcile_batches, reconcile_schema
from payclient.errors import ConfigurationError

__all__ = ["lookup", "partitions_of", "reconcile"]

_arrow: Any = pa
_DataFrame: TypeAlias = Any
_Session: TypeAlias = Any
_StreamingQuery: TypeAlias = Any
_Schema: TypeAlias = Any


def lookup(
    df: _DataFrame, spec: LookupSpec, reference: str | None = None, *, partitions: int | None = None
) -> _DataFrame:
    """
    Look up the references of a `pyspark.sql.DataFrame`.

    Nothing is asked until the result is used, and each use asks again: write it once, and read what was written.

    Args:
        df: With the column of the references.
        spec: What is asked, and how. Its `workers` are the tasks that run at the same time in the whole cluster.
        reference: Name of the column with the references; that of *spec* if not given.
        partitions: How many tasks there are; equal references go to the same one. As *df* comes if not given.
            `partitions_of` counts them.

    Returns:
        A data frame with the columns of `payclient.engines.arrow.lookup_schema`.

    Raises:
        ConfigurationError: When the columns are not as *spec* says, or Spark would ask twice, or show the key.
    """
    spec = _named(spec, reference)
    _check_session(df.sparkSession, spec)
    _check_text(df, spec.reference)
    names = df.columns if spec.keep is None else dict.fromkeys((spec.reference, *spec.keep))
    schema = _schema(df, spec, lookup_schema(spec, _names(df)))
    rows = _spread(df.select(*names), spec.reference, partitions)  # the rest stays in the JVM
    return rows.mapInArrow(partial(lookup_batches, spec=spec), schema)


def reconcile(
    df: _DataFrame,
    spec: ReconcileSpec,
    *,
    output: str,
    checkpoint: str,
    reference: str | None = None,
    partitions: int | None = None,
) -> _StreamingQuery:
    """
    Look up and compare what is new in a stream, and end when all that is there has been; the same call goes on.

    Each micro-batch is written whole or not at all. What a run that was killed had asked for in the micro-batch under
    way is asked for again, and nothing else: the source says how large it is, with `maxFilesPerTrigger`, say.

    Args:
        df: A streaming data frame with the columns of a ledger, such as `spark.readStream.schema(…).parquet(folder)`.
        spec: What is asked, how, and how it is judged. Its `workers` are the tasks that run at the same time.
        output: Folder for Parquet files. Spark knows which of them count: what a killed run has left there, it skips,
            and other programs do not.
        checkpoint: Folder in which Spark notes how far it has come. One for each output, and never for another.
        reference: Name of the column with the references; that of *spec* if not given.
        partitions: How many tasks there are for each micro-batch; as *df* comes if not given.

    Returns:
        The `pyspark.sql.streaming.StreamingQuery`, which runs; `awaitTermination()` waits for it, and raises if it
        fails. The files have the columns of `payclient.engines.arrow.reconcile_schema`.

    Raises:
        ConfigurationError: As `lookup`, and when *df* is no stream.
        LedgerError: When the columns cannot be understood.
    """
    if not df.isStreaming:
        problem = "reconcile needs a streaming data frame, such as spark.readStream.schema(...).parquet(folder)"
        raise ConfigurationError(problem)
    spec = _named(spec, reference)
    _check_session(df.sparkSession, spec)
    column = df.columns[Judging(spec, df.columns).places[0]]
    _check_text(df, column)
    schema = _schema(df, spec, reconcile_schema(spec, _names(df)))
    rows = _spread(df, column, partitions).mapInArrow(partial(reconcile_batches, spec=spec), schema)
    writer = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start(output)


def partitions_of(df: _DataFrame, *, rows: int = 50_000) -> int:
    """
    Return how many partitions make it about so many rows in each; counting them is a job of its own.

    Spark makes partitions by bytes, and references are short: a file of a million of them would be one task, which one
    worker does alone, and does again from its beginning when it fails.

    Raises:
        ConfigurationError: When *rows* is below 1.
    """
    if rows < 1:
        problem = f"rows must be at least 1, got {rows}"
        raise ConfigurationError(problem)
    counted: int = df.count()
    return max(1, -(-counted // rows))


def _named(spec: Any, reference: str | None) -> Any:
    return spec if reference is None else attrs.evolve(spec, reference=reference)


def _check_session(session: _Session, spec: LookupSpec) -> None:
    if session.conf.get("spark.speculation", "false").lower() == "true":
        problem = "spark.speculation must be off: a second copy of a slow task asks for everything a second time"
        raise ConfigurationError(problem)
    variable = f"spark.executorEnv.{spec.key_variable}"
    if session.conf.get(variable, "") != "":
        problem = f"{variable} is set, and Spark shows it to everybody who may see the job; use a secret or key_file"
        raise ConfigurationError(problem)


def _check_text(df: _DataFrame, name: str) -> None:
    kinds = [field.dataType for field in df.schema.fields if field.name == name]
    if kinds and not isinstance(kinds[0], _types.StringType):
        kind = kinds[0].typeName()
        problem = f"the column {name!r} must be text, so that no zero and no digit is lost, and is {kind}"
        raise ConfigurationError(problem)


def _names(df: _DataFrame) -> _Schema:
    """Return the names of the columns as a schema of Arrow; the types are Spark's business."""
    return _arrow.schema([(name, _arrow.string()) for name in df.columns])


def _schema(df: _DataFrame, spec: LookupSpec, schema: _Schema) -> _Schema:
    """Return *schema* in Spark's terms: what is kept is of the type that it has there."""
    kept = set(df.columns) - {spec.reference} if spec.keep is None else set(spec.keep)
    ours = _of_arrow.from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return _types.StructType([df.schema[field.name] if field.name in kept else field for field in ours.fields])


def _spread(df: _DataFrame, reference: str, partitions: int | None) -> _DataFrame:
    return df if partitions is None else df.repartition(partitions, reference)

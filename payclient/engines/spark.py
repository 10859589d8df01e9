"""
Look up and reconcile in Spark, in the Python workers of its executors.

It uses only the DataFrame API, so it works over Spark Connect too. The extra `spark` brings PySpark. The executors
need payclient and pyarrow.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import attrs

from payclient._shared.version import from_extra
from payclient.engines._spec import LookupSpec, ReconcileSpec
from payclient.engines.arrow import ledger_columns, lookup_batches, lookup_schema, reconcile_batches, reconcile_schema
from payclient.errors import ConfigurationError

__all__ = ["lookup", "reconcile"]

with from_extra("spark", "payclient.engines.spark needs PySpark"):
    # Imported by name, so types can be checked without PySpark, which is large.
    _types: Any = import_module("pyspark.sql.types")
    _of_arrow: Any = import_module("pyspark.sql.pandas.types")
_arrow: Any = import_module("pyarrow")
_DataFrame: TypeAlias = Any
_Schema: TypeAlias = Any


def lookup(
    df: _DataFrame, spec: LookupSpec, reference: str | None = None, *, partitions: int | None = None
) -> _DataFrame:
    """
    Look up the references of a `pyspark.sql.DataFrame`.

    The data frame is lazy, and each use of it repeats the lookups: write it once, and read the files.

    Args:
        df: With the column of the references.
        spec: The service, its limits and the columns. Its `workers` are the tasks of the cluster that run at once.
        reference: Name of the column with the references. Default: the one of *spec*.
        partitions: Number of tasks. Equal references go to the same one. The partitions of *df* if not given: Spark
            partitions by bytes, and references are short, so a file with a million of them would be a single task.

    Returns:
        A data frame with the columns of `payclient.engines.arrow.lookup_schema`.

    Raises:
        ConfigurationError: When the columns are not as in *spec*, or Spark would repeat lookups or reveal the key.
    """
    spec = attrs.evolve(spec, reference=reference or spec.reference)
    _check_session(df.sparkSession, spec)
    _check_text(df, spec.reference)
    names = df.columns if spec.keep is None else dict.fromkeys((spec.reference, *spec.keep))
    schema = _schema(df, spec, lookup_schema)
    rows = _spread(df.select(*names), spec.reference, partitions)  # other columns stay in the JVM
    return rows.mapInArrow(partial(lookup_batches, spec=spec), schema)


def reconcile(
    df: _DataFrame,
    spec: ReconcileSpec,
    *,
    output: str,
    checkpoint: str,
    reference: str | None = None,
    partitions: int | None = None,
) -> Any:
    """
    Look up and compare the new rows of a stream, and stop at its end. The next call continues from the checkpoint.

    Each micro-batch is written as a whole or not at all. A killed run repeats only the micro-batch in progress. Limit
    its size at the source, for example with `maxFilesPerTrigger`.

    Args:
        df: A streaming data frame with the columns of a ledger, such as `spark.readStream.schema(…).parquet(folder)`.
        spec: The service, its limits, the columns and the rules. Its `workers` are the tasks that run at the same time.
        output: Folder for Parquet files. Read it with Spark, which skips the files that a killed run left behind.
            Other programs do not.
        checkpoint: Folder where Spark records its progress. Use one for each output.
        reference: Name of the column with the references. Default: the one of *spec*.
        partitions: Number of tasks for each micro-batch. The partitions of *df* if not given.

    Returns:
        The running `pyspark.sql.streaming.StreamingQuery`. `awaitTermination()` waits for it, and raises if it
        fails. The files have the columns of `payclient.engines.arrow.reconcile_schema`.

    Raises:
        ConfigurationError: As `lookup`, and when *df* is not a stream.
        LedgerError: When the columns cannot be understood.
    """
    if not df.isStreaming:
        problem = "reconcile needs a streaming data frame, such as spark.readStream.schema(...).parquet(folder)"
        raise ConfigurationError(problem)
    spec = attrs.evolve(spec, reference=reference or spec.reference)
    _check_session(df.sparkSession, spec)
    column = df.columns[ledger_columns(spec, df.columns).places["reference"]]
    _check_text(df, column)
    schema = _schema(df, spec, reconcile_schema)
    rows = _spread(df, column, partitions).mapInArrow(partial(reconcile_batches, spec=spec), schema)
    writer = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start(output)


def _check_session(session: Any, spec: LookupSpec) -> None:
    if session.conf.get("spark.speculation", "false").lower() == "true":
        raise ConfigurationError("spark.speculation must be off: a second copy of a slow task repeats its lookups")
    variable = f"spark.executorEnv.{spec.key_variable}"
    if session.conf.get(variable, "") != "":
        problem = f"{variable} is set, and Spark shows it on its pages and in its logs: use a secret or key_file"
        raise ConfigurationError(problem)


def _check_text(df: _DataFrame, name: str) -> None:
    kinds = [field.dataType for field in df.schema.fields if field.name == name]
    if kinds and not isinstance(kinds[0], _types.StringType):
        kind = kinds[0].typeName()
        problem = f"the column {name!r} must be text, so that no zero and no digit is lost, and is {kind}"
        raise ConfigurationError(problem)


def _schema(df: _DataFrame, spec: Any, output_schema: Callable[[Any, _Schema], _Schema]) -> _Schema:
    names = _arrow.schema([(name, _arrow.string()) for name in df.columns])  # the types are placeholders
    kept = set(df.columns) - {spec.reference} if spec.keep is None else set(spec.keep)
    ours = _of_arrow.from_arrow_schema(output_schema(spec, names), prefer_timestamp_ntz=True)
    return _types.StructType([df.schema[field.name] if field.name in kept else field for field in ours.fields])


def _spread(df: _DataFrame, reference: str, partitions: int | None) -> _DataFrame:
    return df if partitions is None else df.repartition(partitions, reference)

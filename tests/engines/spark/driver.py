"""
A Spark of this machine, and a driver that can be killed.

    python -m engines.spark.driver reconcile INPUT OUTPUT CHECKPOINT
    python -m engines.spark.driver connect OUTPUT
"""

import os
import sys

from pyspark.sql import SparkSession

from payclient.engines import LookupSpec, ReconcileSpec, spark

CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.authenticate.socketTimeout": "120s",  # 15 s are for an idle machine
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.setCommandRejectsSparkCoreConfs": "false",  # so that a test can turn speculation on
}


def start(builder=None):
    """Return a session with two tasks at a time, and four attempts for each."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,4]") if builder is None else builder
    for name, value in CONF.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def reconcile(source, output, checkpoint):
    """Reconcile the Parquet files of a folder, a file at a time."""
    stream = start().readStream.schema("reference string, amount long").option("maxFilesPerTrigger", 1).parquet(source)
    spec = ReconcileSpec(workers=2)
    query = spark.reconcile(stream, spec, output=output, checkpoint=checkpoint, partitions=2)
    query.awaitTermination()


def connect(output):
    """Look references up by way of Spark Connect."""
    session = start(SparkSession.builder.remote("local[2]"))
    df = session.range(100).selectExpr("concat('T', id) as reference", "id as order_id")
    assert type(df).__module__ == "pyspark.sql.connect.dataframe"
    spec = LookupSpec(keep=["order_id"])
    spark.lookup(df, spec, partitions=1 + df.count() // 50).write.parquet(output)
    assert session.read.parquet(output).count() == 100


if __name__ == "__main__":
    {"reconcile": reconcile, "connect": connect}[sys.argv[1]](*sys.argv[2:])

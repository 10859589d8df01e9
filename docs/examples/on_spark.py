"""The references of a table, looked up in Spark; and a ledger that grows, reconciled as far as it has come."""

from payclient.engines import LookupSpec, ReconcileSpec, spark

ASK = {"base_url": "https://pay.example", "key_file": "/run/secrets/payclient", "max_rate": 250.0, "workers": 16}


def look_up(session, transactions, answers, ask=ASK):
    df = session.read.parquet(transactions).select("trx_id", "order_id")
    found = spark.lookup(
        df, LookupSpec(**ask, keep=["order_id"]), reference="trx_id", partitions=1 + df.count() // 15_000
    )
    found.write.parquet(answers)


def reconcile(session, ledger, answers, checkpoint, ask=ASK):
    stream = session.readStream.schema("trx_id string, amount long").option("maxFilesPerTrigger", 10).parquet(ledger)
    query = spark.reconcile(
        stream, ReconcileSpec(**ask, keep=[]), output=answers, checkpoint=checkpoint, reference="trx_id", partitions=64
    )
    query.awaitTermination()

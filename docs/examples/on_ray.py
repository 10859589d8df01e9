"""The references of Parquet files, looked up in Ray's actors."""

import ray

import payclient.engines.ray as engine
from payclient.engines import LookupSpec

ASK = {"base_url": "https://pay.example", "key_file": "/run/secrets/payclient", "max_rate": 250.0}


def look_up(transactions, answers, ask=ASK, workers=16):
    ds = ray.data.read_parquet(transactions, columns=["trx_id", "order_id"])
    spec = LookupSpec(**ask, keep=["order_id"])
    engine.write(engine.lookup(ds, spec, reference="trx_id", workers=workers), answers)

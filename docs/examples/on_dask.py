"""The references of Parquet files, looked up in Dask's workers."""

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa

from payclient.engines.arrow import lookup_batches, lookup_schema


def looked_up(part, spec):
    batches = pa.Table.from_pandas(part, preserve_index=False).to_batches(max_chunksize=1000)
    return table_of(spec, batches).to_pandas(types_mapper=pd.ArrowDtype)


def table_of(spec, batches):
    return pa.Table.from_batches(lookup_batches(batches, spec), lookup_schema(spec))


def look_up(transactions, answers, spec):
    df = dd.read_parquet(transactions, columns=[spec.reference])
    meta = table_of(spec, []).to_pandas(types_mapper=pd.ArrowDtype)
    df.map_partitions(looked_up, spec, meta=meta).to_parquet(answers)

"""The references of Parquet files, looked up in Daft, on this machine or, with its runner for Ray, on a cluster."""

import daft
import pyarrow as pa

from payclient.engines.arrow import lookup_batches, lookup_schema


def look_up(transactions, answers, spec):
    schema = lookup_schema(spec)
    kinds = {field.name: daft.DataType.from_arrow_type(field.type) for field in schema}

    @daft.func.batch(return_dtype=daft.DataType.struct(kinds))
    def looked_up(references: daft.Series):
        batch = pa.record_batch({spec.reference: references.to_arrow().cast(pa.string())})
        return pa.concat_arrays([answer.to_struct_array() for answer in lookup_batches([batch], spec)])

    df = daft.read_parquet(transactions).select(looked_up(daft.col(spec.reference)).alias("answer"))
    df.select(*(daft.col("answer").get(name).alias(name) for name in schema.names)).write_parquet(answers)

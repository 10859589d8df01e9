"""The references of Parquet files, looked up in the workers of a Beam pipeline."""

import apache_beam as beam
import pyarrow as pa

from payclient.engines.arrow import lookup_batches, lookup_schema


class LookUp(beam.DoFn):
    def __init__(self, spec):
        self._spec = spec

    def process(self, references):
        for batch in lookup_batches([pa.record_batch({self._spec.reference: references})], self._spec):
            yield from batch.to_pylist()


def look_up(transactions, answers, spec, options=None):
    with beam.Pipeline(options=options) as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(transactions, columns=[spec.reference])
        references = rows | beam.Map(lambda row: row[spec.reference])
        batches = references | beam.BatchElements(min_batch_size=2000, max_batch_size=2000)
        batches | beam.ParDo(LookUp(spec)) | beam.io.WriteToParquet(answers, lookup_schema(spec))

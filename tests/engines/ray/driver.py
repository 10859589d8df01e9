"""A driver that can be killed: `python -m engines.ray.driver ADDRESS ROWS OUTPUT [VARIABLE=VALUE]`."""

import sys

import pyarrow as pa
import ray
import ray.data

import payclient.engines.ray as engine
from payclient.engines import LookupSpec

if __name__ == "__main__":
    address, rows, output, *variables = sys.argv[1:]
    runtime = {"env_vars": dict(each.split("=") for each in variables)}
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env=runtime)
    ds = ray.data.from_arrow(pa.table({"reference": [f"T{n}" for n in range(int(rows))]}))
    engine.write(engine.lookup(ds, LookupSpec(), workers=2, rows=500), output)

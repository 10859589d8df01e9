"""
Rows per second, and CPU per lookup, of the kernel, Spark and Ray, against the server in C beside this.

    cc -O2 -DWITHOUT_TLS tests/bench/server.c -o server && ./server      # prints its port
    PYTHONPATH=tests python -m bench.engines spark PORT ROWS

In the environment that the session `spark` or `ray` has made; `kernel` needs neither. A small job comes
first, so that nothing is loaded for the first time; then one of a quarter of the rows and one of all. The difference is
what rows cost, and what is left of the smaller one is what a job costs. The CPU is that of everything that was started
from here: the JVM and Ray's daemons are in it, and the server is not.
"""

import os
import shutil
import sys
import tempfile
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from payclient.engines import LookupSpec
from payclient.engines.arrow import lookup_batches

WARM_UP = 4_000
FILES = 8
TICKS = os.sysconf("SC_CLK_TCK")
MARK = uuid.uuid4().hex.encode()


def kernel(source, out, spec):
    batches = (batch for path in sorted(source.iterdir()) for batch in pq.ParquetFile(path).iter_batches(2000))
    pq.write_table(pa.Table.from_batches(lookup_batches(batches, spec)), out)


def spark(source, out, spec):
    from engines.spark.driver import start
    from payclient.engines import spark as engine

    session = start()
    session.sparkContext.setLogLevel("ERROR")
    engine.lookup(session.read.parquet(str(source)), spec, partitions=FILES).write.parquet(str(out))


def ray(source, out, spec):
    import ray

    import payclient.engines.ray as engine

    if not ray.is_initialized():
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    engine.write(engine.lookup(ray.data.read_parquet(str(source)), spec, workers=2), str(out))


class Meter(threading.Thread):
    """
    What this process, and all that came from it, have used of the CPU.

    It looks again and again, because Ray's workers end with their job and nobody is told what they had used.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self._ticks = {}
        self._rest = threading.Event()

    def run(self):
        while not self._rest.wait(0.5):
            self.seconds()

    def seconds(self):
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended meanwhile
                if int(process.name) == os.getpid() or MARK in (process / "environ").read_bytes():
                    fields = (process / "stat").read_text().rpartition(")")[2].split()
                    self._ticks[process.name] = int(fields[11]) + int(fields[12])
        return sum(self._ticks.values()) / TICKS


def measure(job, rows, folder, spec, meter):
    source, out = folder / f"in-{rows}", folder / f"out-{rows}"
    source.mkdir()
    for number, start in enumerate(range(0, rows, rows // FILES)):
        names = [f"T{n}" for n in range(start, min(rows, start + rows // FILES))]
        pq.write_table(pa.table({"reference": names}), source / f"part-{number}.parquet")
    began, used = time.perf_counter(), meter.seconds()
    job(source, out, spec)
    took, used = time.perf_counter() - began, meter.seconds() - used
    table = pq.read_table(out, columns=["outcome"])
    assert (table.num_rows, set(table["outcome"].to_pylist())) == (rows, {"ok"})
    return took, used


def main(name, port, rows="40000"):
    os.environ.setdefault("PAYCLIENT_API_KEY", "bench-key-0123456789")
    os.environ["BENCH"] = MARK.decode()
    rows = int(rows)
    spec = LookupSpec(base_url=f"http://127.0.0.1:{port}", workers=1 if name == "kernel" else 2)
    folder, meter = Path(tempfile.mkdtemp()), Meter()
    meter.start()
    _, few, many = (measure(JOBS[name], size, folder, spec, meter) for size in (WARM_UP, rows // 4, rows))
    seconds, used = ((more - less) / (rows - rows // 4) for more, less in zip(many, few, strict=True))
    transport = os.environ.get("PAYCLIENT_TRANSPORT", "httpx")
    print(f"{name} ({transport}): {1 / seconds:,.0f} rows/s, {used * 1e6:,.0f} µs CPU a row,", end=" ")
    print(f"and {few[0] - seconds * rows // 4:.1f} s for the job")
    shutil.rmtree(folder)


JOBS = {"kernel": kernel, "spark": spark, "ray": ray}


if __name__ == "__main__":
    main(*sys.argv[1:])

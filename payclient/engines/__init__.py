"""
Look up and reconcile where the rows are: on a distributed engine.

The specifications here are plain data for the engine to carry. `payclient.engines.arrow` does the work, over batches of
Arrow (extra `parquet`).
"""

from payclient.engines._spec import LookupSpec, ReconcileSpec

__all__ = ["LookupSpec", "ReconcileSpec"]

"""Internal: the ledger, the statement and the observations of a run on disk, and resuming."""

"""A small ledger of text or bytes, read to its end."""

import io

from payclient.reconcile.ledger import open_ledger


def opened(data, **options):
    """Open *data* as a ledger."""
    return open_ledger(io.StringIO(data) if isinstance(data, str) else io.BytesIO(data), **options)


def read(data, **options):
    """Return its rows."""
    with opened(data, **options) as ledger:
        return list(ledger)

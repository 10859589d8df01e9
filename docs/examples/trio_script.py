"""Look up one transaction under trio, with the client in a thread."""

import sys

import trio

from payclient.blocking import Client


async def main(reference: str) -> None:
    with Client() as client:
        transaction = await trio.to_thread.run_sync(client.get_transaction, reference)
        print(transaction.reference, transaction.status)


trio.run(main, sys.argv[1])

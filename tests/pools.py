"""What the transports of ours hold, for tests that see whether anything is left."""


def pools(transport):
    """Return the pools of a transport of ours; none for any other."""
    return list(getattr(_all(transport), "_pools", {}).values())


def _all(transport):
    mounted = getattr(getattr(transport, "_client", None), "_transport", None)
    below = getattr(getattr(mounted, "_pool", None), "connections", None)
    return getattr(transport, "_connections", below)


def late(transport):
    """Return the connections whose response is still read although its caller has left."""
    return getattr(_all(transport), "late", set())


def connections(transport):
    """Return every connection that is open, or being opened."""
    return {each for pool in pools(transport) for each in pool.connections}


def idle(transport):
    """Return the connections that wait for the next exchange, the coldest first."""
    return [each for pool in pools(transport) for each in pool.idle]

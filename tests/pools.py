"""What the transports of ours hold, for tests that see whether anything is left."""


def pools(transport):
    """Return the pools of a transport of ours; none for any other."""
    mounted = getattr(getattr(transport, "_client", None), "_transport", None)
    below = getattr(getattr(mounted, "_pool", None), "connections", None)
    return list(getattr(getattr(transport, "_connections", below), "_pools", {}).values())


def connections(transport):
    """Return every connection that is open, or being opened."""
    return {each for pool in pools(transport) for each in pool.connections}


def idle(transport):
    """Return the connections that wait for the next exchange, the coldest first."""
    return [each for pool in pools(transport) for each in pool.idle]

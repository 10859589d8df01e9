"""Which connections are kept."""

from attrs import define

from payclient.transports._connections import Pool


@define(eq=False)
class Connection:
    idle_since: float = 0.0
    on_close: object = None


def pool_of(count, keepalive=30.0):
    pool, made = Pool(keepalive), [Connection() for _ in range(count)]
    for connection in made:
        pool.add(connection)
    return pool, made


def test_warmest_first():
    """The connection that was used last is used next."""
    pool, (first, second) = pool_of(2)
    pool.give_back(first, 1.0)
    pool.give_back(second, 2.0)
    assert [pool.take(3.0), pool.take(3.0), pool.take(3.0)] == [second, first, None]


def test_cold():
    """A connection that was idle for longer than it is kept is not used, and is to be closed."""
    pool, (only,) = pool_of(1, keepalive=10.0)
    pool.give_back(only, 0.0)
    assert (pool.take(10.5), pool.surplus(10.5)) == (None, only)
    pool.remove(only)
    assert (pool.surplus(10.5), pool.connections, list(pool.idle)) == (None, {}, [])


def test_no_more_than_were_in_use():
    """Fresh connections take the place of idle ones: there are never more than were in use at once."""
    pool, (first,) = pool_of(1)
    pool.give_back(first, 0.0)
    fresh = Connection()
    pool.add(fresh)
    pool.give_back(fresh, 1.0)
    assert pool.surplus(1.0) is first
    pool.remove(first)
    assert pool.surplus(1.0) is None

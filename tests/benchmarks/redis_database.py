"""A Redis database of its own for a benchmark: one that held nothing, and is emptied again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import redis

REDIS = "redis://127.0.0.1:6379/15"
MARK = "fabric-bench"
"""The process that sets this key in an empty Redis database owns it."""
MARK_S = 86_400


@contextmanager
def empty_redis(server: str) -> Iterator[str]:
    """The address of a Redis database that held nothing, and is emptied when the block ends. RuntimeError when there is none.

    Neither the one that ``server`` names, which others use, nor 0, the default.
    """
    parts = urlsplit(server)
    with redis.Redis.from_url(server) as client:
        numbers = range(1, int(client.config_get("databases")["databases"]))
    for number in reversed(numbers):
        address = urlunsplit(parts._replace(path=f"/{number}"))
        if parts.path == f"/{number}":
            continue
        with redis.Redis.from_url(address) as client:
            if client.dbsize() or not client.set(MARK, "", nx=True, ex=MARK_S):
                continue
            try:
                yield address
            finally:
                client.flushdb()
            return
    raise RuntimeError(f"every database of the Redis server at {parts.hostname} holds something: empty one")

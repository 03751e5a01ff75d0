"""Finds the servers that some tests need: PostgreSQL, Redis, RabbitMQ, and the peers of ``tests/peers``.

TEST_DATABASE_URL, TEST_REDIS_URL and TEST_AMQP_URL name the first three; without one, the usual loopback addresses are tried.
The peers are programs in an environment of their own, which ``console.launch.dependencies`` makes.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from console.launch import dependencies

_TIMEOUT_S = 3
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
NO_BROWSER = "no chromium is installed (TEST_CHROMIUM names one)"
NO_PEERS = "every test against a peer: their environment is not there (python3 manage.py test makes it)"


@dataclass(frozen=True)
class Server:
    """One kind of server, how to try it, and where it usually is."""

    name: str
    marker: str
    variable: str
    connect: Callable[[str], None]
    usual: tuple[str, ...]


def locate(environ: Mapping[str, str] = os.environ) -> tuple[dict[str, str], dict[str, str]]:
    """Return the addresses that answer, by variable, and one sentence for each server that does not, by marker."""
    found, missing = {}, {}
    for server in SERVERS:
        named = environ.get(server.variable)
        problem = ""
        for address in (named,) if named else server.usual:
            problem = _try(server, address)
            if not problem:
                found[server.variable] = address
                break
        else:
            where = named or "its usual loopback addresses"
            missing[server.marker] = f"every test that needs {server.name}: none answers at {where} ({problem})"
    if there := _peers(environ):
        found |= there
    else:
        missing["peers"] = NO_PEERS
    named = environ.get("TEST_CHROMIUM")
    if browser := next(filter(None, map(shutil.which, [named] if named else _CHROMIUM)), None):
        found["TEST_CHROMIUM"] = browser
    else:
        said = f"TEST_CHROMIUM is {named}, which cannot be run" if named else NO_BROWSER
        missing["e2e"] = f"every test in a browser: {said}"
    return found, missing


def _peers(environ: Mapping[str, str]) -> dict[str, str] | None:
    named = {variable: environ.get(variable, "") for variable in (dependencies.PYTHON, dependencies.NODE)}
    return named if all(map(os.path.exists, named.values())) else dependencies.find_peers()


def _try(server: Server, address: str) -> str:
    try:
        server.connect(address)
    except Exception as error:  # noqa: BLE001 - Three client libraries, one question: does it answer?
        return " ".join(f"{type(error).__name__} {error}".split())[:160]
    return ""


def _postgresql(address: str) -> None:
    import psycopg

    psycopg.connect(address, connect_timeout=_TIMEOUT_S).close()


def _redis(address: str) -> None:
    import redis

    with redis.Redis.from_url(address, socket_connect_timeout=_TIMEOUT_S, socket_timeout=_TIMEOUT_S) as client:
        client.ping()


def _rabbitmq(address: str) -> None:
    from kombu.connection import Connection

    with Connection(address, connect_timeout=_TIMEOUT_S) as connection:
        connection.connect()


SERVERS = (
    Server(
        "PostgreSQL",
        "postgresql",
        "TEST_DATABASE_URL",
        _postgresql,
        (
            "postgresql://postgres@127.0.0.1:5432/test",
            "postgresql://postgres@127.0.0.1:5432/postgres",
            "postgresql://postgres:postgres@127.0.0.1:5432/postgres",
        ),
    ),
    Server("Redis", "redis", "TEST_REDIS_URL", _redis, ("redis://127.0.0.1:6379/15",)),
    Server("RabbitMQ", "rabbitmq", "TEST_AMQP_URL", _rabbitmq, ("amqp://guest:guest@127.0.0.1:5672//",)),
)

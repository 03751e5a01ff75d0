"""Converts the operator's addresses (`DATABASE_URL`, `CELERY_BROKER_URL`, `CHANNEL_URL`) to settings.

The default without an address is embedded: files of the data directory, and nothing to install.
"""

from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from console.launch.processes.errors import StartRefused

Settings = dict[str, Any]

SQLITE_BUSY_S = 5.0
POOL_SIZE = 10
CONNECT_TIMEOUT_S = 5
_REDIS = ("redis", "rediss")
_BROKERS = (*_REDIS, "amqp", "amqps")


def database(address: str | None, data: Path) -> Settings:
    """Return Django's settings of one database. Raises Refused.

    Addresses: `sqlite:///PATH`, `postgresql://USER:PASSWORD@HOST:PORT/NAME?OPTION=VALUE`. libpq gets the query's
    options, so `?sslmode=require` or `?host=/run/postgresql` work.
    """
    if not address:
        return _sqlite(str(data / "fabric.sqlite3"))
    parts = _split(address, "DATABASE_URL")
    if parts.scheme == "sqlite":
        if parts.netloc or parts.query or parts.fragment:
            raise StartRefused(
                "DATABASE_URL names more than a file: write sqlite:///NAME, or sqlite:////PATH with four slashes."
            )
        path = unquote(parts.path)
        # sqlite:///relative and sqlite:////absolute, as everywhere else: one slash belongs to the address.
        return _sqlite(str(data / path[1:]) if path[1:] else str(data / "fabric.sqlite3"))
    if parts.scheme not in ("postgresql", "postgres"):
        raise StartRefused(
            f"DATABASE_URL starts with {parts.scheme!r}: use sqlite:///PATH or postgresql://USER@HOST:PORT/NAME."
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "OPTIONS": {
            "connect_timeout": CONNECT_TIMEOUT_S,
            **dict(parse_qsl(parts.query)),
            "pool": {
                "min_size": 0,
                "max_size": POOL_SIZE,
                "timeout": CONNECT_TIMEOUT_S,
                # Retries after growing waits are given up early; the next request tries anew.
                "reconnect_timeout": CONNECT_TIMEOUT_S,
            },
        },
    }


def _sqlite(path: str) -> Settings:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            # FULL: what was committed is on the disk. IMMEDIATE: a transaction that will write says so at its start;
            # one that finds out later fails with "database is locked" without waiting.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
            "transaction_mode": "IMMEDIATE",
            "timeout": SQLITE_BUSY_S,
        },
    }


def broker(address: str | None, data: Path) -> Settings:
    """Return the Celery settings of the broker: Redis or RabbitMQ, else files in the data directory. Raises Refused.

    A message is a wake-up and may be lost, so sending one never waits long for an absent broker.
    """
    if address:
        scheme = _split(address, "CELERY_BROKER_URL").scheme
        if scheme not in _BROKERS:
            raise StartRefused(
                f"CELERY_BROKER_URL starts with {scheme!r}: use redis://HOST:PORT/N or amqp://USER@HOST:PORT//."
            )
        # Tried once: Kombu would go on for six seconds, in which a page waits.
        options = {"max_retries": 0, **({"socket_connect_timeout": CONNECT_TIMEOUT_S} if scheme in _REDIS else {})}
        return {"CELERY_BROKER_URL": address, "CELERY_BROKER_TRANSPORT_OPTIONS": options}
    folders = {name: data / "broker" / name for name in ("messages", "processed", "control")}
    for folder in folders.values():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {
        "CELERY_BROKER_URL": "filesystem://localhost//",
        "CELERY_BROKER_TRANSPORT": "console.site.file_broker:Transport",
        "CELERY_BROKER_TRANSPORT_OPTIONS": {
            "data_folder_in": str(folders["messages"]),
            "data_folder_out": str(folders["messages"]),
            "processed_folder": str(folders["processed"]),
            "control_folder": str(folders["control"]),
            "store_processed": False,
            # Seconds. Of a run the local nudge has told the worker before; drills wait for their message.
            "polling_interval": 0.25,
        },
        # Remote control over files costs a poll per worker and tells nothing that the database does not.
        "CELERY_WORKER_ENABLE_REMOTE_CONTROL": False,
    }


def channel_layer(address: str | None) -> Settings:
    """Return the settings of the channel layer: `redis://...`, else one in this process's memory. Raises Refused."""
    if not address:
        return {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    if _split(address, "CHANNEL_URL").scheme not in (*_REDIS, "unix"):
        raise StartRefused(
            "CHANNEL_URL does not start with redis:// or rediss://: the channel layer is Redis or nothing."
        )
    # redis-py ends a read that waits longer than its own 5 s, and a channel that is idle waits for ever.
    host = {"address": address, "socket_timeout": None}
    return {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": [host], "prefix": "fabric-flow"},
    }


def _split(address: str, variable: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018 - Reading it is what checks it.
    except ValueError:
        # Python's own message would show a password that has a slash in it.
        raise StartRefused(
            f"{variable} is not an address: write it as SCHEME://USER:PASSWORD@HOST:PORT/NAME, where PORT is a number "
            "and / ? # @ in a password are %2F %3F %23 %40."
        ) from None
    if not parts.scheme:
        raise StartRefused(f"{variable} has no scheme: write it as SCHEME://USER:PASSWORD@HOST:PORT/NAME.")
    return parts

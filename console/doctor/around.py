"""Checks of what stands beside the database: the broker, the channel layer and, where they are asked for, the model providers."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.db import connection
from kombu.connection import Connection
from kombu.exceptions import KombuError

from console.celery import app
from console.doctor.findings import Finding, note, wrong

TIMEOUT_S = 3.0
_PROVIDERS = ("MODEL", "ANTHROPIC", "GOOGLE", "AZURE", "BEDROCK", "VERTEX")


def look_at_broker() -> Iterator[Finding]:
    """Whether it takes messages."""
    address = str(app.conf.broker_url)
    if address.startswith("filesystem:"):
        if connection.vendor == "postgresql":
            yield note(
                "The broker is files of this machine, and the database is a server's.",
                "Set CELERY_BROKER_URL where workers run on other machines: else they find runs by looking alone.",
            )
        return
    try:
        with Connection(address, connect_timeout=TIMEOUT_S, transport_options={}) as found:
            found.ensure_connection(max_retries=1, interval_start=0, timeout=TIMEOUT_S)
    except (OSError, KombuError) as error:
        yield wrong(
            f"The broker does not answer ({said_by(error)}).",
            "Start it, or mend CELERY_BROKER_URL. Runs go on without it, later.",
        )


def look_at_channel_layer() -> Iterator[Finding]:
    """Whether several web servers hear of one another."""
    layer = settings.CHANNEL_LAYERS["default"]
    hosts = layer.get("CONFIG", {}).get("hosts")
    if not hosts:
        if connection.vendor == "postgresql":
            yield note(
                "The channel layer is this process's memory.",
                "Set CHANNEL_URL where there is more than one web server.",
            )
        return
    try:
        with redis.Redis.from_url(
            hosts[0]["address"], socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
        ) as client:
            client.ping()
    except (OSError, redis.RedisError) as error:
        yield wrong(
            f"The channel layer does not answer ({said_by(error)}).",
            "Start it, or mend CHANNEL_URL. Pages are live again once it answers.",
        )


def look_at_providers() -> Iterator[Finding]:
    """Whether each configured model endpoint takes a connection. Sends it nothing."""
    for name in _PROVIDERS:
        address = getattr(settings, f"FABRIC_{name}_URL")
        if not address or not (name == "MODEL" or getattr(settings, f"FABRIC_{name}_KEY")):
            continue
        try:
            connect(address)
        except OSError as error:
            yield wrong(
                f"FABRIC_{name}_URL cannot be reached ({said_by(error)}).",
                "See that this machine may connect there, or correct the address.",
            )


def connect(address: str) -> None:
    """Open a connection to a web address's host, with TLS where it says so. Raises OSError."""
    parts = urlsplit(address)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    with socket.create_connection((parts.hostname, port), timeout=TIMEOUT_S) as plain:
        if parts.scheme == "https":
            with ssl.create_default_context().wrap_socket(plain, server_hostname=parts.hostname):
                pass


def said_by(error: Exception) -> str:
    """The first words of an error, without an address that may hold a password."""
    return " ".join((getattr(error, "strerror", None) or type(error).__name__).split())[:120]

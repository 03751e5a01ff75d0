"""The table of checks, in the order in which they are made. docs/deployment.md lists the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from django.db import DatabaseError

from console.doctor import around, machine, stored
from console.doctor.findings import Finding, unknown


class Asks(Enum):
    """Whom a check asks."""

    NOBODY = "this machine alone"
    DATABASE = "the database"
    SERVERS = "broker and channel layer"
    NETWORK = "the network, with --network alone"


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    what: str
    asks: Asks
    look: Callable[[], Iterator[Finding]]


CHECKS: Mapping[str, Check] = {
    "python": Check("the Python gets security fixes", Asks.NOBODY, machine.look_at_python),
    "settings": Check("every variable can be used", Asks.NOBODY, machine.look_at_settings),
    "disk": Check("there is room for more runs", Asks.NOBODY, machine.look_at_disk),
    "modes": Check("nobody else can read keys and database", Asks.NOBODY, machine.look_at_modes),
    "https": Check("people come by TLS, and Django has no complaint", Asks.NOBODY, machine.look_at_https),
    "secrets": Check("keys cannot be guessed", Asks.NOBODY, machine.look_at_secrets),
    "database": Check("the database answers and is whole", Asks.DATABASE, stored.look_at_database),
    "migrations": Check("its tables are those of this version", Asks.DATABASE, stored.look_at_migrations),
    "workspace": Check("there is a workspace with its owner", Asks.DATABASE, stored.look_at_workspace),
    "clock": Check("this clock and the database's agree", Asks.DATABASE, stored.look_at_clock),
    "workers": Check("a worker is alive", Asks.DATABASE, stored.look_at_workers),
    "scheduler": Check("what is due is done", Asks.DATABASE, stored.look_at_scheduler),
    "notifications": Check("notifications are delivered", Asks.DATABASE, stored.look_at_notifications),
    "quarantine": Check("no run is put away", Asks.DATABASE, stored.look_at_quarantine),
    "backups": Check("a backup was taken", Asks.DATABASE, stored.look_at_backups),
    "broker": Check("the broker answers", Asks.SERVERS, around.look_at_broker),
    "channels": Check("the channel layer answers", Asks.SERVERS, around.look_at_channel_layer),
    "providers": Check("model endpoints can be reached", Asks.NETWORK, around.look_at_providers),
}


def examine(name: str) -> list[Finding]:
    """Make one check. One that cannot be made says so; nothing is raised."""
    try:
        return list(CHECKS[name].look())
    except DatabaseError as error:
        return [stored.unreachable(error)]
    except OSError as error:
        said = f"{error.filename or 'something'}: {error.strerror or type(error).__name__}"
        return [
            unknown(
                f"This could not be looked at ({said}).", "Run this as the user whom the data directory belongs to."
            )
        ]

"""What a virtual process holds of its runs: nothing of it may matter once the process is gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.core.commands import Call
from fabric.runtime.driver import RunDriver
from fabric.runtime.ports import Batch, Claimed


class Died(Exception):
    """The process is gone; unwinds whatever it was doing."""


@dataclass(slots=True)
class Flight:
    """A call that is out."""

    command: Call
    wanted: bool = True


@dataclass(slots=True)
class Owned:
    """One run in this process's memory."""

    driver: RunDriver
    claimed: Claimed
    ready: Batch | None = None
    writing: bool = False
    durable: Batch | None = None
    wake_at: int | None = None
    flights: dict[tuple[str, int], Flight] = field(default_factory=dict)
    damage: str = ""
    """What is wrong with the journal that it was loaded from; empty: nothing."""

    def voided(self) -> None:
        """Nobody wants what is still out any more."""
        for flight in self.flights.values():
            flight.wanted = False


@dataclass(slots=True)
class Sent:
    """A run's batch on its way to the database."""

    owned: Owned
    batch: Batch
    given_back: bool = False

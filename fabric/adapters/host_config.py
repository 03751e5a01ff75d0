"""How much one host takes on, and what it has done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostConfig:
    """Limits of one host. Seconds and counts."""

    max_owned: int = 1_000
    max_inflight_calls: int = 1_000
    lease_s: float = 10.0
    beat_s: float = 3.0
    sweep_s: float = 2.0
    orphans_s: float = 10.0
    """Between two looks for runs that are this worker's by their rows, and that it does not know of."""
    hold_s: float = 10.0
    """How long a run that could not be loaded, stepped or written is kept from everybody before it may be claimed again."""
    queues: Sequence[str] = ("default",)


@dataclass(slots=True)
class HostCounters:
    """What a host has done since it started."""

    claimed: int = 0
    released: int = 0
    refused: int = 0
    stale_refused: int = 0
    """Batches that were not written because their run was somebody else's by then."""
    uncovered: int = 0
    """Calls that were not sent because the lease did not cover them any more."""
    quarantined: int = 0
    """Claimed runs that were not driven: put into quarantine, or answered there."""
    faults: int = 0
    """Runs let go of because they could not be loaded, stepped or written, and errors of the host itself."""

"""Conditions of live drills: rights, a living worker, and the caps that end each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import FailureType
from fabric.program.name import program
from fabric.selectors.overview.frame_counts import workers_alive_count
from fabric.services.errors import Refused
from simulator.drills.models.tables import MODES, VIRTUAL

CAP_S, CAP_S_MIN, CAP_S_MAX = 180, 5, 3_600
"""Seconds that a live drill may take: its three runs together."""
RUNS = 3
"""Runs of each drill: an undisturbed one, a disturbed one, and another undisturbed one."""
CAP_USD_MICROS = 1_000_000
CAP_USD_MICROS_MAX = 1_000_000_000_000
START = f"{program()} up"


@dataclass(frozen=True, slots=True)
class DrillMode:
    """Mode of drills, and their caps."""

    mode: str
    run_usd_micros: int
    """Cap of a run of the fabric."""
    cap_usd_micros: int | None = None
    """Requested cap; None for the failure's own."""
    cap_s: int | None = None

    def cap_of(self, failure: FailureType | None) -> int | None:
        """Return the cap of a drill's runs together, by their meters, micro-dollars; None if virtual, without cost.

        1. A requested cap wins.
        2. The default is the lesser of three runs' caps and a dollar.
        3. An overrun bills a whole run's cap and a micro-dollar by itself, so it gets a run's cap in addition,
           without the limit of a dollar.
        """
        if self.mode == VIRTUAL or self.cap_usd_micros is not None:
            return self.cap_usd_micros
        if failure is FailureType.COST_OVERRUN:
            return (RUNS + 1) * self.run_usd_micros + 1
        return min(RUNS * self.run_usd_micros, CAP_USD_MICROS)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the facts for the audit stream."""
        if self.mode == VIRTUAL:
            return {}
        return {"mode": self.mode, "cap_usd_micros": self.cap_usd_micros, "cap_s": self.cap_s}


def how_asked(actor: Actor, spec: FabricSpec, mode: str, cap_usd_micros: int | None, cap_s: int | None) -> DrillMode:
    """Return mode and caps of requested drills.

    Raises Refused: invalid (an unknown mode, a wrong cap), and for live drills forbidden and unavailable (no worker).
    """
    if mode not in MODES:
        raise Refused(f"{mode[:40]!r} is no mode: name {' or '.join(MODES)}", code="invalid", field="mode")
    run_cap = spec.policy.budget.run_usd_micros
    if mode == VIRTUAL:
        for field, given in (("cap_usd_micros", cap_usd_micros), ("cap_s", cap_s)):
            if given is not None:
                message = f"{field} is of live drills: one in simulated time costs nothing; leave it out"
                raise Refused(message, code="invalid", field=field)
        return DrillMode(mode, run_cap)
    if not may_ask_live(actor):
        message = f"a live drill takes the time of workers: {actor.name} may drill in simulated time, and live drills are for {holders(Right.OPERATE)}"
        raise Refused(message, code="forbidden", field="actor")
    _require_within("cap_usd_micros", cap_usd_micros, 1, CAP_USD_MICROS_MAX, "micro-dollars")
    _require_within("cap_s", cap_s, CAP_S_MIN, CAP_S_MAX, "seconds")
    if not workers_alive_count():
        message = (
            f"no worker is alive, and a live drill needs one: start one with `{START}`, or drill in simulated time"
        )
        raise Refused(message, code="unavailable", field="mode")
    return DrillMode(mode, run_cap, cap_usd_micros, cap_s or CAP_S)


def may_ask_live(actor: Actor) -> bool:
    """Return True if an actor may start live drills."""
    return actor.may(Right.OPERATE)


def _require_within(field: str, given: int | None, least: int, most: int, unit: str) -> None:
    if given is not None and not least <= given <= most:
        message = f"{field}: {given} is none; give {least:,} to {most:,} {unit}, or leave it out"
        raise Refused(message, code="invalid", field=field)

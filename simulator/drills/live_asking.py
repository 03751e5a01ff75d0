"""What asking for live drills takes: who may, a worker that is alive, and the caps at which each of them is ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fabric.core.actor import Actor
from fabric.core.roles import Right, holders
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType
from fabric.selectors.standing import workers_alive_count
from fabric.services.errors import Refused
from simulator.drills.models import MODES, VIRTUAL

CAP_S, CAP_S_MIN, CAP_S_MAX = 180, 5, 3_600
"""Seconds that a live drill takes at most: its three runs together."""
RUNS = 3
"""Of each drill: one undisturbed, one that meets the failure, and one undisturbed again."""
CAP_USD_MICROS = 1_000_000
CAP_USD_MICROS_MAX = 1_000_000_000_000
START = "python3 manage.py up"


@dataclass(frozen=True, slots=True)
class How:
    """In which mode drills are done, and what ends each of them."""

    mode: str
    run_usd_micros: int
    """What a run of the fabric may spend."""
    cap_usd_micros: int | None = None
    """As it was asked for; None: the failure's own."""
    cap_s: int | None = None

    def cap_of(self, failure: FailureType | None) -> int | None:
        """What the runs of a drill may cost together by their meters, micro-dollars; None: it is virtual, and costs nothing.

        Unless it was named: the lesser of what its three runs may spend and a dollar. An overrun bills a whole run's cap and a micro-dollar by itself, which come on top, whatever that is.
        """
        if self.mode == VIRTUAL or self.cap_usd_micros is not None:
            return self.cap_usd_micros
        if failure is FailureType.COST_OVERRUN:
            return (RUNS + 1) * self.run_usd_micros + 1
        return min(RUNS * self.run_usd_micros, CAP_USD_MICROS)

    @property
    def told(self) -> Mapping[str, Any]:
        """For the audit stream."""
        if self.mode == VIRTUAL:
            return {}
        return {"mode": self.mode, "cap_usd_micros": self.cap_usd_micros, "cap_s": self.cap_s}


def how_asked(actor: Actor, spec: FabricSpec, mode: str, cap_usd_micros: int | None, cap_s: int | None) -> How:
    """How drills that are asked for so are done. Raises Refused: invalid (a mode or cap that is none), forbidden and unavailable (live: who asks, and no worker)."""
    if mode not in MODES:
        raise Refused(f"{mode[:40]!r} is no mode: name {' or '.join(MODES)}", code="invalid", field="mode")
    run_cap = spec.policy.budget.run_usd_micros
    if mode == VIRTUAL:
        for field, given in (("cap_usd_micros", cap_usd_micros), ("cap_s", cap_s)):
            if given is not None:
                message = f"{field} is of live drills: one in virtual time costs nothing; leave it out"
                raise Refused(message, code="invalid", field=field)
        return How(mode, run_cap)
    if not may_ask_live(actor):
        message = f"a live drill takes the time of workers: {actor.name} may drill in virtual time, and live drills are for {holders(Right.OPERATE)}"
        raise Refused(message, code="forbidden", field="actor")
    _within("cap_usd_micros", cap_usd_micros, 1, CAP_USD_MICROS_MAX, "micro-dollars")
    _within("cap_s", cap_s, CAP_S_MIN, CAP_S_MAX, "seconds")
    if not workers_alive_count():
        message = f"no worker is alive, and a live drill needs one: start one with `{START}`, or drill in virtual time"
        raise Refused(message, code="unavailable", field="mode")
    return How(mode, run_cap, cap_usd_micros, cap_s or CAP_S)


def may_ask_live(actor: Actor) -> bool:
    """Whether somebody may ask for live drills."""
    return actor.may(Right.OPERATE)


def _within(field: str, given: int | None, least: int, most: int, unit: str) -> None:
    if given is not None and not least <= given <= most:
        message = f"{field}: {given} is none; give {least:,} to {most:,} {unit}, or leave it out"
        raise Refused(message, code="invalid", field=field)

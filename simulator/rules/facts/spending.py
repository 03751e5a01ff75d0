"""Counts a run's spending and its changes to the world anew, from the facts alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fabric.core.spec.policies.budgets import CapUnit, cap_key

UNITS: tuple[CapUnit, ...] = ("usd_micros", "tokens")
Amounts = tuple[int, int]
"""Micro-dollars and tokens."""
Keys = tuple[str, str]
"""The caps of one scope on both."""


@dataclass(slots=True)
class Purse:
    """Spending of a run and its parts, by ``cap_key``."""

    held: dict[str, tuple[Amounts, tuple[Keys, ...]]] = field(default_factory=dict)
    """Reservation and caps of each open command."""
    used: Counter[str] = field(default_factory=Counter)
    """Spent and reserved."""
    over: Counter[str] = field(default_factory=Counter)
    """Bills above reservations."""
    raised: dict[str, int] = field(default_factory=dict)
    """Caps as people raised them."""
    models: dict[str, str] = field(default_factory=dict)
    """Model of each open model call."""
    dearest: dict[str, Amounts] = field(default_factory=dict)
    """Largest bill above a reservation, by model."""

    def reserve(self, command_id: str, amounts: Amounts, whose: tuple[Keys, ...]) -> None:
        """Reserve for a call or a child that begins. ``whose``: its caps, by ``build_keys``."""
        self.held[command_id] = amounts, whose
        for keys in whose:
            for key, amount in zip(keys, amounts, strict=True):
                self.used[key] += amount

    def settle(self, command_id: str, amounts: Amounts) -> None:
        """Settle a reservation by its cost; only the first report counts."""
        found = self.held.pop(command_id, None)
        if found is None:
            return
        reserved, whose = found
        model = self.models.pop(command_id, "")
        if model:
            above = [came_to if came_to > was else 0 for was, came_to in zip(reserved, amounts, strict=True)]
            before = self.dearest.get(model, (0, 0))
            self.dearest[model] = max(before[0], above[0]), max(before[1], above[1])
        for keys in whose:
            for key, was, came_to in zip(keys, reserved, amounts, strict=True):
                self.used[key] += came_to - was
                self.over[key] += max(0, came_to - was)


@dataclass(slots=True)
class Rate:
    """The cost of a run's model calls since the last decision about its rate."""

    usual: dict[str, int] = field(default_factory=dict)
    """Micro-dollars of the usual busiest minute, by scope."""
    costs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Instant and micro-dollars of each returned call, by scope."""
    out: dict[str, str] = field(default_factory=dict)
    """Agent of each open call that costs money."""
    let_go_on: bool = False
    """True if a person approved a cost overrun, which ends the limit on the rate."""

    def sum_spent(self, scope: str, now: int, window_us: int) -> int:
        """Micro-dollars of the last ``window_us``."""
        return sum(usd for at, usd in self.costs.get(scope, ()) if at > now - window_us)


def build_keys(scope: str) -> Keys:
    """Return the caps of a scope, in the order of ``UNITS``."""
    return cap_key(scope, UNITS[0]), cap_key(scope, UNITS[1])


@dataclass(slots=True)
class Change:
    """One call that changes the world, under its key."""

    tool: str
    effect: str
    carry_over: bool
    status: str = "open"
    asked: bool = False
    """True if a person was asked about its stuck compensation."""
    answer: str = ""
    """Outcome of that review: a verb, or ``expired``."""
    doubted: bool = False
    """True if an attempt before the last one may have been executed."""

    @property
    def doubtful(self) -> bool:
        """Return True if its execution is unknown."""
        return self.status in ("open", "unknown")

    @property
    def standing(self) -> bool:
        """Return True if it has, or may have, changed the world and was not dealt with."""
        return self.doubtful or self.status == "executed"

    @property
    def undone(self) -> bool:
        """Return True if it was undone."""
        return self.status in ("compensation_answered", "compensation_by_hand")


@dataclass(slots=True)
class Changes:
    """All of a run's, in the order of their newest intent."""

    by_key: dict[str, Change] = field(default_factory=dict)
    intended: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Key and attempt by command id."""
    undoing: str = ""
    out: bool = False
    """True while a compensation is open."""
    purpose: str = ""
    approved: set[str] = field(default_factory=set)
    """Command ids of irreversible calls that a person approved."""
    items: dict[str, Any] = field(default_factory=dict)
    """Reviews about changes: kind and scope by id."""
    terminated: bool = False

    def newest(self) -> str:
        """Return the key of the next change to undo; empty if there is none."""
        keys = [key for key, one in self.by_key.items() if one.standing]
        if self.purpose == "replan":
            keys = [key for key in keys if not self.by_key[key].carry_over]
        return keys[-1] if keys else ""

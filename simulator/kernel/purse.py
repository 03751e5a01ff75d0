"""What a run, its stages and its agents spend, counted from the facts alone (``cap_checks.py``)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fabric.core.budget_caps import CapUnit, cap_key

UNITS: tuple[CapUnit, ...] = ("usd_micros", "tokens")
Amounts = tuple[int, int]
"""Micro-dollars and tokens."""
Keys = tuple[str, str]
"""The caps of one scope on both."""


@dataclass(slots=True)
class Purse:
    """What a run and its parts spent, by ``cap_key``."""

    held: dict[str, tuple[Amounts, tuple[Keys, ...]]] = field(default_factory=dict)
    """By command: what it is reserved at, and in which caps."""
    used: Counter[str] = field(default_factory=Counter)
    """Spent and reserved."""
    over: Counter[str] = field(default_factory=Counter)
    """What was billed above reservations."""
    raised: dict[str, int] = field(default_factory=dict)
    """What people raised caps to."""
    models: dict[str, str] = field(default_factory=dict)
    """The model of each model call that is out."""
    dearest: dict[str, Amounts] = field(default_factory=dict)
    """By model: the most that a call of it was billed above its reservation."""

    def reserve(self, command_id: str, amounts: Amounts, whose: tuple[Keys, ...]) -> None:
        """A call goes out, or a child begins. ``whose``: its caps, by ``keys_of``."""
        self.held[command_id] = amounts, whose
        for keys in whose:
            for key, amount in zip(keys, amounts, strict=True):
                self.used[key] += amount

    def settle(self, command_id: str, amounts: Amounts) -> None:
        """It is known what it came to; only the first word about it counts."""
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
    """When each call came back and its micro-dollars, by scope."""
    out: dict[str, str] = field(default_factory=dict)
    """The agent of each call that is out and costs something."""
    let_go_on: bool = False
    """A person approved a cost overrun: nobody says any more what is too fast."""

    def spent(self, scope: str, now: int, window_us: int) -> int:
        """Micro-dollars of the last ``window_us``."""
        return sum(usd for at, usd in self.costs.get(scope, ()) if at > now - window_us)


def keys_of(scope: str) -> Keys:
    """The caps of a scope, in the order of ``UNITS``."""
    return cap_key(scope, UNITS[0]), cap_key(scope, UNITS[1])

"""What a run, its stages and its agents spend, counted from the facts alone (``cap_checks.py``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from fabric.core.budget_caps import CapUnit, cap_key

UNITS: tuple[CapUnit, ...] = ("usd_micros", "tokens")
Amounts = tuple[int, int]
"""Micro-dollars and tokens."""


@dataclass(slots=True)
class Purse:
    """What a run and its parts spent, by ``cap_key``."""

    held: dict[str, tuple[Amounts, tuple[str, ...]]] = field(default_factory=dict)
    """By command: what it is reserved at, and whose it is."""
    used: Counter[str] = field(default_factory=Counter)
    """Spent and reserved."""
    over: Counter[str] = field(default_factory=Counter)
    """What was billed above reservations."""
    raised: dict[str, int] = field(default_factory=dict)
    """What people raised caps to."""

    def reserve(self, command_id: str, amounts: Amounts, whose: tuple[str, ...]) -> None:
        """A call goes out, or a child begins."""
        self.held[command_id] = amounts, whose
        for key, amount in _each(whose, amounts):
            self.used[key] += amount

    def settle(self, command_id: str, amounts: Amounts) -> None:
        """It is known what it came to; only the first word about it counts."""
        found = self.held.pop(command_id, None)
        if found is None:
            return
        reserved, whose = found
        for (key, was), (_, came_to) in zip(_each(whose, reserved), _each(whose, amounts), strict=True):
            self.used[key] += came_to - was
            self.over[key] += max(0, came_to - was)


def _each(whose: tuple[str, ...], amounts: Amounts) -> Iterator[tuple[str, int]]:
    for scope in whose:
        for unit, amount in zip(UNITS, amounts, strict=True):
            yield cap_key(scope, unit), amount

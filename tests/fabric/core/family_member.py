"""One run of a family in tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from fabric.core.events.envelope import Event, JournalRow, split_rows
from fabric.core.mechanisms import budget, find_state
from fabric.core.state.run import Run
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.runtime.driver import RunDriver


@dataclass
class Member:
    """One run of the family."""

    run_id: str
    tier: Tier
    seed: int
    rows: list[JournalRow] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    inbox: dict[str, bytes] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Of every input there was."""
    taken: set[str] = field(default_factory=set)
    run: Run = field(default_factory=lambda: Run(""))
    driver: RunDriver | None = None
    fence: int = 0
    wake: int | None = None
    """Of the driver, or of the row once it is released."""
    claims: int = 0
    parent: tuple[str, str] | None = None
    """Its parent's id and command."""
    fresh: set[str] = field(default_factory=set)
    """What the last claim took."""
    damage: str = ""
    """What is wrong with its journal."""
    poisoned: bool = False
    """Its owners die of it: the next claim quarantines it."""
    wakes: dict[str, int] = field(default_factory=dict)
    """Of every input there was."""

    def of(self, kind: type[Any]) -> list[Any]:
        return [event.fact for event in self.events if isinstance(event.fact, kind)]

    @property
    def kinds(self) -> list[str]:
        return [event.fact.kind for event in self.events]

    @property
    def spent(self) -> int:
        spent: int = find_state(self.run.guards, budget).spent_usd_micros
        return spent

    def content(self, ref: str) -> JSON:
        return next(
            json.loads(row.payload)
            for row, event in zip(split_rows(self.rows), self.events, strict=True)
            if event.content_ref == ref and row.payload
        )

    @property
    def outcome(self) -> JSON:
        return self.content(self.run.outcome_ref)["output"] if self.run.outcome_ref else None

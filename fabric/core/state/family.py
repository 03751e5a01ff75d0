"""The part of a run's state about its family: its parent, its living children, the results of ended children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from fabric.core.events.children import ChildQuarantined, ChildSpawned, LineagePinned, Stop
from fabric.core.values.frozen import value


@value()
class Child:
    """A child that has not ended yet."""

    fact: ChildSpawned
    let_go: Stop | None = None
    """Kind of the stop that its parent requested; None: not stopped."""
    waiting: bool = False
    """True: it waits for people alone."""
    quarantined: ChildQuarantined | None = None


@value()
class ChildAnswer:
    """The result of an ended child."""

    ref: str
    briefs: tuple[int, ...]
    missing: tuple[int, ...]


@value()
class Family:
    """Empty in a run without parent and children, and then one value shared by all of them."""

    lineage: LineagePinned | None = None
    alive: Mapping[str, Child] = field(default_factory=dict)
    """Living children of all epochs, by command id."""
    answers: Mapping[str, ChildAnswer] = field(default_factory=dict)
    """The current epoch's, by step id."""
    changed_world: tuple[str, ...] = ()
    """Ids of the steps whose child run changed the world, or may have. The engine never retries them on its own."""


def at_work(family: Family) -> bool:
    """Return True if a child goes on without a person."""
    return any(not (child.waiting or child.quarantined) for child in family.alive.values())


NONE = Family()
"""Family of a run without a parent and children."""

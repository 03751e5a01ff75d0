"""What a run remembers of its family: its own parent, its living children, what those brought that have ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from fabric.core.events.children import ChildQuarantined, ChildSpawned, LineagePinned, Stop
from fabric.core.frozen import value
from fabric.core.taxonomy import Cause


@value()
class Child:
    """A child that has not ended yet."""

    fact: ChildSpawned
    let_go: Stop | None = None
    """How it was told to stop; None: it was not."""
    waiting: bool = False
    """It waits for people alone."""
    quarantined: ChildQuarantined | None = None


@value()
class Answer:
    """What a child brought."""

    ref: str
    briefs: tuple[int, ...]
    missing: tuple[int, ...]


@value()
class Family:
    """Empty in a run without parent and children, and then one value shared by all of them."""

    lineage: LineagePinned | None = None
    alive: Mapping[str, Child] = field(default_factory=dict)
    """By command id, whatever the epoch."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """The current epoch's, by step id."""
    tries: Mapping[str, str] = field(default_factory=dict)
    """Of branches that children did, by ``saga.scope_of``: what the keys of the last one began with, so that whoever does the same once more meets what it did;
    empty: nobody knows that it has undone nothing.
    """
    keys_epoch: int = 0
    """The epoch that keys of a child's own calls name: the last one before which something was undone."""
    keys_spent: bool = False
    """A child has undone something under its keys (``mutation_keys.spent``)."""
    trouble: Cause | None = None
    """Of a child: the cause of its last decision, which its parent is told when it fails."""


def at_work(family: Family) -> bool:
    """Whether a child goes on without a person."""
    return any(not (child.waiting or child.quarantined) for child in family.alive.values())


NONE = Family()
"""No parent, no child."""

"""What the ways of drawing workers share: rows of the table, and what each kind of topology says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.utils.safestring import SafeString

from fabric.core.spec import FabricSpec

Drawn = tuple[list[SafeString], int]
"""What was drawn, and where it ends."""


@dataclass(frozen=True, slots=True)
class Link:
    """Who passes what on to whom: a row of the table beside the picture."""

    source: str
    target: str
    what: str
    stage: str


@dataclass(frozen=True, slots=True)
class Area:
    """How the workers of one kind of topology are shown."""

    draw: Callable[[FabricSpec, int], Drawn]
    """From a height down."""
    links: Callable[[FabricSpec, str], list[Link]]
    """What passes to and among them; given who plans."""
    ends: Callable[[FabricSpec, str], list[Link]]
    """What they pass on; given who joins it."""
    label: Callable[[FabricSpec], str]
    """A few words above the picture."""
    plan: str
    """What stands in the planner's place without one."""
    joins: tuple[str, str]
    """What stands in the aggregator's place without one, and a note."""
    policy: bool
    """Whether the fan-in policy has a say."""

"""Messages between runs of one family: inputs like any other (``inputs.InboxInput``), sent with a batch
(``outbox``).
"""

from __future__ import annotations

from typing import Literal

from fabric.core.events.children import Purpose
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import value
from fabric.core.values.saga import Effect, Status
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON


@value(kw_only=True)
class ChildRequested:
    """Start as a child. The first input of a run that another one spawned; everything it pins for good."""

    input_id: str
    request: JSON
    """``payloads.Request`` as JSON."""
    deadline_at: int
    """Microseconds since the epoch: its parent's stage is over then."""
    parent_run_id: str
    root_run_id: str
    command_id: str
    """The parent's command that it answers."""
    purpose: Purpose
    depth: int
    cap_usd_micros: int
    cap_tokens: int | None = None
    briefs: tuple[int, ...] = ()
    """Numbers of the briefs of its parent's plan that it executes."""
    plan: JSON = None
    """For a slice: ``payloads.Plan`` as JSON, with its briefs alone."""
    topology: str = ""
    """For a nested child: the worker whose topology it runs."""
    agents_alive: int | None = None
    """Most agents at work at once in it and below it; None: its policy's limit."""
    agents_spawned: int | None = None
    """Most agents started in it and below it, in all; None: its policy's limit."""
    requested_by: str = ""
    """Person or account that started its root."""
    caused_by: tuple[str, ...] = ()
    """Other people who created the credentials that they used, as in ``RunRequested``."""
    kind: Literal["child_requested"] = "child_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class ChildWaits:
    """A child has only reviews live and its clocks have stopped, or they run again."""

    input_id: str
    child_id: str
    command_id: str
    waiting: bool
    kind: Literal["child_waits"] = "child_waits"
    version: Literal[1] = 1


@value(kw_only=True)
class ChildStuck:
    """A child was quarantined and has a review open, or its quarantine ended."""

    input_id: str
    child_id: str
    command_id: str
    stuck: bool
    reason: str = ""
    review_id: str = ""
    """Id of its review."""
    digest: str = ""
    kind: Literal["child_stuck"] = "child_stuck"
    version: Literal[1] = 1


@value(kw_only=True)
class HandedUp:
    """A change to the world that a child leaves to its parent (``saga.Mutation``)."""

    key: str
    command_id: str
    tool: str
    effect: Effect
    compensation: str
    status: Status
    deadline_at: int
    args: JSON
    result: JSON = None
    reason: str = ""


@value(kw_only=True)
class ChildEnded:
    """A child has ended; its last batch brings this to its parent."""

    input_id: str
    child_id: str
    command_id: str
    state: RunState
    reason: str
    cost_usd_micros: int | None = None
    """Micro-dollars that it cost; None: unknown, and its parent charges the reservation."""
    tokens: int | None = None
    cause: Cause | None = None
    missing: tuple[int, ...] = ()
    """Briefs that it brings nothing for."""
    content: JSON = None
    """Its result; None: none."""
    mutations: tuple[HandedUp, ...] = ()
    """Mutations that it made and did not undo, the oldest first."""
    agents_spawned: int | None = None
    """Number of agents started in it and below it; None: unknown."""
    released: tuple[str, ...] = ()
    """Unsafe outputs that people accepted in it and below it (``releases.key``)."""
    changed_world: bool = False
    """True: the child or a run below it changed the world, undone or not, or that is unknown."""
    kind: Literal["child_ended"] = "child_ended"
    version: Literal[1] = 1

"""What runs of one family tell each other: inputs like any other (``inputs.InboxInput``), sent with a batch (``outbox``)."""

from __future__ import annotations

from typing import Any, Literal

from fabric.core.events.children import Purpose
from fabric.core.flow import RunState
from fabric.core.frozen import value
from fabric.core.saga import Effect, Status
from fabric.core.taxonomy import Cause

JSON = Any


@value(kw_only=True)
class HandedDown:
    """A change to the world that an earlier try of a child made (``events.MutationInherited``)."""

    key: str
    child_id: str
    step_id: str
    command_id: str
    tool: str
    effect: Effect
    compensation: str
    status: Status
    deadline_at: int
    args: JSON
    result: JSON = None
    reason: str = ""
    unanswered: bool = False


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
    """Which briefs of its parent's plan it does."""
    plan: JSON = None
    """Of a slice: ``payloads.Plan`` as JSON, with those briefs alone."""
    topology: str = ""
    """Of a nested one: the worker whose topology it runs."""
    agents_alive: int | None = None
    """How many agents may be at work at once in it and below it; None: as many as its policy says."""
    agents_spawned: int | None = None
    """How many may be started in it and below it, in all; None likewise."""
    requested_by: str = ""
    """Who started its root..."""
    caused_by: tuple[str, ...] = ()
    """...and who caused that, as in ``RunRequested``."""
    keys: str = ""
    """What the keys of its changes begin with (``mutation_keys``)."""
    mutations: tuple[HandedDown, ...] = ()
    """What earlier tries changed, the oldest first."""
    kind: Literal["child_requested"] = "child_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class ChildWaits:
    """A child has nothing live but questions to people and its clocks have stopped, or they run again."""

    input_id: str
    child_id: str
    command_id: str
    waiting: bool
    kind: Literal["child_waits"] = "child_waits"
    version: Literal[1] = 1


@value(kw_only=True)
class ChildStuck:
    """A child was quarantined, and asks a person; or it is not any more."""

    input_id: str
    child_id: str
    command_id: str
    stuck: bool
    reason: str = ""
    escalation_id: str = ""
    """Its question."""
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
    """None: nobody can tell, and its parent charges what it had reserved."""
    tokens: int | None = None
    cause: Cause | None = None
    missing: tuple[int, ...] = ()
    """Briefs that it brings nothing for."""
    content: JSON = None
    """What it brings; None: nothing."""
    mutations: tuple[HandedUp, ...] = ()
    """What it changed and did not undo, the oldest first."""
    agents_spawned: int | None = None
    """How many agents were started in it and below it; None: nobody can tell."""
    released: tuple[str, ...] = ()
    """Unsafe outputs that people let pass in it and below it (``releases.key``)."""
    keys_spent: bool = False
    """Something under its keys was undone, or nobody can tell (``mutation_keys.spent``)."""
    kind: Literal["child_ended"] = "child_ended"
    version: Literal[1] = 1

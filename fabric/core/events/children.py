"""Facts about a family of runs: a child is spawned, answers, is stopped; and, in the child, its lineage."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.values.flow import RunState
from fabric.core.values.frozen import value
from fabric.core.values.saga import Effect, Status
from fabric.core.values.taxonomy import Cause

Purpose = Literal["slice", "nested"]
"""``slice``: executes some of its parent's briefs; ``nested``: executes one brief as a flow of its own."""
Stop = Literal["cancel", "terminate"]
"""Kind of a child's stop: ``cancel`` undoes its changes first, ``terminate`` does not."""


@value(kw_only=True)
class LineagePinned:
    """The run was pinned as a child, right after its start. Content, for a slice: ``{"output": payloads.Plan}``, its
    briefs alone.
    """

    parent_run_id: str
    root_run_id: str
    parent_command: str
    """The parent's command that it answers."""
    purpose: Purpose
    cap_usd_micros: int
    """Most it may spend: reserved in its parent's budget."""
    cap_tokens: int | None = None
    briefs: tuple[int, ...] = ()
    """Numbers of the briefs of its parent's plan that it executes, from 0."""
    topology: str = ""
    """For a nested child: the worker whose topology it runs."""
    agents_alive: int | None = None
    """Most agents at work at once in it and below it; None: its policy's limit."""
    agents_spawned: int | None = None
    """Most agents started in it and below it, in all; None: its policy's limit."""
    kind: ClassVar[str] = "lineage_pinned"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildSpawned:
    """A child run takes over a step, with a slice of the budget. It begins with the commit of this fact."""

    command_id: str
    step_id: str
    child_id: str
    purpose: Purpose
    briefs: tuple[int, ...]
    depth: int
    deadline_at: int
    reserved_usd_micros: int
    reserved_tokens: int = 0
    agents_alive: int = 0
    """Its share of the family's agents at work at once. 0: one for each brief, without a count of the agents below
    them.
    """
    agents_spawned: int = 0
    """Its share of the family's agents in all; 0: one for each brief."""
    kind: ClassVar[str] = "child_spawned"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildAnswered:
    """A child ended, and its cost is settled. Content: ``{"output": payloads.Outcome}``, for a slice ``{"parts":
    [...]}``.
    """

    command_id: str
    step_id: str
    child_id: str
    state: RunState
    reason: str
    cost_usd_micros: int
    tokens: int
    missing: tuple[int, ...] = ()
    """Briefs that it brings nothing for."""
    cause: Cause | None = None
    """Cause of its stop; None: not stopped."""
    late: bool = False
    """True: its step no longer waits for it, so it is only charged."""
    agents_back: int = 0
    """Number of agents of its share that it did not start."""
    released: tuple[str, ...] = ()
    """Unsafe outputs that people accepted in it and below it, by the key in their reviews. It is exactly those bytes,
    with exactly those problems.
    """
    changed_world: bool = False
    """True: it or a run below it changed the world, undone or not, or that is unknown. The engine never retries its
    step on its own.
    """
    kind: ClassVar[str] = "child_answered"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildWaiting:
    """A child has only reviews live, or goes on after them. While all children wait so, their parent's clocks stop
    too.
    """

    command_id: str
    child_id: str
    waiting: bool
    kind: ClassVar[str] = "child_waiting"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildLetGo:
    """A child was requested to stop. Its parent still waits for its end, which reports its cost."""

    command_id: str
    child_id: str
    reason: str
    how: Stop = "cancel"
    kind: ClassVar[str] = "child_let_go"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildQuarantined:
    """A child may not run on before a person decides so. A review of it opens here too, whose answer goes to the
    child's own.
    """

    command_id: str
    child_id: str
    reason: str
    review_id: str
    """Id of the child's own review."""
    digest: str
    """Digest of the content that the review about it shows."""
    kind: ClassVar[str] = "child_quarantined"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildFreed:
    """A quarantined child goes on, or goes to its end."""

    command_id: str
    child_id: str
    kind: ClassVar[str] = "child_freed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class MutationTakenOver:
    """A parent took over a change to the world that its child made and did not undo. It joins the order in which the
    parent undoes.

    Content: ``{"args": ..., "result": ...}``, the call's arguments and its answer.
    """

    command_id: str
    """The parent's command that the child answered."""
    child_id: str
    step_id: str
    of_command: str
    """The child's own call."""
    key: str
    tool: str
    effect: Effect
    compensation: str
    status: Status
    reason: str
    deadline_at: int
    kind: ClassVar[str] = "mutation_taken_over"
    version: ClassVar[int] = 1

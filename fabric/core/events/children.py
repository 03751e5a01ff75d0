"""Facts about a family of runs: a child is spawned, answers, is let go; and, in the child, whose it is."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.flow import RunState
from fabric.core.frozen import value
from fabric.core.saga import Effect, Status
from fabric.core.taxonomy import Cause

Purpose = Literal["slice", "nested"]
"""``slice``: it does some of its parent's briefs; ``nested``: it does one brief as a flow of its own."""
Stop = Literal["cancel", "terminate"]
"""How a child is told to stop: it undoes what it did first, or it does not."""


@value(kw_only=True)
class LineagePinned:
    """The run is a child, right after its start. Content, of a slice: ``{"output": payloads.Plan}``, its briefs alone."""

    parent_run_id: str
    root_run_id: str
    parent_command: str
    """The parent's command that it answers."""
    purpose: Purpose
    cap_usd_micros: int
    """Most it may spend: reserved in its parent's budget."""
    cap_tokens: int | None = None
    briefs: tuple[int, ...] = ()
    """Which briefs of its parent's plan it does, from 0."""
    topology: str = ""
    """Of a nested one: the worker whose topology it runs."""
    agents_alive: int | None = None
    """How many agents may be at work at once in it and below it; None: as many as its policy says."""
    agents_spawned: int | None = None
    """How many may be started in it and below it, in all; None likewise."""
    keys: str = ""
    """Prefix of the keys of its changes (``mutation_keys``); empty: its own id."""
    kind: ClassVar[str] = "lineage_pinned"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildSpawned:
    """A run of its own takes over a step, with a slice of the budget. It begins with the commit of this fact."""

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
    """Of the family's agents at work at once, how many are its; 0: as many as it has briefs, and what it does with them was not counted."""
    agents_spawned: int = 0
    """Of the family's agents in all, how many it may start; 0 likewise."""
    keys: str = ""
    """Prefix of the keys of the child's changes (``mutation_keys``); empty: its id."""
    handed_down: tuple[str, ...] = ()
    """Keys of changes that earlier tries made and left to this run: they are the child's from here on."""
    kind: ClassVar[str] = "child_spawned"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildAnswered:
    """A child ended; what it cost is settled. Content: ``{"output": payloads.Outcome}``, of a slice ``{"parts": [...]}``."""

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
    """What stopped it, where something did."""
    late: bool = False
    """True: nobody waits for it any more, so it is charged and that is all."""
    agents_back: int = 0
    """How many of the agents that it might have started it did not."""
    released: tuple[str, ...] = ()
    """Unsafe outputs that people let pass in it and below it, by the key that their questions have there: exactly those bytes, with what was found in them."""
    keys_spent: bool = False
    """Something under its keys was undone, or may have been: no later try uses them."""
    kind: ClassVar[str] = "child_answered"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildWaiting:
    """A child has nothing live but questions to people, or goes on after them: while all do, its parent's clocks stop too."""

    command_id: str
    child_id: str
    waiting: bool
    kind: ClassVar[str] = "child_waiting"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildLetGo:
    """A child was told to stop. It is waited for all the same: its own end says what it cost."""

    command_id: str
    child_id: str
    reason: str
    how: Stop = "cancel"
    kind: ClassVar[str] = "child_let_go"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ChildQuarantined:
    """A child may not be driven on before a person says so. The question about it is put here too, and answers its own."""

    command_id: str
    child_id: str
    reason: str
    escalation_id: str
    """The child's own question."""
    digest: str
    """Of what is shown with that."""
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
    """A change to the world that a child made and did not undo is its parent's from here on, in the order of what the parent undoes.

    Content: ``{"args": ..., "result": ...}``, what it was called with and what it answered.
    """

    command_id: str
    """The parent's command that the child answered."""
    child_id: str
    step_id: str
    of_command: str
    """The child's own call; of a slice ``bN/`` before it, N being the brief of this run's plan that it was for."""
    key: str
    tool: str
    effect: Effect
    compensation: str
    status: Status
    reason: str
    deadline_at: int
    kind: ClassVar[str] = "mutation_taken_over"
    version: ClassVar[int] = 1


@value(kw_only=True)
class MutationInherited:
    """A change to the world that an earlier try of this child run made is this run's from its start on. A call that is proposed again under its key is answered
    from it. It is undone or handed up with the run's own. Content: ``{"args": ..., "result": ...}``, what it was called with and what it answered.
    """

    child_id: str
    """The run that made it."""
    step_id: str
    """The step of this run that does again what made it."""
    of_command: str
    """The call, as a call of this run."""
    key: str
    tool: str
    effect: Effect
    compensation: str
    status: Status
    reason: str
    deadline_at: int
    unanswered: bool = False
    """Nobody knows what it answered."""
    carry_over: bool = False
    """A replan of this run leaves it standing: its key stays the same."""
    kind: ClassVar[str] = "mutation_inherited"
    version: ClassVar[int] = 1

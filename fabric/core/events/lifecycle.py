"""Facts about the run as a whole: start, ownership, stages, end."""

from __future__ import annotations

from typing import ClassVar

from fabric.core.events.parts import GateResult
from fabric.core.values.flow import RunState, Stage, StageOutcome
from fabric.core.values.frozen import value
from fabric.core.values.spending import UsualRate
from fabric.core.values.taxonomy import Tier


@value(kw_only=True)
class RunStarted:
    """The first event. Pins the revision, the tier and the absolute deadline. Content: ``payloads.Request``."""

    fabric: str
    revision: str
    tier: Tier
    deadline_at: int
    seed: int
    depth: int = 1
    """Level of nesting; the root run is 1."""
    requested_by: str = ""
    caused_by: tuple[str, ...] = ()
    """Other people who created the credentials that the starter used, such as a service account's token."""
    kind: ClassVar[str] = "run_started"
    version: ClassVar[int] = 1


@value(kw_only=True)
class UsualRatesPinned:
    """The usual rates that this run's spending is compared with, learned from its fabric's completed runs."""

    rates: tuple[UsualRate, ...]
    kind: ClassVar[str] = "usual_rates_pinned"
    version: ClassVar[int] = 1


@value(kw_only=True)
class PolicyTakenUp:
    """The run takes over a version of the workspace's policy, at its start or at a claim that finds another."""

    number: int
    run_usd_micros: int | None = None
    """The most that the policy lets the run spend, whatever cap a person set; None: no such limit."""
    kind: ClassVar[str] = "policy_taken_up"
    version: ClassVar[int] = 1


@value(kw_only=True)
class OwnershipTaken:
    """Another worker process (or a restarted one) goes on with the run from its journal."""

    fence: int
    incarnation: str
    kind: ClassVar[str] = "ownership_taken"
    version: ClassVar[int] = 1


@value(kw_only=True)
class RunQuarantined:
    """No worker goes on with the run until a person releases it. Its claims made no progress, or its journal is
    damaged.
    """

    reason: str
    claims: int
    """Claims since it last made progress, the one that ended here among them."""
    damage: str = ""
    """Damage of its journal; "": none known."""
    kind: ClassVar[str] = "run_quarantined"
    version: ClassVar[int] = 1


@value(kw_only=True)
class RunReleasedFromQuarantine:
    """A person ended the quarantine, and claims count anew. The following events tell the rest."""

    actor: str
    kind: ClassVar[str] = "run_released_from_quarantine"
    version: ClassVar[int] = 1


@value(kw_only=True)
class StageEntered:
    """A stage began: its deadline, its pre-gate, the agent of each branch (none: the engine does it itself)."""

    stage: Stage
    epoch: int
    deadline_at: int
    agents: tuple[str, ...] = ()
    gate: GateResult | None = None
    kind: ClassVar[str] = "stage_entered"
    version: ClassVar[int] = 1


@value(kw_only=True)
class StageLeft:
    """A stage ended. Content, where the engine made the output itself: the typed payload; else ``output_ref`` names
    the answer.
    """

    stage: Stage
    epoch: int
    outcome: StageOutcome
    output_ref: str = ""
    gate: GateResult | None = None
    kind: ClassVar[str] = "stage_left"
    version: ClassVar[int] = 1


@value(kw_only=True)
class Replanned:
    """The epoch rose: results of the older epoch's calls in flight are void. Content: the planner's report on the
    failure.
    """

    stage: Stage
    """Stage whose replans this one counts towards."""
    epoch: int
    reason: str
    planner: str = ""
    """Planner from here on, where planning was handed over; "": no change."""
    kind: ClassVar[str] = "replanned"
    version: ClassVar[int] = 1


@value(kw_only=True)
class RunEnding:
    """The run will end in ``state`` once the calls in flight have settled. Nothing is issued any more."""

    state: RunState
    reaction: str
    reason: str
    kind: ClassVar[str] = "run_ending"
    version: ClassVar[int] = 1


@value(kw_only=True)
class RunEnded:
    """The run ended; the last event. Content, where the outcome differs from a stage's output: ``{"output":
    payloads.Outcome}``.
    """

    state: RunState
    reason: str
    reaction: str
    outcome_ref: str = ""
    partial: bool = False
    """True: the outcome is partial. It comes from a stopped run, or from a completed run without branches whose retries
    were exhausted. A gap that a quorum allows does not count.
    """
    truncated: bool = False
    """True: a protection stopped an agent, which answered with the material that it had."""
    recovered: bool = False
    """True: it completed, but needed a reaction on the way."""
    kind: ClassVar[str] = "run_ended"
    version: ClassVar[int] = 1

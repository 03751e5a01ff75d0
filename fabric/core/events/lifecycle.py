"""Facts about the run as a whole: start, ownership, stages, end."""

from __future__ import annotations

from typing import ClassVar

from fabric.core.events.parts import GateResult
from fabric.core.flow import RunState, Stage, StageOutcome
from fabric.core.frozen import value
from fabric.core.spending import UsualRate
from fabric.core.taxonomy import Tier


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
    """Who made what the starter acted with, such as a service account's token, where it was somebody else."""
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
    """The version of the workspace's policy that holds for the run from here on: at its start, and at a claim that finds another version."""

    number: int
    run_usd_micros: int | None = None
    """The most that it lets the run spend, whatever a person raised the cap to; None: it says nothing of that."""
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
    """Nobody goes on with the run any more until a person says so: it was claimed again and again without progress, or its journal is damaged."""

    reason: str
    claims: int
    """Claims since it last made progress, the one that ended here among them."""
    damage: str = ""
    """What is wrong with its journal; empty: nothing that is known."""
    kind: ClassVar[str] = "run_quarantined"
    version: ClassVar[int] = 1


@value(kw_only=True)
class RunReleasedFromQuarantine:
    """A person ended the quarantine: claims count anew. What comes next is in the events after it."""

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
    """A stage ended. Content, where the engine made the output itself: the typed payload; else ``output_ref`` names the answer."""

    stage: Stage
    epoch: int
    outcome: StageOutcome
    output_ref: str = ""
    gate: GateResult | None = None
    kind: ClassVar[str] = "stage_left"
    version: ClassVar[int] = 1


@value(kw_only=True)
class Replanned:
    """The epoch rose: what the older one still has in flight is void as data. Content: what the planner is told about it."""

    stage: Stage
    """The stage that is charged with the replan."""
    epoch: int
    reason: str
    planner: str = ""
    """Who plans from here on, where it was handed over; empty: who did before."""
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
    """The last event. Content, where the outcome is no stage's output as it stands: ``{"output": payloads.Outcome}``."""

    state: RunState
    reason: str
    reaction: str
    outcome_ref: str = ""
    partial: bool = False
    """True: the outcome is what there was when the run was stopped, or, of one that completed, made without branches whose retries were exhausted. A gap that a quorum allows is none."""
    truncated: bool = False
    """True: an agent was stopped by a protection and answered with what it had."""
    recovered: bool = False
    """True: it completed, but needed a reaction on the way."""
    kind: ClassVar[str] = "run_ended"
    version: ClassVar[int] = 1

"""FlowPolicy: every budget and limit of a fabric, each with its unit in its name and its source in its description.

Limits allow N and refuse N+1; thresholds act at the N-th (semantics.md, general rules).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from fabric.core.agent_budgets import AgentBudgets, StageBudgets
from fabric.core.breaker.policy import PRESETS, UNNAMED, Breaker
from fabric.core.flow import Stage
from fabric.core.loop_policy import LoopDetector
from fabric.core.people_policy import Humans
from fabric.core.retry_policy import RetryLayers
from fabric.core.spec_parts import Micros, Positive, Seconds, SpecGroup
from fabric.core.stage_policy import StagePolicy
from fabric.core.taxonomy import Tier
from fabric.core.velocity_policy import CostVelocity


class _Policy(SpecGroup):
    pass


class Budget(_Policy):
    """Money and tokens. Money has no default: publication asks for it (semantics.md 4)."""

    run_usd_micros: Micros = Field(
        description="Most one run may spend, micro-dollars. S0: hard pre-execution budget gate."
    )
    call_usd_micros: Micros | None = Field(default=None, description="Most one call may be reserved at, micro-dollars.")
    stage_usd_micros: Micros | None = Field(default=None, description="Most any one stage may spend, micro-dollars.")
    agent_usd_micros: Micros | None = Field(
        default=None, description="Most one agent may spend in a run, micro-dollars."
    )
    fabric_hour_usd_micros: Micros | None = Field(
        default=None, description="Most all runs of the fabric may spend in any hour, micro-dollars."
    )
    session_usd_micros: Micros | None = Field(
        default=None,
        description="Most the runs of one session of the fabric may spend together, micro-dollars; at least what one run may.",
    )
    session_tokens: Positive | None = Field(
        default=None,
        description="Most tokens that the runs of one session may use together, input and output; at least run_tokens, which goes with it.",
    )
    run_tokens: Positive | None = Field(default=None, description="Most tokens of one run, input and output together.")
    stage_tokens: Positive | None = Field(
        default=None, description="Most tokens of one stage, input and output together."
    )
    agent_tokens: Positive | None = Field(
        default=None, description="Most tokens of one agent in a run, input and output together."
    )
    agents: AgentBudgets = Field(
        default={},
        description="Caps of single agents by name; they beat agent_usd_micros and agent_tokens.",
    )
    stages: StageBudgets = Field(
        default={},
        description="Caps of single stages by name; they beat stage_usd_micros and stage_tokens.",
    )

    @model_validator(mode="after")
    def _a_session_has_room_for_a_run(self) -> Budget:
        # So a run that is a session of its own is held to it by its own cap, its children with it.
        if self.session_usd_micros is not None and self.session_usd_micros < self.run_usd_micros:
            raise ValueError("session_usd_micros is less than run_usd_micros: give one run no more than its session")
        if self.session_tokens is not None and (self.run_tokens is None or self.session_tokens < self.run_tokens):
            raise ValueError(
                "session_tokens needs run_tokens, and no less than it: give one run no more than its session"
            )
        return self


class Deadlines(_Policy):
    """Call, stage and run timeouts in seconds; they become instants once and never move (S0 "Timeout Propagation")."""

    call_s: Seconds
    stage_s: Seconds
    run_s: Seconds


DEADLINES: dict[Tier, Deadlines] = {
    Tier.INTERACTIVE: Deadlines(call_s=30, stage_s=120, run_s=300),
    Tier.BATCH: Deadlines(call_s=120, stage_s=3_600, run_s=86_400),
    Tier.HIGH_STAKES: Deadlines(call_s=60, stage_s=600, run_s=3_600),
}
"""semantics.md 4: interactive 30 s / 2 min / 5 min; batch 120 s / 1 h / 24 h; high-stakes 60 s / 10 min / 1 h."""


class Limits(_Policy):
    """Counts that no run passes."""

    hops: Positive = Field(default=5, description="Handoffs in a peer chain. S0: hop limit.")
    recursion: Positive = Field(default=8, description="Depth of nesting, root = 1. S0: recursion limit.")
    turns: Positive = Field(default=25, description="Model turns a step. S0: LangGraph's ceiling.")
    calls_per_turn: Positive = Field(default=16, description="Tool calls executed of one answer; the rest is refused.")
    sub_agents_alive: Positive = Field(default=16, description="Agents working at once in a run and its child runs.")
    sub_agents_spawned: Positive = Field(
        default=64, description="Agents started in one run and its child runs, replans included."
    )
    plan_branches: Positive = Field(default=16, description="Briefs in one plan.")
    fan_out_inline_max: Positive = Field(
        default=64, description="Briefs that one run does itself; a larger fan-out is cut into child runs."
    )
    replans_per_stage: Positive = Field(default=2, description="S0: replan at most twice a stage.")
    run_events: Positive = Field(
        default=20_000, description="Events in one run's journal; the last tenth is kept for its end."
    )
    run_payload_bytes: Positive = Field(
        default=50_000_000, description="Bytes of contents of one run: what it may hold of a database."
    )
    content_bytes: Positive = Field(
        default=1_000_000, description="Bytes of one answer or result; a larger one is refused as it comes."
    )
    pending_calls: Positive = Field(
        default=1_024,
        description="Calls of one run out or waiting for their retry at once: what a takeover sends again.",
    )
    claims_without_progress: Positive = Field(
        default=5, description="Claims of one run without progress before it is put away and a person is asked."
    )
    corrections_per_step: Positive = Field(default=3, description="S2: waves with an error a step.")
    max_node_visits: Positive | None = Field(
        default=None,
        description="How often a run may enter any one stage, replans included; None: no limit. S1: node visit limits.",
    )
    max_visits: dict[Stage, Positive] | None = Field(
        default=None,
        description="The same for single stages; it beats max_node_visits. S1: per-node overrides.",
    )
    visits_preset: Literal["fabro"] | None = Field(
        default=None, description="fabro: the N-th visit is refused, not the one after it (S1)."
    )


class FailureSignature(_Policy):
    """When a failure that comes back ends the run."""

    limit: int = Field(
        default=3, description="The same failure this often in one run; 0 or less means 3. S1: failure signatures."
    )
    restart_limit: int = Field(
        default=3,
        description="The same failure this often at restart edges of a graph, counted apart; 0 or less means 3. S1: loop restart edges.",
    )


class DeadlockMonitor(_Policy):
    """What a deadlock among agents is (S0 "Deadlock Monitor")."""

    similarity: Annotated[float, Field(ge=0.5, le=1.0)] = Field(
        default=0.9, description="Least Jaccard index of two briefs that count as one."
    )
    brief_chars: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=40, description="Characters that a brief has at least to be compared."
    )
    window_moves: Annotated[int, Field(ge=6, le=200)] = Field(
        default=20, description="Moves that are looked back at, the proposed one among them."
    )
    cycle_max: Annotated[int, Field(ge=2, le=3)] = Field(
        default=3, description="Longest cycle of handoffs that is looked for. S0: deadlock monitor."
    )


class Progress(_Policy):
    """How many turns without any progress are too many (semantics.md 2)."""

    agent_turns: Annotated[int, Field(ge=2, le=100)] = Field(
        default=6,
        description="Turns of one agent in a row after which nothing has changed; twice as many that ask something else each time, four times in a scan.",
    )
    supervisor_turns: Annotated[int, Field(ge=2, le=100)] = Field(
        default=3, description="The same of the agent that plans."
    )


class GoalGates(_Policy):
    """What a run must have reached before it may exit; off unless nodes are named (S1 "Goal gates")."""

    nodes: tuple[Annotated[str, Field(min_length=1, max_length=63)], ...] = Field(
        default=(), description="Stages, or workers by agent name, that must have ended in success or partial success."
    )
    retry: Literal["none", "replan"] = Field(
        default="none", description="Where an unmet goal leads: replan, while replans are left, or to the run's end."
    )


class StallWatchdog(_Policy):
    """When a run's silence is a stall."""

    after_s: Annotated[float, Field(ge=0, le=30 * 86_400)] | None = Field(
        default=None,
        description="Seconds without an event; None: 30 min or half the stage deadline, whichever is less; 0: off. S1: stall watchdog.",
    )


Why = Annotated[str, Field(max_length=500, description="Why it is laxer than required.")]


class Retry(_Policy):
    """Backoff with full jitter: ``U(0, base * factor^n)``, first retry n = 0 (S0 "Retry Budget With Backoff")."""

    base_s: Seconds = Field(default=1.0, description="First backoff ceiling, seconds.")
    factor: Annotated[float, Field(ge=1.0, le=10.0)] = Field(default=2.0, description="Growth a retry.")
    cap_s: Seconds = Field(
        default=60.0, description="Longest wait, seconds, after jitter. A Retry-After over it fails at once."
    )
    bucket: Positive = Field(default=10, description="Retry tokens a run starts with.")
    earn: Annotated[float, Field(ge=0.0, le=1.0)] = Field(default=0.1, description="Tokens a first attempt earns.")
    shared: bool = Field(
        default=True,
        description="Whether a retry also takes a token that all runs of the fabric share, and one of the provider's; false needs a deviation.",
    )
    stage_retries: Positive | None = Field(
        default=None,
        description="Retries of each stage in one run, all calls together; None: no limit.",
    )
    deviation: Why = ""


def _preset_filled(given: Any) -> Any:
    """A breaker as a preset's name and what differs from it."""
    if not isinstance(given, dict) or "preset" not in given:
        return given
    own = {name: field for name, field in given.items() if name != "preset"}
    preset = PRESETS.get(given["preset"])
    if preset is None:
        raise ValueError(f"preset: there is no breaker preset {given['preset']!r}; there are: {', '.join(PRESETS)}")
    return {**preset().model_dump(mode="json"), **own}


Breakers = Annotated[
    tuple[Annotated[Breaker, BeforeValidator(_preset_filled)], ...],
    Field(
        max_length=16,
        description="Circuit breakers in front of calls; a preset (semantic, endpoint, rate_limit, outage) or signals of their own. Unless said: outage in "
        "front of each provider; []: none, which is a deviation. S3: circuit breaker.",
    ),
]


HUMAN_DUE_S: dict[Tier, float] = {Tier.INTERACTIVE: 300.0, Tier.BATCH: 86_400.0, Tier.HIGH_STAKES: 28_800.0}
UNDO_S: dict[Tier, float] = {Tier.INTERACTIVE: 3.0, Tier.BATCH: 10.0, Tier.HIGH_STAKES: 10.0}
"""How long an answer given in a browser waits before its run takes it, seconds (semantics.md 4 "Human waits"); by API and command 0."""


class SagaPolicy(_Policy):
    """Undoing what a run did (semantics.md 4 "Saga")."""

    unwind_on_cancel: bool = Field(
        default=True, description="Whether a cancelled run undoes what it did; false: it says what stays."
    )
    compensation_attempts: Positive = Field(
        default=5, description="Attempts of one compensation before a person is asked."
    )
    reconcile_attempts: Positive = Field(
        default=3, description="How often a tool is asked whether a call was executed, before a person is."
    )
    retry_base_s: Seconds = Field(default=1.0, description="First wait between attempts, seconds, with full jitter.")
    retry_factor: Annotated[float, Field(ge=1.0, le=10.0)] = Field(default=2.0, description="Growth an attempt.")
    retry_cap_s: Seconds = Field(default=60.0, description="Longest wait between attempts, seconds.")


class FanIn(_Policy):
    """When the fan-in stage has enough: all branches, a quorum of k, or whatever came back."""

    mode: Literal["all", "quorum", "best_effort"] = "all"
    k: Positive | None = None

    @model_validator(mode="after")
    def _quorum_names_k(self) -> FanIn:
        if (self.mode == "quorum") != (self.k is not None):
            raise ValueError("fan_in: give k with mode quorum, and only then")
        return self


class FlowPolicy(_Policy):
    """Every budget and limit of a fabric."""

    budget: Budget
    cost_velocity: CostVelocity = CostVelocity()
    deadlines: dict[Tier, Deadlines] = Field(default_factory=dict, description="Overrides of the tier defaults.")
    limits: Limits = Limits()
    loop_detector: LoopDetector = LoopDetector()
    failure_signature: FailureSignature = FailureSignature()
    deadlock_monitor: DeadlockMonitor = Field(default=DeadlockMonitor())
    progress: Progress = Field(default=Progress())
    goal_gates: GoalGates = GoalGates()
    stall_watchdog: StallWatchdog = StallWatchdog()
    retry: Retry = Retry()
    retry_layers: RetryLayers = Field(
        default=RetryLayers(),
        description="The layers that a failure goes through before it is the run's. S1: retry layers.",
    )
    breakers: Breakers = UNNAMED
    breakers_deviation: Why = ""
    humans: Humans = Humans()
    fan_in: FanIn = FanIn()
    saga: SagaPolicy = SagaPolicy()
    tau: Annotated[float, Field(ge=0.0, le=1.0)] = Field(default=0.7, description="S0: confidence threshold.")
    stages: dict[Stage, StagePolicy] = Field(default={}, description="What single stages have otherwise.")

    def of_stage(self, stage: Stage) -> FlowPolicy:
        """The policy as a stage sees it: its own values over the fabric's."""
        return self._as_stages_see_it[stage] if self.stages else self

    @cached_property
    def _as_stages_see_it(self) -> Mapping[Stage, FlowPolicy]:
        return {stage: _seen_by(self, self.stages.get(stage)) for stage in Stage}

    def deadlines_of(self, tier: Tier) -> Deadlines:
        """The deadlines in force for a tier."""
        return self.deadlines.get(tier, DEADLINES[tier])

    def due_s(self, tier: Tier) -> float:
        """Seconds a person has to answer."""
        return self.humans.due_s or HUMAN_DUE_S[tier]


def _seen_by(policy: FlowPolicy, own: StagePolicy | None) -> FlowPolicy:
    if own is None:
        return policy.model_copy(update={"stages": {}})
    changed: dict[str, Any] = {
        name: getattr(policy, name).model_copy(update=one.given) for name, one in own.groups.items()
    }
    if own.tau is not None:
        changed["tau"] = own.tau
    by_tier = {tier: policy.deadlines_of(tier).model_copy(update=one.given) for tier, one in own.deadlines.items()}
    return policy.model_copy(update=changed | {"deadlines": policy.deadlines | by_tier, "stages": {}})

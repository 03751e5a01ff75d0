"""Deadlines, counts, failures that come back, stalls, goals, retries, undoing and the fan-in, as a fabric sets them.

Limits allow N and refuse N+1; thresholds act at the N-th (docs/specification/README.md).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fabric.core.schema.limits import REQUIRED, Unit, declare_limit, declare_setting
from fabric.core.schema.parts import Positive, Seconds, SpecGroup
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Tier

Why = Annotated[str, Field(max_length=500)]
_TIERS = "tier default, docs/specification/protections.md"
_DEADLOCK, _RETRY = "S0: Deadlock Monitor", "S0: Retry Budget With Backoff"
_CHANGES, _FAILURES, _RETRIES = (f"docs/specification/{name}.md" for name in ("changes", "failures", "retries"))


class Deadlines(SpecGroup):
    """The times of a call, a stage and a run. They become instants once and never move (S0 "Timeout Propagation")."""

    call_s: Seconds = declare_limit(
        REQUIRED,
        "Call timeout",
        Unit.SECONDS,
        "A call may take at most this long.",
        stops="the call is given up; the decision table decides",
        source=_TIERS,
    )
    stage_s: Seconds = declare_limit(
        REQUIRED,
        "Stage deadline",
        Unit.SECONDS,
        "A stage may take at most this long.",
        stops="the stage fails as a cost overrun; the decision table decides",
        source=_TIERS,
    )
    run_s: Seconds = declare_limit(
        REQUIRED,
        "Run deadline",
        Unit.SECONDS,
        "A run may take at most this long.",
        stops="the run sends nothing more and ends",
        source=_TIERS,
    )


DEADLINES: dict[Tier, Deadlines] = {
    Tier.INTERACTIVE: Deadlines(call_s=30, stage_s=120, run_s=300),
    Tier.BATCH: Deadlines(call_s=120, stage_s=3_600, run_s=86_400),
    Tier.HIGH_STAKES: Deadlines(call_s=60, stage_s=600, run_s=3_600),
}
"""Deadlines of call, stage and run (docs/specification/protections.md). Interactive: 30 s, 2 min, 5 min; batch: 120 s,
1 h, 24 h; high-stakes: 60 s, 10 min, 1 h.
"""


class Limits(SpecGroup):
    """Counts that no run passes."""

    hops: Positive = declare_limit(
        5,
        "Handoffs",
        Unit.HANDOFFS,
        "Agents may hand over at most this often in one chain of peers.",
        stops="the next handoff is refused",
        source="S0: hop limit",
    )
    recursion: Positive = declare_limit(
        8,
        "Depth of child runs",
        Unit.LEVELS,
        "Child runs may be nested at most this deep; the first run is level 1.",
        stops="no child run is started",
        source="S0: recursion limit",
    )
    turns: Positive = declare_limit(
        25,
        "Model turns of a step",
        Unit.TURNS,
        "An agent may call its model at most this often in one step.",
        stops="the agent must answer with its results so far",
        source="S0: LangGraph's ceiling",
    )
    calls_per_turn: Positive = declare_limit(
        16,
        "Tool calls of a turn",
        Unit.CALLS,
        "One answer of a model may make at most this many tool calls.",
        stops="the answer's further calls are refused",
    )
    sub_agents_alive: Positive = declare_limit(
        16,
        "Sub-agents at once",
        Unit.AGENTS,
        "At most this many agents may work at once in a run and its child runs.",
        stops="no further branch is started",
    )
    sub_agents_spawned: Positive = declare_limit(
        64,
        "Sub-agents of a run",
        Unit.AGENTS,
        "A run and its child runs may start at most this many agents, replans included.",
        stops="no further branch is started",
    )
    plan_branches: Positive = declare_limit(
        16,
        "Briefs of a plan",
        Unit.BRIEFS,
        "A plan may hand out at most this many briefs.",
        stops="a plan with more is malformed",
    )
    fan_out_inline_max: Positive = declare_limit(
        64,
        "Briefs without child runs",
        Unit.BRIEFS,
        "A run works on at most this many briefs itself.",
        stops="a larger fan-out is split into child runs",
    )
    replans_per_stage: Positive = declare_limit(
        2,
        "Replans of a stage",
        Unit.REPLANS,
        "Each stage may be replanned at most this often.",
        stops="no further plan is made; the decision table decides",
        source="S0: replan at most twice a stage",
    )
    run_events: Positive = declare_limit(
        20_000,
        "Events of a run",
        Unit.EVENTS,
        "The journal of a run may hold at most this many events; the last tenth is kept for the run's end.",
        stops="no further call is issued, and the rest is kept for the run's end",
    )
    run_payload_bytes: Positive = declare_limit(
        50_000_000,
        "Content of a run",
        Unit.BYTES,
        "A run may store at most this much content: prompts, answers and results.",
        stops="no further call is issued",
    )
    content_bytes: Positive = declare_limit(
        1_000_000,
        "One answer or result",
        Unit.BYTES,
        "One answer of a model or result of a tool may be at most this large.",
        stops="a larger one is refused",
    )
    pending_calls: Positive = declare_limit(
        1_024,
        "Calls pending at once",
        Unit.CALLS,
        "A run may have at most this many calls in flight or waiting for a retry.",
        stops="no further call is issued until one comes back",
    )
    claims_without_progress: Positive = declare_limit(
        5,
        "Claims without progress",
        Unit.CLAIMS,
        "Workers may claim a run at most this often without progress in between.",
        stops="the run is quarantined and a person decides",
    )
    corrections_per_step: Positive = declare_limit(
        3,
        "Corrections of a step",
        Unit.CORRECTIONS,
        "A step may have at most this many rounds with an error that its agent has to correct.",
        stops="the step fails on its schema; the decision table decides",
        source="S2: waves with an error a step",
    )
    max_node_visits: Positive | None = declare_limit(
        None,
        "Visits of a stage",
        Unit.VISITS,
        "A run may enter each stage at most this often, replans included. None: there is no limit.",
        stops="the stage is not entered again",
        source="S1: node visit limits",
    )
    max_visits: dict[Stage, Positive] | None = declare_limit(
        None,
        "Visits of single stages",
        Unit.VISITS,
        "A run may enter the named stages at most this often. For them it replaces max_node_visits.",
        stops="the stage is not entered again",
        source="S1: per-node overrides",
    )
    visits_preset: Literal["fabro"] | None = declare_setting(
        None,
        "Visit counting",
        "None: with a limit of N, the visit after the N-th is refused. fabro: the N-th visit itself is refused.",
        source="S1: node visit limits",
    )


class FailureSignature(SpecGroup):
    """A failure that comes back this often ends the run."""

    limit: int = declare_limit(
        3,
        "Repeated failure",
        Unit.TIMES,
        "A run ends once the same failure has occurred this often in it. 0 or less means 3.",
        stops="the run is aborted; in high-stakes a person decides",
        source="S1: failure signatures",
    )
    restart_limit: int = declare_limit(
        3,
        "Repeated failure at restart edges",
        Unit.TIMES,
        "A restart edge of a graph stops a failure that has reached such edges this often. 0 or less means 3.",
        stops="the failure does not cross the edge",
        source="S1: loop restart edges",
    )


class DeadlockMonitor(SpecGroup):
    """Two agents that repeat briefs or hand over in a circle are a deadlock (S0 "Deadlock Monitor")."""

    similarity: Annotated[float, Field(ge=0.5, le=1.0)] = declare_limit(
        0.9,
        "Near-identical briefs",
        Unit.SCORE,
        "Two briefs count as equal if their words are at least this similar (Jaccard index, 1 is identical).",
        stops="the two briefs count as equal",
        source=_DEADLOCK,
    )
    brief_chars: Annotated[int, Field(ge=1, le=1_000)] = declare_limit(
        40,
        "Shortest brief compared",
        Unit.CHARACTERS,
        "The monitor compares only briefs of at least this many characters.",
        stops="shorter briefs are not compared",
        source=_DEADLOCK,
    )
    window_moves: Annotated[int, Field(ge=6, le=200)] = declare_limit(
        20,
        "Moves compared",
        Unit.MOVES,
        "The monitor compares this many of the latest moves. A move is one brief or handoff from agent to agent.",
        stops="older moves are ignored",
        source=_DEADLOCK,
    )
    cycle_max: Annotated[int, Field(ge=2, le=3)] = declare_limit(
        3,
        "Longest cycle of handoffs",
        Unit.HANDS,
        "The monitor finds cycles of handoffs among at most this many agents.",
        stops="only the limit of handoffs stops longer cycles",
        source=_DEADLOCK,
    )


class Progress(SpecGroup):
    """Turns without any progress stop an agent."""

    agent_turns: Annotated[int, Field(ge=2, le=100)] = declare_limit(
        6,
        "Turns without progress",
        Unit.TURNS,
        "An agent is stopped after this many turns in a row that changed nothing: twice as many if each turn asks something else, four times if it scans new numbers or ids.",
        stops="no further request is sent; the decision table decides",
        source=_FAILURES,
    )
    supervisor_turns: Annotated[int, Field(ge=2, le=100)] = declare_limit(
        3,
        "Turns of a planner without progress",
        Unit.TURNS,
        "The agent that plans is stopped after this many turns in a row that changed nothing.",
        stops="no further request is sent; the decision table decides",
        source=_FAILURES,
    )


class GoalGates(SpecGroup):
    """A run must have reached its goal nodes before it may exit; off unless nodes are named (S1 "Goal gates")."""

    nodes: tuple[Annotated[str, Field(min_length=1, max_length=63)], ...] = declare_setting(
        (),
        "Goals",
        "A run may end only after these stages, or workers by agent name, ended in success or partial success.",
        source="S1: Goal gates",
    )
    retry: Literal["none", "replan"] = declare_setting(
        "none",
        "After an unmet goal",
        "What follows if a run would end before its goals are met. replan: a new plan, while replans are left. none: the run ends.",
        source="S1: Goal gates",
    )


class StallWatchdog(SpecGroup):
    """A run that is silent for too long is stalled."""

    after_s: Annotated[float, Field(ge=0, le=30 * 86_400)] | None = declare_limit(
        None,
        "Longest silence",
        Unit.SECONDS,
        "A run may go without an event for at most this time. None: 30 min or half the stage deadline, whichever is less. 0: off.",
        stops="the awaited work is given up; the decision table decides",
        source="S1: stall watchdog",
    )


class Retry(SpecGroup):
    """Backoff with full jitter: ``U(0, base * factor^n)``, first retry n = 0 (S0 "Retry Budget With Backoff")."""

    base_s: Seconds = declare_limit(
        1.0,
        "First backoff",
        Unit.SECONDS,
        "The first retry waits at most this long; the wait is random.",
        stops="the first retry is sent",
        source=_RETRY,
    )
    factor: Annotated[float, Field(ge=1.0, le=10.0)] = declare_limit(
        2.0,
        "Backoff growth",
        Unit.TIMES,
        "The wait grows by this factor from one retry to the next.",
        stops="the wait grows no faster",
        source=_RETRY,
    )
    cap_s: Seconds = declare_limit(
        60.0,
        "Longest wait",
        Unit.SECONDS,
        "A retry waits at most this long.",
        stops="a call whose Retry-After is longer fails at once",
        source=_RETRY,
    )
    bucket: Positive = declare_limit(
        10,
        "Retry budget",
        Unit.RETRY_TOKENS,
        "A run starts with this many retries, and each retry takes one.",
        stops="each stage may retry once more",
        source=_RETRY,
    )
    earn: Annotated[float, Field(ge=0.0, le=1.0)] = declare_limit(
        0.1,
        "Earned per first attempt",
        Unit.RETRY_TOKENS,
        "Each first attempt of a call adds this many retry tokens to the run's retry budget.",
        stops="a first attempt adds no more",
        source=_RETRY,
    )
    shared: bool = declare_setting(
        True,
        "Shared retry budget",
        "True: a retry also takes a token from a budget of all runs of the fabric, and one from the provider's. False needs a deviation.",
        source=_RETRIES,
    )
    stage_retries: Positive | None = declare_limit(
        None,
        "Retries of a stage",
        Unit.TIMES,
        "All calls of a stage together may be retried at most this often in a run. None: there is no limit.",
        stops="the stage retries no further",
        source=_RETRIES,
    )
    deviation: Why = declare_setting(
        "", "Why retries are not shared", "The reason why retries are not shared; required if shared is false."
    )


class SagaPolicy(SpecGroup):
    """A run undoes its changes within these limits (docs/specification/changes.md)."""

    unwind_on_cancel: bool = declare_setting(
        True,
        "Undo on cancel",
        "True: a cancelled run undoes its changes; false: it lists them.",
        source=_CHANGES,
    )
    compensation_attempts: Positive = declare_limit(
        5,
        "Attempts to undo",
        Unit.TIMES,
        "The program tries each compensation at most this often.",
        stops="a person must undo it",
        source=_CHANGES,
    )
    reconcile_attempts: Positive = declare_limit(
        3,
        "Checks of an unknown outcome",
        Unit.TIMES,
        "The program checks at most this often whether a call was executed.",
        stops="a person decides instead",
        source=_CHANGES,
    )
    retry_base_s: Seconds = declare_limit(
        1.0,
        "First wait to undo",
        Unit.SECONDS,
        "The second attempt to undo waits at most this long; the wait is random.",
        stops="the second attempt is sent",
        source=_CHANGES,
    )
    retry_factor: Annotated[float, Field(ge=1.0, le=10.0)] = declare_limit(
        2.0,
        "Wait growth to undo",
        Unit.TIMES,
        "The wait grows by this factor from one attempt to the next.",
        stops="the wait grows no faster",
        source=_CHANGES,
    )
    retry_cap_s: Seconds = declare_limit(
        60.0,
        "Longest wait to undo",
        Unit.SECONDS,
        "The wait between two attempts to undo is at most this long.",
        stops="the next attempt is sent",
        source=_CHANGES,
    )


class FanIn(SpecGroup):
    """Number of branches that must succeed before the fan-in stage: all, a quorum of k, or any."""

    mode: Literal["all", "quorum", "best_effort"] = declare_setting(
        "all", "Fan-in", "all: every branch must succeed. quorum: k of them. best_effort: any result is enough."
    )
    k: Positive | None = declare_limit(
        None,
        "Fan-in quorum",
        Unit.BRANCHES,
        "With mode quorum, this many branches must succeed.",
        stops="the stage continues",
    )

    @model_validator(mode="after")
    def _quorum_names_k(self) -> FanIn:
        if (self.mode == "quorum") != (self.k is not None):
            raise ValueError("fan_in: give k with mode quorum, and only then")
        return self

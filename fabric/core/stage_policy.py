"""What one stage has otherwise than its fabric: ``policy.stages`` (semantics.md 4 "Stages that differ"). Data alone.

``FlowPolicy.of_stage`` gives the policy as a stage sees it. What is counted over a whole run has no place here; ``ELSEWHERE`` says where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_serializer, model_validator

from fabric.core.decision_table import Ladder
from fabric.core.flow import Stage
from fabric.core.loop_names import sort_detectors
from fabric.core.loop_policy import AtLeastTwo, Detector
from fabric.core.spec_parts import Positive, Seconds, SpecGroup
from fabric.core.taxonomy import FailureType, Tier

Cells = dict[FailureType, dict[Tier, Ladder]]
"""Cells of the decision table by row and tier."""
_WHOLE_RUN = "it holds for the whole run; set policy.{path}"

ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "budget": "caps of single stages stand in policy.budget.stages",
        "cost_velocity": "it has a rate for each stage already; set policy.cost_velocity.stage_usd_micros_per_minute",
        "retry_layers": "layers of single stages stand in policy.retry_layers.stages",
        "breakers": "a breaker says by itself where it stands; give it scope: stage and only in policy.breakers",
        "fan_in": "it is about the fan-in alone; set policy.fan_in",
        "limits.max_node_visits": "visits of single stages stand in policy.limits.max_visits",
        "limits.max_visits": "visits of single stages stand in policy.limits.max_visits",
        "limits.replans_per_stage": "each stage is counted for itself already; set policy.limits.replans_per_stage, or give the stage cells that replan less often",
        "loop_detector.preset": "a preset is the rule of the whole fabric; set policy.loop_detector.preset",
        "retry.bucket": "the bucket is the run's, and its stages share it; set retry.stage_retries",
        "retry.earn": "the bucket is the run's, and its stages share it; set retry.stage_retries",
        "retry.shared": "the bucket is the run's, and its stages share it; set policy.retry.shared",
        "retry.deviation": "nothing that a stage may set of retries needs a deviation; leave it out",
    }
)
"""Where fields of the policy stand that no stage may set by itself; of the others ``_WHOLE_RUN`` holds. Known fields alone, by test."""


class _Partly(SpecGroup):
    """A group of the policy of which each field may be left out: then the fabric's holds."""

    group: ClassVar[str] = ""
    known: ClassVar[frozenset[str]] = frozenset()
    """Fields of the fabric's group that a stage may not set: they are refused by a sentence of their own."""

    @model_validator(mode="before")
    @classmethod
    def _none_of_the_runs(cls, given: Any) -> Any:
        for name in given if isinstance(given, dict) else ():
            if name in cls.known:
                path = f"{cls.group}.{name}" if cls.group else name
                raise ValueError(f"{name} is nothing that one stage has: {elsewhere(path)}; leave it out")
        return given

    @property
    def given(self) -> dict[str, Any]:
        """The fields that are given."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}


def elsewhere(path: str) -> str:
    """Where a field of the policy stands that no stage may set. ``path``: under ``policy``."""
    return ELSEWHERE.get(path, _WHOLE_RUN.format(path=path))


class StageDeadlines(_Partly):
    """Deadlines of one stage in one tier."""

    group = "deadlines"
    known = frozenset({"run_s"})
    call_s: Seconds | None = Field(default=None, description="Most one call of this stage may take.")
    stage_s: Seconds | None = Field(default=None, description="Most this stage may take.")


class StageLimits(_Partly):
    """Counts of one stage."""

    group = "limits"
    known = frozenset(
        {
            *("recursion", "sub_agents_alive", "sub_agents_spawned", "plan_branches", "fan_out_inline_max"),
            *("replans_per_stage", "run_events", "run_payload_bytes", "content_bytes", "pending_calls"),
            *("claims_without_progress", "max_node_visits", "max_visits", "visits_preset"),
        }
    )
    hops: Positive | None = Field(default=None, description="Handoffs in the fan-out.")
    turns: Positive | None = Field(default=None, description="Model turns a step of this stage.")
    calls_per_turn: Positive | None = Field(
        default=None, description="Tool calls executed of one answer in this stage."
    )
    corrections_per_step: Positive | None = Field(default=None, description="Waves with an error a step of this stage.")


class StageLoops(_Partly):
    """Numbers of the loop detectors in one stage."""

    group = "loop_detector"
    known = frozenset({"preset"})
    detectors: frozenset[Detector] | None = Field(default=None, description="The detectors in force in this stage.")
    identical_threshold: Positive | None = Field(default=None, description="The same call, or nearly, this often...")
    identical_window: Positive | None = Field(default=None, description="...in so many calls.")
    period_repeats: Positive | None = Field(default=None, description="A cycle of turns repeated this often...")
    period_window: Positive | None = Field(default=None, description="...in so many turns.")
    consecutive_threshold: Positive | None = Field(default=None, description="The same call this often in a row.")
    answer_threshold: Positive | None = Field(default=None, description="The same answer this often.")
    stale_threshold: AtLeastTwo | None = Field(default=None, description="Calls in a row that were made before.")
    long_threshold: AtLeastTwo | None = Field(
        default=None, description="Nearly the same call this often in the long run..."
    )
    long_window: Positive | None = Field(default=None, description="...in so many calls.")
    failing_threshold: Positive | None = Field(default=None, description="Turns in a row of failures alone.")
    said_threshold: AtLeastTwo | None = Field(default=None, description="The same words before calls this often...")
    said_window: Positive | None = Field(default=None, description="...in so many turns.")
    ag2_threshold: Positive | None = Field(default=None, description="Preset ag2: the same call this often in a row.")

    @model_validator(mode="after")
    def _something_is_in_force(self) -> StageLoops:
        if self.detectors is not None and not self.detectors:
            raise ValueError(
                "detectors is empty, which would switch loop detection off in this stage; name at least one"
            )
        return self

    @field_serializer("detectors")
    def _in_order(self, detectors: frozenset[str] | None) -> list[str] | None:
        return None if detectors is None else sort_detectors(detectors)


class StageProgress(_Partly):
    """Turns without progress in one stage."""

    group = "progress"
    agent_turns: Annotated[int, Field(ge=2, le=100)] | None = Field(
        default=None, description="Turns of one agent in a row after which nothing has changed."
    )
    supervisor_turns: Annotated[int, Field(ge=2, le=100)] | None = Field(
        default=None, description="The same of the agent that plans."
    )


class StageDeadlocks(_Partly):
    """What a deadlock is in one stage."""

    group = "deadlock_monitor"
    similarity: Annotated[float, Field(ge=0.5, le=1.0)] | None = Field(
        default=None, description="Least Jaccard index of two briefs that count as one."
    )
    brief_chars: Annotated[int, Field(ge=1, le=1_000)] | None = Field(
        default=None, description="Characters that a brief has at least to be compared."
    )
    window_moves: Annotated[int, Field(ge=6, le=200)] | None = Field(
        default=None, description="Moves that are looked back at."
    )
    cycle_max: Annotated[int, Field(ge=2, le=3)] | None = Field(
        default=None, description="Longest cycle of handoffs that is looked for."
    )


class StageRetry(_Partly):
    """Retries in one stage."""

    group = "retry"
    known = frozenset({"bucket", "earn", "shared", "deviation"})
    base_s: Seconds | None = Field(default=None, description="First backoff ceiling, seconds.")
    factor: Annotated[float, Field(ge=1.0, le=10.0)] | None = Field(default=None, description="Growth a retry.")
    cap_s: Seconds | None = Field(default=None, description="Longest wait, seconds.")
    stage_retries: Positive | None = Field(default=None, description="Retries of this stage in one run.")


class StagePolicy(_Partly):
    """What one stage has otherwise than the fabric."""

    known = frozenset(
        {
            *(
                "budget",
                "cost_velocity",
                "failure_signature",
                "goal_gates",
                "stall_watchdog",
                "retry_layers",
                "breakers",
            ),
            *("breakers_deviation", "humans", "fan_in", "saga", "stages"),
        }
    )
    tau: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None, description="Confidence threshold of this stage's gate."
    )
    deadlines: dict[Tier, StageDeadlines] = Field(default={}, description="Deadlines of this stage by tier.")
    limits: StageLimits = Field(default=StageLimits())
    loop_detector: StageLoops = Field(default=StageLoops())
    progress: StageProgress = Field(default=StageProgress())
    deadlock_monitor: StageDeadlocks = Field(default=StageDeadlocks())
    retry: StageRetry = Field(default=StageRetry())
    decision_table: Cells = Field(default={}, description="Cells that differ where the failure happened in this stage.")

    @property
    def groups(self) -> dict[str, _Partly]:
        """The groups of which something is given, by name; deadlines and cells are by tier and stand for themselves."""
        held = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: one for name, one in held.items() if isinstance(one, _Partly) and one.given}


ONLY_IN: Mapping[str, tuple[frozenset[Stage], str]] = MappingProxyType(
    {
        "limits.hops": (frozenset({Stage.FAN_OUT}), "agents hand over in the fan-out alone"),
        "deadlock_monitor": (frozenset({Stage.FAN_OUT}), "briefs are handed out in the fan-out alone"),
        "progress.agent_turns": (
            frozenset(Stage) - {Stage.PLAN},
            "the agent that plans has progress.supervisor_turns",
        ),
        "progress.supervisor_turns": (frozenset({Stage.PLAN}), "only the agent that plans has it"),
    }
)
"""Fields and groups that only some stages have, and why."""


def misplaced(stage: Stage, own: StagePolicy) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for each field that means nothing in its stage. The path is under the stage's."""
    for path, (where, why) in ONLY_IN.items():
        group, _, name = path.partition(".")
        given = own.groups[group].given if group in own.groups else {}
        if stage not in where and given and (not name or name in given):
            yield path, f"{why}, and this is stage {stage}; leave it out"

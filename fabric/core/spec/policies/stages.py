"""One stage may have other values than its fabric: ``policy.stages`` (docs/specification/protections.md). Data alone.

``FlowPolicy.of_stage`` gives the policy as a stage sees it. A count over the whole run has no place here; ``ELSEWHERE``
says where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field, field_serializer, model_validator

from fabric.core.schema.limits import Unit, declare_for_stage, declare_limit
from fabric.core.schema.parts import SpecGroup
from fabric.core.spec.policies.decision_table import Ladder
from fabric.core.spec.policies.limits import Deadlines, DeadlockMonitor, Limits, Progress, Retry
from fabric.core.spec.policies.loop_limits import Detector, LoopDetector, sort_detectors
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import FailureType, Tier

HERE = "policy.stages"
Cells = dict[FailureType, dict[Tier, Ladder]]
"""Cells of the decision table by row and tier."""
_WHOLE_RUN = "it holds for the whole run; set policy.{path}"

ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "budget": "caps of single stages belong in policy.budget.stages",
        "cost_velocity": "it has a rate for each stage already; set policy.cost_velocity.stage_usd_micros_per_minute",
        "retry_layers": "layers of single stages belong in policy.retry_layers.stages",
        "breakers": "a breaker names its own place; give it scope: stage and only in policy.breakers",
        "fan_in": "it is about the fan-in alone; set policy.fan_in",
        "limits.max_node_visits": "visits of single stages belong in policy.limits.max_visits",
        "limits.max_visits": "visits of single stages belong in policy.limits.max_visits",
        "limits.replans_per_stage": "each stage is counted for itself already; set policy.limits.replans_per_stage, or give the stage cells that replan less often",
        "loop_detector.preset": "a preset is the rule of the whole fabric; set policy.loop_detector.preset",
        "retry.bucket": "the bucket is the run's, and its stages share it; set retry.stage_retries",
        "retry.earn": "the bucket is the run's, and its stages share it; set retry.stage_retries",
        "retry.shared": "the bucket is the run's, and its stages share it; set policy.retry.shared",
        "retry.deviation": "nothing that a stage may set of retries needs a deviation; leave it out",
    }
)
"""The places of policy fields that no stage may set by itself; for fields without an entry ``_WHOLE_RUN`` holds. Known
fields alone, by test.
"""


class _Partly(SpecGroup):
    """A group of the policy of which each field may be left out: then the fabric's holds."""

    group: ClassVar[str] = ""
    whole: ClassVar[type[BaseModel] | None] = None
    """The fabric's group."""

    @classmethod
    def refused(cls) -> frozenset[str]:
        """Return the fields of the fabric's group that a stage may not set. Each is refused by a sentence
        of its own.
        """
        return frozenset(cls.whole.model_fields if cls.whole else ()) - set(cls.model_fields)

    @model_validator(mode="before")
    @classmethod
    def _none_of_the_runs(cls, given: Any) -> Any:
        for name in given if isinstance(given, dict) else ():
            if name in cls.refused():
                path = f"{cls.group}.{name}" if cls.group else name
                raise ValueError(f"{name} is nothing that one stage has: {elsewhere(path)}; leave it out")
        return given

    @property
    def given_fields(self) -> dict[str, Any]:
        """The fields that are given."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}


def elsewhere(path: str) -> str:
    """Return where a field of the policy stands that no stage may set. ``path``: under ``policy``."""
    return ELSEWHERE.get(path, _WHOLE_RUN.format(path=path))


class StageDeadlines(_Partly):
    """Deadlines of one stage in one tier."""

    group = "deadlines"
    whole = Deadlines
    call_s: float | None = declare_for_stage(Deadlines, "call_s")
    stage_s: float | None = declare_for_stage(Deadlines, "stage_s")


class StageLimits(_Partly):
    """Counts of one stage."""

    group = "limits"
    whole = Limits
    hops: int | None = declare_for_stage(Limits, "hops")
    turns: int | None = declare_for_stage(Limits, "turns")
    calls_per_turn: int | None = declare_for_stage(Limits, "calls_per_turn")
    corrections_per_step: int | None = declare_for_stage(Limits, "corrections_per_step")


class StageLoops(_Partly):
    """Numbers of the loop detectors in one stage."""

    group = "loop_detector"
    whole = LoopDetector
    detectors: frozenset[Detector] | None = declare_for_stage(LoopDetector, "detectors")
    identical_threshold: int | None = declare_for_stage(LoopDetector, "identical_threshold")
    identical_window: int | None = declare_for_stage(LoopDetector, "identical_window")
    period_repeats: int | None = declare_for_stage(LoopDetector, "period_repeats")
    period_window: int | None = declare_for_stage(LoopDetector, "period_window")
    consecutive_threshold: int | None = declare_for_stage(LoopDetector, "consecutive_threshold")
    answer_threshold: int | None = declare_for_stage(LoopDetector, "answer_threshold")
    stale_threshold: int | None = declare_for_stage(LoopDetector, "stale_threshold")
    long_threshold: int | None = declare_for_stage(LoopDetector, "long_threshold")
    long_window: int | None = declare_for_stage(LoopDetector, "long_window")
    failing_threshold: int | None = declare_for_stage(LoopDetector, "failing_threshold")
    said_threshold: int | None = declare_for_stage(LoopDetector, "said_threshold")
    said_window: int | None = declare_for_stage(LoopDetector, "said_window")
    ag2_threshold: int | None = declare_for_stage(LoopDetector, "ag2_threshold")

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
    whole = Progress
    agent_turns: int | None = declare_for_stage(Progress, "agent_turns")
    supervisor_turns: int | None = declare_for_stage(Progress, "supervisor_turns")


class StageDeadlocks(_Partly):
    """Deadlocks among agents in one stage."""

    group = "deadlock_monitor"
    whole = DeadlockMonitor
    similarity: float | None = declare_for_stage(DeadlockMonitor, "similarity")
    brief_chars: int | None = declare_for_stage(DeadlockMonitor, "brief_chars")
    window_moves: int | None = declare_for_stage(DeadlockMonitor, "window_moves")
    cycle_max: int | None = declare_for_stage(DeadlockMonitor, "cycle_max")


class StageRetry(_Partly):
    """Retries in one stage."""

    group = "retry"
    whole = Retry
    base_s: float | None = declare_for_stage(Retry, "base_s")
    factor: float | None = declare_for_stage(Retry, "factor")
    cap_s: float | None = declare_for_stage(Retry, "cap_s")
    stage_retries: int | None = declare_for_stage(Retry, "stage_retries")


class StagePolicy(_Partly):
    """The values that one stage has otherwise than the fabric."""

    tau: Annotated[float, Field(ge=0.0, le=1.0)] | None = declare_limit(
        None,
        "Needed score",
        Unit.SCORE,
        "A critic must give an answer of this stage at least this score, from 0 to 1 (tau).",
        stops="an answer with a lower score goes to a person",
        source="S0: confidence threshold",
    )
    deadlines: dict[Tier, StageDeadlines] = Field(default={}, description="Deadlines of this stage by tier.")
    limits: StageLimits = Field(default=StageLimits(), description="Limits on counts in this stage.")
    loop_detector: StageLoops = Field(default=StageLoops(), description="Detectors of calls that repeat in this stage.")
    progress: StageProgress = Field(
        default=StageProgress(), description="Limits on turns without a new result in this stage."
    )
    deadlock_monitor: StageDeadlocks = Field(
        default=StageDeadlocks(), description="Limits on agents of this stage that only pass work around."
    )
    retry: StageRetry = Field(
        default=StageRetry(), description="Waits between attempts in this stage, and its number of retries."
    )
    decision_table: Cells = Field(
        default={}, description="Cells of the decision table that differ for failures in this stage."
    )

    @classmethod
    def refused(cls) -> frozenset[str]:
        """Return the groups of the fabric's policy that are nothing of one stage. ``FlowPolicy`` is no import here."""
        return frozenset(
            {
                *("budget", "cost_velocity", "failure_signature", "goal_gates", "stall_watchdog", "retry_layers"),
                *("breakers", "breakers_deviation", "humans", "fan_in", "saga", "stages"),
            }
        )

    @property
    def groups(self) -> dict[str, _Partly]:
        """The groups of which something is given, by name; deadlines and cells are by tier and stand for themselves."""
        held = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: one for name, one in held.items() if isinstance(one, _Partly) and one.given_fields}


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


def list_misplaced(stage: Stage, own: StagePolicy) -> Iterator[tuple[str, str]]:
    """``(path, sentence)`` for each field that means nothing in its stage. The path is under the stage's."""
    for path, (where, why) in ONLY_IN.items():
        group, _, name = path.partition(".")
        given = own.groups[group].given_fields if group in own.groups else {}
        if stage not in where and given and (not name or name in given):
            yield path, f"{why}, and this is stage {stage}; leave it out"

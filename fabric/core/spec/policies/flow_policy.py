"""FlowPolicy: every budget and limit of a fabric, as one tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field
from pydantic.fields import FieldInfo

from fabric.core.schema.limits import Limit, Unit, declare_limit, declare_setting, find_limit
from fabric.core.schema.parts import SpecGroup
from fabric.core.spec.policies.breakers import PRESETS, UNNAMED, Breaker
from fabric.core.spec.policies.budgets import Budget, CostVelocity
from fabric.core.spec.policies.limits import (
    DEADLINES,
    Deadlines,
    DeadlockMonitor,
    FailureSignature,
    FanIn,
    GoalGates,
    Limits,
    Progress,
    Retry,
    SagaPolicy,
    StallWatchdog,
    Why,
)
from fabric.core.spec.policies.loop_limits import LoopDetector
from fabric.core.spec.policies.people import HUMAN_DUE_S, Humans
from fabric.core.spec.policies.retries import RetryLayers
from fabric.core.spec.policies.stages import StagePolicy
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Tier


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
    Field(max_length=16),
]


class FlowPolicy(SpecGroup):
    """Every budget and limit of a fabric."""

    budget: Budget = Field(title="Money and tokens", description="Caps of money and tokens.")
    cost_velocity: CostVelocity = Field(
        default=CostVelocity(), title="Spend rate", description="Limits on the rate of spending."
    )
    deadlines: dict[Tier, Deadlines] = Field(
        default_factory=dict, title="Deadlines", description="Deadlines by tier that replace the tier's defaults."
    )
    limits: Limits = Field(
        default=Limits(), title="Counts", description="Limits on counts of one run, such as hops, turns and events."
    )
    loop_detector: LoopDetector = Field(
        default=LoopDetector(), title="Loop detector", description="Detectors of calls that repeat."
    )
    failure_signature: FailureSignature = Field(
        default=FailureSignature(), title="Failures that come back", description="Limit on one failure that comes back."
    )
    deadlock_monitor: DeadlockMonitor = Field(
        default=DeadlockMonitor(),
        title="Deadlocks among agents",
        description="Limits on agents that only pass work around.",
    )
    progress: Progress = Field(
        default=Progress(), title="Progress", description="Limits on turns without a new result."
    )
    goal_gates: GoalGates = Field(
        default=GoalGates(), title="Goals", description="Nodes without whose results a run may not end as completed."
    )
    stall_watchdog: StallWatchdog = Field(
        default=StallWatchdog(), title="Stalls", description="Limit on silence in a run."
    )
    retry: Retry = Field(
        default=Retry(), title="Retries", description="Waits between attempts, and the budget of retries."
    )
    retry_layers: RetryLayers = Field(
        default=RetryLayers(),
        title="Retry layers",
        description="The layers that retry a failure before the decision table of the run decides.",
    )
    breakers: Breakers = declare_setting(
        UNNAMED,
        "Circuit breakers",
        "Circuit breakers that stop calls to what keeps failing: a preset (semantic, endpoint, rate_limit, outage) or signals of your own. Default: outage, for each provider. []: no breaker, which is a deviation.",
        source="S3: circuit breaker",
    )
    breakers_deviation: Why = declare_setting(
        "",
        "Reason for no provider breaker",
        "The reason why no breaker protects a provider.",
        source="S3: circuit breaker",
    )
    humans: Humans = Field(
        default=Humans(), title="People", description="Rules for reviews and for the people who answer them."
    )
    fan_in: FanIn = Field(default=FanIn(), title="Fan-in", description="Results that the fan-in waits for.")
    saga: SagaPolicy = Field(default=SagaPolicy(), title="Undoing", description="Rules for undoing changes.")
    tau: Annotated[float, Field(ge=0.0, le=1.0)] = declare_limit(
        0.7,
        "Needed score",
        Unit.SCORE,
        "A critic must give an answer at least this score, from 0 to 1 (tau).",
        stops="an answer with a lower score goes to a person",
        source="S0: confidence threshold",
    )
    stages: dict[Stage, StagePolicy] = declare_setting(
        {}, "Single stages", "Settings of stages that differ from the fabric's."
    )

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
        name: getattr(policy, name).model_copy(update=one.given_fields) for name, one in own.groups.items()
    }
    if own.tau is not None:
        changed["tau"] = own.tau
    by_tier = {
        tier: policy.deadlines_of(tier).model_copy(update=one.given_fields) for tier, one in own.deadlines.items()
    }
    return policy.model_copy(update=changed | {"deadlines": policy.deadlines | by_tier, "stages": {}})


def policy_fields() -> Iterator[tuple[str, FieldInfo]]:
    """Yield every field of a policy with its path: ``limits.hops``, ``deadlines.call_s``, ``tau``."""
    for name, field in FlowPolicy.model_fields.items():
        part = Deadlines if name == "deadlines" else field.annotation
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield from ((f"{name}.{key}", own) for key, own in part.model_fields.items())
        else:
            yield name, field


_FIELDS: Mapping[str, FieldInfo] = dict(policy_fields())


def policy_field(path: str) -> FieldInfo:
    """Return the field of a policy at a path. Raise KeyError where there is none."""
    return _FIELDS[path]


def policy_limit(path: str) -> Limit:
    """Return the limit of a policy at a path. Raise KeyError where there is none."""
    found = find_limit(_FIELDS[path])
    if found is None:
        raise KeyError(path)
    return found

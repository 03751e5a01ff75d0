"""Lists the numbers of a fabric's policy that a workspace's policy bounds: limits, and those of required protections.

A number is bounded in the fabric's own groups and in those of its stages. A bounded protection is no weaker than the
product's default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fabric.core.spec.policies.budgets import CostVelocity
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.spec.policies.limits import DeadlockMonitor, Progress
from fabric.core.spec.policies.loop_limits import LoopDetector, find_names
from fabric.core.values.frozen import value
from fabric.core.workspace_policy.policy import Protection, WorkspacePolicy


@value(kw_only=True)
class BoundedNumber:
    """A number of a fabric, with its bounds."""

    field: str
    """Field of the workspace's policy that bounds it."""
    group: str
    name: str
    most: float | None = None
    least: float | None = None
    off: bool = False
    """True if 0 switches the protection off."""

    def allows(self, given: float | None) -> bool:
        """Return True if a fabric may have this number; None: the fabric's group has none."""
        if given is None:
            return True
        if self.off and not given:
            return False
        return (self.most is None or given <= self.most) and (self.least is None or given >= self.least)

    @property
    def bound(self) -> float:
        """The number that replaces a forbidden one."""
        found = self.most if self.most is not None else self.least
        assert found is not None
        return found


_GROUPS: Mapping[Protection, Any] = {
    "loop_detector": LoopDetector,
    "progress": Progress,
    "deadlock_monitor": DeadlockMonitor,
    "cost_velocity": CostVelocity,
}
MOST: Mapping[Protection, tuple[str, ...]] = {
    "loop_detector": (
        *("identical_threshold", "period_repeats", "consecutive_threshold", "answer_threshold", "stale_threshold"),
        *("long_threshold", "failing_threshold", "said_threshold"),
    ),
    "progress": ("agent_turns", "supervisor_turns"),
    "deadlock_monitor": ("similarity", "brief_chars"),
    "cost_velocity": ("times_usual", "calls", "factor"),
}
"""Numbers that may not be above the default, since the protection would act later, or never."""
LEAST: Mapping[Protection, tuple[str, ...]] = {
    "loop_detector": ("identical_window", "period_window", "long_window", "said_window"),
    "progress": (),
    "deadlock_monitor": ("window_moves", "cycle_max"),
    "cost_velocity": ("within_s",),
}
"""Numbers that may not be below the default: the protection sees less there."""
OFF = frozenset({"times_usual", "factor"})
"""Numbers of which 0 switches the protection off."""


def list_bounded_numbers(policy: WorkspacePolicy) -> Iterator[BoundedNumber]:
    """Yield every number that a workspace's policy bounds."""
    for limit, most in policy.limits.items():
        yield BoundedNumber(field=f"limits.{limit}", group="limits", name=limit, most=most)
    for kept in policy.protections:
        if kept not in _GROUPS:
            continue
        for name in MOST[kept]:
            default = _GROUPS[kept].model_fields[name].default
            yield BoundedNumber(field="protections", group=kept, name=name, most=default, off=name in OFF)
        for name in LEAST[kept]:
            yield BoundedNumber(
                field="protections", group=kept, name=name, least=_GROUPS[kept].model_fields[name].default
            )


def list_out_of_bounds(policy: WorkspacePolicy, flow: FlowPolicy) -> Iterator[tuple[str, float, BoundedNumber]]:
    """Yield ``(path, number, bound)`` for each number of a fabric outside the workspace's bounds."""
    for held in list_bounded_numbers(policy):
        given = getattr(getattr(flow, held.group), held.name)
        if not held.allows(given):
            yield f"policy.{held.group}.{held.name}", given, held
        for stage, own in flow.stages.items():
            if (part := own.groups.get(held.group)) is None:
                continue
            given = part.given_fields.get(held.name)
            if given is not None and not held.allows(given):
                yield f"policy.stages.{stage}.{held.group}.{held.name}", given, held


def clamp_policy(policy: WorkspacePolicy, flow: FlowPolicy) -> FlowPolicy:
    """Return a fabric's policy with the numbers that the workspace allows in place of those that it does not."""
    for held in list_bounded_numbers(policy):
        flow = flow.model_copy(update={held.group: _bound_group(getattr(flow, held.group), held)})
        stages = {
            stage: own.model_copy(update={held.group: _bound_group(getattr(own, held.group), held)})
            if held.group in own.groups
            else own
            for stage, own in flow.stages.items()
        }
        flow = flow.model_copy(update={"stages": stages})
    return flow


def _bound_group(group: Any, held: BoundedNumber) -> Any:
    given = getattr(group, held.name, None)
    return group if held.allows(given) else group.model_copy(update={held.name: held.bound})


def detectors_off(flow: FlowPolicy) -> Iterator[tuple[str, str]]:
    """Yield ``(path, sentence)`` where a fabric or one of its stages leaves loop detectors out."""
    every: frozenset[str] = LoopDetector.model_fields["detectors"].default
    if flow.loop_detector.preset is not None:
        yield "policy.loop_detector.preset", f"is {flow.loop_detector.preset}"
    elif missing := every - flow.loop_detector.detectors:
        yield "policy.loop_detector.detectors", f"leaves out {find_names(missing)}"
    for stage, own in flow.stages.items():
        if own.loop_detector.detectors is not None and (missing := every - own.loop_detector.detectors):
            yield f"policy.stages.{stage}.loop_detector.detectors", f"leaves out {find_names(missing)}"


def all_detectors(flow: FlowPolicy) -> FlowPolicy:
    """Return a fabric's policy with every loop detector on, in each stage too."""
    every = LoopDetector.model_fields["detectors"].default
    whole = flow.loop_detector.model_copy(update={"preset": None, "detectors": every})
    stages = {
        stage: own.model_copy(update={"loop_detector": own.loop_detector.model_copy(update={"detectors": None})})
        if own.loop_detector.detectors is not None
        else own
        for stage, own in flow.stages.items()
    }
    return flow.model_copy(update={"loop_detector": whole, "stages": stages})

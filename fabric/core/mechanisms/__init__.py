"""The protections: one small module each, all of one shape (``contract.py``). To add one, copy the nearest and list
it here. CONTRIBUTING.md has the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fabric.core.mechanisms import (
    budget,
    circuit_breaker,
    cost_velocity,
    deadline,
    deadlock_monitor,
    escalation,
    failure_signature,
    goal_gate,
    hop_limit,
    loop_detector,
    policy,
    progress,
    retry_budget,
    run_caps,
    saga,
    stall_watchdog,
    validation_gate,
)
from fabric.core.mechanisms.contract import Scope
from fabric.core.values.taxonomy import FailureClass

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event

ORDER: tuple[ModuleType, ...] = (
    policy,
    budget,
    cost_velocity,
    deadline,
    hop_limit,
    run_caps,
    retry_budget,
    circuit_breaker,
    loop_detector,
    deadlock_monitor,
    progress,
    saga,
    validation_gate,
    goal_gate,
    failure_signature,
    stall_watchdog,
    escalation,
)
"""Guard order, total (docs/specification/README.md): ties between equally grave trips go to the one that stands
earlier.
"""


CLASSES: Mapping[str, tuple[FailureClass, ...]] = {module.NAME: module.CLASSES for module in ORDER}
"""MAST classes that each mechanism answers, by its name."""
Observer = Callable[[Any, "Event"], Any]
"""Type of ``observe``: takes a mechanism's state and an event, and returns the new state."""
FRESH: Mapping[str, Any] = {module.NAME: module.State() for module in ORDER}
"""Initial state of each mechanism, by its name."""


_KEPT: Mapping[ModuleType, tuple[str, str, bool, Any]] = {
    module: (
        str(module.NAME) if module.SCOPE is Scope.RUN else "",
        f"{module.NAME}/",
        module.SCOPE is Scope.STEP,
        FRESH[module.NAME],
    )
    for module in ORDER
}
"""For each mechanism: where its state is kept, and the initial state. It is the key of a state per run, or "" and the
key prefix. True: one state per step.
"""
_OBSERVERS: Mapping[str, tuple[tuple[Observer, str, str, bool, Any], ...]] = {
    kind: tuple((module.observe, *_KEPT[module]) for module in ORDER if kind in module.OBSERVES)
    for kind in sorted({kind for module in ORDER for kind in module.OBSERVES})
}
"""The observers of each event kind, looked up for every event that is folded."""


def scope_key(module: ModuleType, step_id: str) -> str:
    """Return the key of a mechanism's state in ``Run.guards``."""
    of_run, begins, of_step, _ = _KEPT[module]
    return of_run or begins + (step_id if of_step else branch_key(step_id))


def branch_key(step_id: str) -> str:
    """Return a step's id without its round: its branch in its epoch."""
    return step_id.rpartition(".r")[0]


def find_state(guards: Mapping[str, Any], module: ModuleType, step_id: str = "") -> Any:
    """Return the state of a mechanism for a step, or for the step's branch, depending on the mechanism's scope."""
    of_run, begins, of_step, fresh = _KEPT[module]
    return guards.get(of_run or begins + (step_id if of_step else branch_key(step_id)), fresh)


def observe(guards: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """Return the mechanism states after ``event``; the argument itself when no state changes."""
    changed: dict[str, Any] | None = None
    fact = event.fact
    step_id = getattr(fact, "step_id", "")
    branch = branch_key(step_id) if step_id else ""
    for seen_by, of_run, begins, of_step, fresh in _OBSERVERS.get(fact.kind, ()):
        key = of_run or begins + (step_id if of_step else branch)
        before = guards.get(key, fresh)
        after = seen_by(before, event)
        if after is not before:
            if changed is None:
                changed = dict(guards)
            changed[key] = after
    return guards if changed is None else changed

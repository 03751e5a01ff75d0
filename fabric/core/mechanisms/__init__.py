"""The protections: one small module each, all of one shape (``contract.py``). To add one, copy the nearest and list it here."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fabric.core.mechanisms import (
    budget,
    deadline,
    escalation,
    hop_limit,
    loop_detector,
    policy,
    retry_budget,
    saga,
    validation_gate,
)
from fabric.core.mechanisms.contract import Scope

if TYPE_CHECKING:
    from fabric.core.envelope import Event

ORDER: tuple[ModuleType, ...] = (
    policy,
    budget,
    deadline,
    hop_limit,
    retry_budget,
    loop_detector,
    saga,
    validation_gate,
    escalation,
)
"""Guard order, total (semantics.md, general rules): ties between equally grave trips go to the one that stands earlier."""


def _observers() -> dict[str, tuple[tuple[ModuleType, bool], ...]]:
    kinds = {kind for module in ORDER for kind in module.OBSERVES}
    return {kind: tuple((m, m.SCOPE is Scope.STEP) for m in ORDER if kind in m.OBSERVES) for kind in kinds}


_OBSERVERS = _observers()
"""Who observes a kind of event, and whether it keeps a state for each step."""


def scope_key(module: ModuleType, step_id: str) -> str:
    """Where a mechanism's state is kept in ``Run.guards``."""
    return f"{module.NAME}/{step_id}" if module.SCOPE is Scope.STEP else module.NAME


def observe(guards: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """The mechanism states after ``event``; the same mapping when none observes it."""
    modules = _OBSERVERS.get(event.fact.kind)
    if not modules:
        return guards
    changed = dict(guards)
    for module, by_step in modules:
        key = f"{module.NAME}/{getattr(event.fact, 'step_id', '')}" if by_step else module.NAME
        state = changed.get(key)
        changed[key] = module.observe(module.State() if state is None else state, event)
    return changed

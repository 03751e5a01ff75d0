"""What several of evolve's functions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fabric.core.envelope import Event
from fabric.core.fingerprint import digest
from fabric.core.frozen import replace
from fabric.core.run import Pending, Run, Step

K = TypeVar("K")
V = TypeVar("V")
Evolve = Callable[[Run, Event, Any], Run]
"""``(run, event, its fact) -> run``."""


def with_step(run: Run, step: Step, **changes: Any) -> Run:
    """The run with that step in place of the one of its id."""
    return replace(run, steps={**run.steps, step.id: step}, **changes)


def extended(step: Step, ref: str, size: int, **changes: Any) -> Step:
    """The step with one more content in its prompt."""
    return replace(step, prompt=digest(step.prompt, ref), prompt_bytes=step.prompt_bytes + size, **changes)


def without(mapping: Mapping[K, V], key: K) -> dict[K, V]:
    """The mapping without ``key``."""
    return {k: v for k, v in mapping.items() if k != key}


def calls_kept(run: Run, gone: str) -> dict[str, Pending]:
    """Pending calls without the failed ones of a step that goes no further."""
    return {k: p for k, p in run.pending.items() if not (p.issued.step_id == gone and p.failed)}


def unchanged(run: Run, event: Event, fact: Any) -> Run:
    """A fact for people and auditors; no decision depends on it (mechanisms may still observe it)."""
    return run


def rungs_kept(run: Run, gone: str) -> dict[str, int]:
    """Uses of rungs without those of the calls of a step that is over for good: no such call fails again."""
    return {key: uses for key, uses in run.spent_rungs.items() if f"/call:{gone}." not in key}


def rungs_of_branches(run: Run) -> dict[str, int]:
    """Uses of rungs that outlast a replan: those counted against a branch or a stage, not against a call or step of an epoch."""
    return {key: uses for key, uses in run.spent_rungs.items() if ".e" not in key}

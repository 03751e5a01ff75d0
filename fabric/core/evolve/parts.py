"""Helpers that several of evolve's functions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fabric.core.events.envelope import Event
from fabric.core.state.run import Pending, Run, Step
from fabric.core.values.fingerprint import digest
from fabric.core.values.frozen import replace

K = TypeVar("K")
V = TypeVar("V")
Evolve = Callable[[Run, Event, Any], Run]
"""``(run, event, its fact) -> run``."""


def with_step(run: Run, step: Step, **changes: Any) -> Run:
    """Return the run with that step in place of the one of its id."""
    return replace(run, steps={**run.steps, step.id: step}, **changes)


def extend_prompt(step: Step, ref: str, size: int, **changes: Any) -> Step:
    """Return the step with one more content in its prompt."""
    return replace(step, prompt=digest(step.prompt, ref), prompt_bytes=step.prompt_bytes + size, **changes)


def without_key(mapping: Mapping[K, V], key: K) -> dict[K, V]:
    """Return the mapping without ``key``."""
    return {k: v for k, v in mapping.items() if k != key}


def calls_kept(run: Run, gone: str) -> dict[str, Pending]:
    """Return the pending calls without the failed ones of a step that goes no further."""
    return {k: p for k, p in run.pending.items() if not (p.issued.step_id == gone and p.failed)}


def keep_run(run: Run, event: Event, fact: Any) -> Run:
    """Return the run unchanged. The fact is for people, auditors and mechanisms; no decision of the engine depends on
    it.
    """
    return run


def rungs_kept(run: Run, gone: str) -> dict[str, int]:
    """Return the uses of rungs without those of a finished step's calls, since no such call fails again."""
    return {key: uses for key, uses in run.spent_rungs.items() if f"/call:{gone}." not in key}


def rungs_of_branches(run: Run) -> dict[str, int]:
    """Return the uses of rungs that outlast a replan. They count for a branch or stage, not for an epoch's call or
    step.
    """
    return {key: uses for key, uses in run.spent_rungs.items() if ".e" not in key}

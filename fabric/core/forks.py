"""Forks: what of a run up to one of its events a new run can go on from (semantics.md 3).

Kept is what the current epoch had settled there: the output of every stage that was passed, and in the fan-out the branches that were done. Whatever was
under way is done anew. What planners were told about earlier epochs stays behind, and so do money, clocks and counts: a fork has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.context import Contents
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.run import Run, Step

JSON = Any


@value()
class ForkPoint:
    """What a fork of a run keeps."""

    stage: Stage | None
    """Where the fork begins; None: the run was through, nothing is left to do."""
    stages: tuple[tuple[Stage, str], ...]
    """``(stage, reference of its output)``, in order."""
    branches: tuple[tuple[int, str, str], ...]
    """``(branch, agent, reference of its output)`` of the fan-out, in order."""


def kept_at(run: Run) -> ForkPoint:
    """The fork point of a run folded to the event in question."""
    stages: list[tuple[Stage, str]] = []
    following: Stage | None = None
    for stage in Stage:
        reached = run.stages.get(stage)
        if reached is None or not reached.left or not reached.output_ref:
            following = stage
            break
        stages.append((stage, reached.output_ref))
    done = sorted(filter(_done_branch, run.steps.values()), key=lambda step: step.branch)
    entered = Stage.FAN_OUT in run.stages
    return ForkPoint(
        following, tuple(stages), tuple((s.branch, s.agent, s.output_ref) for s in done) if entered else ()
    )


def _done_branch(step: Step) -> bool:
    return step.stage is Stage.FAN_OUT and step.status == "done"


def names(point: ForkPoint) -> tuple[str, ...]:
    """Whose contents the fork will read: stages, and branches by their number from 1."""
    return (*(str(stage) for stage, _ in point.stages), *(f"branch {branch + 1}" for branch, _, _ in point.branches))


def contents_of(point: ForkPoint, contents: Contents) -> Iterator[tuple[str, JSON]]:
    """``(whose it is, content)`` of everything that the fork will read. Raises MissingContent for one that was erased."""
    refs = (*(ref for _, ref in point.stages), *(ref for _, _, ref in point.branches))
    for name, ref in zip(names(point), refs, strict=True):
        yield name, contents.read(ref)

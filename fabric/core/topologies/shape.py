"""What the topologies have in common: the shape of each one's module, and what a stage's end is."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Protocol

from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.run import Step
from fabric.core.topologies import slices
from fabric.core.work import Work

JSON = Any
_BRANCH = attrgetter("branch")


@value()
class Concluded:
    """A stage's output: the payload to judge, and where it stands when an answer holds it already."""

    payload: JSON
    ref: str = ""
    """Content reference; empty: the engine made the payload and journals it with ``StageLeft``."""
    step_id: str = ""
    """The step that made it, where one did."""
    score: float | None = None


BEGAN_ANEW = "the conversation began anew after it"
"""Why nothing is passed on of a turn before a restart edge."""


class Topology(Protocol):
    """How the workers of a fan-out work together: the functions of each module."""

    def plan(self, work: Work) -> JSON:
        """The plan where no agent plans: ``payloads.Plan``."""

    def begins(self, work: Work) -> tuple[str, ...]:
        """The agents of the branches that are open from the beginning; none: ``concluded`` opens them."""

    def concluded(self, work: Work, steps: list[Step]) -> Concluded | Failure | None:
        """The fan-out's output once it is over, what failed, or None while it is open. ``steps``: those that count. May open further branches."""

    def joined(self, work: Work) -> Concluded:
        """What the fan-in passes on without an aggregator."""


def steps_of(work: Work, stage: Stage) -> list[Step]:
    """The steps that count in ``stage``: the latest round of each branch, in branch order."""
    found = [step for step in work.run.steps.values() if step.stage == stage]
    return sorted(found, key=_BRANCH) if len(found) > 1 else found


def parts(work: Work) -> list[JSON]:
    """The fan-out's output: each branch's place in it, where its summary stands or the gap it left (``payloads.Part``)."""
    found: list[JSON] = []
    for step in steps_of(work, Stage.FAN_OUT):
        found += slices.parts(work, step) if slices.is_slice(step.agent) else [_part(work, step)]
    return found


def _part(work: Work, step: Step) -> JSON:
    brief = slices.plan(work)["briefs"][step.brief]
    # Whoever did it in the end: the part is that worker's.
    part = {"branch": step.branch, "agent": brief["agent"], "title": brief["title"]}
    part |= {} if step.turn is None else {"brief": step.brief}
    if step.branch < work.run.talk.begun:
        return {**part, "ref": "", "gap": BEGAN_ANEW}
    if step.status != "done":
        return {**part, "ref": "", "gap": step.message or "no result", **slices.marked(step.partial)}
    return {**part, "ref": step.output_ref, "gap": ""}

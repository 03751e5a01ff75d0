"""Common parts of all topologies: the shape of each one's module, and the end of a stage."""

from __future__ import annotations

from operator import attrgetter
from typing import Protocol

from fabric.core.decision import slices
from fabric.core.decision.work import Work
from fabric.core.state.failure import Failure
from fabric.core.state.run import Step
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.units import JSON

_BRANCH = attrgetter("branch")


@value()
class StageOutput:
    """A stage's output: the payload to judge, and its reference if an answer has it already."""

    payload: JSON
    ref: str = ""
    """Content reference; "": the engine made the payload and journals it with ``StageLeft``."""
    step_id: str = ""
    """The step that made it, where one did."""
    score: float | None = None


BEGAN_ANEW = "the conversation started over after it"
"""Why nothing is passed on of a turn before a restart edge."""


class Topology(Protocol):
    """Functions that each topology's module has: they arrange how the workers of a fan-out work together."""

    def plan(self, work: Work) -> JSON:
        """Return the plan where no agent plans: ``payloads.Plan``."""

    def begins(self, work: Work) -> tuple[str, ...]:
        """Return the agents of the branches that are open from the beginning; none if ``conclude_fan_out``
        opens them.
        """

    def conclude_fan_out(self, work: Work, steps: list[Step]) -> StageOutput | Failure | None:
        """Return the fan-out's output once it is over, its failure, or None while it is open. ``steps``: those that
        count. May open further branches.
        """

    def join_outputs(self, work: Work) -> StageOutput:
        """Return the fan-in's output without an aggregator."""


def list_steps(work: Work, stage: Stage) -> list[Step]:
    """Return the steps that count in ``stage``: the latest round of each branch, in branch order."""
    found = [step for step in work.run.steps.values() if step.stage == stage]
    return sorted(found, key=_BRANCH) if len(found) > 1 else found


def parts(work: Work) -> list[JSON]:
    """Return the fan-out's output: for each branch the reference of its summary, or its gap (``payloads.Part``)."""
    found: list[JSON] = []
    for step in list_steps(work, Stage.FAN_OUT):
        found += slices.parts(work, step) if slices.is_slice(step.agent) else [_part(work, step)]
    return found


def _part(work: Work, step: Step) -> JSON:
    brief = slices.plan(work)["briefs"][step.brief]
    # The part belongs to the worker that finished it.
    part = {"branch": step.branch, "agent": brief["agent"], "title": brief["title"]}
    part |= {} if step.turn is None else {"brief": step.brief}
    if step.branch < work.run.talk.begun:
        return {**part, "ref": "", "gap": BEGAN_ANEW}
    if step.status != "done":
        return {**part, "ref": "", "gap": step.message or "no result", **slices.accepted_flag(step.partial)}
    return {**part, "ref": step.output_ref, "gap": ""}

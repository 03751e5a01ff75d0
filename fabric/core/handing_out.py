"""How many briefs a planner may hand out: what a plan may have, and what its run and the runs above leave of the agents (semantics.md 4 "sub-agents").

A planner is told both numbers. In the run that somebody started a plan with more costs a correction, and is a malformed plan once they are spent. In a team's run it is a
malformed plan at once: many teams ask at the same time, and each correction would be asked for by all of them.
"""

from __future__ import annotations

from typing import Any

from fabric.core import children, prompt
from fabric.core.commands import Message
from fabric.core.flow import Stage
from fabric.core.frozen import replace
from fabric.core.judges import is_judge
from fabric.core.mechanisms import hop_limit
from fabric.core.run import Run, Step
from fabric.core.spec import FabricSpec
from fabric.core.work import Work

JSON = Any


def opening(run: Run, spec: FabricSpec, step: Step) -> tuple[Message, ...]:
    """The messages before the first answer. A planner's say how many agents are left."""
    opened = prompt.opening(run, step)
    if not _plans(step):
        return opened
    left = hop_limit.agents_left(run, spec)
    return tuple(replace(one, part=left) if one.template == "plan@1" else one for one in opened)


def too_many(work: Work, step: Step, output: JSON) -> list[str]:
    """The correction of a plan with more briefs than the planner may hand out; empty for any other output."""
    if not _plans(step) or work.run.family.lineage is not None:
        return []
    found = hop_limit.too_many_briefs(work.run, work.compiled.spec, len(output["briefs"]))
    return found or children.teams_without_room(work, [brief["agent"] for brief in output["briefs"]])


def _plans(step: Step) -> bool:
    return step.stage is Stage.PLAN and not is_judge(step)

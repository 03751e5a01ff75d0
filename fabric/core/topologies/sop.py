"""SOP: a fixed procedure, one item after the other, each with the artifacts of those before it (semantics.md 5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.run import Step
from fabric.core.spec_sop import SopTopology
from fabric.core.topologies import conversation
from fabric.core.topologies.conversation import Turn
from fabric.core.topologies.shape import Concluded, steps_of
from fabric.core.work import Work

JSON = Any


def _of(work: Work) -> SopTopology:
    topology = work.compiled.spec.topology
    assert isinstance(topology, SopTopology)
    return topology


def plan(work: Work) -> JSON:
    """The procedure, an item a brief."""
    briefs = [
        {"agent": duty.agent, "title": duty.title, "instructions": duty.instructions} for duty in _of(work).procedure
    ]
    return {
        "goal": work.compiled.spec.title,
        "briefs": briefs,
        "exit_criteria": ["Each item of the procedure is done."],
    }


def begins(work: Work) -> tuple[str, ...]:
    """Nobody at once: the first item is opened as any other."""
    return ()


def concluded(work: Work, steps: list[Step]) -> Concluded | Failure | None:
    """The item after those that are done; after the last the artifacts."""
    return conversation.concluded(work, steps, _following)


def _following(work: Work, steps: list[Step]) -> Iterable[Turn]:
    procedure, item = _of(work).procedure, len(steps)
    if item == len(procedure):
        return
    reads = procedure[item].reads
    earlier = range(item) if reads is None else (number - 1 for number in reads)
    yield Turn(procedure[item].agent, item, tuple(n for n in earlier if steps[n].status == "done"))


def joined(work: Work) -> Concluded:
    """The last artifact that there is."""
    done = [step for step in steps_of(work, Stage.FAN_OUT) if step.status == "done"]
    if not done:
        return Concluded({"text": "No item of the procedure came back with a result.", "citations": []})
    output = work.ctx.output(done[-1].output_ref)
    return Concluded({"text": output["text"], "citations": output["citations"]})

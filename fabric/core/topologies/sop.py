"""SOP: a fixed procedure, one item after the other, each with the artifacts of those before it
(docs/specification/topologies.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from fabric.core.decision.work import Work
from fabric.core.spec.topologies.sop import SopTopology
from fabric.core.state.failure import Failure
from fabric.core.state.run import Step
from fabric.core.topologies import conversation
from fabric.core.topologies.conversation import NextTurn
from fabric.core.topologies.shape import StageOutput, list_steps
from fabric.core.values.flow import Stage
from fabric.core.values.units import JSON


def _topology(work: Work) -> SopTopology:
    topology = work.compiled_fabric.spec.topology
    assert isinstance(topology, SopTopology)
    return topology


def plan(work: Work) -> JSON:
    """Return the procedure as a plan, one item a brief."""
    briefs = [
        {"agent": duty.agent, "title": duty.title, "instructions": duty.instructions}
        for duty in _topology(work).procedure
    ]
    return {
        "goal": work.compiled_fabric.spec.title,
        "briefs": briefs,
        "exit_criteria": ["Each item of the procedure is done."],
    }


def begins(work: Work) -> tuple[str, ...]:
    """Return no agents: the first item is opened like any other."""
    return ()


def conclude_fan_out(work: Work, steps: list[Step]) -> StageOutput | Failure | None:
    """Open the item after those that are done; after the last, conclude with the artifacts."""
    return conversation.conclude_fan_out(work, steps, _list_next_turns)


def _list_next_turns(work: Work, steps: list[Step]) -> Iterable[NextTurn]:
    procedure, item = _topology(work).procedure, len(steps)
    if item == len(procedure):
        return
    reads = procedure[item].reads
    earlier = range(item) if reads is None else (number - 1 for number in reads)
    yield NextTurn(procedure[item].agent, item, tuple(n for n in earlier if steps[n].status == "done"))


def join_outputs(work: Work) -> StageOutput:
    """Conclude with the last artifact."""
    done = [step for step in list_steps(work, Stage.FAN_OUT) if step.status == "done"]
    if not done:
        return StageOutput({"text": "No item of the procedure came back with a result.", "citations": []})
    output = work.ctx.output(done[-1].output_ref)
    return StageOutput({"text": output["text"], "citations": output["citations"]})

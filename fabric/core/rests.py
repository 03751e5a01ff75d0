"""What an answer of a run may rest on, gathered from its state: the request, the documents, the results of its tools in this epoch."""

from __future__ import annotations

from typing import Any

from fabric.core.flow import Stage
from fabric.core.grounding.sources import Calculation, Sources
from fabric.core.judges import is_judge
from fabric.core.run import Step
from fabric.core.topologies import slices
from fabric.core.work import Work

JSON = Any
CALCULATOR = "calculator"


def sources(work: Work) -> Sources:
    """All of them. MissingContent when one was erased; ValueError when the documents were not read with the claim."""
    if work.ctx.documents is None:
        raise ValueError("the documents of the run were not read, and its gates ask for them")
    results: list[JSON] = []
    calculations: list[Calculation] = []
    authors = [step for step in work.run.steps.values() if not is_judge(step)]
    # What a judge looked up was not there for the author to rest on.
    answered = (*_kept(work), *(answer for step in authors for answer in _answers(work, step)))
    for tool, result in answered:
        if _calculates(work, tool) and isinstance(result, dict):
            calculations.append(Calculation(str(result.get("expression", "")), str(result.get("value", ""))))
        else:
            results.append(result)
    for step in authors:
        if step.stage is Stage.FAN_OUT and slices.from_child(work.run, step):
            # Its tools answered in the child run: what was said there, and judged there where it is a team's, stands for that here.
            results += slices.outputs_of(work, step)
    request = work.ctx.contents.read(work.run.request_ref).get("text", "")
    return Sources(
        request=request, documents=work.ctx.documents, results=tuple(results), calculations=tuple(calculations)
    )


def _kept(work: Work) -> list[tuple[str, JSON]]:
    """What tools had answered in a fork's origin, unless it planned anew since."""
    kept = () if work.run.epoch else work.run.control.answers
    return [(tool, work.ctx.contents.read(ref).get("result")) for _, tool, ref in kept]


def _answers(work: Work, step: Step) -> list[tuple[str, JSON]]:
    """What each tool of a step answered, in the order of the calls; a tool's error is no source."""
    done = [call for turn in step.history for call in turn.calls if call.state == "done" and not call.error]
    return [(call.tool, work.ctx.contents.read(call.result_ref).get("result")) for call in done if call.result_ref]


def _calculates(work: Work, tool: str) -> bool:
    one = work.compiled.spec.tool(tool)
    return one.kind == "builtin" and (one.target or one.name) == CALCULATOR

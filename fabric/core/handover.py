"""What a stronger agent is told when it takes over: why, the cycle that was seen, and what was said (semantics.md 3 "Handover")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.run import Step, Turn
from fabric.core.topologies import slices
from fabric.core.verdict import Trip
from fabric.core.work import Work

JSON = Any
TRANSCRIPT_CHARS = 20_000
"""Most characters of a transcript; the newest are kept."""


def told(work: Work, failure: Failure, trip: Trip) -> str:
    """The words for whoever takes over the failed step or, where no step failed, the plan."""
    step = work.run.steps.get(failure.step_id)
    lines = list(_of_step(work, step) if step is not None else _of_plan(work))
    text = "\n".join(lines)
    cut = "(the beginning is left out)\n" if len(text) > TRANSCRIPT_CHARS else ""
    cycle = trip.evidence.details.get("cycle")
    seen = f"\nThe cycle that was seen: {' -> '.join(cycle)}." if isinstance(cycle, list) and cycle else ""
    said = f"\nWhat was said so far:\n{cut}{text[-TRANSCRIPT_CHARS:]}" if text else ""
    return f"This was handed over to you, for it was stuck: {trip.message}.{seen}\nDo it in another way.{said}"


def _of_step(work: Work, step: Step) -> Iterator[str]:
    """What a step's agent and its tools said. What was blocked is not passed on."""
    if step.id in work.run.withheld:
        return
    brought = work.run.family.answers.get(step.id)
    if brought is not None:  # A team did it: what it had, as far as it came.
        text = (work.ctx.contents.read(brought.ref).get("output") or {}).get("text", "")
        yield from [f"the team of {step.agent}: {text}"] if text else []
    for turn in step.history:
        yield from _turn(work, step.agent, turn)


def _of_plan(work: Work) -> Iterator[str]:
    """Who was to do what."""
    planned = work.run.stages.get(Stage.PLAN)
    if planned is None or not planned.output_ref or f"stage:{Stage.PLAN}" in work.run.withheld:
        return
    speaker = planned.agents[0] if planned.agents else "the plan"
    for brief in slices.plan(work)["briefs"]:
        yield f"{speaker} to {brief['agent']}: {brief['title']}: {brief['instructions']}"


def _turn(work: Work, agent: str, turn: Turn) -> Iterator[str]:
    read = work.ctx.contents.read
    content = read(turn.answer_ref)
    said = content.get("text") or (_json(content["output"]) if "output" in content else "")
    if said:
        yield f"{agent}: {said}"
    proposed = {call["call_id"]: call for call in content.get("calls", ())}
    for call in turn.calls:
        args = proposed.get(call.call_id, {}).get("args")
        yield f"{agent} calls {call.tool}: {_json(args)}"
        if call.result_ref:
            yield f"{call.tool}: {_json(read(call.result_ref))}"


def _json(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

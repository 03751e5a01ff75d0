"""A fan-out that is cut into slices: how it is cut, what each slice is given, what it brings, and how its parent counts it.

A slice is a step of its parent. Its agent is named ``slice FIRST-LAST``, by brief numbers from 1, since no agent can have a blank in its name. So
the journal says what it does, whatever the limits say later.
"""

from __future__ import annotations

import itertools
from typing import Any

from fabric.core.command_ids import branch_of
from fabric.core.flow import TRANSITIONS, End, Stage, StageOutcome
from fabric.core.run import Run, Step
from fabric.core.work import Work

JSON = Any
SLICE = "slice "


def cut(briefs: int, most: int) -> tuple[str, ...]:
    """The slices of a fan-out, as even as they can be and none above ``most``; empty: it is small enough to be done inline."""
    if briefs <= most:
        return ()
    many = -(-briefs // most)
    ends = [briefs * n // many for n in range(many + 1)]
    return tuple(f"{SLICE}{first + 1}-{last}" for first, last in itertools.pairwise(ends))


def is_slice(agent: str) -> bool:
    """Whether a step of that agent is a slice of its fan-out."""
    return agent.startswith(SLICE)


def from_child(run: Run, step: Step) -> bool:
    """Whether what a step says was said in a child run, by a slice's branches or by a team: what its tools answered there is not here."""
    return is_slice(step.agent) or any(step.output_ref == answer.ref for answer in run.family.answers.values())


def briefs_of(step: Step) -> range:
    """The briefs that a step of a fan-out stands for, from 0."""
    if not is_slice(step.agent):
        return range(step.brief, step.brief + 1)
    first, _, last = step.agent.removeprefix(SLICE).partition("-")
    return range(int(first) - 1, int(last))


def open_briefs(run: Run, step: Step) -> tuple[int, ...]:
    """Those that no earlier round of the step has brought something for; all of them, where none is missing."""
    done = brought(run, step)
    return tuple(n for n in briefs_of(step) if n not in done) or tuple(briefs_of(step))


def brought(run: Run, step: Step) -> dict[int, str]:
    """What the rounds of a slice have brought so far: content reference by brief."""
    found: dict[int, str] = {}
    for step_id, answer in run.family.answers.items():
        if branch_of(step_id) == step.branch:
            found |= {n: answer.ref for n in answer.briefs if n not in answer.missing}
    return found


def has_gaps(run: Run, step: Step) -> bool:
    """Whether a step is a slice that ended and did not bring something for each of its briefs."""
    return step.status == "done" and is_slice(step.agent) and len(brought(run, step)) < len(briefs_of(step))


def weight_of(run: Run, step: Step) -> int:
    """How many agents a step stands for."""
    return len(open_briefs(run, step)) if is_slice(step.agent) else 1


def promised(run: Run, stage: Stage) -> int:
    """Agents of slices that were let start and have no run of their own yet, or wait until they may start again, beside the one that each is counted as."""
    let = (
        step
        for step in run.steps.values()
        if step.stage is stage and (step.status == "active" or step.id in run.timers)
    )
    return sum(weight_of(run, step) - 1 for step in let)


def in_slice(run: Run) -> bool:
    """Whether a run is a slice of its parent's fan-out: it begins there and ends with it."""
    lineage = run.family.lineage
    return lineage is not None and lineage.purpose == "slice"


def following(run: Run, stage: Stage) -> Stage | End:
    """Where a stage that passed leads."""
    if in_slice(run) and stage is Stage.FAN_OUT:
        return End.COMPLETE
    return TRANSITIONS[stage, StageOutcome.PASSED]


# -- plans and parts ---------------------------------------------------------------------------------------------------


def plan(work: Work) -> JSON:
    """The plan in force."""
    return work.ctx.output(work.run.stages[Stage.PLAN].output_ref)


def briefs_in(work: Work) -> int:
    """How many briefs it has."""
    return len(plan(work)["briefs"])


def agents_in(work: Work) -> tuple[str, ...]:
    """The agents that it names, each once."""
    return tuple(dict.fromkeys(brief["agent"] for brief in plan(work)["briefs"]))


def agents_of(work: Work, steps: list[Step]) -> tuple[str, ...]:
    """The agents that do the open briefs of those steps, each once."""
    named = plan(work)["briefs"]
    return tuple(dict.fromkeys(named[n]["agent"] for step in steps for n in open_briefs(work.run, step)))


def said_in(work: Work, step: Step) -> list[tuple[str, JSON]]:
    """A step's summaries, each with the agent that wrote it."""
    if not is_slice(step.agent):
        return [(step.agent, one) for one in outputs_of(work, step)]
    named = plan(work)["briefs"]
    return list(zip((named[n]["agent"] for n in sorted(brought(work.run, step))), outputs_of(work, step), strict=True))


def plan_of(work: Work, briefs: tuple[int, ...]) -> JSON:
    """The plan with those briefs alone."""
    whole = plan(work)
    return {**whole, "briefs": [whole["briefs"][n] for n in briefs]}


def parts_of(work: Work, briefs: tuple[int, ...]) -> tuple[JSON, tuple[int, ...]]:
    """What a slice brings its parent: ``({"parts": [...]}, the briefs it has nothing for)``, however it ended."""
    run = work.run
    last = {step.branch: step for step in run.steps.values() if step.stage is Stage.FAN_OUT}
    found: list[JSON] = []
    for branch, number in enumerate(briefs):
        step = last.get(branch)
        if step is not None and step.status == "done" and step.id not in run.withheld:
            found.append({"brief": number, "output": work.ctx.output(step.output_ref)})
        else:
            gap = {"brief": number, "gap": (step.message if step else "") or run.reason or "no result"}
            found.append(gap | marked(step is not None and step.partial))
    return {"parts": found}, tuple(part["brief"] for part in found if "gap" in part)


def parts(work: Work, step: Step) -> list[JSON]:
    """A slice's places in its parent's fan-out: where each brief's summary stands, or the gap it left."""
    named = plan(work)["briefs"]
    have, told = brought(work.run, step), _told(work, step)
    found: list[JSON] = []
    for n in briefs_of(step):
        part = {"branch": n, "agent": named[n]["agent"], "title": named[n]["title"], "ref": have.get(n, ""), "gap": ""}
        if n not in have:
            said = told.get(n, {})
            part |= {"gap": said.get("gap") or step.message or "no result"}
            part |= marked(step.partial or bool(said.get("accepted")))
        found.append(part)
    return found


def marked(accepted: bool) -> JSON:
    """What a gap says beside its reason: that the fabric goes on with it. Of any other it says nothing."""
    return {"accepted": True} if accepted else {}


def _gaps(work: Work, step: Step) -> dict[int, str]:
    return {brief: part["gap"] for brief, part in _told(work, step).items()}


def _told(work: Work, step: Step) -> dict[int, JSON]:
    """What the rounds of a slice said of the briefs that they brought nothing for, the last one of each."""
    found: dict[int, JSON] = {}
    for step_id, answer in work.run.family.answers.items():
        if answer.missing and branch_of(step_id) == step.branch:
            told = work.ctx.contents.read(answer.ref)["parts"]
            found |= {part["brief"]: part for part in told if "gap" in part}
    return found


def accepted(work: Work, step: Step) -> int:
    """How many of a step's branches left a gap that the fabric goes on with, their retries exhausted."""
    if not is_slice(step.agent):
        return int(step.partial)
    have = brought(work.run, step)
    if step.partial:
        return len(briefs_of(step)) - len(have)
    return sum(bool(part.get("accepted")) for brief, part in _told(work, step).items() if brief not in have)


def gap(work: Work, step: Step) -> str:
    """Why the first of a slice's missing briefs is missing."""
    return next(iter(_gaps(work, step).values()), "no result")


def output_of(content: JSON, brief: int) -> JSON:
    """The summary of one brief in a content that holds one output, or those of a slice."""
    if "output" in content:
        return content["output"]
    return next(part["output"] for part in content["parts"] if part["brief"] == brief)


def refs_of(run: Run, step: Step) -> tuple[str, ...]:
    """Where a step's summaries stand: one content, or those that the rounds of a slice brought."""
    if is_slice(step.agent):
        return tuple(dict.fromkeys(brought(run, step).values()))
    return (step.output_ref,) if step.output_ref else ()


def outputs_of(work: Work, step: Step) -> list[JSON]:
    """A step's summaries."""
    read = work.ctx.contents.read
    if is_slice(step.agent):
        return [output_of(read(ref), brief) for brief, ref in sorted(brought(work.run, step).items())]
    return [read(ref)["output"] for ref in refs_of(work.run, step)]

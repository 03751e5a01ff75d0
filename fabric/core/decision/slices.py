"""Slices of a large fan-out: cuts it, collects each slice's parts, and counts a slice's branches for its parent.

A slice is a step of its parent. Its agent is named ``slice FIRST-LAST``, by brief numbers from 1, since no agent can
have a blank in its name. So the journal names its briefs, whatever the limits are later.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

from fabric.core.decision.work import Work
from fabric.core.state.run import Run, Step
from fabric.core.values.command_ids import read_branch
from fabric.core.values.flow import TRANSITIONS, End, Stage, StageOutcome
from fabric.core.values.units import JSON

SLICE = "slice "
AGENTS_KEPT = 1_024
"""Names of agents that are cached. Every decision of a fan-out asks for the same few."""


def cut(briefs: int, most: int) -> tuple[str, ...]:
    """Return the slices of a fan-out, as even as possible and none above ``most``. Empty: the fan-out is small enough
    to run inline.
    """
    if briefs <= most:
        return ()
    many = -(-briefs // most)
    ends = [briefs * n // many for n in range(many + 1)]
    return tuple(f"{SLICE}{first + 1}-{last}" for first, last in itertools.pairwise(ends))


@lru_cache(maxsize=AGENTS_KEPT)
def is_slice(agent: str) -> bool:
    """Return True if a step of that agent is a slice of its fan-out."""
    return agent.startswith(SLICE)


def from_child(run: Run, step: Step) -> bool:
    """Return True if a step's output is from a child run, a slice or a team. The tools' answers behind it are in the
    child's journal.
    """
    return is_slice(step.agent) or any(step.output_ref == answer.ref for answer in run.family.answers.values())


def find_briefs(step: Step) -> range:
    """Return the briefs that a step of a fan-out stands for, from 0."""
    if not is_slice(step.agent):
        return range(step.brief, step.brief + 1)
    first, _, last = step.agent.removeprefix(SLICE).partition("-")
    return range(int(first) - 1, int(last))


def open_briefs(run: Run, step: Step) -> tuple[int, ...]:
    """Return the briefs without a part from an earlier round; all of them if none is missing."""
    done = brought_parts(run, step)
    return tuple(n for n in find_briefs(step) if n not in done) or tuple(find_briefs(step))


def brought_parts(run: Run, step: Step) -> dict[int, str]:
    """Return the parts that a slice's rounds have brought so far: content reference by brief."""
    found: dict[int, str] = {}
    for step_id, answer in run.family.answers.items():
        if read_branch(step_id) == step.branch:
            found |= {n: answer.ref for n in answer.briefs if n not in answer.missing}
    return found


def has_gaps(run: Run, step: Step) -> bool:
    """Return True if a step is a slice that ended without a part for each of its briefs."""
    return step.status == "done" and is_slice(step.agent) and len(brought_parts(run, step)) < len(find_briefs(step))


def find_weight(run: Run, step: Step) -> int:
    """Return the number of agents that a step stands for."""
    return len(open_briefs(run, step)) if is_slice(step.agent) else 1


def promised_agents(run: Run, stage: Stage) -> int:
    """Return the number of agents that slices may still start. Those slices have no run yet, or wait to start again;
    each already counts as one agent.
    """
    let = (
        step
        for step in run.steps.values()
        if step.stage is stage and (step.status == "active" or step.id in run.timers)
    )
    return sum(find_weight(run, step) - 1 for step in let)


def in_slice(run: Run) -> bool:
    """Return True if a run is a slice of its parent's fan-out: it begins there and ends with it."""
    lineage = run.family.lineage
    return lineage is not None and lineage.purpose == "slice"


def find_next_stage(run: Run, stage: Stage) -> Stage | End:
    """Return the stage or end after a passed stage."""
    if in_slice(run) and stage is Stage.FAN_OUT:
        return End.COMPLETE
    return TRANSITIONS[stage, StageOutcome.PASSED]


# -- plans and parts ---------------------------------------------------------------------------------------------------


def plan(work: Work) -> JSON:
    """Return the plan in force."""
    return work.ctx.output(work.run.stages[Stage.PLAN].output_ref)


def briefs_in(work: Work) -> int:
    """Return the number of briefs in the plan."""
    return len(plan(work)["briefs"])


def agents_in(work: Work) -> tuple[str, ...]:
    """Return the agents that it names, each once."""
    return tuple(dict.fromkeys(brief["agent"] for brief in plan(work)["briefs"]))


def list_agents(work: Work, steps: list[Step]) -> tuple[str, ...]:
    """Return the agents that execute the open briefs of those steps, each once."""
    named = plan(work)["briefs"]
    return tuple(dict.fromkeys(named[n]["agent"] for step in steps for n in open_briefs(work.run, step)))


def list_summaries(work: Work, step: Step) -> list[tuple[str, JSON]]:
    """Return a step's summaries, each with the agent that wrote it."""
    if not is_slice(step.agent):
        return [(step.agent, one) for one in list_outputs(work, step)]
    named = plan(work)["briefs"]
    return list(
        zip((named[n]["agent"] for n in sorted(brought_parts(work.run, step))), list_outputs(work, step), strict=True)
    )


def find_plan(work: Work, briefs: tuple[int, ...]) -> JSON:
    """Return the plan with those briefs alone."""
    whole = plan(work)
    return {**whole, "briefs": [whole["briefs"][n] for n in briefs]}


def list_parts(work: Work, briefs: tuple[int, ...]) -> tuple[JSON, tuple[int, ...]]:
    """Return a slice's result for its parent, however it ended: ``({"parts": [...]}, the briefs without a part)``."""
    run = work.run
    last = {step.branch: step for step in run.steps.values() if step.stage is Stage.FAN_OUT}
    found: list[JSON] = []
    for branch, number in enumerate(briefs):
        step = last.get(branch)
        if step is not None and step.status == "done" and step.id not in run.withheld:
            found.append({"brief": number, "output": work.ctx.output(step.output_ref)})
        else:
            gap = {"brief": number, "gap": (step.message if step else "") or run.reason or "no result"}
            found.append(gap | accepted_flag(step is not None and step.partial))
    return {"parts": found}, tuple(part["brief"] for part in found if "gap" in part)


def parts(work: Work, step: Step) -> list[JSON]:
    """Return a slice's places in its parent's fan-out: the reference of each brief's summary, or its gap."""
    named = plan(work)["briefs"]
    have, told = brought_parts(work.run, step), _reported_gaps(work, step)
    found: list[JSON] = []
    for n in find_briefs(step):
        part = {"branch": n, "agent": named[n]["agent"], "title": named[n]["title"], "ref": have.get(n, ""), "gap": ""}
        if n not in have:
            said = told.get(n, {})
            part |= {"gap": said.get("gap") or step.message or "no result"}
            part |= accepted_flag(step.partial or bool(said.get("accepted")))
        found.append(part)
    return found


def accepted_flag(accepted: bool) -> JSON:
    """Return ``{"accepted": True}`` for a gap that the fabric tolerates, else ``{}``."""
    return {"accepted": True} if accepted else {}


def _gaps(work: Work, step: Step) -> dict[int, str]:
    return {brief: part["gap"] for brief, part in _reported_gaps(work, step).items()}


def _reported_gaps(work: Work, step: Step) -> dict[int, JSON]:
    """Return the last gap that a slice's rounds reported for each brief without a part."""
    found: dict[int, JSON] = {}
    for step_id, answer in work.run.family.answers.items():
        if answer.missing and read_branch(step_id) == step.branch:
            told = work.ctx.contents.read(answer.ref)["parts"]
            found |= {part["brief"]: part for part in told if "gap" in part}
    return found


def accepted_gaps(work: Work, step: Step) -> int:
    """Return the number of a step's branches with a gap that the fabric tolerates, their retries exhausted."""
    if not is_slice(step.agent):
        return int(step.partial)
    have = brought_parts(work.run, step)
    if step.partial:
        return len(find_briefs(step)) - len(have)
    return sum(bool(part.get("accepted")) for brief, part in _reported_gaps(work, step).items() if brief not in have)


def gap(work: Work, step: Step) -> str:
    """Return why the first of a slice's missing briefs is missing."""
    return next(iter(_gaps(work, step).values()), "no result")


def read_output(content: JSON, brief: int) -> JSON:
    """Return the summary of one brief in a content, which has one output or those of a slice."""
    if "output" in content:
        return content["output"]
    return next(part["output"] for part in content["parts"] if part["brief"] == brief)


def list_refs(run: Run, step: Step) -> tuple[str, ...]:
    """Return the references of a step's summaries: one content, or those of a slice's rounds."""
    if is_slice(step.agent):
        return tuple(dict.fromkeys(brought_parts(run, step).values()))
    return (step.output_ref,) if step.output_ref else ()


def list_outputs(work: Work, step: Step) -> list[JSON]:
    """Return a step's summaries."""
    read = work.ctx.contents.read
    if is_slice(step.agent):
        return [read_output(read(ref), brief) for brief, ref in sorted(brought_parts(work.run, step).items())]
    return [read(ref)["output"] for ref in list_refs(work.run, step)]

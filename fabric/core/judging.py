"""Judges at work: opening their steps, asking what a tool says, and what they said so far of what a stage wants to pass on.

A verdict holds for the very bytes that it was given about: what its author writes anew is judged anew. Nothing that is unknown passes: while a verdict is
missing the stage is not left, and a judge that cannot be heard takes the row of its own failure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fabric.core import calls, guard, permissions
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.fingerprint import fingerprint
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.gates import OracleCheck
from fabric.core.grounding import passages
from fabric.core.judges import GROUNDING_CRITIC, Judge, judge_of, judges_of
from fabric.core.mechanisms.contract import Proposal
from fabric.core.run import Step, step_id
from fabric.core.taxonomy import Cause
from fabric.core.templates import NoValue, filled, filled_url
from fabric.core.topologies import slices
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Work

JSON = Any
CALL_ID = "asked"
"""Of the one call that a step without an agent makes."""


@value()
class Heard:
    """What the judges of a stage said of what it wants to pass on."""

    problems: Mapping[int, tuple[str, ...]]
    """What each one found, by its branch; one that is missing has not been heard."""
    score: float | None = None
    """The lowest that one of them gave."""
    left_out: tuple[str, ...] = ()
    """What the grounding critic was not shown of the sources."""


def heard(work: Work, stage: Stage, proposal: Proposal) -> Heard:
    """The verdicts so far about these very bytes."""
    found: dict[int, tuple[str, ...]] = {}
    scores: list[float] = []
    left_out: tuple[str, ...] = ()
    for judge in judges_of(work.compiled.spec, stage):
        if not judge.agent and (problem := _not_askable(work, judge, proposal)):
            found[judge.branch] = (problem,)
            continue
        step = _step(work, stage, judge)
        if step is None or step.status != "done" or _judged(work, step) != proposal.payload:
            continue
        said = work.ctx.contents.read(step.output_ref)
        asked = work.ctx.contents.read(step.note_ref)
        if judge.name == GROUNDING_CRITIC:
            left_out = tuple(asked.get("left_out", ()))
        if judge.agent:
            findings = () if said["output"]["accept"] else tuple(said["output"]["findings"])
            found[judge.branch] = (*findings, *asked.get("unshown", ()))  # It could not judge what it was not shown.
            scores += [] if said["output"]["score"] is None else [said["output"]["score"]]
        else:
            found[judge.branch] = _told(work, judge, proposal, said)
    return Heard(found, min(scores, default=None), left_out)


def ask(work: Work, stage: Stage, branch: int, proposal: Proposal) -> Failure | None:
    """Opens the step of the judge whose verdict is missing; gives back what speaks against it. Content: what is judged, and what a tool is asked with."""
    judge = next(one for one in judges_of(work.compiled.spec, stage) if one.branch == branch)
    entering = permissions.entering(stage, (judge.agent,), work.view)
    if entering is not None and entering.why:
        evidence = Evidence(scope=f"stage:{stage}", details={"policies": list(entering.policies)})
        message = f"judging stage {stage} was denied: {entering.why}"
        return Failure((Trip("policy", Cause.POLICY_DENIED, evidence, message),), stage)
    before = _step(work, stage, judge)
    round_ = 0 if before is None else before.round + 1
    content = {"output": proposal.payload}
    if judge.name == GROUNDING_CRITIC:
        content |= _sources_shown(work, judge, proposal)
    if not judge.agent:
        content["args"] = _args(work, judge, proposal)
    key = step_id(stage, branch, work.run.epoch, round_)
    work.emit(ev.StepOpened(step_id=key, stage=stage, branch=branch, agent=judge.agent, round=round_), content)
    return None


def _sources_shown(work: Work, judge: Judge, proposal: Proposal) -> dict[str, JSON]:
    """The passages of each document that the critic's prompt has, by their places, and what it leaves out; nothing where it reads documents by tools."""
    limit, documents = work.compiled.spec.agent(judge.agent).inline_document_chars, work.ctx.documents or ()
    if not limit or not documents:
        return {}
    answer = str(proposal.payload["text"])
    quoted = passages.places(answer, documents)
    found = {name: passages.chosen(text, answer, quoted[name], limit) for name, text in documents}
    told, unshown = [], []
    for name, text in documents:
        has = sum(end - start for start, end in found[name].spans)
        if has < len(text):
            told.append(f"{name}: {has:,} of {len(text):,} characters were shown, the nearest to what is claimed")
        unshown += [
            f"{name}: the quoted passage {one[:80]!r} {_NO_ROOM.format(judge.agent)}" for one in found[name].without
        ]
    shown: dict[str, JSON] = {"shown": {name: [list(span) for span in one.spans] for name, one in found.items()}}
    return shown | ({"left_out": told} if told else {}) | ({"unshown": unshown} if unshown else {})


_NO_ROOM = "does not fit into what critic {} is shown; raise the agent's inline_document_chars"


def again(work: Work, step: Step, note: str) -> JSON:
    """What a judge's step is opened with once more: what it judges, and what was wrong."""
    return {**work.ctx.contents.read(step.note_ref), "text": note}


def move(work: Work, step: Step) -> Failure | None:
    """Issues the one call of a step without an agent, or gives back why not."""
    check = judge_of(work.compiled.spec, step).check
    assert check is not None  # only the oracle asks tools
    args = work.ctx.contents.read(step.note_ref)["args"]
    call = ev.ProposedCall(call_id=CALL_ID, tool=check.asked_tool, args_hash=fingerprint(args))
    wave = ((call.tool, call.args_hash),)
    proposal = calls.tool_proposal(work, step, call, wave, turn=1, args=args)
    trips = guard.judge(proposal, work.view, work.compiled.spec.policy)
    if trips:
        return Failure(tuple(trips), step.stage, step.id)
    calls.run_tool(work, step, call, 0, 1, calls.key_of_tool(work, step, call))
    return None


def about(work: Work, proposal: Proposal) -> dict[str, JSON]:
    """What an oracle's places and expressions may name."""
    run = work.run
    said = {"id": run.id, "tier": str(run.tier), "epoch": run.epoch, "depth": run.depth}
    said |= {"request": proposal.request, "documents": list(proposal.documents)}
    criteria = list(slices.plan(work)["exit_criteria"])
    return {"outcome": proposal.payload, "exit_criteria": criteria, "run": said}


def _step(work: Work, stage: Stage, judge: Judge) -> Step | None:
    steps = (one for one in work.run.steps.values() if one.stage is stage and one.branch == judge.branch)
    return next(steps, None)


def _judged(work: Work, step: Step) -> JSON:
    return work.ctx.contents.read(step.note_ref)["output"]


def _args(work: Work, judge: Judge, proposal: Proposal) -> JSON:
    assert judge.check is not None
    return arguments_of(judge.check, about(work, proposal))


def arguments_of(check: OracleCheck, given: Mapping[str, JSON]) -> JSON:
    """What a tool or an address is asked with. NoValue for a place that has none."""
    if check.http is not None:
        return {"url": filled_url(check.http.url, given)}
    return filled(check.arguments or {}, given)


def _not_askable(work: Work, judge: Judge, proposal: Proposal) -> str:
    assert judge.check is not None
    try:
        _args(work, judge, proposal)
    except NoValue as missing:
        return f"check {judge.check.name} could not be asked: {missing}"
    return ""


def _told(work: Work, judge: Judge, proposal: Proposal, said: JSON) -> tuple[str, ...]:
    """What a tool's answer says of the outcome. An error is no yes."""
    check = judge.check
    assert check is not None
    if "error" in said:
        return (f"check {check.name} has no answer: {said['error']['message']}",)
    answer = said["result"]
    if check.expression is not None:
        given = with_answer(check, about(work, proposal), answer)
        return tuple(work.compiled.evaluators.contradicted(check.name, given))
    return () if says_yes(check, answer) else (f"check {check.name}: {check.message}",)


def with_answer(check: OracleCheck, given: Mapping[str, JSON], answer: JSON) -> dict[str, JSON]:
    """What the expression of a check may name that asks a tool or an address."""
    return {**given, "answer": _read(answer) if check.http is not None else answer}


def says_yes(check: OracleCheck, answer: JSON) -> bool:
    """Whether an answer to a check without an expression is a yes; an address that answers at all says so."""
    return check.http is not None or answer is True or (isinstance(answer, dict) and answer.get("passed") is True)


def _read(answer: JSON) -> JSON:
    """A page, with its text read as JSON under ``json`` where it is any."""
    try:
        return {**answer, "json": json.loads(answer["text"])}
    except (ValueError, RecursionError):
        return answer

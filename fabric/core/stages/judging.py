"""Runs the judges of a stage: opens their steps, calls their tools, and collects their verdicts on the stage's
output.

A verdict covers exactly the bytes that it judged: a rewritten output is judged anew. While a verdict is missing, the
stage is not left. A judge that cannot answer is decided by the row of its own failure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.decision import guard, slices
from fabric.core.decision.work import Work
from fabric.core.grounding import passages
from fabric.core.mechanisms import permissions
from fabric.core.mechanisms.contract import Proposal
from fabric.core.spec.policies.gates import OracleCheck
from fabric.core.state.failure import Failure
from fabric.core.state.judges import GROUNDING_CRITIC, Judge, find_judge, list_judges
from fabric.core.state.run import Step, step_id
from fabric.core.texts.templates import NoValue, fill_places, filled_url
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Cause, Evidence, Trip
from fabric.core.values.units import JSON

CALL_ID = "asked"
"""Id of the one call that a step without an agent makes."""


@value()
class HeardVerdicts:
    """The verdicts of a stage's judges on its output."""

    problems: Mapping[int, tuple[str, ...]]
    """Findings of each judge, by its branch; a missing branch has no verdict yet."""
    score: float | None = None
    """The lowest that one of them gave."""
    left_out: tuple[str, ...] = ()
    """Parts of the sources that the grounding critic's prompt left out."""


def hear_verdicts(work: Work, stage: Stage, proposal: Proposal) -> HeardVerdicts:
    """Return the verdicts so far about these very bytes."""
    found: dict[int, tuple[str, ...]] = {}
    scores: list[float] = []
    left_out: tuple[str, ...] = ()
    for judge in list_judges(work.compiled_fabric.spec, stage):
        if not judge.agent and (problem := _not_askable(work, judge, proposal)):
            found[judge.branch] = (problem,)
            continue
        step = _step(work, stage, judge)
        if step is None or step.status != "done" or _judged_content(work, step) != proposal.payload:
            continue
        said = work.ctx.contents.read(step.output_ref)
        asked = work.ctx.contents.read(step.note_ref)
        if judge.name == GROUNDING_CRITIC:
            left_out = tuple(asked.get("left_out", ()))
        if judge.agent:
            findings = () if said["output"]["accept"] else tuple(said["output"]["findings"])
            found[judge.branch] = (*findings, *asked.get("unshown", ()))  # It could not judge omitted parts.
            scores += [] if said["output"]["score"] is None else [said["output"]["score"]]
        else:
            found[judge.branch] = _answer_problems(work, judge, proposal, said)
    return HeardVerdicts(found, min(scores, default=None), left_out)


def ask(work: Work, stage: Stage, branch: int, proposal: Proposal) -> Failure | None:
    """Open the step of the judge whose verdict is missing; return the failure if that is refused. Content: the
    judged output, or a tool's arguments.
    """
    judge = next(one for one in list_judges(work.compiled_fabric.spec, stage) if one.branch == branch)
    entering = permissions.judge_entry(stage, (judge.agent,), work.view)
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
    """Return the passages of each document for the critic's prompt, and the parts left out. Empty: the critic reads
    documents by tools.
    """
    limit, documents = work.compiled_fabric.spec.agent(judge.agent).inline_document_chars, work.ctx.documents or ()
    if not limit or not documents:
        return {}
    answer = str(proposal.payload["text"])
    quoted = passages.places(answer, documents)
    found = {name: passages.choose_passages(text, answer, quoted[name], limit) for name, text in documents}
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


def reopening_note(work: Work, step: Step, note: str) -> JSON:
    """Return the content that opens a judge's step once more: the judged output, and the problem of the last
    verdict.
    """
    return {**work.ctx.contents.read(step.note_ref), "text": note}


def move(work: Work, step: Step) -> Failure | None:
    """Issue the one call of a step without an agent, or return the failure if that is refused."""
    check = find_judge(work.compiled_fabric.spec, step).check
    assert check is not None  # only the oracle asks tools
    args = work.ctx.contents.read(step.note_ref)["args"]
    call = ev.ProposedCall(call_id=CALL_ID, tool=check.asked_tool, args_hash=fingerprint(args))
    wave = ((call.tool, call.args_hash),)
    proposal = calls.tool_proposal(work, step, call, wave, turn=1, args=args)
    trips = guard.judge(proposal, work.view, work.compiled_fabric.spec.policy)
    if trips:
        return Failure(tuple(trips), step.stage, step.id)
    calls.run_tool(work, step, call, 0, 1, calls.key_of_tool(work, step, call))
    return None


def oracle_values(work: Work, proposal: Proposal) -> dict[str, JSON]:
    """Return the values that an oracle's places and expressions may name."""
    run = work.run
    said = {"id": run.id, "tier": str(run.tier), "epoch": run.epoch, "depth": run.depth}
    said |= {"request": proposal.request, "documents": list(proposal.documents)}
    criteria = list(slices.plan(work)["exit_criteria"])
    return {"outcome": proposal.payload, "exit_criteria": criteria, "run": said}


def _step(work: Work, stage: Stage, judge: Judge) -> Step | None:
    steps = (one for one in work.run.steps.values() if one.stage is stage and one.branch == judge.branch)
    return next(steps, None)


def _judged_content(work: Work, step: Step) -> JSON:
    return work.ctx.contents.read(step.note_ref)["output"]


def _args(work: Work, judge: Judge, proposal: Proposal) -> JSON:
    assert judge.check is not None
    return find_arguments(judge.check, oracle_values(work, proposal))


def find_arguments(check: OracleCheck, given: Mapping[str, JSON]) -> JSON:
    """Return the arguments of an oracle's tool or address. Raises NoValue for a place without a value."""
    if check.http is not None:
        return {"url": filled_url(check.http.url, given)}
    return fill_places(check.arguments or {}, given)


def _not_askable(work: Work, judge: Judge, proposal: Proposal) -> str:
    assert judge.check is not None
    try:
        _args(work, judge, proposal)
    except NoValue as missing:
        return f"check {judge.check.name} could not be asked: {missing}"
    return ""


def _answer_problems(work: Work, judge: Judge, proposal: Proposal, said: JSON) -> tuple[str, ...]:
    """Return the problems of the outcome by a tool's answer. An error counts as a problem."""
    check = judge.check
    assert check is not None
    if "error" in said:
        return (f"check {check.name} has no answer: {said['error']['message']}",)
    answer = said["result"]
    if check.expression is not None:
        given = add_answer(check, oracle_values(work, proposal), answer)
        return tuple(work.compiled_fabric.evaluators.list_contradictions(check.name, given))
    return () if says_yes(check, answer) else (f"check {check.name}: {check.message}",)


def add_answer(check: OracleCheck, given: Mapping[str, JSON], answer: JSON) -> dict[str, JSON]:
    """Return the values that the expression of a check on a tool or an address may name."""
    return {**given, "answer": _read(answer) if check.http is not None else answer}


def says_yes(check: OracleCheck, answer: JSON) -> bool:
    """Return True if the answer to a check without an expression is positive; any answer of an address is."""
    return check.http is not None or answer is True or (isinstance(answer, dict) and answer.get("passed") is True)


def _read(answer: JSON) -> JSON:
    """Return a page, with its text read as JSON under ``json`` if it is JSON."""
    try:
        return {**answer, "json": json.loads(answer["text"])}
    except (ValueError, RecursionError):
        return answer

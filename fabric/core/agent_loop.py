"""One agent's step: requests until there is an output, tool calls between them, errors fed back as messages (S2; semantics.md 6).

The model reads each structural error: an unknown tool, arguments that do not fit, an empty or off-schema answer. Each costs the step one of its
corrections at the end of the wave. When they are spent the step fails. The model also reads which calls a mechanism blocked; those are the ladder's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from fabric.core import (
    answers,
    calls,
    conversation_tools,
    dependencies,
    judging,
    mutations,
    proposed,
    streamed,
    wave,
    write_conflicts,
)
from fabric.core import events as ev
from fabric.core.answers import Said
from fabric.core.call_args import call_args
from fabric.core.failure import Failure
from fabric.core.inputs import ModelReplied, ToolCall
from fabric.core.judges import is_judge
from fabric.core.loop_rules import Found, repeated_answer
from fabric.core.mechanisms import loop_detector
from fabric.core.proposed import Proposed
from fabric.core.run import CallRecord, Pending, Step
from fabric.core.saga import by_command
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Details, Evidence, Trip
from fabric.core.work import Work

JSON = Any
NAME = "agent_loop"


def move(work: Work, step: Step) -> Failure | None:
    """Decides about the calls of the last answer, or asks the model again; gives back what stopped it."""
    if not step.agent:
        return judging.move(work, step)
    if step.history and any(call.state == "open" for call in step.history[-1].calls):
        return wave.run(work, step)
    if conversation_tools.ended(work, step):
        return None
    if step.corrections > work.policy_in(step.stage).limits.corrections_per_step or _same_again(work, step):
        return _spent(work, step)
    last = step.history[-1] if step.history else None
    answer = _drained_output(work, step)
    if last is not None and answer:
        work.emit(ev.OutputAccepted(step_id=step.id, answer_ref=last.answer_ref))
        return None
    trips = calls.ask_model(work, step, turn=step.turns + 1)
    return Failure(tuple(trips), step.stage, step.id) if trips else None


def _drained_output(work: Work, step: Step) -> bool:
    """Whether the last answer brought an output along with calls, all of which came back without an error."""
    if not step.history or step.history[-1].verdict != "calls":
        return False
    last = step.history[-1]
    return "output" in work.ctx.contents.read(last.answer_ref) and not any(call.error for call in last.calls)


def _same_again(work: Work, step: Step) -> Found | None:
    """The repeat of an unusable answer, where the loop detector's rule for answers has been reached; else None."""
    if not step.history or step.history[-1].verdict != "rejected":
        return None
    row = takewhile(lambda turn: turn.verdict == "rejected", reversed(step.history))
    marks = [loop_detector.answer_mark(work.ctx.contents.read(turn.answer_ref)) for turn in row][::-1]
    return repeated_answer(work.policy_in(step.stage).loop_detector, marks)


def _spent(work: Work, step: Step) -> Failure:
    limit = work.policy_in(step.stage).limits.corrections_per_step
    problems = _problems(work, step)
    shown = f": {problems[0]}" if problems else ""
    cause = Cause.PLAN_GATE if step.stage == "plan" and not is_judge(step) else Cause.CORRECTIONS_SPENT
    details: Details = {"problems": list(problems[:5])}
    same, scope = _same_again(work, step), f"step:{step.id}"
    evidence = Evidence(limit, step.corrections, "corrections", scope, details=details)
    did = f"did not give a usable answer in {step.turns} turns"
    if same is not None:
        evidence = Evidence(same.limit, same.observed, "answers", scope, details=details)
        did = f"gave the same unusable answer {same.observed} times (limit {same.limit})"
    stopped = f", after it was stopped ({step.message})" if step.final else ""
    message = f"agent {step.agent} {did}{stopped}{shown}"
    return Failure((Trip(NAME, cause, evidence, message),), step.stage, step.id)


def _problems(work: Work, step: Step) -> list[str]:
    """What was wrong with the last answer: with its text, or with the calls it proposed."""
    if not step.history:
        return []
    last = step.history[-1]
    with_text: list[str] = work.ctx.contents.read(last.answer_ref).get("problems", [])
    return with_text or [_named(work, call) for call in last.calls if call.correction]


def _named(work: Work, call: CallRecord) -> str:
    """The error of a call, with its tool."""
    said = str(work.ctx.contents.read(call.result_ref)["error"]["message"])
    return said if call.tool in said else f"{call.tool}: {said}"


# -- the model's answer ------------------------------------------------------------------------------------------------


def answered(work: Work, pending: Pending, reply: ModelReplied) -> Failure | None:
    """Journals an answer: an output, calls, or something refused; gives back what failed, if anything did."""
    issued = pending.issued
    step = work.run.steps[issued.step_id]
    found = answers.said(work, step, reply, final=issued.final)
    proposals = write_conflicts.ordered(work.compiled.spec, proposed.proposals(step, found.calls))
    verdict: Any = "calls" if proposals else "output" if found.output is not None else "rejected"
    content = _content(issued, reply, found, proposals, verdict)
    work.emit(
        ev.ModelAnswered(
            command_id=issued.command_id,
            attempt=issued.attempt,
            step_id=step.id,
            verdict=verdict,
            calls=tuple(proposal.fact() for proposal in proposals),
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cost_usd_micros=calls.charge_of(work, issued, reply).usd_micros,
            problems=found.problems if verdict == "rejected" else (),
            sanitized=reply.sanitized,
            handled=streamed.handled(step, proposals),
            finish=reply.finish,
            model=reply.model,
            parts=reply.parts,
            usage_problem=reply.usage_problem,
            probed=reply.probed,
        ),
        content,
    )
    streamed.drop_rest(work, step.id)
    if work.run.ending is not None or work.run.steps[step.id].status != "active":
        return None
    if reply.finish == "content_filter":
        message = f"the provider's content filter withheld the answer of {issued.target}"
        return Failure(
            (Trip(NAME, Cause.CONTENT_FILTER, Evidence(scope=f"step:{step.id}"), message),), step.stage, step.id
        )
    if verdict == "rejected" and issued.final:
        return _spent(work, work.run.steps[step.id])
    return None


def _content(
    issued: ev.CallIssued, reply: ModelReplied, found: Said, proposals: Sequence[Proposed], verdict: str
) -> dict[str, JSON]:
    """Returns what is journaled of an answer."""
    content: dict[str, JSON] = {} if found.output is None else {"output": found.output}
    if verdict != "output":
        content["text"] = found.text
    if proposals:
        content["calls"] = [proposal.as_json() for proposal in proposals]
    if found.thinking:
        content["thinking"] = found.thinking
    if proposals or reply.own is not None:
        # Ids and reasoning mean something to the model that gave them, and to no other.
        content["from"] = issued.target
    if reply.own is not None:
        content["own"] = reply.own
    if verdict == "rejected":
        content["problems"] = list(found.problems)
    if verdict == "rejected" and reply.calls:
        content["unused_calls"] = [_unused(call) for call in reply.calls]
    return content


def _unused(call: ToolCall) -> JSON:
    given = {"args": call.args} if call.args is not None else {"raw_args": call.raw_args}
    return {"tool": call.tool, **given}


# -- tools -------------------------------------------------------------------------------------------------------------


def unanswered(work: Work, pending: Pending, trip: Trip, reason: str) -> None:
    """Lets go of a call that will not be tried again while its step goes on: a tool's model is told why there is no result, if it asked for one."""
    issued = pending.issued
    calls.let_go(work, pending, reason)
    step = work.run.steps.get(issued.step_id)
    told = step is None or not streamed.broken(step, pending)
    if issued.call == "tool" and issued.agent and told:
        args = call_args(work.ctx.contents, issued.args_ref, issued.call_id)
        known_by = "" if step is None else dependencies.known_by(step, issued.call_id)
        one = proposed.Proposed(issued.call_id, issued.target, args, "", issued.args_hash, given=known_by)
        wave.refuse(
            work, issued.step_id, one, trip.cause, trip.mechanism, trip.advice or trip.message, correction=False
        )


def again(work: Work, pending: Pending) -> Failure | None:
    """The next attempt of a call that failed or was interrupted, or what follows when it may not start. Never blindly of what changes the world."""
    if mutations.in_doubt(by_command(work.run.saga, pending.issued.command_id)):
        return mutations.resolve(work, pending)
    trips = calls.again(work, pending)
    if not trips:
        return None
    step = work.run.steps[pending.issued.step_id]
    unanswered(work, work.run.pending[pending.issued.command_id], trips[0], "it may not start again")
    return Failure(tuple(trips), step.stage, step.id)

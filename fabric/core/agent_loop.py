"""One agent's step: requests until there is an output, tool calls between them, errors fed back as messages (S2; semantics.md 6).

Each structural error (unknown tool, arguments that do not fit, an empty or off-schema answer) is told to the model and costs the step one of its
corrections at the end of the wave; when they are spent the step fails. Calls that a mechanism blocks are told to the model too, but are the ladder's.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from fabric.core import calls, guard
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.fingerprint import fingerprint, masked_fingerprint
from fabric.core.frozen import replace, value
from fabric.core.inputs import ModelReplied, ToolCall, ToolFinished
from fabric.core.mechanisms.validation_gate import problems_of
from fabric.core.payloads import AGENT_OUTPUT
from fabric.core.prompt import OUTPUT
from fabric.core.run import Pending, Step
from fabric.core.spec import CITATION, AgentSpec
from fabric.core.taxonomy import Cause
from fabric.core.text import parse_json_object
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Work

JSON = Any
NAME = "agent_loop"


def move(work: Work, step: Step) -> Failure | None:
    """Asks the model again when the step waits for nothing; gives back what stopped it."""
    if step.corrections > work.compiled.spec.policy.limits.corrections_per_step:
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


def _spent(work: Work, step: Step) -> Failure:
    limit = work.compiled.spec.policy.limits.corrections_per_step
    problems = _problems(work, step)
    shown = f": {problems[0]}" if problems else ""
    cause = Cause.PLAN_GATE if step.stage == "plan" else Cause.CORRECTIONS_SPENT
    evidence = Evidence(
        limit, step.corrections, "corrections", f"step:{step.id}", details={"problems": list(problems[:5])}
    )
    stopped = f", after it was stopped ({step.message})" if step.final else ""
    message = f"agent {step.agent} did not give a usable answer in {step.turns} turns{stopped}{shown}"
    return Failure((Trip(NAME, cause, evidence, message),), step.stage, step.id)


def _problems(work: Work, step: Step) -> list[str]:
    """What was wrong with the last answer: with its text, or with the calls it proposed."""
    if not step.history:
        return []
    last = step.history[-1]
    with_text: list[str] = work.ctx.contents.read(last.answer_ref).get("problems", [])
    return with_text or [work.ctx.contents.read(c.result_ref)["error"]["message"] for c in last.calls if c.correction]


# -- the model's answer ------------------------------------------------------------------------------------------------


def answered(work: Work, pending: Pending, reply: ModelReplied) -> Failure | None:
    """Journals an answer: an output, calls, or something refused; gives back what failed, if anything did."""
    issued = pending.issued
    step = work.run.steps[issued.step_id]
    proposals = _normalised(reply.calls) if not issued.final else []
    output, problems = _output(work, step, reply, asking=bool(proposals))
    verdict: Any = "calls" if proposals else "output" if output is not None else "rejected"
    content: dict[str, JSON] = {}
    if output is not None:
        content["output"] = output
    if verdict != "output":
        content["text"] = reply.text
    if proposals:
        content["calls"] = [proposal.as_json() for proposal in proposals]
    if verdict == "rejected":
        content["problems"] = problems
    work.emit(
        ev.ModelAnswered(
            command_id=issued.command_id,
            attempt=issued.attempt,
            step_id=step.id,
            verdict=verdict,
            calls=tuple(proposal.fact() for proposal in proposals),
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cost_usd_micros=_cost(work, issued, reply),
            problems=tuple(problems) if verdict == "rejected" else (),
            sanitized=reply.sanitized,
        ),
        content,
    )
    if work.run.ending is not None or work.run.steps[step.id].status != "active":
        return None
    if reply.finish == "content_filter":
        message = f"the provider's content filter withheld the answer of {issued.target}"
        return Failure(
            (Trip(NAME, Cause.CONTENT_FILTER, Evidence(scope=f"step:{step.id}"), message),), step.stage, step.id
        )
    if verdict == "rejected" and issued.final:
        return _spent(work, work.run.steps[step.id])
    return _wave(work, step.id, proposals, issued.turn) if proposals else None


def _cost(work: Work, issued: ev.CallIssued, reply: ModelReplied) -> int:
    if reply.cost_usd_micros is not None:
        return reply.cost_usd_micros
    price = work.compiled.prices.get(issued.target)
    return issued.reserved_usd_micros if price is None else price.cost(reply.input_tokens, reply.output_tokens)


def _output(work: Work, step: Step, reply: ModelReplied, *, asking: bool) -> tuple[JSON | None, list[str]]:
    """The typed output in an answer, or what is wrong with it. ``asking``: it proposes calls too, so plain words are no output yet."""
    agent = work.compiled.spec.agent(step.agent)
    text = reply.text.strip()
    if reply.finish == "content_filter":
        return None, ["the provider's content filter withheld the answer"]
    if not text:
        return None, ["the answer is empty"]
    if agent.answers == "text":
        return (None, []) if asking else (_text_output(work, agent, text), [])
    value, problem = parse_json_object(text)
    if value is None:
        cut = f"the answer was cut at {reply.output_tokens} tokens; " if reply.finish == "length" else ""
        return None, [cut + problem]
    try:
        return AGENT_OUTPUT[OUTPUT[step.stage]].model_validate(value).model_dump(mode="json"), []
    except ValidationError as error:
        return None, list(problems_of(error))


def _text_output(work: Work, agent: AgentSpec, text: str) -> JSON:
    known = work.ctx.contents.read(work.run.request_ref).get("documents", ())
    cited = dict.fromkeys(name for name in CITATION.findall(text) if name in known)
    return {"text": text, "citations": list(cited)}


# -- a wave of calls ---------------------------------------------------------------------------------------------------


@value()
class Proposed:
    """A proposed call under an id that the history can answer, with what is structurally wrong with it."""

    call_id: str
    tool: str
    args: JSON
    raw_args: str
    args_hash: str
    problem: str = ""
    cause: Cause = Cause.TOOL_CONSTRAINT

    def as_json(self) -> JSON:
        """As it stands in the answer's content."""
        given = {"args": self.args} if self.args is not None else {"raw_args": self.raw_args}
        return {"call_id": self.call_id, "tool": self.tool, **given}

    def fact(self) -> ev.ProposedCall:
        """By fingerprint, as it stands in the header."""
        return ev.ProposedCall(call_id=self.call_id, tool=self.tool, args_hash=self.args_hash)


def _normalised(proposed: tuple[ToolCall, ...]) -> list[Proposed]:
    """Calls with unique ids; the same id with equal arguments once, with other arguments an error on both."""
    found: dict[str, Proposed] = {}
    given = {call.call_id for call in proposed}
    for index, call in enumerate(proposed):
        args_hash = fingerprint(call.args) if call.args is not None else fingerprint(call.raw_args)
        one = Proposed(call.call_id, call.tool, call.args, call.raw_args, args_hash)
        if not call.call_id.strip():
            one = replace(one, call_id=_made_up(f"unnamed-{index}", given), problem="the call has no id")
        elif call.call_id in found:
            first = found[call.call_id]
            if (first.tool, first.args_hash) == (one.tool, one.args_hash):
                continue
            problem = f"call id {call.call_id!r} stands for two different calls"
            found[call.call_id] = replace(first, problem=problem, cause=Cause.DUPLICATE_CALL)
            made_up = _made_up(f"{call.call_id}#{index}", given)
            one = replace(one, call_id=made_up, problem=problem, cause=Cause.DUPLICATE_CALL)
        found[one.call_id] = one
    return list(found.values())


def _made_up(name: str, given: set[str]) -> str:
    """An id for a call that cannot keep its own; never one that the model gave to another."""
    while name in given:
        name += "'"
    return name


def _wave(work: Work, step_id: str, proposals: list[Proposed], turn: int) -> Failure | None:
    """Refuses what is wrong, asks the guard about the rest one by one, issues what passes; gives back what tripped.

    Each call is issued before the next is judged: a third equal call is the third even within one answer.
    """
    step = work.run.steps[step_id]
    allowed = work.compiled.spec.policy.limits.calls_per_turn
    checked = [_checked(work, step, one, n, allowed) for n, one in enumerate(proposals)]
    wave = tuple((one.tool, one.args_hash) for one in checked if not one.problem)
    tripped: list[Trip] = []
    for index, one in enumerate(checked):
        if one.problem:
            _refuse(work, step_id, one, one.cause, NAME, one.problem, correction=one.cause is not Cause.TURN_LIMIT)
            continue
        proposal = calls.tool_proposal(work, step, one.fact(), wave, turn)
        trips = guard.judge(proposal, work.view, work.compiled.spec.policy)
        if trips:
            first = trips[0]
            _refuse(work, step_id, one, first.cause, first.mechanism, first.advice or first.message, correction=False)
            tripped += trips
        elif not _deduplicated(work, step_id, one, turn):
            calls.run_tool(work, work.run.steps[step_id], one.fact(), index, turn)
    return Failure(guard.in_order(tripped), step.stage, step_id, blocked=True) if tripped else None


def _checked(work: Work, step: Step, one: Proposed, index: int, allowed: int) -> Proposed:
    """The call with its structural problem, found before anything is executed."""
    if one.problem:
        return one
    if index >= allowed:
        return replace(one, problem=f"only {allowed} calls of one answer are executed", cause=Cause.TURN_LIMIT)
    offered = work.compiled.spec.agent(step.agent).tools
    if one.tool not in offered:
        names = ", ".join(offered) or "none"
        return replace(one, problem=f"there is no tool {one.tool!r}; offered are: {names}")
    if not isinstance(one.args, dict):
        return replace(one, problem="the arguments are not a JSON object", cause=Cause.SCHEMA_INVALID)
    earlier = _earlier(step, one.call_id)
    if earlier is not None and (earlier.tool, earlier.args_hash) != (one.tool, one.args_hash):
        return replace(one, problem=f"call id {one.call_id!r} was used for another call", cause=Cause.DUPLICATE_CALL)
    validate = work.compiled.validators.get(one.tool)
    problems = validate(one.args) if validate else []
    return replace(one, problem="; ".join(problems[:5]), cause=Cause.SCHEMA_INVALID) if problems else one


def _earlier(step: Step, call_id: str) -> Any:
    for turn in step.history[:-1]:
        for call in turn.calls:
            if call.call_id == call_id:
                return call
    return None


def _deduplicated(work: Work, step_id: str, one: Proposed, turn: int) -> bool:
    """Answers a repeated call id from its first result; True when there is one."""
    earlier = _earlier(work.run.steps[step_id], one.call_id)
    if earlier is None or earlier.state != "done":
        return False
    result = work.ctx.contents.read(earlier.result_ref)
    work.emit(
        ev.CallDeduplicated(
            step_id=step_id,
            call_id=one.call_id,
            tool=one.tool,
            args_hash=one.args_hash,
            turn=turn,
            result_ref=earlier.result_ref,
            result_bytes=work.ctx.contents.size((earlier.result_ref,)),
            masked_hash=masked_fingerprint(result),
        )
    )
    return True


def _refuse(
    work: Work, step_id: str, one: Proposed, cause: Cause, mechanism: str, problem: str, *, correction: bool
) -> None:
    work.emit(
        ev.CallRefused(
            step_id=step_id,
            call_id=one.call_id,
            tool=one.tool,
            args_hash=one.args_hash,
            cause=cause,
            mechanism=mechanism,
            problem=problem,
            correction=correction,
        ),
        {"error": {"cause": cause, "mechanism": mechanism, "message": problem}},
    )


def unanswered(work: Work, pending: Pending, trip: Trip, reason: str) -> None:
    """Lets go of a call that will not be tried again while its step goes on: a tool's model is told why there is no result."""
    issued = pending.issued
    calls.let_go(work, pending, reason)
    if issued.call == "tool":
        one = Proposed(issued.call_id, issued.target, None, "", issued.args_hash)
        _refuse(work, issued.step_id, one, trip.cause, trip.mechanism, trip.advice or trip.message, correction=False)


def tool_answered(work: Work, pending: Pending, finished: ToolFinished) -> None:
    """Journals a tool's result; an error is data for the model."""
    issued = pending.issued
    content = (
        {"error": {"cause": "tool_error", "message": finished.error}} if finished.error else {"result": finished.result}
    )
    work.emit(
        ev.ToolAnswered(
            command_id=issued.command_id,
            attempt=issued.attempt,
            step_id=issued.step_id,
            call_id=issued.call_id,
            tool=issued.target,
            args_hash=issued.args_hash,
            masked_hash=masked_fingerprint(content),
            error=bool(finished.error),
            sanitized=finished.sanitized,
        ),
        content,
    )

"""What a tool's result does: it is journaled as data for the model, and says what became of a change."""

from __future__ import annotations

from typing import Any

from fabric.core import dependencies, guard, mutations
from fabric.core import events as ev
from fabric.core.call_args import call_args
from fabric.core.call_errors import call_error
from fabric.core.failure import Failure
from fabric.core.fingerprint import masked_fingerprint
from fabric.core.flow import Stage
from fabric.core.frozen import replace
from fabric.core.graph.state import Finish, Handoff
from fabric.core.inputs import ToolFinished
from fabric.core.mechanisms import failure_signature
from fabric.core.mechanisms.contract import Proposal
from fabric.core.run import Pending
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Trip
from fabric.core.work import Work

JSON = Any


def tool_answered(work: Work, pending: Pending, finished: ToolFinished) -> Failure | None:
    """Journals a tool's result; an error is data for the model, and the third of one kind stops it. Gives back what stopped it."""
    issued = pending.issued
    finished = _looked_through(work, issued.target, finished)
    args = call_args(work.ctx.contents, issued.args_ref, issued.call_id)
    trips = _came_back(work, issued, finished, args) if finished.error else []
    content, returned = _content(finished), None if finished.error else finished.returned
    event = work.emit(
        ev.ToolAnswered(
            command_id=issued.command_id,
            attempt=issued.attempt,
            step_id=issued.step_id,
            call_id=issued.call_id,
            tool=issued.target,
            args_hash=issued.args_hash,
            masked_hash=masked_fingerprint(content, args),
            error=bool(finished.error),
            sanitized=finished.sanitized,
            failure=_signature(issued, finished, args) if finished.error else "",
            hands_to=returned.target if isinstance(returned, Handoff) else "",
            ends=returned.reason if isinstance(returned, Finish) else "",
            handled=bool(finished.error) and _handled(work, issued),
            writes=_count(finished),
            probed=finished.probed,
            cost_usd_micros=0 if pending.failed else issued.reserved_usd_micros,
        ),
        _told(work, issued, args, content) if finished.error else content,
    )
    said = finished.error[:500] or "it answered"
    mutations.settle(work, issued.command_id, mutations.outcome_of(finished), reason=said, result_ref=event.content_ref)
    step = work.run.steps.get(issued.step_id)
    if not trips or work.run.ending is not None or step is None or step.status != "active" or step.final:
        return None  # An agent that was stopped has its last word; nobody else is left to stop.
    return Failure(tuple(trips), step.stage, step.id)


def _handled(work: Work, issued: ev.CallIssued) -> bool:
    step = work.run.steps.get(issued.step_id)
    return step is not None and dependencies.handled(work, step, issued.call_id)


def _content(finished: ToolFinished) -> JSON:
    if not finished.error:
        wrote = finished.writes
        context = {} if wrote is None else {"context": {"set": dict(wrote.set), "delete": list(wrote.delete)}}
        return {"result": finished.result, **context}
    error = {"cause": "tool_error", "message": finished.error}
    return {"error": error | {"code": finished.code} if finished.code else error}


def _told(work: Work, issued: ev.CallIssued, args: JSON, content: JSON) -> JSON:
    """The error with the call as its model knows it."""
    step = work.run.steps.get(issued.step_id)
    name = "" if step is None or not issued.agent else dependencies.known_by(step, issued.call_id)
    return call_error(name or issued.call_id, issued.target, args, content["error"])


def _count(finished: ToolFinished) -> int:
    wrote = finished.writes
    return 0 if finished.error or wrote is None else len({*wrote.set, *wrote.delete})


def _signature(issued: ev.CallIssued, finished: ToolFinished, args: JSON) -> str:
    return failure_signature.of_error(issued.step_id, issued.target, finished.error[:500], finished.code, args)


def _came_back(work: Work, issued: ev.CallIssued, finished: ToolFinished, args: JSON) -> list[Trip]:
    """What speaks against one more error of a tool."""
    proposal = Proposal(
        kind="failure",
        stage=Stage(issued.step_id.partition(".")[0]),
        step_id=issued.step_id,
        target=issued.target,
        command_id=issued.command_id,
        cause=Cause.TOOL_CONSTRAINT,
        message=finished.error[:500],
        code=finished.code,
        args=args,
    )
    return guard.judge(proposal, work.view, work.compiled.spec.policy)


def _looked_through(work: Work, tool: str, finished: ToolFinished) -> ToolFinished:
    """What is read from a memory may have been written under another revision's guardrails: this one's look at it before a model does."""
    if work.compiled.spec.memory_of(tool) is None or not isinstance(finished.result, dict):
        return finished
    found = work.compiled.evaluators.hits("arguments", finished.result)
    if not found:
        return finished
    said = f"what {tool} found holds what an agent may not be shown: {'; '.join(found[:3])}"
    return replace(finished, result=None, error=said[:500], code="", outcome=finished.outcome or Outcome.ANSWERED)

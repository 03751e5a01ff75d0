"""Journals tools' results as data for the model, and settles the outcome of mutations."""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.calls import dependencies
from fabric.core.decision import guard
from fabric.core.decision.work import Work
from fabric.core.events.inputs import ToolFinished
from fabric.core.graph.state import Finish, Handoff
from fabric.core.mechanisms import failure_signature
from fabric.core.mechanisms.contract import Proposal
from fabric.core.sagas import mutations
from fabric.core.state.context import call_args
from fabric.core.state.failure import Failure
from fabric.core.state.run import Pending
from fabric.core.values.fingerprint import encode, masked_fingerprint
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause, Trip
from fabric.core.values.units import JSON

# -- call errors -------------------------------------------------------------------------------------------------------

ARGS_BYTES = 2_000
"""Most bytes of arguments that are repeated; larger ones are in the answer that proposed the call."""


def call_error(call_id: str, tool: str, args: JSON, error: JSON, raw_args: str = "") -> JSON:
    """Return ``{"call": {"id", "tool", "args"}, "error"}``. ``call_id``: as the model knows it; ``raw_args``: where
    the arguments are no JSON object.
    """
    given = {"raw_args": raw_args} if args is None and raw_args else {"args": args} if args is not None else {}
    fits = len(encode(given)) <= ARGS_BYTES
    return {"call": {"id": call_id, "tool": tool, **(given if fits else {})}, "error": error}


# -- tool answers ------------------------------------------------------------------------------------------------------


def tool_answered(work: Work, pending: Pending, finished: ToolFinished) -> Failure | None:
    """Journal a tool's result and return the failure, if any. An error is data for the model; the third of one kind
    is a failure.
    """
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
            handled=bool(finished.error) and _is_handled(work, issued),
            writes=_count(finished),
            probed=finished.probed,
            cost_usd_micros=0 if pending.failed else issued.reserved_usd_micros,
        ),
        _error_for_model(work, issued, args, content) if finished.error else content,
    )
    said = finished.error[:500] or "it answered"
    mutations.settle(
        work, issued.command_id, mutations.read_outcome(finished), reason=said, result_ref=event.content_ref
    )
    step = work.run.steps.get(issued.step_id)
    if not trips or work.run.ending is not None or step is None or step.status != "active" or step.final:
        return None  # A stopped agent has given its last answer, so there is nothing left to stop.
    return Failure(tuple(trips), step.stage, step.id)


def _is_handled(work: Work, issued: ev.CallIssued) -> bool:
    step = work.run.steps.get(issued.step_id)
    return step is not None and dependencies.is_handled(work, step, issued.call_id)


def _content(finished: ToolFinished) -> JSON:
    if not finished.error:
        wrote = finished.writes
        context = {} if wrote is None else {"context": {"set": dict(wrote.set), "delete": list(wrote.delete)}}
        return {"result": finished.result, **context}
    error = {"cause": "tool_error", "message": finished.error}
    return {"error": error | {"code": finished.code} if finished.code else error}


def _error_for_model(work: Work, issued: ev.CallIssued, args: JSON, content: JSON) -> JSON:
    """Return the error with the call as its model knows it."""
    step = work.run.steps.get(issued.step_id)
    name = "" if step is None or not issued.agent else dependencies.find_known_id(step, issued.call_id)
    return call_error(name or issued.call_id, issued.target, args, content["error"])


def _count(finished: ToolFinished) -> int:
    wrote = finished.writes
    return 0 if finished.error or wrote is None else len({*wrote.set, *wrote.delete})


def _signature(issued: ev.CallIssued, finished: ToolFinished, args: JSON) -> str:
    return failure_signature.error_signature(issued.step_id, issued.target, finished.error[:500], finished.code, args)


def _came_back(work: Work, issued: ev.CallIssued, finished: ToolFinished, args: JSON) -> list[Trip]:
    """Return the trips of one more error of a tool."""
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
    return guard.judge(proposal, work.view, work.compiled_fabric.spec.policy)


def _looked_through(work: Work, tool: str, finished: ToolFinished) -> ToolFinished:
    """Apply this revision's guardrails to a memory's contents before a model reads them, since they may come from
    another revision.
    """
    if work.compiled_fabric.spec.memory_of(tool) is None or not isinstance(finished.result, dict):
        return finished
    found = work.compiled_fabric.evaluators.hits("arguments", finished.result)
    if not found:
        return finished
    said = f"the result of {tool} contains data that agents may not read: {'; '.join(found[:3])}"
    return replace(finished, result=None, error=said[:500], code="", outcome=finished.outcome or Outcome.ANSWERED)

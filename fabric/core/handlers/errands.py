"""What came back for the saga's own calls: compensations, and questions whether something was executed."""

from __future__ import annotations

from fabric.core import command_ids, mutations, reactions, unwinding
from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.inputs import CallFailed, ToolFinished
from fabric.core.run import Pending
from fabric.core.saga import Errand, Mutation, Outcome, awaited, by_key
from fabric.core.taxonomy import Cause
from fabric.core.tool_answers import tool_answered
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Work


def answered(work: Work, given: ToolFinished | CallFailed) -> bool:
    """Takes a result that is an errand's; True when it is one, awaited or not."""
    if not command_ids.is_errand(given.command_id):
        return False
    errand = awaited(work.run.saga, given.command_id, given.attempt)
    if errand is None:
        return True
    if not errand.command:
        unwinding.answered(work, errand, given)
        return True
    executed = mutations.reconciled(work, errand, given)
    mutation = by_key(work.run.saga, errand.key)
    if executed is not None and mutation is not None:
        _learned(work, errand, mutation, given, executed=executed)
    return True


def _learned(
    work: Work, check: Errand, mutation: Mutation, given: ToolFinished | CallFailed, *, executed: bool
) -> None:
    """It is known now: the call that waited is answered, or may go out again as any call that failed."""
    said = given.result if isinstance(given, ToolFinished) else {}
    pending = work.run.pending.get(check.command)
    if executed:
        if pending is not None:
            result = ToolFinished(
                command_id=check.command,
                attempt=pending.issued.attempt,
                result=said.get("result"),
                outcome=Outcome.ANSWERED,
            )
            tool_answered(work, pending, result)
            return
        result_content = {"result": said.get("result")}
        mutations.settle(
            work, mutation.command_id, Outcome.ANSWERED, reason=f"{check.tool} said so", result=result_content
        )
        return
    said_no = f"{check.tool} said that it was not executed"
    mutations.settle(work, mutation.command_id, Outcome.REJECTED, reason=said_no, of_key=True)
    if pending is not None and mutation.cause:
        _react(work, pending, mutation)


def _react(work: Work, pending: Pending, mutation: Mutation) -> None:
    issued = pending.issued
    evidence = Evidence(
        observed=issued.attempt, unit="attempts", scope=f"call:{issued.command_id}", details={"target": issued.target}
    )
    trip = Trip("tool", Cause(mutation.cause), evidence, mutation.reason)
    reactions.react(work, Failure((trip,), Stage(issued.step_id.partition(".")[0]), issued.step_id, issued))

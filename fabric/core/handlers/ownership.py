"""Handles a stopping process and a new owner (step 5 of docs/concepts/worker-dies.md). Calls that were out are
interrupted, and ``engine.advance`` issues them again.
"""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.decision.work import Work
from fabric.core.events.inputs import OwnerChanged, WorkerStopping
from fabric.core.reactions import unwinding
from fabric.core.sagas import mutations
from fabric.core.steps import streamed
from fabric.core.values import saga
from fabric.core.values.flow import RunState


def change_owner(work: Work, given: OwnerChanged) -> None:
    """Go on after an owner that released nothing. Each call that was out is charged at its worst case, and goes out
    again under its key or is reconciled.
    """
    take_policy_up(work)
    run = work.run
    out = any(not pending.failed for pending in run.pending.values()) or bool(saga.errands_out(run.saga))
    if run.state is RunState.QUEUED or not out:
        return
    work.emit(ev.OwnershipTaken(fence=given.fence, incarnation=given.incarnation))
    _interrupt(work, "its process is gone and the run is ending")


def take_policy_up(work: Work) -> None:
    """Journal the version of the workspace's policy, if it differs from the run's last one."""
    under = work.ctx.compiled.under
    if work.run.state is not RunState.QUEUED and under.number != work.run.policy:
        work.emit(ev.PolicyTakenUp(number=under.number, run_usd_micros=under.run_usd_micros))


def interrupt_calls(work: Work, given: WorkerStopping) -> None:
    """Interrupt the calls that are still out when a stopping worker gives up waiting. That worker knows which were
    never sent.
    """
    _interrupt(work, "its process stops and the run is ending", given.unsent)


def _interrupt(work: Work, ending: str, unsent: frozenset[tuple[str, int]] = frozenset()) -> None:
    for pending in list(work.run.pending.values()):
        issued = pending.issued
        if pending.failed or issued.command_id not in work.run.pending:
            continue
        if work.run.ending is not None:
            calls.let_go(work, pending, ending)
            continue
        if issued.call == "model":
            streamed.let_go(work, issued.step_id, "its answer did not come whole")
        sent = (issued.command_id, issued.attempt) not in unsent
        work.emit(
            ev.AttemptInterrupted(
                command_id=issued.command_id,
                attempt=issued.attempt,
                charged_usd_micros=issued.reserved_usd_micros if sent else 0,
                charged_tokens=issued.reserved_tokens if sent else 0,
            )
        )
        mutations.interrupted_call(work, issued.command_id, sent=sent)
    for errand in saga.errands_out(work.run.saga):
        if errand.command:
            mutations.interrupt_check(work, errand)
        else:
            unwinding.interrupt(work, errand)

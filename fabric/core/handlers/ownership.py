"""The run's process stops, or another one goes on with the run: what was out is interrupted, and goes out again by itself (``engine.advance``)."""

from __future__ import annotations

from fabric.core import calls, mutations, saga, unwinding
from fabric.core import events as ev
from fabric.core.flow import RunState
from fabric.core.inputs import OwnerChanged, WorkerStopping
from fabric.core.work import Work


def changed(work: Work, given: OwnerChanged) -> None:
    """Goes on after an owner that let go of nothing: each call that was out is charged at worst case, to go out again under its key, or to be asked about."""
    take_policy_up(work)
    run = work.run
    out = any(not pending.failed for pending in run.pending.values()) or bool(saga.errands_out(run.saga))
    if run.state is RunState.QUEUED or not out:
        return
    work.emit(ev.OwnershipTaken(fence=given.fence, incarnation=given.incarnation))
    _interrupt(work, "its process is gone and the run is ending")


def take_policy_up(work: Work) -> None:
    """Journals the version of the workspace's policy, where it is another than the run has gone by."""
    under = work.ctx.compiled.under
    if work.run.state is not RunState.QUEUED and under.number != work.run.policy:
        work.emit(ev.PolicyTakenUp(number=under.number, run_usd_micros=under.run_usd_micros))


def stopping(work: Work, given: WorkerStopping) -> None:
    """Whatever is still out at the end of a stopping worker's patience is interrupted by the one who knows what was sent."""
    _interrupt(work, "its process stops and the run is ending", given.unsent)


def _interrupt(work: Work, ending: str, unsent: frozenset[tuple[str, int]] = frozenset()) -> None:
    for pending in list(work.run.pending.values()):
        issued = pending.issued
        if pending.failed or issued.command_id not in work.run.pending:
            continue
        if work.run.ending is not None:
            calls.let_go(work, pending, ending)
            continue
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
            mutations.interrupted(work, errand)
        else:
            unwinding.interrupted(work, errand)

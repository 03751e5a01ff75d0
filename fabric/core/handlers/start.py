"""A run is started, from nothing or from an event of another one."""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.decision.work import Work
from fabric.core.events.child_inputs import ChildRequested
from fabric.core.events.inputs import ForkRequested, RunRequested
from fabric.core.handlers.ownership import take_policy_up
from fabric.core.values.flow import RunState, Stage


def start_run(work: Work, given: RunRequested) -> None:
    """Take the pinned facts of the run."""
    begin_run(work, given)


def start_fork(work: Work, given: ForkRequested) -> None:
    """Start a fork: take the pinned facts and the kept parts."""
    if not begin_run(work, given):
        return
    for (
        kept
    ) in given.contents:  # First, so that later events can refer to them: a fork may be forked at any of its events.
        work.emit(ev.ContentKept(what=kept.what), kept.content)
    work.emit(
        ev.RunForked(
            origin_run_id=given.origin_run_id,
            origin_seq=given.origin_seq,
            origin_hash=given.origin_hash,
            stages=tuple(ev.KeptStage(stage=Stage(stage), output_ref=ref) for stage, ref in given.stages),
            branches=tuple(ev.KeptBranch(branch=n, agent=agent, output_ref=ref) for n, agent, ref in given.branches),
            parts=tuple(
                ev.KeptPart(branch=n, output_ref=ref, briefs=briefs, missing=missing)
                for n, ref, briefs, missing in given.parts
            ),
            edited=given.edited,
            topology=given.topology,
            stopped=given.stopped,
            work=given.work,
        )
    )


def begin_run(work: Work, given: RunRequested | ForkRequested | ChildRequested, *, depth: int = 1) -> bool:
    """Start the run. False: it has started already, and a second start changes nothing."""
    if work.run.state is not RunState.QUEUED:
        work.emit(ev.InputIgnored(input_kind=given.kind, reason="the run has started already"))
        return False
    work.emit(
        ev.RunStarted(
            fabric=work.compiled_fabric.spec.name,
            revision=work.compiled_fabric.revision,
            tier=work.run.tier,
            deadline_at=given.deadline_at,
            seed=work.ctx.seed,
            depth=depth,
            requested_by=given.requested_by,
            caused_by=given.caused_by,
        ),
        given.request,
    )
    take_policy_up(work)
    if work.ctx.usual and not isinstance(
        given, ChildRequested
    ):  # A child executes a part, to which its parent's rate does not apply.
        work.emit(ev.UsualRatesPinned(rates=work.ctx.usual))
    return True

"""A run is started, from nothing or from an event of another one."""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.child_inputs import ChildRequested
from fabric.core.flow import RunState, Stage
from fabric.core.handlers.ownership import take_policy_up
from fabric.core.inputs import ForkRequested, RunRequested
from fabric.core.work import Work


def requested(work: Work, given: RunRequested) -> None:
    """Takes what the run pins for good."""
    begun(work, given)


def forked(work: Work, given: ForkRequested) -> None:
    """Takes what the run pins for good, and what it goes on from."""
    if not begun(work, given):
        return
    for (
        kept
    ) in given.contents:  # First, so that whatever names them can be read: a fork may be forked at any of its events.
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


def begun(work: Work, given: RunRequested | ForkRequested | ChildRequested, *, depth: int = 1) -> bool:
    """Starts the run. False: it has started already, and a second start changes nothing."""
    if work.run.state is not RunState.QUEUED:
        work.emit(ev.InputIgnored(input_kind=given.kind, reason="the run has started already"))
        return False
    work.emit(
        ev.RunStarted(
            fabric=work.compiled.spec.name,
            revision=work.compiled.revision,
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
    ):  # A child does a part, and its parent's rate is none of its own.
        work.emit(ev.UsualRatesPinned(rates=work.ctx.usual))
    return True

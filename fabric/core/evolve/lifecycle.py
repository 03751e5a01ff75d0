"""Start, stages, replans and the end."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.evolve import saga
from fabric.core.evolve.parts import Evolve, keep_run, rungs_of_branches
from fabric.core.state.kept_work import add_kept_work
from fabric.core.state.run import SILENT, Run, StageRun, Step, step_id
from fabric.core.values.flow import RunState, Stage, StageOutcome
from fabric.core.values.frozen import replace


def _run_started(run: Run, event: Event, fact: ev.RunStarted) -> Run:
    return replace(
        run,
        state=RunState.RUNNING,
        tier=fact.tier,
        revision=fact.revision,
        depth=fact.depth,
        seed=fact.seed,
        deadline_at=fact.deadline_at,
        started_at=event.at,
        request_ref=event.content_ref,
        requested_by=fact.requested_by,
        caused_by=fact.caused_by,
    )


def _stage_entered(run: Run, event: Event, fact: ev.StageEntered) -> Run:
    steps = dict(run.steps)
    for branch, agent in enumerate(fact.agents):
        key = step_id(fact.stage, branch, fact.epoch, 0)
        steps[key] = add_kept_work(run, Step(key, fact.stage, branch, fact.epoch, 0, agent))
    stage = StageRun(fact.stage, fact.epoch, fact.deadline_at, fact.agents)
    return replace(run, stage=fact.stage, stages={**run.stages, fact.stage: stage}, steps=steps)


def _stage_left(run: Run, event: Event, fact: ev.StageLeft) -> Run:
    stage = replace(run.stages[fact.stage], output_ref=fact.output_ref or event.content_ref, left=True)
    withheld = run.withheld
    if withheld and fact.outcome is StageOutcome.PASSED:
        withheld = tuple(name for name in withheld if name != f"stage:{fact.stage}")
    return replace(run, stages={**run.stages, fact.stage: stage}, approved_stage=None, withheld=withheld)


def _fold_replan(run: Run, event: Event, fact: ev.Replanned) -> Run:
    return replace(
        run,
        epoch=fact.epoch,
        replans={**run.replans, fact.stage: run.replans.get(fact.stage, 0) + 1},
        planner=fact.planner or run.planner,
        feedback=(*run.feedback, event.content_ref),
        stage=Stage.PLAN,
        stages={},
        steps={},
        spent_rungs=rungs_of_branches(run),
        pending={},
        timers={},
        truncated=False,
        stops={},
        withheld=(),
        approved_stage=None,
        talk=replace(SILENT, waiting=run.talk.waiting) if run.talk.waiting else SILENT,
        saga=saga.begin_epoch(run.saga),
        family=replace(run.family, answers={}) if run.family.answers else run.family,
    )


def _policy_taken_up(run: Run, event: Event, fact: ev.PolicyTakenUp) -> Run:
    return replace(run, policy=fact.number)


def _run_ending(run: Run, event: Event, fact: ev.RunEnding) -> Run:
    alive = {key: pending for key, pending in run.pending.items() if not pending.failed}
    state = RunState.UNWINDING if run.saga.unwinding is not None else _ending_state(fact)
    return replace(run, state=state, ending=fact, timers={}, pending=alive)


def _run_ended(run: Run, event: Event, fact: ev.RunEnded) -> Run:
    return replace(
        run,
        state=fact.state,
        ended_at=event.at,
        reason=fact.reason,
        recovered=fact.recovered,
        truncated=fact.truncated,
        outcome_ref=fact.outcome_ref or event.content_ref,
        pending={},
        timers={},
        reviews={},
        suspended=None,
    )


def _run_quarantined(run: Run, event: Event, fact: ev.RunQuarantined) -> Run:
    return replace(run, state=RunState.QUARANTINED)


def _run_released(run: Run, event: Event, fact: ev.RunReleasedFromQuarantine) -> Run:
    asked = {key: review for key, review in run.reviews.items() if review.fact.item != "quarantine"}
    return replace(run, state=state_before_quarantine(bool(run.started_at), run.ending), reviews=asked)


def state_before_quarantine(started: bool, ending: ev.RunEnding | None) -> RunState:
    """Return the state that a run goes back to, by its progress so far."""
    if ending is not None:
        return _ending_state(ending)
    return RunState.RUNNING if started else RunState.QUEUED


def _ending_state(fact: ev.RunEnding) -> RunState:
    return RunState.CANCELLING if fact.state is RunState.CANCELLED else RunState.UNWINDING


TABLE: Mapping[str, Evolve] = {
    "run_started": _run_started,
    "usual_rates_pinned": keep_run,
    "stage_entered": _stage_entered,
    "stage_left": _stage_left,
    "replanned": _fold_replan,
    "run_ending": _run_ending,
    "run_ended": _run_ended,
    "policy_taken_up": _policy_taken_up,
    "ownership_taken": keep_run,
    "run_quarantined": _run_quarantined,
    "run_released_from_quarantine": _run_released,
}

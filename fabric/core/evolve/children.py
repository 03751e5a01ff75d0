"""Parents and children."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.evolve.parts import Evolve, with_step, without_key
from fabric.core.state.family import Child, ChildAnswer
from fabric.core.state.run import Run, StageRun, child_stopped
from fabric.core.values.flow import ANSWERED, RunState, Stage
from fabric.core.values.frozen import replace
from fabric.core.values.saga import STANDING, Mutation


def _lineage_pinned(run: Run, event: Event, fact: ev.LineagePinned) -> Run:
    run = replace(run, family=replace(run.family, lineage=fact))
    if not event.content_ref:
        return run
    plan = StageRun(Stage.PLAN, run.epoch, run.deadline_at, (), output_ref=event.content_ref, left=True)
    return replace(run, stage=Stage.FAN_OUT, stages={Stage.PLAN: plan})


def _child_spawned(run: Run, event: Event, fact: ev.ChildSpawned) -> Run:
    family = replace(run.family, alive={**run.family.alive, fact.command_id: Child(fact)})
    return with_step(run, replace(run.steps[fact.step_id], status="delegated"), family=family)


def _child_answered(run: Run, event: Event, fact: ev.ChildAnswered) -> Run:
    spawned = run.family.alive[fact.command_id].fact
    family = replace(run.family, alive=without_key(run.family.alive, fact.command_id))
    if fact.changed_world:
        family = replace(family, changed_world=(*family.changed_world, fact.step_id))
    if fact.late:
        return replace(run, family=family)
    if fact.released:  # An output accepted below is not reviewed again.
        run = replace(run, released=tuple(dict.fromkeys((*run.released, *fact.released))))
    if event.content_ref:
        brought = ChildAnswer(event.content_ref, spawned.briefs, fact.missing)
        family = replace(family, answers={**family.answers, fact.step_id: brought})
    step = run.steps[fact.step_id]
    if fact.state is RunState.STOPPED:
        said = child_stopped(step.agent, fact.child_id, fact.reason)
        run = replace(run, stops={**run.stops, fact.command_id: said})
    if fact.state not in ANSWERED or step.status != "delegated":
        return replace(run, family=family)
    return with_step(run, replace(step, status="done", output_ref=event.content_ref), family=family)


def _child_waiting(run: Run, event: Event, fact: ev.ChildWaiting) -> Run:
    return _with_child(run, fact.command_id, waiting=fact.waiting)


def _child_let_go(run: Run, event: Event, fact: ev.ChildLetGo) -> Run:
    return _with_child(run, fact.command_id, let_go=fact.how, waiting=False)


def _child_quarantined(run: Run, event: Event, fact: ev.ChildQuarantined) -> Run:
    return _with_child(run, fact.command_id, quarantined=fact)


def _child_freed(run: Run, event: Event, fact: ev.ChildFreed) -> Run:
    return _with_child(run, fact.command_id, quarantined=None)


def _with_child(run: Run, command_id: str, **changes: Any) -> Run:
    child = replace(run.family.alive[command_id], **changes)
    return replace(run, family=replace(run.family, alive={**run.family.alive, command_id: child}))


def _mutation_taken_over(run: Run, event: Event, fact: ev.MutationTakenOver) -> Run:
    mutation = Mutation(
        key=fact.key,
        command_id=f"{fact.command_id}/{fact.of_command}",
        attempt=1,
        step_id=fact.step_id,
        call_id="",
        tool=fact.tool,
        effect=fact.effect,
        compensation=fact.compensation,
        carry_over=False,
        epoch=run.epoch,
        args_ref=event.content_ref,
        deadline_at=fact.deadline_at,
        status=fact.status,
        reason=fact.reason,
        result_ref=event.content_ref,
        child_id=fact.child_id,
    )
    taken = replace(run.saga, mutations=(*run.saga.mutations, mutation))
    if taken.unwinding is not None and mutation.status in STANDING:
        # Nothing was undone before the last child ended, so the newest are still first.
        taken = replace(taken, unwinding=replace(taken.unwinding, left=(fact.key, *taken.unwinding.left)))
    return replace(run, saga=taken)


TABLE: Mapping[str, Evolve] = {
    "lineage_pinned": _lineage_pinned,
    "child_spawned": _child_spawned,
    "child_waiting": _child_waiting,
    "child_answered": _child_answered,
    "child_let_go": _child_let_go,
    "child_quarantined": _child_quarantined,
    "child_freed": _child_freed,
    "mutation_taken_over": _mutation_taken_over,
}

"""Parents and children."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.envelope import Event
from fabric.core.evolve.parts import Evolve, with_step, without
from fabric.core.family import Answer, Child, Family
from fabric.core.flow import ANSWERED, RunState, Stage
from fabric.core.frozen import replace
from fabric.core.run import Run, StageRun
from fabric.core.saga import BEFORE, STANDING, UNWOUND, Mutation, scope_of
from fabric.core.stops import child_stopped


def _lineage_pinned(run: Run, event: Event, fact: ev.LineagePinned) -> Run:
    run = replace(run, family=replace(run.family, lineage=fact))
    if not event.content_ref:
        return run
    plan = StageRun(Stage.PLAN, run.epoch, run.deadline_at, (), output_ref=event.content_ref, left=True)
    return replace(run, stage=Stage.FAN_OUT, stages={Stage.PLAN: plan})


def _child_spawned(run: Run, event: Event, fact: ev.ChildSpawned) -> Run:
    family = replace(run.family, alive={**run.family.alive, fact.command_id: Child(fact)})
    if fact.keys:  # Until it has said that it undid nothing, nobody else asks under them.
        family = replace(family, tries={**family.tries, scope_of(fact.step_id, carry_over=False): ""})
    if fact.handed_down:
        left = tuple(one for one in run.saga.mutations if one.key not in fact.handed_down)
        run = replace(run, saga=replace(run.saga, mutations=left))
    return with_step(run, replace(run.steps[fact.step_id], status="delegated"), family=family)


def _child_answered(run: Run, event: Event, fact: ev.ChildAnswered) -> Run:
    spawned = run.family.alive[fact.command_id].fact
    family = replace(
        run.family,
        alive=without(run.family.alive, fact.command_id),
        keys_spent=run.family.keys_spent or fact.keys_spent,
    )
    if fact.late:
        return replace(run, family=family)
    if fact.released:  # What was let pass below is asked about no second time.
        run = replace(run, released=tuple(dict.fromkeys((*run.released, *fact.released))))
    if event.content_ref:
        brought = Answer(event.content_ref, spawned.briefs, fact.missing)
        family = replace(family, answers={**family.answers, fact.step_id: brought})
    if spawned.keys and not fact.keys_spent:
        family = replace(family, tries={**family.tries, scope_of(fact.step_id, carry_over=False): spawned.keys})
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


def _made_elsewhere(
    run: Run, event: Event, fact: ev.MutationTakenOver | ev.MutationInherited, command_id: str, result_ref: str
) -> Mutation:
    """A mutation of another run, whose arguments and result are the event's content."""
    return Mutation(
        key=fact.key,
        command_id=command_id,
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
        result_ref=result_ref,
        child_id=fact.child_id,
    )


def _mutation_taken_over(run: Run, event: Event, fact: ev.MutationTakenOver) -> Run:
    mutation = _made_elsewhere(run, event, fact, f"{fact.command_id}/{fact.of_command}", event.content_ref)
    others = (one for one in run.saga.mutations if one.key != fact.key)  # It may have been refused to the run itself.
    taken = replace(run.saga, mutations=(*others, mutation))
    if taken.unwinding is not None and mutation.status in STANDING:
        # Nothing was undone before the last child had ended, so the newest are the first still.
        taken = replace(taken, unwinding=replace(taken.unwinding, left=(fact.key, *taken.unwinding.left)))
    return replace(run, saga=taken)


def _mutation_inherited(run: Run, event: Event, fact: ev.MutationInherited) -> Run:
    result_ref = "" if fact.unanswered else event.content_ref
    mutation = _made_elsewhere(run, event, fact, f"{BEFORE}{fact.of_command}", result_ref)
    mutation = replace(mutation, carry_over=fact.carry_over)
    return replace(run, saga=replace(run.saga, mutations=(*run.saga.mutations, mutation)))


def replanned(run: Run, epoch: int) -> Family:
    """What of its family the next epoch begins with. Keys name it where something was undone before."""
    family = run.family
    if family.keys_spent or any(one.status in UNWOUND for one in run.saga.mutations):
        family = replace(family, keys_epoch=epoch)
    return replace(family, answers={}) if family.answers else family


TABLE: Mapping[str, Evolve] = {
    "mutation_inherited": _mutation_inherited,
    "lineage_pinned": _lineage_pinned,
    "child_spawned": _child_spawned,
    "child_waiting": _child_waiting,
    "child_answered": _child_answered,
    "child_let_go": _child_let_go,
    "child_quarantined": _child_quarantined,
    "child_freed": _child_freed,
    "mutation_taken_over": _mutation_taken_over,
}

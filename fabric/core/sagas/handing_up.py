"""Hands the mutations that an ended child did not undo to its parent. The parent undoes them if it ends badly.

A child that ends well leaves its mutations in place. It takes no further input, so its mutations join its parent's
undo list, at its answer's place (``saga.undo_order``), each with the arguments of its compensation. A child that
failed or was stopped has undone its own mutations. It hands up only those that it could not undo, so that its
parent's end reports them (docs/specification/changes.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fabric.core import events as ev
from fabric.core.decision.work import Work
from fabric.core.events.child_inputs import HandedUp
from fabric.core.events.children import ChildSpawned
from fabric.core.sagas import mutations
from fabric.core.values.saga import CHANGED, MUTATES, STAYS, Effect, Mutation

_SAME = ("key", "tool", "effect", "compensation", "status", "reason", "deadline_at")


def _same(one: Mutation | HandedUp) -> dict[str, Any]:
    """Return the fields that a change has at the child and at its parent alike."""
    return {name: getattr(one, name) for name in _SAME}


def kept_mutations(work: Work) -> tuple[HandedUp, ...]:
    """Return the changes that the run hands up at its end, the oldest first. Writes to its own memory are left out."""
    return tuple(
        HandedUp(
            command_id=one.command_id,
            **_same(one),
            args=mutations.find_args(work, one),
            result=mutations.find_result(work, one),
        )
        for one in work.run.saga.mutations
        if one.status in STAYS and not work.compiled_fabric.spec.in_journal(one.tool)
    )


def changed_world(work: Work) -> bool:
    """Return True if the run, or one below it, changed the world or may have. An undone change counts, its own
    memory does not.
    """
    own = work.compiled_fabric.spec.in_journal
    here = any(one.status in CHANGED and not own(one.tool) for one in work.run.saga.mutations)
    return here or bool(work.run.family.changed_world)


def take_over(work: Work, spawned: ChildSpawned, given: Iterable[HandedUp]) -> None:
    """Add the mutations that a child hands up to the parent's undo list."""
    for one in given:
        fact = ev.MutationTakenOver(
            command_id=spawned.command_id,
            child_id=spawned.child_id,
            step_id=spawned.step_id,
            of_command=one.command_id,
            **_same(one),
        )
        work.emit(fact, {"args": one.args, "result": one.result})


def is_awaited(work: Work) -> bool:
    """Return True while a living child may still hand changes up. Those are the newest changes, so they are undone
    first.
    """
    return bool(work.run.family.alive) and any(
        Effect(tool.effect) in MUTATES for tool in work.ctx.compiled.spec.all_tools
    )

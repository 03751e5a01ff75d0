"""What a child changed in the world and did not undo goes up to its parent when it ends: who ends badly later undoes it.

A child that ends well keeps what it did. It is over then and takes in nothing more, so its changes stand on its parent's undo list, where its answer stands
(``saga.undo_order``), each with what a compensation is called with. One that failed, or was told to stop, has undone what it did itself: it hands up
only what it could not undo, so that its parent's end says what stays (semantics.md 4 "Saga").
"""

from __future__ import annotations

from collections.abc import Iterable

from fabric.core import events as ev
from fabric.core import mutations
from fabric.core.child_inputs import HandedUp
from fabric.core.events.children import ChildSpawned
from fabric.core.saga import MUTATES, STAYS, Effect
from fabric.core.work import Work


def kept(work: Work) -> tuple[HandedUp, ...]:
    """What the run hands up at its end, the oldest first; not what it wrote to a memory of its own, which ends with it."""
    return tuple(
        HandedUp(
            key=one.key,
            command_id=one.command_id,
            tool=one.tool,
            effect=one.effect,
            compensation=one.compensation,
            status=one.status,
            deadline_at=one.deadline_at,
            args=mutations.args_of(work, one),
            result=mutations.result_of(work, one),
            reason=one.reason,
        )
        for one in work.run.saga.mutations
        if one.status in STAYS and not work.compiled.spec.in_journal(one.tool)
    )


def take_over(work: Work, spawned: ChildSpawned, given: Iterable[HandedUp]) -> None:
    """Puts what a child hands up where it is undone from."""
    for one in given:
        fact = ev.MutationTakenOver(
            command_id=spawned.command_id,
            child_id=spawned.child_id,
            step_id=spawned.step_id,
            of_command=one.command_id,
            key=one.key,
            tool=one.tool,
            effect=one.effect,
            compensation=one.compensation,
            status=one.status,
            reason=one.reason,
            deadline_at=one.deadline_at,
        )
        work.emit(fact, {"args": one.args, "result": one.result})


def awaited(work: Work) -> bool:
    """Whether a child is alive that may still hand something up: nothing is undone before it, which is the newest, is known."""
    return bool(work.run.family.alive) and any(
        Effect(tool.effect) in MUTATES for tool in work.ctx.compiled.spec.all_tools
    )

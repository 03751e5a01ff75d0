"""What a child changed in the world and did not undo goes up to its parent when it ends: who ends badly later undoes it.

A child that ends well keeps what it did. It is over then and takes in nothing more, so its changes stand on its parent's undo list, where its answer stands
(``saga.undo_order``), each with what a compensation is called with. One that failed, or was told to stop, has undone what it did itself: it hands up
only what it could not undo, so that its parent's end says what stays (semantics.md 4 "Saga").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fabric.core import events as ev
from fabric.core import mutations
from fabric.core.child_inputs import HandedDown, HandedUp
from fabric.core.command_ids import branch_of, epoch_of
from fabric.core.events.children import ChildSpawned, Purpose
from fabric.core.run import Run, Step
from fabric.core.saga import BEFORE, MUTATES, STANDING, STAYS, Effect, Mutation
from fabric.core.work import Work

JSON = Any
_SAME = ("key", "tool", "effect", "compensation", "status", "reason", "deadline_at")


def _same(one: Mutation | HandedUp | HandedDown) -> dict[str, Any]:
    """What is told of a change alike, whoever tells it."""
    return {name: getattr(one, name) for name in _SAME}


def _contents(work: Work, one: Mutation) -> dict[str, JSON]:
    """What a change was called with and answered."""
    return {"args": mutations.args_of(work, one), "result": mutations.result_of(work, one)}


def kept(work: Work) -> tuple[HandedUp, ...]:
    """What the run hands up at its end, the oldest first; not what it wrote to a memory of its own, which ends with it."""
    return tuple(
        HandedUp(command_id=_with_brief(work.run, one.command_id), **_same(one), **_contents(work, one))
        for one in work.run.saga.mutations
        if one.status in STAYS and not work.compiled.spec.in_journal(one.tool)
    )


def down(work: Work, step: Step, purpose: Purpose, briefs: tuple[int, ...]) -> tuple[HandedDown, ...]:
    """What earlier tries changed and left here of what a child does now, the oldest first, as changes of that child, by the briefs that it does,
    whoever did them before.
    """
    found = []
    for one in work.run.saga.mutations:
        command = _as_of(one, step, purpose, briefs)
        if not command or one.status not in STANDING:
            continue
        found.append(
            HandedDown(
                child_id=one.child_id,
                step_id=".".join(command.split("/")[0].split(".")[:STEP_PARTS]),
                command_id=command,
                unanswered=not one.result_ref,
                **_same(one),
                **_contents(work, one),
            )
        )
    return tuple(found)


STEP_PARTS = 4
"""Of a command id, stage, branch, epoch and round: its step's id."""
_OF_BRIEF = re.compile(r"b(\d+)/(.+)")
"""A slice's command behind the brief of its parent that it was for: the next slice that does it may have other ones beside it."""


def _with_brief(run: Run, command_id: str) -> str:
    """A command as a run hands it up."""
    lineage = run.family.lineage
    if lineage is None or lineage.purpose != "slice":
        return command_id
    return f"b{lineage.briefs[branch_of(command_id.removeprefix(BEFORE))]}/{command_id}"


def _as_of(one: Mutation, step: Step, purpose: Purpose, briefs: tuple[int, ...]) -> str:
    """The command of a change that was made before, as one of the child that does this step now; empty: it does not do that.

    Whoever did the brief before, the run itself, a slice of it, or a team with or without a slice between: where another plan has more briefs or fewer, its
    fan-out is cut otherwise.
    """
    path = one.command_id.removeprefix(BEFORE)
    own, _, below = path.partition("/")
    of_slice = _OF_BRIEF.fullmatch(below)
    brief, did = (branch_of(own), path) if of_slice is None else (int(of_slice[1]), of_slice[2].removeprefix(BEFORE))
    if brief not in briefs or not own.startswith(step.stage) or epoch_of(own) != epoch_of(step.id):
        return ""
    if purpose == "slice":
        return _begun(did, str(briefs.index(brief)))
    below = did.partition("/")[2].removeprefix(BEFORE)
    return below and _begun(below, below.split(".")[1])


def _begun(command: str, branch: str) -> str:
    """A command as one of a run that begins: whatever epoch and round it was of, what is left of it stands under keys that the first ones have too."""
    stage, _, _, _, *rest = command.split(".")
    return ".".join((stage, branch, "e0", "r0", *rest))


def take_over(work: Work, spawned: ChildSpawned, given: Iterable[HandedUp]) -> None:
    """Puts what a child hands up where it is undone from."""
    for one in given:
        fact = ev.MutationTakenOver(
            command_id=spawned.command_id,
            child_id=spawned.child_id,
            step_id=spawned.step_id,
            of_command=one.command_id,
            **_same(one),
        )
        work.emit(fact, {"args": one.args, "result": one.result})


def inherit(work: Work, given: Iterable[HandedDown]) -> None:
    """Takes what earlier tries of this run changed. What one below it did, a replan of this run undoes, whatever its tool says."""
    spec = work.compiled.spec
    for one in given:
        own = "/" not in one.command_id
        fact = ev.MutationInherited(
            child_id=one.child_id,
            step_id=one.step_id,
            of_command=one.command_id,
            unanswered=one.unanswered,
            carry_over=own and spec.tool(one.tool).carry_over,
            **_same(one),
        )
        work.emit(fact, {"args": one.args, "result": one.result})


def awaited(work: Work) -> bool:
    """Whether a child is alive that may still hand something up: nothing is undone before it, which is the newest, is known."""
    return bool(work.run.family.alive) and any(
        Effect(tool.effect) in MUTATES for tool in work.ctx.compiled.spec.all_tools
    )

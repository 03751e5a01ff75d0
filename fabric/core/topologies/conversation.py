"""What topologies share whose workers take turns: a branch is a turn, opened once those before it are over (semantics.md 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from fabric.core import events as ev
from fabric.core import guard
from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.graph.conversation import MAX_TURNS
from fabric.core.mechanisms.contract import Proposal
from fabric.core.run import Step, step_id
from fabric.core.taxonomy import Cause
from fabric.core.topologies.shape import Concluded, parts
from fabric.core.topologies.supervisor import failed_parts
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Work

JSON = Any


@value()
class Turn:
    """A turn that is about to begin."""

    agent: str
    brief: int
    """Which brief of the plan it does, from 0."""
    hears: tuple[int, ...] = ()
    """Turns whose output its agent is given, from 0, in the order in which they are read."""
    told: str = ""
    """What its agent is told beside the brief and those; empty: nothing."""
    chooses: bool = False
    """Who speaks after it is chosen once it is over."""
    due_at: int = 0
    """When the first expectation of its pace fires; 0: none does."""
    choices: tuple[str, ...] = ()
    """Of a verdict or a vote: whom it may be for. None: it is neither."""


Following = Callable[[Work, list[Step]], Iterable[Turn] | Failure]
"""The turns that begin now that those before are over, or what speaks against them; none: that was all."""


def concluded(work: Work, steps: list[Step], following: Following) -> Concluded | Failure | None:
    """Opens the turns that follow once those that are open are over; the fan-out's output after the last. A turn without a result is a failure, unless the
    fabric accepts its gap, or its conversation goes on after it.
    """
    over = all(step.status in ("done", "failed") for step in steps)
    failed = [step for step in steps if step.status == "failed" and not (step.partial or step.routed)]
    return without(failed, len(steps)) if over and failed else opened(work, steps, following)


def opened(work: Work, steps: list[Step], following: Following) -> Concluded | Failure | None:
    """The same where turns that failed stand in nobody's way."""
    if any(step.status not in ("done", "failed") for step in steps):
        return None
    turns = following(work, steps)
    if isinstance(turns, Failure):
        return turns
    turns = list(turns)
    if not turns:
        over = any(step.status == "done" for step in steps[work.run.talk.begun :])
        if over and (cut := _cut_off(work, steps)):
            return without(cut, len(steps))
        return Concluded(parts(work)) if over else without(steps, len(steps))
    if trips := _refused(work, turns):
        return Failure(tuple(trips), Stage.FAN_OUT)
    for branch, turn in enumerate(turns, start=len(steps)):
        _open(work, branch, turn)
    return None


def _cut_off(work: Work, steps: list[Step]) -> list[Step]:
    """The turn that failed and that nobody went on after, since the conversation had as many turns as it may: it is no end that the rules decided."""
    last = steps[-1]
    return [last] if work.run.talk.closed == MAX_TURNS and last.status == "failed" and not last.partial else []


def _refused(work: Work, turns: list[Turn]) -> list[Trip]:
    """What speaks against those who have had no turn yet: turns that were begun again may have taken the place that was there when the stage was entered."""
    new = tuple(dict.fromkeys(turn.agent for turn in turns if not _spoke(work, turn.agent)))
    spawn = Proposal(kind="spawn", stage=Stage.FAN_OUT, branches=len(new), agents=new, depth=work.run.depth)
    return guard.judge(spawn, work.view, work.compiled.spec.policy) if new else []


def _spoke(work: Work, agent: str) -> bool:
    return any(step.stage is Stage.FAN_OUT and step.agent == agent for step in work.run.steps.values())


def _open(work: Work, branch: int, turn: Turn) -> None:
    key = step_id(Stage.FAN_OUT, branch, work.run.epoch, 0)
    work.emit(
        ev.TurnOpened(
            step_id=key,
            branch=branch,
            agent=turn.agent,
            brief=turn.brief,
            hears=turn.hears,
            first=not _spoke(work, turn.agent),
            chooses=turn.chooses,
            due_at=turn.due_at,
            choices=turn.choices,
        ),
        {"text": turn.told} if turn.told else None,
    )
    if ref := _kept(work, branch, turn):
        work.emit(ev.OutputKept(step_id=key, answer_ref=ref))


def _kept(work: Work, branch: int, turn: Turn) -> str:
    """Of a fork where the turn's output in its origin stands, if it is the same turn: its own agent's, with the same before it; empty: it speaks here."""
    fork = work.run.control.forked
    if fork is None or work.run.epoch or turn.chooses:
        return ""
    kept = {one.branch: one for one in fork.branches}
    if branch not in kept or kept[branch].agent != turn.agent:
        return ""
    said = {step.branch: step.output_ref for step in work.run.steps.values() if step.stage is Stage.FAN_OUT}
    same = all(other in kept and said[other] == kept[other].output_ref for other in turn.hears)
    return kept[branch].output_ref if same else ""


def without(failed: list[Step], turns: int, why: Callable[[Step], str] = attrgetter("message")) -> Failure:
    """What turns that failed, and whose results are needed, come to. ``why`` says of each what is wrong with it."""
    evidence = Evidence(turns, turns - len(failed), "turns", "stage:fan_out", details={"turns": turns})
    causes = [(f"{step.agent} in turn {step.branch + 1}", why(step)) for step in failed[:3]]
    message = failed_parts(causes, len(failed), turns, turns, "turns")
    return Failure((Trip("fan_in", Cause.PARTIAL_FAN_IN, evidence, message),), Stage.FAN_OUT)

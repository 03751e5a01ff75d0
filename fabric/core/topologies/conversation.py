"""Opens turns for topologies whose workers speak one after the other (docs/specification/topologies.md). A branch is a
turn, opened once the turns before it are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter

from fabric.core import events as ev
from fabric.core.decision import guard
from fabric.core.decision.work import Work
from fabric.core.graph.conversation import MAX_TURNS
from fabric.core.mechanisms.contract import Proposal
from fabric.core.state.failure import Failure
from fabric.core.state.run import Step, step_id
from fabric.core.topologies.shape import StageOutput, parts
from fabric.core.topologies.supervisor import failed_parts
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Cause, Evidence, Trip


@value()
class NextTurn:
    """A turn that is about to begin."""

    agent: str
    brief: int
    """Number of the plan's brief that it executes, from 0."""
    hears: tuple[int, ...] = ()
    """Turns whose output its agent receives, from 0, in reading order."""
    told: str = ""
    """Further instructions for its agent; "": none."""
    chooses: bool = False
    """True: the next speaker is chosen once this turn is over."""
    due_at: int = 0
    """Instant at which its first time limit fires; 0: none."""
    choices: tuple[str, ...] = ()
    """Candidates of a verdict or a vote; empty for other turns."""


Following = Callable[[Work, list[Step]], Iterable[NextTurn] | Failure]
"""Returns the next turns once those before are over, or a failure; none: the conversation is over."""


def conclude_fan_out(work: Work, steps: list[Step], following: Following) -> StageOutput | Failure | None:
    """Open the next turns once the open ones are over; conclude with the fan-out's output after the last. A turn
    without a result is a failure, unless the fabric accepts its gap, or its conversation goes on after it.
    """
    over = all(step.status in ("done", "failed") for step in steps)
    failed = [step for step in steps if step.status == "failed" and not (step.partial or step.routed)]
    return failure_without(failed, len(steps)) if over and failed else open_turns(work, steps, following)


def open_turns(work: Work, steps: list[Step], following: Following) -> StageOutput | Failure | None:
    """Open the next turns, or conclude the stage, where failed turns do not stop the conversation."""
    if any(step.status not in ("done", "failed") for step in steps):
        return None
    turns = following(work, steps)
    if isinstance(turns, Failure):
        return turns
    turns = list(turns)
    if not turns:
        over = any(step.status == "done" for step in steps[work.run.talk.begun :])
        if over and (cut := _cut_off(work, steps)):
            return failure_without(cut, len(steps))
        return StageOutput(parts(work)) if over else failure_without(steps, len(steps))
    if trips := _refuse_turns(work, turns):
        return Failure(tuple(trips), Stage.FAN_OUT)
    for branch, turn in enumerate(turns, start=len(steps)):
        _open(work, branch, turn)
    return None


def _cut_off(work: Work, steps: list[Step]) -> list[Step]:
    """Return the failed turn without a successor, because the conversation reached its limit of turns. No rule decided
    an end then.
    """
    last = steps[-1]
    return [last] if work.run.talk.closed == MAX_TURNS and last.status == "failed" and not last.partial else []


def _refuse_turns(work: Work, turns: list[NextTurn]) -> list[Trip]:
    """Return the trips against agents without a turn yet. Repeated turns may have used the places that were free
    when the stage was entered.
    """
    new = tuple(dict.fromkeys(turn.agent for turn in turns if not _spoke(work, turn.agent)))
    spawn = Proposal(kind="spawn", stage=Stage.FAN_OUT, branches=len(new), agents=new, depth=work.run.depth)
    return guard.judge(spawn, work.view, work.compiled_fabric.spec.policy) if new else []


def _spoke(work: Work, agent: str) -> bool:
    return any(step.stage is Stage.FAN_OUT and step.agent == agent for step in work.run.steps.values())


def _open(work: Work, branch: int, turn: NextTurn) -> None:
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
    if ref := _kept_output(work, branch, turn):
        work.emit(ev.OutputKept(step_id=key, answer_ref=ref))


def _kept_output(work: Work, branch: int, turn: NextTurn) -> str:
    """For a fork, return the reference of the turn's output in its origin; "" if the turn runs here. Agent and
    earlier turns must be equal.
    """
    fork = work.run.control.forked
    if fork is None or work.run.epoch or turn.chooses:
        return ""
    kept = {one.branch: one for one in fork.branches}
    if branch not in kept or kept[branch].agent != turn.agent:
        return ""
    said = {step.branch: step.output_ref for step in work.run.steps.values() if step.stage is Stage.FAN_OUT}
    same = all(other in kept and said[other] == kept[other].output_ref for other in turn.hears)
    return kept[branch].output_ref if same else ""


def failure_without(failed: list[Step], turns: int, why: Callable[[Step], str] = attrgetter("message")) -> Failure:
    """Return the failure of turns whose results are needed. ``why`` returns each turn's problem."""
    evidence = Evidence(turns, turns - len(failed), "turns", "stage:fan_out", details={"turns": turns})
    causes = [(f"{step.agent} in turn {step.branch + 1}", why(step)) for step in failed[:3]]
    message = failed_parts(causes, len(failed), turns, turns, "turns")
    return Failure((Trip("fan_in", Cause.PARTIAL_FAN_IN, evidence, message),), Stage.FAN_OUT)

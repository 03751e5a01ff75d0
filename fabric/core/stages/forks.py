"""Finds the part of a run, up to one event, that a new run can go on from (docs/specification/decision-table.md).

A fork keeps the settled work of the current epoch: the output of every passed stage, and in the fan-out the finished
branches. Work in progress is done anew, except for the turns of a branch whose call failed: the fork makes that call
again. A conversation whose speakers were chosen by calls in its turns is done anew too, since only outputs of turns
are kept. The planners' reports on earlier epochs stay behind, and so do money, clocks and counts: a fork has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.core.decision.slices import from_child, is_slice
from fabric.core.events import KeptCall, KeptTurn, KeptWork
from fabric.core.evolve.calls import CALLS
from fabric.core.state.context import Contents
from fabric.core.state.judges import is_judge
from fabric.core.state.kept_work import answer_name, refs_of_work
from fabric.core.state.run import SILENT, Run, Step, Turn, list_sentences
from fabric.core.values.command_ids import read_branch
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import CLASSIFY
from fabric.core.values.units import JSON


@value()
class ForkPoint:
    """The parts that a fork of a run keeps."""

    stage: Stage | None
    """First stage of the fork; None: the run was complete, and nothing is left to do."""
    stages: tuple[tuple[Stage, str], ...]
    """``(stage, reference of its output)``, in order."""
    branches: tuple[tuple[int, str, str], ...]
    """``(branch, agent, reference of its output)`` of the fan-out, in order."""
    parts: tuple[tuple[int, str, tuple[int, ...], tuple[int, ...]], ...] = ()
    """``(branch, reference, briefs, briefs without a part)``, one round after another, of the branches that are
    child runs.
    """
    answers: tuple[tuple[Stage, str, str], ...] = ()
    """``(stage, tool, reference)`` of the tools' answers on the way to the kept outputs: later answers may cite
    them.
    """
    stopped: tuple[str, ...] = ()
    """Sentences about agents that were stopped and whose work the fork keeps."""
    work: tuple[KeptWork, ...] = ()
    """The kept turns of branches whose call failed."""


def find_fork_point(run: Run, *, sources: bool = False) -> ForkPoint:
    """Return the fork point of a run folded to the event in question. ``sources``: include tools' answers, against
    which its gates check answers.
    """
    point = _build_fork_point(run)
    if point.stage is Stage.FAN_OUT and run.talk is SILENT:
        point = replace(point, work=tuple(_works(run)))
    return replace(point, answers=tuple(dict.fromkeys(_answers(run, point)))) if sources else point


def _build_fork_point(run: Run) -> ForkPoint:
    stages: list[tuple[Stage, str]] = []
    following: Stage | None = None
    for stage in Stage:
        reached = run.stages.get(stage)
        if reached is None or not reached.left or not reached.output_ref:
            following = stage
            break
        stages.append((stage, reached.output_ref))
    if Stage.FAN_OUT not in run.stages:
        return ForkPoint(following, tuple(stages), ())
    passed = following is not Stage.FAN_OUT
    done = sorted((s for s in run.steps.values() if _done_branch(s, passed)), key=lambda step: step.branch)
    branches = tuple((step.branch, step.agent, step.output_ref) for step in done)
    left = {stage for stage, _ in stages}
    kept = {step.id for step in done} | {step.id for step in run.steps.values() if step.stage in left}
    stopped = tuple(list_sentences(run, kept))
    return ForkPoint(following, tuple(stages), branches, tuple(_parts(run, done)), stopped=stopped)


def _answers(run: Run, point: ForkPoint) -> Iterator[tuple[Stage, str, str]]:
    """Yield the tools' answers in passed stages and in finished branches. Errors are left out, since no answer may rest
    on them.
    """
    yield from () if run.epoch else run.control.answers
    passed, done = dict(point.stages), {branch for branch, _, _ in point.branches}
    for step in run.steps.values():
        if is_judge(step) or not (step.stage in passed or (step.stage is Stage.FAN_OUT and step.branch in done)):
            continue
        for call in (call for turn in step.history for call in turn.calls):
            if call.state == "done" and not call.error and call.result_ref:
                yield step.stage, call.tool, call.result_ref


def _parts(run: Run, done: Sequence[Step]) -> Iterator[tuple[int, str, tuple[int, ...], tuple[int, ...]]]:
    """Yield the parts that child runs brought. A slice's output refers to each of its rounds; a team's counts as one
    part.
    """
    kept = {step.branch for step in done if from_child(run, step)}
    for step_id, answer in run.family.answers.items():
        if (branch := read_branch(step_id)) in kept:
            yield branch, answer.ref, answer.briefs, answer.missing


def _done_branch(step: Step, passed: bool) -> bool:
    chosen = step.turn is not None and step.turn.chooses
    return step.stage is Stage.FAN_OUT and step.status == "done" and (passed or not chosen)


def names(point: ForkPoint) -> tuple[str, ...]:
    """Return the names of the contents that the fork will read. They are stages, branches from 1, earlier parts of
    slices, and tools' answers.
    """
    return tuple(name for name, _ in _kept_contents(point))


def list_contents(point: ForkPoint, contents: Contents) -> Iterator[tuple[str, JSON]]:
    """Yield ``(name, content)`` of everything that the fork will read. Raises MissingContent for one that was
    erased.
    """
    for name, ref in _kept_contents(point):
        yield name, contents.read(ref)


def _kept_contents(point: ForkPoint) -> Iterator[tuple[str, str]]:
    yield from ((str(stage), ref) for stage, ref in point.stages)
    yield from ((f"branch {branch + 1}", ref) for branch, _, ref in point.branches)
    last = {ref for _, _, ref in point.branches}
    yield from (
        (f"branch {branch + 1}, part {n + 1}", ref)
        for n, (branch, ref, _, _) in enumerate(point.parts)
        if ref not in last
    )
    yield from ((answer_name(stage, tool, ref), ref) for stage, tool, ref in point.answers)
    for one in point.work:
        yield from ((f"work of branch {one.branch + 1}, {n + 1}", ref) for n, ref in enumerate(refs_of_work(one)))


# -- what was under way ----------------------------------------------------------------------------------------------


def _works(run: Run) -> Iterator[KeptWork]:
    """Yield the kept turns of each branch of the fan-out under way."""
    for step in sorted(run.steps.values(), key=lambda one: one.branch):
        if step.stage is Stage.FAN_OUT and _failed_by_call(run, step) and not _changed_the_world(run, step):
            turns = tuple(_turn_kept(turn) for turn in step.history)
            yield KeptWork(branch=step.branch, agent=step.agent, turns=turns)


def _failed_by_call(run: Run, step: Step) -> bool:
    """Return True if the step failed by its call alone."""
    plain = bool(step.agent) and not is_judge(step) and not is_slice(step.agent)
    if not plain or step.final or step.corrections or not step.history or step.turn is not None:
        return False
    if any(call.state == "open" or call.hands_to or call.ends for turn in step.history for call in turn.calls):
        return False
    asked = {one.fact.step_id: one.fact.failure_type for one in run.reviews.values()}
    failed = step.status == "failed" and step.cause is not None and CLASSIFY[step.cause].goes_to in CALLS
    return failed or (step.status == "parked" and asked.get(step.id) in CALLS)


def _changed_the_world(run: Run, step: Step) -> bool:
    place = step.id.rpartition(".r")[0]
    return any(one.step_id.rpartition(".r")[0] == place for one in run.saga.mutations)


def _turn_kept(turn: Turn) -> KeptTurn:
    calls = tuple(
        KeptCall(
            call_id=call.call_id,
            tool=call.tool,
            args_hash=call.args_hash,
            args_ref=call.args_ref,
            result_ref=call.result_ref,
            state=call.state,  # type: ignore[arg-type]  # none is open
            error=call.error,
            given=call.given,
        )
        for call in turn.calls
    )
    return KeptTurn(answer_ref=turn.answer_ref, calls=calls, notes=turn.notes)

"""The main path: ``decide(run, input, context)`` gives the facts that follow and the commands that go out once they have committed.

1. ``decide`` hands the input to its handler (one a kind, in ``handlers.HANDLERS``). Results name the command and attempt they answer: what is no longer pending
   is late or a duplicate and changes nothing.
2. A handler journals what happened. What tripped or failed comes back as a ``Failure`` and goes to ``reactions.react``: table, ladder, one reaction.
3. ``advance`` then moves the run as far as it goes without the world: opens stages, asks models, runs tools, leaves stages through their gates.
   Nothing is issued anywhere else, but for the calls of an answer that is still coming in (``streamed``). So a run that is paused, or whose process
   is stopping, takes in what comes and issues nothing.
4. Nothing left but to wait: ``wake_at`` says until when.

Pure: the time, draws and contents are in the context. The same arguments give the same facts, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core import (
    agent_loop,
    children,
    dependencies,
    mutations,
    node_retries,
    paces,
    questions,
    reactions,
    stages,
    unwinding,
)
from fabric.core.commands import AbortCall, Command
from fabric.core.context import Context
from fabric.core.conversations import hears_open
from fabric.core.failure import Failure
from fabric.core.flow import RunState
from fabric.core.frozen import value
from fabric.core.grants import Lacking, Need
from fabric.core.handlers import HANDLERS
from fabric.core.inputs import Input, OwnerChanged, TimeReached
from fabric.core.living import asked_steps
from fabric.core.mechanisms import stall_watchdog
from fabric.core.outbox import Outgoing
from fabric.core.policy import FlowPolicy
from fabric.core.run import Run, Step, asked, asked_at_deadline, awaits_children, clocks_stopped
from fabric.core.saga import instants as instants_of
from fabric.core.topologies import shell
from fabric.core.topologies.shape import steps_of
from fabric.core.work import Emitted, Work


@value()
class Decision:
    """What one input led to. No facts: it changed nothing."""

    run: Run
    emitted: tuple[Emitted, ...]
    commands: tuple[Command, ...]
    outgoing: tuple[Outgoing, ...] = ()


MOVES = (OwnerChanged, TimeReached)
"""Inputs that may move a run although they leave no fact of their own: a run that never moved, a retry that is due."""


def decide(run: Run, given: Input, ctx: Context) -> Decision | Need:
    """The facts and commands that follow from one input; the run after them. Need: it wants something that runs share; ask again with the
    same input once that is answered. Raises MissingContent when a content was erased.
    """
    if absorbed(run):
        return Decision(run, (), ())
    work = Work(run, ctx, getattr(given, "input_id", ""))
    try:
        HANDLERS[type(given)](work, given)
        if work.run is not run or isinstance(given, MOVES):
            work.input_id = ""
            advance(work)
            if work.run.terminal:
                children.report(work)
    except Lacking as lacking:
        # All of it is thrown away. Contents that it put stay: they go by what they are, and no event names them.
        return Need(lacking.wants)
    return Decision(work.run, tuple(work.emitted), _outgoing(work.commands), tuple(work.outbox))


def absorbed(run: Run) -> bool:
    """Terminal states absorb: nothing that arrives later changes a run that has ended."""
    return run.terminal


def _outgoing(commands: list[Command]) -> tuple[Command, ...]:
    """Without the calls that were let go of in the same decision: those never go out at all."""
    if not any(isinstance(c, AbortCall) for c in commands):
        return tuple(commands)
    gone = {(c.command_id, c.attempt) for c in commands if isinstance(c, AbortCall)}
    here = {(c.command_id, c.attempt) for c in commands if not isinstance(c, AbortCall)}
    both = gone & here
    return tuple(c for c in commands if (c.command_id, c.attempt) not in both)


def advance(work: Work) -> None:
    """Moves the run until it waits for the world, a person or a clock, or has ended."""
    while not work.run.terminal and work.run.state is not RunState.QUEUED:
        if work.run.ending is not None:
            reactions.settle(work)
            return
        if work.held:
            break
        undoing = work.run.saga.unwinding
        if undoing is not None:
            if unwinding.move(work):
                break
            reactions.replan_unwound(work, undoing)
        before = work.run.seq
        failure = _move(work)
        if failure is not None:
            reactions.react(work, failure)
        elif work.run.seq == before:
            break
    questions.suspend_clocks(work)


def _move(work: Work) -> Failure | None:
    """One move: a call that failed or was interrupted goes out again, a step goes on, or its stage concludes."""
    run = work.run
    for command_id, pending in run.pending.items():
        if pending.failed and run.timers.get(command_id, 0) <= work.ctx.now and not mutations.waits(work, command_id):
            return agent_loop.again(work, pending)
    for check in run.saga.checks:
        if not check.out and check.not_before <= work.ctx.now:
            mutations.ask_again(work, check)
            return None
    again = node_retries.due(work)
    if again is not None:
        node_retries.begin(work, again)
        return None
    reached = run.stages.get(run.stage)
    if reached is None:
        return stages.enter(work, run.stage)
    steps = steps_of(work, run.stage)
    step = _free(run, steps)
    if step is not None:
        purpose = children.purpose_of(work, step.stage, step.agent)
        if purpose is None:
            return agent_loop.move(work, step)
        children.spawn(work, step, purpose)
        return None
    for step in _more(work, steps):
        failure = agent_loop.move(work, step)
        if failure is not None or work.run is not run:
            return failure
    return None if asked(run) else _conclude(work, steps)


def _free(run: Run, steps: list[Step]) -> Step | None:
    """The first step that waits for nothing."""
    waiting = {pending.issued.step_id for pending in run.pending.values()}
    waiting.update(check.step_id for check in run.saga.checks)
    waiting.update(asked_steps(run))
    free = (step for step in steps if step.status == "active" and step.id not in waiting and step.id not in run.timers)
    return next((step for step in free if not hears_open(run, step)), None)


def _more(work: Work, steps: list[Step]) -> Iterator[Step]:
    """The steps with tool calls out, or asked about, that may have one more that goes. Only those are looked at: most of a wide fan-out wait for a model."""
    run = work.run
    calling = {pending.issued.step_id for pending in run.pending.values() if pending.issued.call == "tool"}
    calling |= asked_steps(run)
    calling.difference_update(check.step_id for check in run.saga.checks)
    active = (step for step in steps if step.id in calling and step.status == "active" and step.id not in run.timers)
    return (step for step in active if dependencies.ready(work, step))


def _conclude(work: Work, steps: list[Step]) -> Failure | None:
    done = shell.concluded(work, work.run.stage, steps)
    if done is not None and work.run.suspended is not None:
        questions.resume_clocks(work)  # What came while the run was held is enough: nobody is waited for any more.
    if done is None or isinstance(done, Failure):
        return done
    return stages.leave(work, work.run.stage, done)


def stalls_at(run: Run, policy: FlowPolicy) -> int | None:
    """The instant at which the run's silence is a stall, if nothing happens before; None: it waits for somebody, or nobody watches."""
    return stall_watchdog.due_at(run, stall_watchdog.window_s(policy.of_stage(run.stage), run.tier))


def wake_at(run: Run, announced: frozenset[str] = frozenset(), policy: FlowPolicy | None = None) -> int | None:
    """The instant at which the run wants to be stepped again with ``TimeReached``; None: only the world can move it.

    ``announced``: questions that do not expire for now (``Context.announced``). ``policy``: the run's, for its stall watchdog; a run that rests cannot
    stall, so it may be left out there.
    """
    if run.terminal or run.state is RunState.QUEUED:
        return None
    held = run.control.paused is not None and run.ending is None
    instants = [] if held or awaits_children(run) else instants_of(run.saga)
    if run.ending is None and run.saga.unwinding is None:
        instants += [] if held else run.timers.values()
        if clocks_stopped(run) is None:
            reached = run.stages.get(run.stage)
            instants += [] if asked_at_deadline(run) else [run.deadline_at]
            if reached is not None and not reached.left and not asked(run):
                instants.append(reached.deadline_at)
            if (pace := paces.due(run)) is not None:
                instants.append(pace)
    if policy is not None and (stalled := stalls_at(run, policy)) is not None:
        instants.append(stalled)
    for key, question in run.questions.items():
        fact = question.fact
        if not question.onward:
            instants.append(fact.onward_at if question.reminded else fact.remind_at)
        elif key not in announced:
            instants.append(fact.due_at)
    return min(instants, default=None)

"""Decides: ``decide(run, input, context)`` returns the facts that follow, and the commands to send once they have
committed.

1. ``decide`` passes the input to its handler (one a kind, in ``handlers.HANDLERS``). Results name the command and
   attempt that they answer: if that is no longer pending, the result is late or a duplicate and changes nothing.
2. A handler journals what happened. A trip or failure comes back as a ``Failure`` and goes to ``reactions.react``:
   table, ladder, one reaction.
3. ``advance`` then moves the run as far as it goes without the world: opens stages, asks models, runs tools, leaves
   stages through their gates. Only ``advance`` issues calls, except for those of an answer that is still streaming in
   (``streamed``). So a run that is paused, or whose process is stopping, takes inputs in and issues nothing.
4. Once the run can only wait, ``wake_at`` returns the instant of its next step.

Pure: the time, draws and contents are in the context. Equal arguments give equal facts, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.budgets.grants import Lacking, Need
from fabric.core.calls import dependencies
from fabric.core.child_runs import children
from fabric.core.conversations.turns import hears_open
from fabric.core.decision.work import EmittedFact, Work
from fabric.core.events.commands import AbortCall, Command, Outgoing
from fabric.core.events.inputs import Input, OwnerChanged, TimeReached
from fabric.core.handlers import HANDLERS
from fabric.core.mechanisms import stall_watchdog
from fabric.core.reactions import node_retries, unwinding
from fabric.core.reactions import react as reactions
from fabric.core.reviews import reviews
from fabric.core.sagas import mutations
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.stages import passage as stages
from fabric.core.state.context import Context
from fabric.core.state.failure import Failure
from fabric.core.state.living import asked_steps
from fabric.core.state.run import Run, Step, asked_at_deadline, awaits_children, clocks_stopped, has_stage_review
from fabric.core.steps import agent_loop
from fabric.core.topologies import shell
from fabric.core.topologies import time_limits as paces
from fabric.core.topologies.shape import list_steps
from fabric.core.values.flow import TERMINAL, UNMOVED, Stage
from fabric.core.values.frozen import value
from fabric.core.values.identity_cache import keep_results
from fabric.core.values.saga import instants as instants_of
from fabric.core.values.taxonomy import Tier


@value()
class Decision:
    """Result of one input. Without facts it changed nothing."""

    run: Run
    emitted: tuple[EmittedFact, ...]
    commands: tuple[Command, ...]
    outgoing: tuple[Outgoing, ...] = ()


MOVES = (OwnerChanged, TimeReached)
"""Inputs that may move a run without a fact of their own. The run never moved, or a retry is due."""


def decide(run: Run, given: Input, ctx: Context) -> Decision | Need:
    """Return the facts and commands that follow from one input, and the run after them. Returns Need if shared state
    is missing: call again with that input once it is answered. Raises MissingContent if a content was erased.
    """
    if is_absorbed(run):
        return Decision(run, (), ())
    work = Work(run, ctx, getattr(given, "input_id", ""))
    try:
        HANDLERS[type(given)](work, given)
        if work.run is not run or isinstance(given, MOVES):
            work.input_id = ""
            advance(work)
            if is_absorbed(work.run):
                children.report(work)
    except Lacking as lacking:
        # The decision is discarded. Its new contents may stay: they are addressed by hash, and no event names them.
        return Need(lacking.wants)
    return Decision(work.run, tuple(work.emitted), _drop_aborted(work.commands), tuple(work.outbox))


def is_absorbed(run: Run) -> bool:
    """Return True if the run has ended: nothing that arrives later changes it."""
    return run.state in TERMINAL


def _drop_aborted(commands: list[Command]) -> tuple[Command, ...]:
    """Return the commands without the calls that were aborted in this decision: those never go out."""
    if not commands or not any(isinstance(c, AbortCall) for c in commands):
        return tuple(commands)
    gone = {(c.command_id, c.attempt) for c in commands if isinstance(c, AbortCall)}
    here = {(c.command_id, c.attempt) for c in commands if not isinstance(c, AbortCall)}
    both = gone & here
    return tuple(c for c in commands if (c.command_id, c.attempt) not in both)


def advance(work: Work) -> None:
    """Move the run until it waits for the world, a person or a clock, or has ended."""
    while work.run.state not in UNMOVED:
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
    reviews.suspend_clocks(work)


def _move(work: Work) -> Failure | None:
    """Make one move: send a failed or interrupted call again, move a step on, or conclude its stage."""
    run = work.run
    for command_id, pending in run.pending.items():
        if (
            pending.failed
            and run.timers.get(command_id, 0) <= work.ctx.now
            and not mutations.waits_for_check(work, command_id)
        ):
            return agent_loop.issue_again(work, pending)
    for check in run.saga.checks:
        if not check.out and check.not_before <= work.ctx.now:
            mutations.ask_again(work, check)
            return None
    again = node_retries.due(work) if run.timers else None
    if again is not None:
        node_retries.begin(work, again)
        return None
    reached = run.stages.get(run.stage)
    if reached is None:
        return stages.enter(work, run.stage)
    steps = list_steps(work, run.stage)
    step = _free(run, steps)
    if step is not None:
        purpose = children.find_purpose(work, step.stage, step.agent)
        if purpose is None:
            return agent_loop.move(work, step)
        children.spawn(work, step, purpose)
        return None
    for step in _more(work, steps):
        failure = agent_loop.move(work, step)
        if failure is not None or work.run is not run:
            return failure
    return None if has_stage_review(run) else _conclude(work, steps)


def _free(run: Run, steps: list[Step]) -> Step | None:
    """Return the first step that waits for nothing."""
    waiting = set(run.timers)
    for pending in run.pending.values():
        waiting.add(pending.issued.step_id)
    for check in run.saga.checks:
        waiting.add(check.step_id)
    if run.reviews:
        waiting |= asked_steps(run)
    for step in steps:
        if step.status == "active" and step.id not in waiting and not hears_open(run, step):
            return step
    return None


def _more(work: Work, steps: list[Step]) -> Iterator[Step]:
    """Yield the steps with tool calls out, or under review, that may have one more call to send. Only those are
    looked at: most of a wide fan-out wait for a model.
    """
    run = work.run
    calling = {pending.issued.step_id for pending in run.pending.values() if pending.issued.call == "tool"}
    if run.reviews:
        calling |= asked_steps(run)
    if not calling:
        return iter(())
    calling.difference_update(check.step_id for check in run.saga.checks)
    active = (step for step in steps if step.id in calling and step.status == "active" and step.id not in run.timers)
    return (step for step in active if dependencies.has_ready_call(work, step))


def _conclude(work: Work, steps: list[Step]) -> Failure | None:
    done = shell.conclude_stage(work, work.run.stage, steps)
    if done is not None and work.run.suspended is not None:
        reviews.resume_clocks(work)  # Inputs during the wait were enough: the run no longer waits for a person.
    if done is None or isinstance(done, Failure):
        return done
    return stages.leave(work, work.run.stage, done)


def stalls_at(run: Run, policy: FlowPolicy) -> int | None:
    """Return the instant at which the run's silence becomes a stall. None: the run waits for an outsider, or the
    watchdog is off.
    """
    return stall_watchdog.due_at(run, _find_window(policy, run.stage, run.tier))


@keep_results
def _find_window(policy: FlowPolicy, stage: Stage, tier: Tier) -> float:
    return stall_watchdog.window_s(policy.of_stage(stage), tier)


def wake_at(run: Run, announced: frozenset[str] = frozenset(), policy: FlowPolicy | None = None) -> int | None:
    """Return the instant at which the run wants its next step with ``TimeReached``. None: only the world can move it.

    ``announced``: reviews that do not expire for now (``Context.announced``). ``policy``: the run's, for its stall
    watchdog; a resting run cannot stall, so it may be left out there.
    """
    if run.state in UNMOVED:
        return None
    held = run.control.paused is not None and run.ending is None
    instants = [] if held or awaits_children(run) else instants_of(run.saga)
    if run.ending is None and run.saga.unwinding is None:
        instants += [] if held else run.timers.values()
        if clocks_stopped(run) is None:
            reached = run.stages.get(run.stage)
            instants += [] if asked_at_deadline(run) else [run.deadline_at]
            if reached is not None and not reached.left and not has_stage_review(run):
                instants.append(reached.deadline_at)
            if (pace := paces.due(run)) is not None:
                instants.append(pace)
    if policy is not None and (stalled := stalls_at(run, policy)) is not None:
        instants.append(stalled)
    for key, review in run.reviews.items():
        fact = review.fact
        if not review.onward:
            instants.append(fact.onward_at if review.reminded else fact.remind_at)
        elif key not in announced:
            instants.append(fact.due_at)
    return min(instants, default=None)

"""What each reaction does: one function each in one table. The ladder chose; this carries it out, as facts and commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from fabric.core import (
    agent_loop,
    calls,
    cheaper,
    children,
    guard,
    handover,
    ladder,
    mutations,
    node_retries,
    questions,
    rerunning,
    routing,
    stages,
    stops,
    swap,
    unwinding,
    waits,
)
from fabric.core import events as ev
from fabric.core.decision_table import Accompaniment, Reaction
from fabric.core.failure import Failure, Unfit, record
from fabric.core.flow import ANSWERED, STATIC_ANSWER, RunState, Stage, StageOutcome
from fabric.core.frozen import replace
from fabric.core.ladder import Choice, Why
from fabric.core.mechanisms import retry_budget, state_of
from fabric.core.mechanisms.contract import Proposal
from fabric.core.retry_layers import layer_of
from fabric.core.saga import Unwinding
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Trip
from fabric.core.work import US, Work

JSON = Any


def react(work: Work, failure: Failure) -> None:
    """Decides about a failure and does it. Exactly one reaction; the other trips are kept as causes of the same decision."""
    failure = _repeated(work, failure)
    choice = ladder.choose(work, failure)
    step = work.run.steps.get(failure.step_id)
    at_work = step is not None and step.status == "active"
    last_word = step.final and failure.issued is None if step is not None and at_work else work.run.truncated
    if last_word and choice.rung.reaction not in ENDINGS:
        # Terminate was the last word: an answer that does not pass its gates is surfaced, not tried again.
        choice = replace(choice, rung=choice.rung.model_copy(update={"reaction": Reaction.SURFACE}), skipped=())
    elif (
        choice.rung.reaction is Reaction.ESCALATE
        and not questions.unsure(failure, choice)
        and questions.rounds_spent(work, failure)
    ):
        choice = replace(choice, rung=choice.rung.model_copy(update={"reaction": Reaction.ABORT}))
    if choice.rung.reaction is Reaction.FALLBACK_MODEL:
        # Judged before the decision is journaled: what it takes to say so may be the last of what a run may hold.
        choice = replace(choice, instead=swap.found(work, failure, choice.trip))
    _announce(work, failure, choice)
    REACTIONS[choice.rung.reaction](work, failure, choice)


def _repeated(work: Work, failure: Failure) -> Failure:
    """The failure with what speaks against its coming once more. That stands last: where the table does the same, its row and role hold."""
    found: dict[str, Trip] = {}
    about = Proposal(kind="failure", stage=failure.stage, step_id=failure.step_id, command_id=failure.command_id)
    for trip in failure.trips:
        proposal = replace(about, cause=trip.cause, message=trip.message)
        for more in guard.judge(proposal, work.view, work.compiled.spec.policy):
            found.setdefault(more.mechanism, more)
    return replace(failure, trips=(*failure.trips, *found.values())) if found else failure


ENDINGS = frozenset({Reaction.HALT, Reaction.ABORT, Reaction.ESCALATE, Reaction.SURFACE, Reaction.SAFE_FALLBACK})


def _announce(work: Work, failure: Failure, choice: Choice) -> None:
    for skipped in choice.skipped:
        _skip(work, choice, skipped.rung, skipped.reaction, skipped.reason, skipped.why)
    work.emit(
        ev.ReactionDecided(
            failure_type=choice.failure_type,
            tier=work.run.tier,
            table=work.compiled.table_version,
            rung=choice.rung_index,
            reaction=choice.rung.reaction,
            scope=choice.scope,
            spent=choice.spent,
            bound=choice.rung.times,
            cause=record(choice.trip),
            causes=tuple(record(trip) for trip in failure.trips if trip is not choice.trip),
            accompanies=tuple(choice.rung.with_),
            step_id=failure.step_id,
            command_id=failure.command_id,
            layer=layer_of(choice.rung),
            gate=failure.gate,
        )
    )
    if Accompaniment.TICKET in choice.rung.with_ and work.run.family.lineage is None:
        questions.open_ticket(
            work, failure, choice
        )  # What ends a team is its parent's, which opens one for the whole tree.
    if Accompaniment.ALERT in choice.rung.with_:
        trip = choice.trip
        work.emit(
            ev.AlertRaised(
                mechanism=trip.mechanism,
                cause=trip.cause,
                message=trip.message,
                reaction=choice.rung.reaction,
                step_id=failure.step_id,
            )
        )


def _skip(work: Work, choice: Choice, rung: int, reaction: str, reason: str, why: Why = "") -> None:
    if choice.failure_type is not None:
        fact = ev.RungSkipped(
            failure_type=choice.failure_type,
            tier=work.run.tier,
            rung=rung,
            reaction=reaction,
            reason=reason,
            trip=record(why) if isinstance(why, Trip) else None,
            weighed=why.weighed if isinstance(why, Unfit) else None,
        )
        work.emit(fact)


# -- going on ----------------------------------------------------------------------------------------------------------


def _retry(work: Work, failure: Failure, choice: Choice) -> None:
    issued = failure.issued
    if issued is None:
        rerunning.rerun(work, ladder.rerunnable(work, failure), choice.trip.message)
        return
    delay = waits.delay_s(work, failure, choice.spent)
    source: Source = "retry_after" if delay == failure.retry_after_s else "backoff"
    _schedule(work, issued, delay, source, retry_budget.UNITS)


def _wait_for_breaker(work: Work, failure: Failure, choice: Choice) -> None:
    assert failure.issued is not None
    source: Source = "named" if failure.breaker_wait_s is None else "breaker"
    _schedule(work, failure.issued, waits.wait_s(work, failure, choice.spent), source, 0)


Source = Literal["backoff", "retry_after", "breaker", "named", "failover"]


def _schedule(work: Work, issued: ev.CallIssued, delay_s: float, source: Source, takes: int) -> None:
    """The call's next attempt, that much later. ``takes``: thousandths of a retry token."""
    state = state_of(work.run.guards, retry_budget)
    given = retry_budget.given(work.ctx.shares, issued.command_id, issued.attempt + 1)
    work.emit(
        ev.RetryScheduled(
            command_id=issued.command_id,
            attempt=issued.attempt + 1,
            not_before=work.ctx.now + int(delay_s * US),
            delay_s=delay_s,
            source=source,
            tokens_left=retry_budget.balance(work.compiled.spec.policy.retry, state) - takes,
            buckets=given.levels,
            asked_at=given.asked_at,
        )
    )


def _inject(work: Work, failure: Failure, choice: Choice) -> None:
    text = choice.trip.advice or choice.trip.message
    work.emit(ev.MessageInjected(step_id=failure.step_id), {"text": text})


def _terminate(work: Work, failure: Failure, choice: Choice) -> None:
    if ladder.APPLIES[Reaction.TERMINATE](work, failure, choice.trip, 0):
        _surface(work, failure, choice)
        return
    # What is out goes on and is heard, but what hangs would never let the agent speak.
    hangs = choice.trip.cause is Cause.STALLED
    for pending in list(work.run.pending.values()):
        waits = pending.failed and pending.issued.command_id not in work.run.timers
        if pending.issued.step_id == failure.step_id and (waits or hangs):
            agent_loop.unanswered(work, pending, choice.trip, "the agent was stopped")
    calls.withdraw_asked(work, "the agent was stopped", failure.step_id)
    kept = stops.results_kept(work.run.steps[failure.step_id])
    work.emit(ev.ToolsStripped(step_id=failure.step_id, reason=choice.trip.message, kept=kept))


def _cheaper_model(work: Work, failure: Failure, choice: Choice) -> None:
    cheaper.change(work, failure)


def _fallback_model(work: Work, failure: Failure, choice: Choice) -> None:
    issued = failure.issued
    assert issued is not None  # ladder.APPLIES
    assert choice.instead is not None  # react
    swap.change(work, failure, choice.trip, choice.instead)
    if swap.repeats(work, issued.target, work.run.steps[failure.step_id].model):
        _schedule(work, issued, 0.0, "failover", retry_budget.UNITS)


def _replan(work: Work, failure: Failure, choice: Choice) -> None:
    replan(work, failure.stage, choice.trip)


def _hand_over(work: Work, failure: Failure, choice: Choice) -> None:
    """The stronger agent takes the stuck step over, or plans from here on where it is the plan that is stuck; either way it is told what was said."""
    above = work.compiled.spec.topology.handover
    assert above is not None  # ladder.APPLIES
    told = handover.told(work, failure, choice.trip)
    if failure.step_id:
        rerunning.rerun(work, [failure.step_id], told, agent=above)
    else:
        replan(work, failure.stage, replace(choice.trip, message=told), planner=above)


def replan(work: Work, stage: Stage, trip: Trip, *, planner: str = "", reason: str = "") -> None:
    """Raises the epoch: lets go of what is out, withdraws the open questions, undoes what the epoch did, tells the planner why. ``planner``: who
    plans from here on; empty: who did before. ``reason``: empty: the trip's cause.
    """
    calls.let_go_all(work, "replanned")
    questions.withdraw_all(work, "replanned")
    reached = work.run.stages.get(stage)
    if reached is not None and not reached.left:
        work.emit(ev.StageLeft(stage=stage, epoch=work.run.epoch, outcome=StageOutcome.REPLAN))
    problems = trip.evidence.details.get("problems", [])
    told = {"text": trip.message, "problems": list(problems) if isinstance(problems, list) else [], "stage": stage}
    told |= {"planner": planner} if planner else {}
    reason = reason or str(trip.cause)
    if not unwinding.begin(work, "replan", stage, reason, told):
        _replanned(work, stage, reason, told)


def replan_unwound(work: Work, unwound: Unwinding) -> None:
    """The old epoch is undone: the next one begins."""
    _replanned(work, Stage(unwound.stage), unwound.reason, work.ctx.contents.read(unwound.told_ref))


def _replanned(work: Work, stage: Stage, reason: str, told: JSON) -> None:
    planner = told.get("planner", "")
    work.emit(ev.Replanned(stage=stage, epoch=work.run.epoch + 1, reason=reason, planner=planner), told)


def _escalate(work: Work, failure: Failure, choice: Choice) -> None:
    questions.open_question(work, failure, choice)


# -- ending ------------------------------------------------------------------------------------------------------------


def _surface(work: Work, failure: Failure, choice: Choice) -> None:
    step = work.run.steps.get(failure.step_id)
    if step is not None and step.stage is Stage.FAN_OUT:
        # A branch ends without a result; what that means for the run is the fan-in policy's question.
        calls.let_go_all(work, "the branch ended", step.id)
        work.emit(ev.StepFailed(step_id=step.id, cause=choice.trip.cause, message=choice.trip.message))
        return
    end(work, RunState.FAILED, Reaction.SURFACE, choice.trip.message)


def _fall_back(work: Work, failure: Failure, choice: Choice) -> None:
    """The fabric's static answer becomes the outcome. A child has no outcome of its own to give: it surfaces, and its parent decides."""
    if work.compiled.spec.safe_fallback is None or work.run.family.lineage is not None:
        _surface(work, failure, choice)
    else:
        end(work, RunState.COMPLETED, Reaction.SAFE_FALLBACK, f"{STATIC_ANSWER}{choice.trip.message}")


def _abort(work: Work, failure: Failure, choice: Choice) -> None:
    end(work, RunState.ABORTED, Reaction.ABORT, choice.trip.message)


def _halt(work: Work, failure: Failure, choice: Choice) -> None:
    calls.let_go_all(work, "halted")
    end(work, RunState.ABORTED, Reaction.HALT, choice.trip.message)


def end(work: Work, state: RunState, reaction: str, reason: str) -> None:
    """Stops issuing; the run ends as soon as the calls in flight have settled."""
    for pending in list(work.run.pending.values()):
        if pending.failed:
            calls.let_go(work, pending, "the run is ending")
    mutations.dropped(work, "the run is ending")
    children.let_go(work, "its parent run is ending")
    questions.withdraw_all(work, "the run is ending")
    work.emit(ev.RunEnding(state=state, reaction=reaction, reason=reason))
    settle(work)


def settle(work: Work) -> None:
    """Ends an ending run once nothing is in flight, every child has ended and what it did is undone, with whatever partial result there is."""
    ending = work.run.ending
    if ending is None or work.run.terminal:
        return
    questions.withdraw_all(work, "the run is ending")
    if work.run.pending or work.run.family.alive or unwinding.move(work):
        return
    if ending.state in ANSWERED and ending.reaction != Reaction.SAFE_FALLBACK:
        stages.complete(work)
        return
    reached = work.run.stages.get(work.run.stage)
    if reached is not None and not reached.left:
        work.emit(ev.StageLeft(stage=work.run.stage, epoch=work.run.epoch, outcome=StageOutcome.ENDED))
    if ending.reaction == Reaction.SAFE_FALLBACK:
        stages.complete_with_fallback(work, ending)
        return
    partial, unwound = stages.partial_outcome(work), unwinding.said(work)
    if partial is not None and unwound:  # Else it reads as if what was undone still stood.
        partial = {**partial, "gaps": [*partial.get("gaps", ()), f"written before the run was unwound: {unwound}"]}
    work.emit(
        ev.RunEnded(
            state=ending.state,
            reason="; ".join(part for part in (ending.reason, unwound) if part),
            reaction=ending.reaction,
            truncated=work.run.truncated,
            recovered=False,
            partial=partial is not None,
        ),
        None if partial is None else {"output": partial},
    )


REACTIONS: Mapping[Reaction, Callable[[Work, Failure, Choice], None]] = {
    Reaction.RETRY: _retry,
    Reaction.RETRY_NODE: node_retries.schedule,
    Reaction.ACCEPT_PARTIAL: node_retries.give_up,
    Reaction.ROUTE: routing.go_on,
    Reaction.GO_BACK: routing.go_on,
    Reaction.INJECT: _inject,
    Reaction.TERMINATE: _terminate,
    Reaction.REPLAN: _replan,
    Reaction.ESCALATE: _escalate,
    Reaction.SURFACE: _surface,
    Reaction.SAFE_FALLBACK: _fall_back,
    Reaction.ABORT: _abort,
    Reaction.HALT: _halt,
    Reaction.HANDOVER: _hand_over,
    Reaction.FALLBACK_MODEL: _fallback_model,
    Reaction.CHEAPER_MODEL: _cheaper_model,
    Reaction.WAIT_FOR_BREAKER: _wait_for_breaker,
}
"""One function a reaction; total by test. Safe fallback surfaces where no fallback answer is configured."""

"""Carries out the reaction that the ladder chose, as facts and commands: one function a reaction, in one table.

A stronger agent that takes over gets a message: the reason, the cycle that was detected, and the transcript
(docs/specification/decision-table.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.child_runs import children
from fabric.core.decision import guard, slices
from fabric.core.decision.work import Work
from fabric.core.ladders import cheaper_model as cheaper
from fabric.core.ladders import fallback_model, ladder, routing, waits
from fabric.core.ladders.choice import Choice, Why
from fabric.core.mechanisms import find_state, retry_budget
from fabric.core.mechanisms.contract import Proposal
from fabric.core.reactions import node_retries, unwinding
from fabric.core.reviews import reviews
from fabric.core.sagas import mutations
from fabric.core.spec.policies.decision_table import Accompaniment, Reaction
from fabric.core.spec.retry_layers import find_layer
from fabric.core.stages import passage as stages
from fabric.core.state import run as stops
from fabric.core.state.failure import Failure, Unfit, record
from fabric.core.state.run import Run, Step, Turn
from fabric.core.steps import agent_loop
from fabric.core.values.flow import ANSWERED, STATIC_ANSWER, RunState, Stage, StageOutcome
from fabric.core.values.frozen import replace
from fabric.core.values.saga import Unwinding
from fabric.core.values.taxonomy import Cause, Trip
from fabric.core.values.units import JSON, US


def react(work: Work, failure: Failure) -> None:
    """Decide about a failure and carry the decision out. It has one reaction; its other trips are recorded
    as causes.
    """
    failure = add_return(work, failure)
    choice = decide(work, failure)
    if choice.rung.reaction is Reaction.FALLBACK_MODEL:
        # Judged before the decision is journaled, whose own events may be the last that fit into the run's caps.
        choice = replace(choice, instead=fallback_model.find_fallback(work, failure, choice.trip))
    _announce(work, failure, choice)
    REACTIONS[choice.rung.reaction](work, failure, choice)


def decide(work: Work, failure: Failure, judge: ladder.Judge = ladder.why_not) -> Choice:
    """Return the ladder's choice, or its replacement after a last word or after enough reviews."""
    choice = ladder.choose(work, failure, judge)
    if choice.rung.reaction not in ENDINGS and has_last_word(work.run, failure):
        # Terminate allows one last answer: one that fails its gates is surfaced, not retried.
        return replace(choice, rung=choice.rung.model_copy(update={"reaction": Reaction.SURFACE}), skipped=())
    asks = choice.rung.reaction is Reaction.ESCALATE and not reviews.is_unsure(failure, choice)
    if asks and reviews.rounds_spent(work, failure):
        return replace(choice, rung=choice.rung.model_copy(update={"reaction": Reaction.ABORT}))
    return choice


def has_last_word(run: Run, failure: Failure) -> bool:
    """Return True if the failed answer was the last one of its agent or of the run."""
    step = run.steps.get(failure.step_id)
    if step is not None and step.status == "active":
        return step.final and failure.issued is None
    return run.truncated


def add_return(work: Work, failure: Failure) -> Failure:
    """Return the failure with a trip for its repetition, where it came too often.

    That trip comes last, so an equal reaction of another trip keeps its row and role.
    """
    found: dict[str, Trip] = {}
    about = Proposal(kind="failure", stage=failure.stage, step_id=failure.step_id, command_id=failure.command_id)
    for trip in failure.trips:
        proposal = replace(about, cause=trip.cause, message=trip.message)
        for more in guard.judge(proposal, work.view, work.compiled_fabric.spec.policy):
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
            table=work.compiled_fabric.table_version,
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
            layer=find_layer(choice.rung),
            gate=failure.gate,
        )
    )
    if Accompaniment.FOLLOW_UP in choice.rung.with_ and work.run.family.lineage is None:
        reviews.open_follow_up(
            work, failure, choice
        )  # The end of a team is its parent's failure, which opens one follow-up for the whole family.
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


# -- going on --------------------------------------------------------------------------------------------------------


def _retry(work: Work, failure: Failure, choice: Choice) -> None:
    issued = failure.issued
    if issued is None:
        node_retries.rerun(work, ladder.rerunnable(work, failure), choice.trip.message)
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
    """Schedule the call's next attempt. ``takes``: thousandths of a retry token."""
    state = find_state(work.run.guards, retry_budget)
    given = retry_budget.token_given(work.ctx.shares, issued.command_id, issued.attempt + 1)
    work.emit(
        ev.RetryScheduled(
            command_id=issued.command_id,
            attempt=issued.attempt + 1,
            not_before=work.ctx.now + int(delay_s * US),
            delay_s=delay_s,
            source=source,
            tokens_left=retry_budget.balance(work.compiled_fabric.spec.policy.retry, state) - takes,
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
    # Calls that are out go on, but one that hangs would keep the agent from its last answer.
    hangs = choice.trip.cause is Cause.STALLED
    for pending in list(work.run.pending.values()):
        waits = pending.failed and pending.issued.command_id not in work.run.timers
        if pending.issued.step_id == failure.step_id and (waits or hangs):
            agent_loop.abort_unanswered(work, pending, choice.trip, "the agent was stopped")
    calls.withdraw_asked(work, "the agent was stopped", failure.step_id)
    kept = stops.results_kept(work.run.steps[failure.step_id])
    work.emit(ev.ToolsStripped(step_id=failure.step_id, reason=choice.trip.message, kept=kept))


def _cheaper_model(work: Work, failure: Failure, choice: Choice) -> None:
    cheaper.change(work, failure)


def _fallback_model(work: Work, failure: Failure, choice: Choice) -> None:
    issued = failure.issued
    assert issued is not None  # ladder.APPLIES
    assert choice.instead is not None  # react
    fallback_model.change(work, failure, choice.trip, choice.instead)
    if fallback_model.repeats(work, issued.target, work.run.steps[failure.step_id].model):
        _schedule(work, issued, 0.0, "failover", retry_budget.UNITS)


def _replan(work: Work, failure: Failure, choice: Choice) -> None:
    replan(work, failure.stage, choice.trip)


def _hand_over(work: Work, failure: Failure, choice: Choice) -> None:
    """Hand the stuck step over to the stronger agent, or the planning if the plan is stuck. Either way the agent
    receives the transcript.
    """
    above = work.compiled_fabric.spec.topology.handover
    assert above is not None  # ladder.APPLIES
    told = handover_message(work, failure, choice.trip)
    if failure.step_id:
        node_retries.rerun(work, [failure.step_id], told, agent=above)
    else:
        replan(work, failure.stage, replace(choice.trip, message=told), planner=above)


def replan(work: Work, stage: Stage, trip: Trip, *, planner: str = "", reason: str = "") -> None:
    """Raise the epoch. Abort the calls that are out, withdraw the open reviews, undo the epoch's mutations, and report
    the reason to the planner. ``planner``: the planner from here on; "": no change. ``reason``: "": the trip's cause.
    """
    calls.let_go_all(work, "replanned")
    reviews.withdraw_all(work, "replanned")
    reached = work.run.stages.get(stage)
    if reached is not None and not reached.left:
        work.emit(ev.StageLeft(stage=stage, epoch=work.run.epoch, outcome=StageOutcome.REPLAN))
    problems = trip.evidence.details.get("problems", [])
    told = {"text": trip.message, "problems": list(problems) if isinstance(problems, list) else [], "stage": stage}
    told |= {"planner": planner} if planner else {}
    reason = reason or str(trip.cause)
    if not unwinding.begin(work, "replan", stage, reason, told):
        _begin_epoch(work, stage, reason, told)


def replan_unwound(work: Work, unwound: Unwinding) -> None:
    """Begin the next epoch once the old one is undone."""
    _begin_epoch(work, Stage(unwound.stage), unwound.reason, work.ctx.contents.read(unwound.told_ref))


def _begin_epoch(work: Work, stage: Stage, reason: str, told: JSON) -> None:
    planner = told.get("planner", "")
    work.emit(ev.Replanned(stage=stage, epoch=work.run.epoch + 1, reason=reason, planner=planner), told)


def _escalate(work: Work, failure: Failure, choice: Choice) -> None:
    reviews.open_review(work, failure, choice)


# -- ending ----------------------------------------------------------------------------------------------------------


def _surface(work: Work, failure: Failure, choice: Choice) -> None:
    step = work.run.steps.get(failure.step_id)
    if step is not None and step.stage is Stage.FAN_OUT:
        # A branch ends without a result; the fan-in policy decides about the run.
        calls.let_go_all(work, "the branch ended", step.id)
        work.emit(ev.StepFailed(step_id=step.id, cause=choice.trip.cause, message=choice.trip.message))
        return
    end(work, RunState.FAILED, Reaction.SURFACE, choice.trip.message)


def _fall_back(work: Work, failure: Failure, choice: Choice) -> None:
    """Make the fabric's static answer the outcome. A child surfaces instead, and its parent decides."""
    if work.compiled_fabric.spec.safe_fallback is None or work.run.family.lineage is not None:
        _surface(work, failure, choice)
    else:
        end(work, RunState.COMPLETED, Reaction.SAFE_FALLBACK, f"{STATIC_ANSWER}{choice.trip.message}")


def _abort(work: Work, failure: Failure, choice: Choice) -> None:
    end(work, RunState.ABORTED, Reaction.ABORT, choice.trip.message)


def _halt(work: Work, failure: Failure, choice: Choice) -> None:
    calls.let_go_all(work, "halted")
    end(work, RunState.ABORTED, Reaction.HALT, choice.trip.message)


def end(work: Work, state: RunState, reaction: str, reason: str) -> None:
    """Stop issuing; the run ends as soon as the calls in flight have settled."""
    for pending in list(work.run.pending.values()):
        if pending.failed:
            calls.let_go(work, pending, "the run is ending")
    mutations.drop_checks(work, "the run is ending")
    children.let_go(work, "its parent run is ending")
    reviews.withdraw_all(work, "the run is ending")
    work.emit(ev.RunEnding(state=state, reaction=reaction, reason=reason))
    settle(work)


def settle(work: Work) -> None:
    """End an ending run with its partial result. Nothing is in flight, every child has ended, and its mutations are
    undone.
    """
    ending = work.run.ending
    if ending is None or work.run.terminal:
        return
    reviews.withdraw_all(work, "the run is ending")
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
    partial, unwound = stages.partial_outcome(work), unwinding.mutations_sentence(work)
    if partial is not None and unwound:  # Otherwise it would read as if the undone mutations still stood.
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


TRANSCRIPT_CHARS = 20_000
"""Most characters of a transcript; the newest are kept."""


def handover_message(work: Work, failure: Failure, trip: Trip) -> str:
    """Return the message to the agent that takes over the failed step or, where no step failed, the plan."""
    step = work.run.steps.get(failure.step_id)
    lines = list(_step_transcript(work, step) if step is not None else _plan_transcript(work))
    text = "\n".join(lines)
    cut = "(the beginning is left out)\n" if len(text) > TRANSCRIPT_CHARS else ""
    cycle = trip.evidence.details.get("cycle")
    seen = f"\nThe cycle that was seen: {' -> '.join(cycle)}." if isinstance(cycle, list) and cycle else ""
    said = f"\nWhat was said so far:\n{cut}{text[-TRANSCRIPT_CHARS:]}" if text else ""
    return f"This was handed over to you, for it was stuck: {trip.message}.{seen}\nDo it in another way.{said}"


def _step_transcript(work: Work, step: Step) -> Iterator[str]:
    """Yield the messages of a step's agent and its tools. Blocked ones are left out."""
    if step.id in work.run.withheld:
        return
    brought = work.run.family.answers.get(step.id)
    if brought is not None:  # A team worked on it: its partial result.
        text = (work.ctx.contents.read(brought.ref).get("output") or {}).get("text", "")
        yield from [f"the team of {step.agent}: {text}"] if text else []
    for turn in step.history:
        yield from _turn(work, step.agent, turn)


def _plan_transcript(work: Work) -> Iterator[str]:
    """Yield the briefs of the plan, each with its agent."""
    planned = work.run.stages.get(Stage.PLAN)
    if planned is None or not planned.output_ref or f"stage:{Stage.PLAN}" in work.run.withheld:
        return
    speaker = planned.agents[0] if planned.agents else "the plan"
    for brief in slices.plan(work)["briefs"]:
        yield f"{speaker} to {brief['agent']}: {brief['title']}: {brief['instructions']}"


def _turn(work: Work, agent: str, turn: Turn) -> Iterator[str]:
    read = work.ctx.contents.read
    content = read(turn.answer_ref)
    said = content.get("text") or (_json(content["output"]) if "output" in content else "")
    if said:
        yield f"{agent}: {said}"
    proposed = {call["call_id"]: call for call in content.get("calls", ())}
    for call in turn.calls:
        args = proposed.get(call.call_id, {}).get("args")
        yield f"{agent} calls {call.tool}: {_json(args)}"
        if call.result_ref:
            yield f"{call.tool}: {_json(read(call.result_ref))}"


def _json(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

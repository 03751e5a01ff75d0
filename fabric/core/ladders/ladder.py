"""Chooses a rung: looks up the decision table's cell, and passes over rungs that are spent or cannot apply.

Pure choice, no effect: ``choose`` returns the reaction and why rungs were skipped; ``reactions`` carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core.child_runs import children
from fabric.core.decision import guard, slices
from fabric.core.decision.work import Work
from fabric.core.ladders import cheaper_model as cheaper
from fabric.core.ladders import fallback_model, routing, waits
from fabric.core.ladders.choice import Choice, RungSkipped, Why
from fabric.core.mechanisms import circuit_breaker
from fabric.core.mechanisms.contract import Proposal
from fabric.core.spec.policies.decision_table import DIRECT, GRAVITY, CountScope, Reaction, Rung
from fabric.core.spec.retry_layers import by_edge, explain_unrouted
from fabric.core.state.failure import Failure, classification
from fabric.core.state.judges import is_judge
from fabric.core.state.let_pass import poll_problem
from fabric.core.state.run import Step, rung_key, step_id
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.saga import MUTATES, Effect
from fabric.core.values.taxonomy import Cause, Direct, FailureType, Trip
from fabric.core.values.words import words


@value()
class RungCase:
    """One rung under examination, with the trip that it would answer."""

    trip: Trip
    failure_type: FailureType
    index: int
    """The rung's place in its ladder, from 0."""
    rung: Rung
    spent: int
    """Number of earlier uses."""


def why_not(work: Work, failure: Failure, case: RungCase) -> Why:
    """Return why a rung does not apply, or an empty text. Raises Lacking where a shared amount must be
    fetched first.
    """
    trip, rung = case.trip, case.rung
    row = classification(trip)
    if row.last_rung and not by_edge(rung):
        return f"{words(trip.cause)} does not go away by itself"
    step = work.run.steps.get(failure.step_id)
    if step is not None and step.approved:
        return "a person approved one more try, and it was the last"
    if reason := explain_unrouted(rung, row.error_class) or (_no_poll(work, trip) if rung.poll else ""):
        return reason
    plans = rung.reaction is Reaction.HANDOVER and not failure.step_id  # A replan undoes what was done first.
    if rung.reaction in CHILD_CHANGED_WORLD and not plans and child_changed_world(work, failure):
        return CHILD_CHANGED_WORLD[rung.reaction]
    return APPLIES[rung.reaction](work, failure, trip, case.spent)


Judge = Callable[[Work, Failure, RungCase], Why]
"""Decides whether a rung applies: the engine uses ``why_not``, the auditor a judge that reads the journal."""


def choose(work: Work, failure: Failure, judge: Judge = why_not) -> Choice:
    """Return the choice for the gravest of the failure's trips; the earlier mechanism wins a tie."""
    choices = [_choose_one(work, failure, trip, judge) for trip in failure.trips]
    return min(choices, key=lambda choice: GRAVITY.index(choice.rung.reaction))


def _choose_one(work: Work, failure: Failure, trip: Trip, judge: Judge) -> Choice:
    goes_to = classification(trip).goes_to
    if isinstance(goes_to, Direct):
        if trip.cause is Cause.GOAL_UNMET and _retry_target(work, failure, trip):
            return Choice(trip, None, 0, Rung(reaction=Reaction.REPLAN), _scope(failure, CountScope.STAGE), 0)
        rung = Rung(reaction=DIRECT[goes_to, work.run.tier])
        return Choice(trip, None, 0, rung, _scope(failure, CountScope.STAGE), 0)
    ladder = work.compiled_fabric.ladders.find_ladder(goes_to, work.run.tier, failure.stage)
    skipped: list[RungSkipped] = []
    last = len(ladder.rungs) - 1
    for index, rung in enumerate(ladder.rungs):
        scope = _scope(failure, rung.counted_per)
        spent = work.run.spent_rungs.get(rung_key(goes_to, index, scope), 0)
        if index == last:
            return Choice(trip, goes_to, index, rung, scope, spent, tuple(skipped))
        endless = rung.reaction is Reaction.WAIT_FOR_BREAKER and waits.named_wait(work, failure, trip)
        if rung.times is not None and spent >= rung.times and not endless:
            continue
        reason = judge(work, failure, RungCase(trip, goes_to, index, rung, spent))
        if not reason:
            return Choice(trip, goes_to, index, rung, scope, spent, tuple(skipped))
        skipped.append(RungSkipped(index, rung.reaction, reason))
    raise AssertionError(f"ladder of {goes_to} has no last rung")  # Ladder's validator rules this out


def _retry_target(work: Work, failure: Failure, trip: Trip) -> bool:
    """Return True if an unmet goal has a retry target, and may use it."""
    return work.compiled_fabric.spec.policy.goal_gates.retry == "replan" and not _replan(work, failure, trip, 0)


def _scope(failure: Failure, per: CountScope) -> str:
    """Return the scope in which a rung's uses are counted here."""
    if per is CountScope.CALL and failure.issued is not None:
        return f"call:{failure.issued.command_id}"
    if per in (CountScope.CALL, CountScope.NODE) and failure.step_id:
        return f"step:{failure.step_id.rpartition('.r')[0]}"
    if per is CountScope.STEP and failure.step_id:
        # Without the epoch: uses in a branch survive a replan, except retries.
        return f"step:{failure.step_id.partition('.e')[0]}"
    return f"stage:{failure.stage}"


def child_changed_world(work: Work, failure: Failure) -> bool:
    """Return True if a child run changed the world, or may have, in a step that would run once more."""
    changed = work.run.family.changed_world
    return bool(changed) and not set(changed).isdisjoint(rerunnable(work, failure))


def _no_poll(work: Work, trip: Trip) -> str:
    """Return why no review can allow a call to go on; "" if one can."""
    spec = work.compiled_fabric.spec
    return poll_problem(trip, lambda tool: Effect(spec.tool(tool).effect) not in MUTATES)


Applies = Callable[[Work, Failure, Trip, int], Why]


def _always(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    return ""


NOT_RUN_AGAIN: Mapping[Cause, str] = {
    Cause.CORRECTIONS_SPENT: "the agent was corrected as often as it may be",
    Cause.PARTIAL_FAN_IN: "each agent that failed was tried again already, as often as its own cell says",
}
"""Causes that a retry of the whole would repeat, since its parts were retried already; each with its sentence."""
RETRIED_ONCE: Mapping[Cause, str] = {Cause.MALFORMED_ANSWER: "the answer was unusable, and a retry was used already"}
"""Causes that seldom go away by themselves. A web page in the place of an answer mostly means a wrong address."""
CHILD_CHANGED_WORLD: Mapping[Reaction, str] = {
    Reaction.RETRY: "its child run changed the world, so it is not retried automatically",
    Reaction.RETRY_NODE: "its child run changed the world, so it is not retried automatically",
    Reaction.HANDOVER: "its child run changed the world, so no other agent does its part again",
}
"""Reasons against a rung where a child run of the failed step changed the world. Rungs not listed apply."""


def _retry(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    if work.run.ending is not None:
        return "the run is ending"
    if trip.cause in NOT_RUN_AGAIN:
        return NOT_RUN_AGAIN[trip.cause]
    if trip.mechanism == circuit_breaker.NAME:
        return "its circuit breaker is open, so no call is made; waiting is a separate option"
    if failure.issued is None:
        return _rerun(work, failure)
    if trip.cause in RETRIED_ONCE and spent:
        return RETRIED_ONCE[trip.cause]
    if not classification(trip).retried and classification(trip).flow_class != "semantic":
        return f"{words(trip.cause)} is not retried"
    policy = work.compiled_fabric.spec.policy
    if policy.retry_layers.layered and failure.issued.call != "model":
        return "a tool's call is not retried within its node"
    if reason := waits.too_long(work, failure) or waits.out_of_time(work, failure):
        return reason
    proposal = Proposal(
        kind="retry",
        stage=failure.stage,
        step_id=failure.step_id,
        target=failure.issued.target if failure.issued.call == "model" else "",
        command_id=failure.issued.command_id,
        attempt=failure.issued.attempt + 1,
        delay_s=waits.delay_s(work, failure, spent),
        timeout_s=work.policy_in(failure.stage).deadlines_of(work.run.tier).call_s,
    )
    trips = guard.judge(proposal, work.view, policy)
    return trips[0] if trips else ""


def _rerun(work: Work, failure: Failure) -> Why:
    step_ids = rerunnable(work, failure)
    if not step_ids:
        return "there is nothing to run again"
    trips = refuse_respawn(work, failure.stage, step_ids)
    return trips[0] if trips else ""


def refuse_respawn(work: Work, stage: Stage, step_ids: list[str]) -> list[Trip]:
    """Return the trips against running steps once more: an agent of a fan-out that starts again counts as spawned."""
    if stage is not Stage.FAN_OUT:
        return []
    steps = [work.run.steps[key] for key in step_ids]
    branches = sum(slices.find_weight(work.run, step) for step in steps)
    agents = slices.list_agents(work, steps)
    before = slices.promised_agents(work.run, stage)
    depth = work.run.depth
    replaced = sum(step.status == "active" for step in steps)
    proposal = Proposal(
        kind="spawn", stage=stage, branches=branches, promised=before, replaced=replaced, agents=agents, depth=depth
    )
    trips = guard.judge(proposal, work.view, work.compiled_fabric.spec.policy)
    briefs = (n for step in steps for n in slices.open_briefs(work.run, step))
    return trips or children.refuse_branches(work, stage, (step.agent for step in steps), briefs)


def rerunnable(work: Work, failure: Failure) -> list[str]:
    """Return the steps that a retry or an approval would run again: the failed one, or the stage's failed ones."""
    if failure.step_id:
        return [failure.step_id]
    steps = (step for step in work.run.steps.values() if step.stage == failure.stage)
    return [step.id for step in steps if step.status == "failed" or slices.has_gaps(work.run, step)]


def _retry_node(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    step = work.run.steps.get(failure.step_id)
    if reason := _node_is_over(work, step, trip) or waits.too_long(work, failure):
        return reason
    assert step is not None
    policy = work.compiled_fabric.spec.policy
    if reason := waits.spent_sentence(work, step, spent):
        return reason
    proposal = Proposal(
        kind="retry",
        stage=failure.stage,
        step_id=step.id,
        target=_own_model(work, step),
        command_id=next_id(work, step),
        delay_s=waits.node_delay_s(work, failure, spent),
        timeout_s=work.policy_in(failure.stage).deadlines_of(work.run.tier).call_s,
    )
    trips = guard.judge(proposal, work.view, policy) or refuse_respawn(work, step.stage, [step.id])
    return trips[0] if trips else ""


def _node_is_over(work: Work, step: Step | None, trip: Trip) -> str:
    """Return why a failed node is not run again, even with attempts left; "" if it may be."""
    if work.run.ending is not None:
        return "the run is ending"
    if step is None:
        return "there is nothing to run again"
    if step.final:
        return "the agent was stopped, and has said its last word"
    if trip.mechanism == circuit_breaker.NAME:
        return "its circuit breaker is open, so no call is made; waiting is a separate option"
    return "" if classification(trip).retried else f"{words(trip.cause)} is not retried"


def next_id(work: Work, step: Step) -> str:
    """Return the activation that takes a step's place when its node runs again."""
    return step_id(step.stage, step.branch, work.run.epoch, step.round + 1)


def _own_model(work: Work, step: Step) -> str:
    """Return the model that a node begins with anew; "" if a child run or the engine executes it."""
    if not step.agent or children.find_purpose(work, step.stage, step.agent) is not None:
        return ""
    return work.compiled_fabric.spec.agent(step.agent).model


def _accept_partial(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    step = work.run.steps.get(failure.step_id)
    if step is None or step.stage is not Stage.FAN_OUT:
        return "the run cannot continue without this branch"
    if reason := waits.no_partial(work, step):
        return reason
    return "" if classification(trip).retried else f"{words(trip.cause)} is not retried, so no retries were exhausted"


def _inject(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    if trip.cause in (Cause.HOP_LIMIT, Cause.RECURSION_LIMIT, Cause.VISIT_LIMIT, Cause.TURN_LIMIT):
        return "a limit is reached, and telling the agent does not raise it"
    return "" if failure.blocked else "no blocked call exists to tell the agent about"


def _terminate(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    step = work.run.steps.get(failure.step_id)
    speaks = step is not None and step.agent and step.status == "active" and not step.final
    return "" if speaks else "there is no agent left to answer"


def _replan(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    if work.compiled_fabric.spec.topology.planner is None:
        return "the plan is fixed, so there is nothing to replan"
    if trip.cause is Cause.RUN_DEADLINE:
        return "the run deadline has passed"
    return replans_spent(work, failure.stage)


def replans_spent(work: Work, stage: Stage) -> str:
    """Return why a stage may not be replanned once more; "" if it may."""
    if slices.in_slice(work.run):
        return "the plan is its parent's"
    used, limit = work.run.replans.get(stage, 0), work.compiled_fabric.spec.policy.limits.replans_per_stage
    return f"stage {words(stage)} has used all its replans (limit {limit})" if used >= limit else ""


def _wait(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    known = failure.breaker_wait_s is not None or waits.named_wait(work, failure, trip)
    if failure.issued is None or (trip.mechanism != circuit_breaker.NAME and not known):
        return "no circuit breaker refused the call"
    if work.run.ending is not None:
        return "the run is ending"
    if not known:
        return "only a person lets calls pass its circuit breaker again"
    policy = work.compiled_fabric.spec.policy
    proposal = Proposal(
        kind="await",
        stage=failure.stage,
        step_id=failure.step_id,
        delay_s=waits.wait_s(work, failure, spent),
        timeout_s=work.policy_in(failure.stage).deadlines_of(work.run.tier).call_s,
    )
    trips = guard.judge(proposal, work.view, policy)
    return trips[0] if trips else ""


_LATE = (Cause.RUN_DEADLINE, Cause.STAGE_DEADLINE, Cause.DEADLINE_NEAR)


def _handover(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    above = work.compiled_fabric.spec.topology.handover
    if above is None:
        return "no stronger agent or supervisor above the stalled pair is configured"
    if trip.cause in _LATE:
        return "no time is left for another agent"
    step = work.run.steps.get(failure.step_id)
    if step is None:
        return f"{above} plans already" if work.run.planner == above else _replan(work, failure, trip, spent)
    if is_judge(step):
        return "no agent may replace a judge whose work it could judge"
    if step.agent == above:
        return f"{above} does it already"
    if slices.is_slice(step.agent):
        return "a child run does it and hands over its own stuck parts"
    trips = refuse_respawn(work, step.stage, [step.id])
    return trips[0] if trips else ""


def _cheaper_model(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    return cheaper.why_not(work, failure, trip)


def _fallback_model(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    return fallback_model.why_not(work, failure, trip)


def _safe_fallback(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    """Return why the static answer does not apply; "" if it does. As the last rung it always applies, and surfaces
    where there is no answer.
    """
    if work.compiled_fabric.spec.safe_fallback is None:
        return "no static answer is configured"
    if trip.mechanism == circuit_breaker.NAME and circuit_breaker.find_fallback(trip) != "static_answer":
        return "its circuit breaker names no static answer as its fallback (on_open)"
    return ""


APPLIES: Mapping[Reaction, Applies] = {
    Reaction.HALT: _always,
    Reaction.ABORT: _always,
    Reaction.ESCALATE: _always,
    Reaction.SURFACE: _always,
    Reaction.SAFE_FALLBACK: _safe_fallback,
    Reaction.TERMINATE: _terminate,
    Reaction.REPLAN: _replan,
    Reaction.ACCEPT_PARTIAL: _accept_partial,
    Reaction.ROUTE: routing.why_not,
    Reaction.GO_BACK: routing.why_not_back,
    Reaction.RETRY_NODE: _retry_node,
    Reaction.INJECT: _inject,
    Reaction.RETRY: _retry,
    Reaction.HANDOVER: _handover,
    Reaction.FALLBACK_MODEL: _fallback_model,
    Reaction.CHEAPER_MODEL: _cheaper_model,
    Reaction.WAIT_FOR_BREAKER: _wait,
}
"""Check of each reaction: returns "" if it applies here, or the reason why not. Total over reactions, by test."""

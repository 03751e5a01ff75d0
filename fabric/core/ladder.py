"""Which rung of which cell: the decision table looked up, rungs spent and rungs that cannot apply passed over.

Pure choice, no effect: ``choose`` says what to do and which rungs were skipped why; ``reactions`` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core import cheaper, children, guard, routing, swap, waits, worker_retries
from fabric.core.decision_table import DIRECT, GRAVITY, CountScope, Reaction, Rung
from fabric.core.failure import Failure, Unfit, classification
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.judges import is_judge
from fabric.core.let_pass import polled
from fabric.core.mechanisms import circuit_breaker
from fabric.core.mechanisms.contract import Proposal
from fabric.core.retry_layers import by_edge, unrouted
from fabric.core.run import Step, rung_key, step_id
from fabric.core.saga import MUTATES, Effect
from fabric.core.taxonomy import Cause, Direct, FailureType
from fabric.core.topologies import slices
from fabric.core.verdict import Trip
from fabric.core.words import words
from fabric.core.work import Work

Why = str | Trip | Unfit
"""What speaks against a rung: a sentence, the mechanism that does, or all that can be said of models; empty: nothing."""


@value()
class Skipped:
    """A rung that could not apply."""

    rung: int
    reaction: Reaction
    why: Why

    @property
    def reason(self) -> str:
        """Why it could not apply."""
        if isinstance(self.why, Unfit):
            return self.why.reason
        return self.why if isinstance(self.why, str) else f"{self.why.cause}: {self.why.message}"


@value()
class Choice:
    """What the table says about one failure."""

    trip: Trip
    failure_type: FailureType | None
    rung_index: int
    rung: Rung
    scope: str
    spent: int
    skipped: tuple[Skipped, ...] = ()
    instead: swap.Found | None = None
    """Of the rung *fallback model*: who stands in."""


def choose(work: Work, failure: Failure) -> Choice:
    """The choice for the gravest of the failure's trips; ties go to the mechanism that stands earlier."""
    choices = [_choose_one(work, failure, trip) for trip in failure.trips]
    return min(choices, key=lambda choice: GRAVITY.index(choice.rung.reaction))


def _choose_one(work: Work, failure: Failure, trip: Trip) -> Choice:
    goes_to = classification(trip).goes_to
    if isinstance(goes_to, Direct):
        if trip.cause is Cause.GOAL_UNMET and _retry_target(work, failure, trip):
            return Choice(trip, None, 0, Rung(reaction=Reaction.REPLAN), _scope(failure, CountScope.STAGE), 0)
        rung = Rung(reaction=DIRECT[goes_to, work.run.tier])
        return Choice(trip, None, 0, rung, _scope(failure, CountScope.STAGE), 0)
    ladder = work.compiled.ladders.at(goes_to, work.run.tier, failure.stage)
    skipped: list[Skipped] = []
    last = len(ladder.rungs) - 1
    for index, rung in enumerate(ladder.rungs):
        scope = _scope(failure, rung.counted_per)
        spent = work.run.spent_rungs.get(rung_key(goes_to, index, scope), 0)
        if index == last:
            return Choice(trip, goes_to, index, rung, scope, spent, tuple(skipped))
        endless = rung.reaction is Reaction.WAIT_FOR_BREAKER and waits.named(work, failure, trip)
        if rung.times is not None and spent >= rung.times and not endless:
            continue
        reason = _why_not(work, failure, trip, rung, spent)
        if not reason:
            return Choice(trip, goes_to, index, rung, scope, spent, tuple(skipped))
        skipped.append(Skipped(index, rung.reaction, reason))
    raise AssertionError(f"ladder of {goes_to} has no last rung")  # Ladder's validator rules this out


def _retry_target(work: Work, failure: Failure, trip: Trip) -> bool:
    """Whether an unmet goal has somewhere to go back to, and may."""
    return work.compiled.spec.policy.goal_gates.retry == "replan" and not _replan(work, failure, trip, 0)


def _scope(failure: Failure, per: CountScope) -> str:
    """What a rung's uses are counted against here."""
    if per is CountScope.CALL and failure.issued is not None:
        return f"call:{failure.issued.command_id}"
    if per in (CountScope.CALL, CountScope.NODE) and failure.step_id:
        return f"step:{failure.step_id.rpartition('.r')[0]}"
    if per is CountScope.STEP and failure.step_id:
        # Without the epoch: what was spent on a branch survives a replan, retries excepted.
        return f"step:{failure.step_id.partition('.e')[0]}"
    return f"stage:{failure.stage}"


def _why_not(work: Work, failure: Failure, trip: Trip, rung: Rung, spent: int) -> Why:
    row = classification(trip)
    if row.last_rung and not by_edge(rung):
        return f"{words(trip.cause)} does not go away by itself"
    step = work.run.steps.get(failure.step_id)
    if step is not None and step.approved:
        return "a person approved one more try, and it was the last"
    if reason := unrouted(rung, row.error_class) or (_no_poll(work, trip) if rung.poll else ""):
        return reason
    return APPLIES[rung.reaction](work, failure, trip, spent)


def _no_poll(work: Work, trip: Trip) -> str:
    """Why no person is asked whether a call may go on; empty: one is."""
    spec = work.compiled.spec
    return polled(trip, lambda tool: Effect(spec.tool(tool).effect) not in MUTATES)


Applies = Callable[[Work, Failure, Trip, int], Why]


def _always(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    return ""


NOT_RUN_AGAIN: Mapping[Cause, str] = {
    Cause.CORRECTIONS_SPENT: "the agent was corrected as often as it may be",
    Cause.PARTIAL_FAN_IN: "each agent that failed was tried again already, as often as its own cell says",
}
"""What a retry would repeat although it has been tried again already, in smaller pieces."""
RETRIED_ONCE: Mapping[Cause, str] = {Cause.MALFORMED_ANSWER: "what came was no answer, and it was tried again already"}
"""Causes that seldom go away by themselves: a web page in the place of an answer mostly means a wrong address."""


def _retry(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    if work.run.ending is not None:
        return "the run is ending"
    if trip.cause in NOT_RUN_AGAIN:
        return NOT_RUN_AGAIN[trip.cause]
    if trip.mechanism == circuit_breaker.NAME:
        return "its circuit breaker is open: nobody is called, and waiting for it is an option of its own"
    if failure.issued is None:
        return _rerun(work, failure)
    if trip.cause in RETRIED_ONCE and spent:
        return RETRIED_ONCE[trip.cause]
    if not classification(trip).retried and classification(trip).flow_class != "semantic":
        return f"{words(trip.cause)} is not retried"
    policy = work.compiled.spec.policy
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
    trips = respawned(work, failure.stage, step_ids)
    return trips[0] if trips else ""


def respawned(work: Work, stage: Stage, step_ids: list[str]) -> list[Trip]:
    """What speaks against running steps once more: an agent of a fan-out that starts again is one more that was spawned."""
    if stage is not Stage.FAN_OUT:
        return []
    steps = [work.run.steps[key] for key in step_ids]
    branches = sum(slices.weight_of(work.run, step) for step in steps)
    agents = slices.agents_of(work, steps)
    before = slices.promised(work.run, stage)
    depth = work.run.depth
    replaced = sum(step.status == "active" for step in steps)
    proposal = Proposal(
        kind="spawn", stage=stage, branches=branches, promised=before, replaced=replaced, agents=agents, depth=depth
    )
    trips = guard.judge(proposal, work.view, work.compiled.spec.policy)
    briefs = (n for step in steps for n in slices.open_briefs(work.run, step))
    return trips or children.refused(work, stage, (step.agent for step in steps), briefs)


def rerunnable(work: Work, failure: Failure) -> list[str]:
    """The steps that a retry or an approval would run once more: the failed one, or the stage's failed ones."""
    if failure.step_id:
        return [failure.step_id]
    steps = (step for step in work.run.steps.values() if step.stage == failure.stage)
    return [step.id for step in steps if step.status == "failed" or slices.has_gaps(work.run, step)]


def _retry_node(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    step = work.run.steps.get(failure.step_id)
    if reason := _node_is_over(work, step, trip) or waits.too_long(work, failure):
        return reason
    assert step is not None
    policy = work.compiled.spec.policy
    if reason := worker_retries.spent(work, step, spent):
        return reason
    proposal = Proposal(
        kind="retry",
        stage=failure.stage,
        step_id=step.id,
        target=_own_model(work, step),
        command_id=next_id(work, step),
        delay_s=worker_retries.delay_s(work, failure, spent),
        timeout_s=work.policy_in(failure.stage).deadlines_of(work.run.tier).call_s,
    )
    trips = guard.judge(proposal, work.view, policy) or respawned(work, step.stage, [step.id])
    return trips[0] if trips else ""


def _node_is_over(work: Work, step: Step | None, trip: Trip) -> str:
    """Why a node that failed is not run again, whatever is left of its attempts; empty: it may be."""
    if work.run.ending is not None:
        return "the run is ending"
    if step is None:
        return "there is nothing to run again"
    if step.final:
        return "the agent was stopped, and has said its last word"
    if trip.mechanism == circuit_breaker.NAME:
        return "its circuit breaker is open: nobody is called, and waiting for it is an option of its own"
    return "" if classification(trip).retried else f"{words(trip.cause)} is not retried"


def next_id(work: Work, step: Step) -> str:
    """The activation that takes a step's place when its node runs again."""
    return step_id(step.stage, step.branch, work.run.epoch, step.round + 1)


def _own_model(work: Work, step: Step) -> str:
    """The model that a node begins with anew; empty: a run of its own or the engine does it."""
    if not step.agent or children.purpose_of(work, step.stage, step.agent) is not None:
        return ""
    return work.compiled.spec.agent(step.agent).model


def _accept_partial(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    step = work.run.steps.get(failure.step_id)
    if step is None or step.stage is not Stage.FAN_OUT:
        return "it is no branch that others could go on without"
    if reason := worker_retries.no_partial(work, step):
        return reason
    return "" if classification(trip).retried else f"{words(trip.cause)} is not retried, so no retries were exhausted"


def _inject(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    if trip.cause in (Cause.HOP_LIMIT, Cause.RECURSION_LIMIT, Cause.VISIT_LIMIT, Cause.TURN_LIMIT):
        return "a limit is reached, and telling the agent does not raise it"
    return "" if failure.blocked else "no call was held back that its agent could be told about"


def _terminate(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    step = work.run.steps.get(failure.step_id)
    speaks = step is not None and step.agent and step.status == "active" and not step.final
    return "" if speaks else "there is no agent left to answer"


def _replan(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    if work.compiled.spec.topology.planner is None:
        return "the plan is fixed, so there is nothing to replan"
    if trip.cause is Cause.RUN_DEADLINE:
        return "the run deadline has passed"
    return replans_spent(work, failure.stage)


def replans_spent(work: Work, stage: Stage) -> str:
    """Why a stage may not be replanned once more; empty: it may."""
    if slices.in_slice(work.run):
        return "the plan is its parent's"
    used, limit = work.run.replans.get(stage, 0), work.compiled.spec.policy.limits.replans_per_stage
    return f"stage {words(stage)} has been planned anew as often as it may be (limit {limit})" if used >= limit else ""


def _wait(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    known = failure.breaker_wait_s is not None or waits.named(work, failure, trip)
    if failure.issued is None or (trip.mechanism != circuit_breaker.NAME and not known):
        return "no circuit breaker refused the call"
    if work.run.ending is not None:
        return "the run is ending"
    if not known:
        return "only a person lets calls pass its circuit breaker again"
    policy = work.compiled.spec.policy
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
    above = work.compiled.spec.topology.handover
    if above is None:
        return "no stronger agent or supervisor above the stalled pair is configured"
    if trip.cause in _LATE:
        return "there is no time left for anybody"
    step = work.run.steps.get(failure.step_id)
    if step is None:
        return f"{above} plans already" if work.run.planner == above else _replan(work, failure, trip, spent)
    if is_judge(step):
        return "a judge is not replaced by somebody whom it may have to judge"
    if step.agent == above:
        return f"{above} does it already"
    if slices.is_slice(step.agent):
        return "a child run does it, and hands over what is stuck in it by itself"
    trips = respawned(work, step.stage, [step.id])
    return trips[0] if trips else ""


def _cheaper_model(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    return cheaper.why_not(work, failure, trip)


def _fallback_model(work: Work, failure: Failure, trip: Trip, spent: int) -> Why:
    return swap.why_not(work, failure, trip)


def _safe_fallback(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    """As the last rung it always applies, and surfaces where there is no answer."""
    if work.compiled.spec.safe_fallback is None:
        return "no static answer is configured"
    if trip.mechanism == circuit_breaker.NAME and circuit_breaker.fallback_of(trip) != "static_answer":
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
"""Whether a rung can apply here: an empty string, or the reason why not. Total over reactions, by test."""

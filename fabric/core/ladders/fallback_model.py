"""The rung *fallback model*: makes the failed call again, to a fallback of its model (docs/specification/retries.md;
S1 "Model fallbacks").

``failover.py`` chooses among the models that may take this call now: those that every protection lets pass, at their
own price, and that have no open circuit breaker as far as is known. The fallback answers for the rest of its step; a
new activation begins with its agent's own model. In high-stakes no rung changes the model: the reviewer of the
failure may name it (``offered_fallback``, ``approve``).
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.child_runs import children as handing_out
from fabric.core.decision import guard
from fabric.core.decision.work import Work
from fabric.core.events.inputs import DecisionMade
from fabric.core.ladders.failover import ASKS_FIRST, Failover, LostCall, PassedOver, choose
from fabric.core.mechanisms import circuit_breaker
from fabric.core.mechanisms.contract import Proposal
from fabric.core.spec.endpoints import find_endpoint, provider_scope
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.spec.tree import Capability
from fabric.core.state.failure import Failure, Unfit, record
from fabric.core.state.run import Step
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Trip
from fabric.core.values.words import words

BREAKER_ALLOWS = "model"
"""Value of a breaker's ``on_open`` that allows another model."""
REASON_CHARS_MAX = 500


@value()
class FallbackFound:
    """The choice of a fallback and its numbers; None: no model was considered."""

    choice: Failover
    weighed: ev.Weighed | None = None


NO_MODEL = FallbackFound(Failover(""))
"""Choice where no model is needed."""


def why_not(work: Work, failure: Failure, trip: Trip) -> str | Unfit:
    """Return why no other model can take the call; "" if one can."""
    given = find_fallback(work, failure, trip)
    if given.choice.asks_first:
        return f"in {words(work.run.tier)} a person must approve another model before it is called"
    if given.choice.model:
        return ""
    reason = _why_none(given.choice)
    return reason if given.weighed is None else Unfit(reason, given.weighed)


def offered_fallback(work: Work, failure: Failure, trip: Trip) -> FallbackFound:
    """Return the model that a reviewer of the failure may choose; an empty choice where none can take the
    call.
    """
    return find_fallback(work, failure, trip, anew=True)


def change(work: Work, failure: Failure, trip: Trip, given: FallbackFound) -> None:
    """Put the other model in place; the failed call's next attempt goes to it."""
    step, issued = work.run.steps[failure.step_id], failure.issued
    chosen = given.choice
    assert chosen.model, "the ladder chose a rung that does not apply"
    assert issued is not None
    work.emit(
        ev.ModelChanged(
            step_id=step.id,
            agent=step.agent,
            before=calls.find_model(work, step),
            model=chosen.model,
            reason=Reaction.FALLBACK_MODEL,
            command_id=issued.command_id,
            cause=trip.cause,
            needs=tuple(sorted(needs(work, step))),
            more_usd_micros=more_usd_micros(work, step, failure, chosen.model),
            passed_over=tuple(ev.PassedModel(model=one.model, reason=one.reason) for one in chosen.passed_over),
            weighed=given.weighed,
            left_out=calls.reasoning_left_out(work, step, chosen.model),
        )
    )


def problem(work: Work, fact: ev.ReviewOpened, given: DecisionMade) -> str:
    """Return why the model named in an answer cannot be taken; "" if it can, or none is named."""
    if not given.model:
        return ""
    if given.verb != "approve" or not fact.model:
        return "another model goes with the approval of a failed call, and this is another review or answer"
    if given.model != fact.model:
        return f"the review is about model {fact.model}, and the answer names {given.model}"
    return ""


def approve(work: Work, fact: ev.ReviewOpened, given: DecisionMade) -> None:
    """Put the model in place that a person approved, in the step that runs once more."""
    if not given.model:
        return
    step = _newest(work, fact)
    work.emit(
        ev.ModelChanged(
            step_id=step.id,
            agent=step.agent,
            before=calls.find_model(work, step),
            model=given.model,
            reason=Reaction.FALLBACK_MODEL,
            needs=tuple(sorted(needs(work, step))),
            actor=given.actor,
        )
    )


def _newest(work: Work, fact: ev.ReviewOpened) -> Step:
    """Return the activation that took the place of the failed one."""
    stage, branch = fact.step_id.split(".")[:2]
    return next(one for one in work.run.steps.values() if (one.stage, str(one.branch)) == (stage, branch))


def needs(work: Work, step: Step, *, anew: bool = False) -> frozenset[Capability]:
    """Return the capabilities needed by the step's next call, or (``anew``) by the step from its beginning."""
    wanted = work.compiled_fabric.spec.needs(work.compiled_fabric.spec.agent(step.agent))
    return wanted - {Capability.TOOL_USE} if step.final and not anew else wanted


def more_usd_micros(work: Work, step: Step, failure: Failure, name: str) -> int:
    """Return the worst-case cost of the call above its earlier one, in micro-dollars."""
    own, other = (_proposal(work, step, failure, model).computed_usd_micros or 0 for model in ("", name))
    return other - own


def find_fallback(work: Work, failure: Failure, trip: Trip, *, anew: bool = False) -> FallbackFound:
    """Choose the fallback that may take the call now, with the numbers of the choice. ``anew``: it would take the
    step from the beginning, and not this call.
    """
    if reason := _explain_none(work, failure, trip):
        return FallbackFound(Failover("", reason=reason))
    step, issued = work.run.steps[failure.step_id], failure.issued
    assert issued is not None  # _explain_none
    models = {model.name: model for model in work.compiled_fabric.spec.models}
    agent = work.compiled_fabric.spec.agent(step.agent)
    worst = _proposal(work, step, failure, "").computed_tokens
    lost = LostCall(
        model=issued.target,
        cause=trip.cause,
        tier=work.run.tier,
        stands_for=step.stands_for,
        needs=needs(work, step, anew=anew),
        input_tokens=worst - agent.max_output_tokens,
        output_tokens=agent.max_output_tokens,
        tried=frozenset(step.tried),
    )
    trips: dict[str, Trip] = {}

    # For a review, which comes first, only look: a shared token would be spent on a call that is not made.
    takes = not anew and not ASKS_FIRST[work.run.tier]

    def refuses(name: str) -> PassedOver | None:
        if trip.mechanism == circuit_breaker.NAME and trip.evidence.scope == provider_scope(models[name]):
            return PassedOver(name, "the circuit breaker of its provider is open", "breaker")
        if name in failure.shut:
            return PassedOver(name, "a circuit breaker in front of it is open", "breaker")
        refused = _refuse_model(work, step, failure, name, takes=takes)
        if refused is None:
            return None
        trips[name] = refused
        return PassedOver(name, refused.message)

    choice = choose(lost, models, work.compiled_fabric.prices, refuses)
    return FallbackFound(choice, _model_choice(work, lost, choice, trips))


def _explain_none(work: Work, failure: Failure, trip: Trip) -> str:
    """Return why no model is considered at all; "" if models are."""
    step, issued = work.run.steps.get(failure.step_id), failure.issued
    if step is None or step.status != "active" or failure.blocked or issued is None or issued.call != "model":
        return "no model call is at fault"
    if work.run.ending is not None:
        return "the run is ending"
    if not work.compiled_fabric.spec.model(step.stands_for or issued.target).fallbacks:
        return "no fallback model is configured"
    if trip.mechanism == circuit_breaker.NAME and circuit_breaker.find_fallback(trip) != BREAKER_ALLOWS:
        return "its circuit breaker names no model as its fallback (on_open)"
    return ""


def _model_choice(work: Work, lost: LostCall, choice: Failover, trips: Mapping[str, Trip]) -> ev.Weighed | None:
    """Return the candidates and numbers of the choice; None: the cause allows no other model."""
    if not choice.model and not choice.passed_over:
        return None

    def cost(name: str) -> int | None:
        price = work.compiled_fabric.prices.get(name)
        return None if price is None else price.worst_cost(lost.input_tokens, lost.output_tokens)

    over = [
        ev.Candidate(
            model=one.model,
            usd_micros=cost(one.model),
            ruled_out=one.ruled_out,
            trip=record(trips[one.model]) if one.model in trips else None,
        )
        for one in choice.passed_over
    ]
    taken = [ev.Candidate(model=choice.model, usd_micros=cost(choice.model))] if choice.model else []
    return ev.Weighed(
        before=lost.model,
        input_tokens=lost.input_tokens,
        output_tokens=lost.output_tokens,
        usd_micros=cost(lost.model),
        candidates=(*over, *taken),
    )


def _refuse_model(work: Work, step: Step, failure: Failure, name: str, *, takes: bool) -> Trip | None:
    """Return why a model may not take the call now: its worst-case cost, the time left, or no retry token. None: it may
    take it.

    ``takes``: the call is made if nothing trips, so the shared buckets give a token for it. Otherwise only the run's
    own bucket is looked at.
    """
    assert failure.issued is not None
    policy, issued = work.compiled_fabric.spec.policy, failure.issued
    again = Proposal(
        kind="retry",
        stage=step.stage,
        step_id=step.id,
        target=name,
        command_id=issued.command_id if takes else "",
        attempt=issued.attempt + 1,
        timeout_s=calls.timeout_s(work, step.stage),
    )
    proposals = (_proposal(work, step, failure, name), *((again,) if repeats(work, issued.target, name) else ()))
    for proposal in proposals:
        trips = guard.judge(proposal, work.view, policy)
        if trips:
            return trips[0]
    return None


def repeats(work: Work, failed: str, name: str) -> bool:
    """Return True if a model is at the failed endpoint: such a call is a retry. The first attempt at another
    endpoint is none.
    """
    return find_endpoint(work.compiled_fabric.spec.model(failed)) == find_endpoint(
        work.compiled_fabric.spec.model(name)
    )


def _proposal(work: Work, step: Step, failure: Failure, name: str) -> Proposal:
    assert failure.issued is not None
    opened = handing_out.open_messages(work.run, work.compiled_fabric.spec, step)
    issued = failure.issued
    return calls.model_proposal(work, step, opened, turn=issued.turn, attempt=issued.attempt + 1, instead=name)


def _why_none(found: Failover) -> str:
    each = "; ".join(f"{one.model}: {one.reason}" for one in found.passed_over)
    return (f"{found.reason} ({each})" if each else found.reason)[:REASON_CHARS_MAX]

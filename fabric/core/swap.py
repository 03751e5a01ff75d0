"""The rung *fallback model*: the failed call again, to a model that stands in for the one that was asked (semantics.md 3, 4 "Failover"; S1 "Model fallbacks").

Which one is ``failover.py``'s choice, of those that may take this call now: that every protection would let pass, at their own price, and that no open circuit
breaker is known to stand in front of. It answers for the rest of its step; an activation that is opened anew begins with its agent's own model. In
high-stakes no rung swaps: a person who is asked about the failure may name the model (``offered``, ``approve``).
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import calls, guard, handing_out
from fabric.core import events as ev
from fabric.core.decision_table import Reaction
from fabric.core.endpoints import endpoint_of, provider_scope
from fabric.core.failover import ASKS_FIRST, Failover, Lost, PassedOver, choose
from fabric.core.failure import Failure, Unfit, record
from fabric.core.frozen import value
from fabric.core.inputs import DecisionMade
from fabric.core.mechanisms import circuit_breaker
from fabric.core.mechanisms.contract import Proposal
from fabric.core.run import Step
from fabric.core.spec import Capability
from fabric.core.verdict import Trip
from fabric.core.words import words
from fabric.core.work import Work

BREAKER_ALLOWS = "model"
"""What ``on_open`` of the breaker that refused a call says where another model may be asked."""
REASON_CHARS_MAX = 500


@value()
class Found:
    """What was chosen, and on what; None: no model was looked at."""

    choice: Failover
    weighed: ev.Weighed | None = None


NOBODY = Found(Failover(""))
"""Where no model is asked for."""


def why_not(work: Work, failure: Failure, trip: Trip) -> str | Unfit:
    """Why no other model can take the call; empty: one can."""
    given = found(work, failure, trip)
    if given.choice.asks_first:
        return f"in {words(work.run.tier)} a person approves another model before it is asked"
    if given.choice.model:
        return ""
    reason = _why_none(given.choice)
    return reason if given.weighed is None else Unfit(reason, given.weighed)


def offered(work: Work, failure: Failure, trip: Trip) -> Found:
    """The model that a person who is asked about the failure may put in place; none where none can take the call."""
    return found(work, failure, trip, anew=True)


def change(work: Work, failure: Failure, trip: Trip, given: Found) -> None:
    """Puts the other model in place; the failed call's next attempt goes to it."""
    step, issued = work.run.steps[failure.step_id], failure.issued
    chosen = given.choice
    assert chosen.model, "the ladder chose a rung that does not apply"
    assert issued is not None
    work.emit(
        ev.ModelChanged(
            step_id=step.id,
            agent=step.agent,
            before=calls.model_of(work, step),
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


def problem(work: Work, fact: ev.EscalationOpened, given: DecisionMade) -> str:
    """Why the model that an answer names cannot be taken; empty: it can, or none is named."""
    if not given.model:
        return ""
    if given.verb != "approve" or not fact.model:
        return "another model goes with the approval of a failed call, and this is another question or answer"
    if given.model != fact.model:
        return f"the question is about model {fact.model}, and the answer names {given.model}"
    return ""


def approve(work: Work, fact: ev.EscalationOpened, given: DecisionMade) -> None:
    """Puts the model in place that a person approved, in the step that runs once more."""
    if not given.model:
        return
    step = _newest(work, fact)
    work.emit(
        ev.ModelChanged(
            step_id=step.id,
            agent=step.agent,
            before=calls.model_of(work, step),
            model=given.model,
            reason=Reaction.FALLBACK_MODEL,
            needs=tuple(sorted(needs(work, step))),
            actor=given.actor,
        )
    )


def _newest(work: Work, fact: ev.EscalationOpened) -> Step:
    """The activation that took the place of the failed one."""
    stage, branch = fact.step_id.split(".")[:2]
    return next(one for one in work.run.steps.values() if (one.stage, str(one.branch)) == (stage, branch))


def needs(work: Work, step: Step, *, anew: bool = False) -> frozenset[Capability]:
    """What a model must be capable of that takes the step's next call, or (``anew``) the step from its beginning."""
    wanted = work.compiled.spec.needs(work.compiled.spec.agent(step.agent))
    return wanted - {Capability.TOOL_USE} if step.final and not anew else wanted


def more_usd_micros(work: Work, step: Step, failure: Failure, name: str) -> int:
    """What the call may cost at worst above what it might have cost before, micro-dollars."""
    own, other = (_proposal(work, step, failure, model).computed_usd_micros or 0 for model in ("", name))
    return other - own


def found(work: Work, failure: Failure, trip: Trip, *, anew: bool = False) -> Found:
    """Who may take the call now, and on what that was weighed. ``anew``: it is not this call that they would take, but its step from the beginning."""
    if reason := _nobody(work, failure, trip):
        return Found(Failover("", reason=reason))
    step, issued = work.run.steps[failure.step_id], failure.issued
    assert issued is not None  # _nobody
    models = {model.name: model for model in work.compiled.spec.models}
    agent = work.compiled.spec.agent(step.agent)
    worst = _proposal(work, step, failure, "").computed_tokens
    lost = Lost(
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

    # Looked at for a person, who is asked first: a token of those that runs share would be gone for a call that nobody makes.
    takes = not anew and not ASKS_FIRST[work.run.tier]

    def refuses(name: str) -> PassedOver | None:
        if trip.mechanism == circuit_breaker.NAME and trip.evidence.scope == provider_scope(models[name]):
            return PassedOver(name, "the circuit breaker of its provider is open", "breaker")
        if name in failure.shut:
            return PassedOver(name, "a circuit breaker in front of it is open", "breaker")
        refused = _refused(work, step, failure, name, takes=takes)
        if refused is None:
            return None
        trips[name] = refused
        return PassedOver(name, refused.message)

    choice = choose(lost, models, work.compiled.prices, refuses)
    return Found(choice, _weighed(work, lost, choice, trips))


def _nobody(work: Work, failure: Failure, trip: Trip) -> str:
    """Why no model is looked at, whatever it could do; empty: they are."""
    step, issued = work.run.steps.get(failure.step_id), failure.issued
    if step is None or step.status != "active" or failure.blocked or issued is None or issued.call != "model":
        return "no model call is at fault"
    if work.run.ending is not None:
        return "the run is ending"
    if not work.compiled.spec.model(step.stands_for or issued.target).fallbacks:
        return "no fallback model is configured"
    if trip.mechanism == circuit_breaker.NAME and circuit_breaker.fallback_of(trip) != BREAKER_ALLOWS:
        return "its circuit breaker names no model as its fallback (on_open)"
    return ""


def _weighed(work: Work, lost: Lost, choice: Failover, trips: Mapping[str, Trip]) -> ev.Weighed | None:
    """What the choice was made on; None: the cause lets no other model be asked."""
    if not choice.model and not choice.passed_over:
        return None

    def cost(name: str) -> int | None:
        price = work.compiled.prices.get(name)
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


def _refused(work: Work, step: Step, failure: Failure, name: str, *, takes: bool) -> Trip | None:
    """Why a model may not take the call now: what it may cost at worst, the time that is left, and a retry token where the same endpoint is asked again.

    ``takes``: the call is made if nothing speaks against it, so that the buckets that runs share give a token for it. Else the run's own is looked at alone.
    """
    assert failure.issued is not None
    policy, issued = work.compiled.spec.policy, failure.issued
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
    """Whether the endpoint that failed is asked again: that is a retry, whatever the model. The first attempt at another endpoint is none."""
    return endpoint_of(work.compiled.spec.model(failed)) == endpoint_of(work.compiled.spec.model(name))


def _proposal(work: Work, step: Step, failure: Failure, name: str) -> Proposal:
    assert failure.issued is not None
    opened = handing_out.opening(work.run, work.compiled.spec, step)
    issued = failure.issued
    return calls.model_proposal(work, step, opened, turn=issued.turn, attempt=issued.attempt + 1, instead=name)


def _why_none(found: Failover) -> str:
    each = "; ".join(f"{one.model}: {one.reason}" for one in found.passed_over)
    return (f"{found.reason} ({each})" if each else found.reason)[:REASON_CHARS_MAX]

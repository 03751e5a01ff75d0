"""Finds the reactions that can apply to a failure, the calls before it, and the chain that cells then promise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from fabric.core.events.envelope import list_events
from fabric.core.rules.signatures import effective_limit
from fabric.core.spec.endpoints import endpoint_name
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.spec.policies.decision_table import DIRECT, Reaction, Table
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Direct, ErrorClass, FailureType, Tier
from fabric.core.values.units import US
from simulator.scenarios.baseline import work as baseline
from simulator.scenarios.baseline.work import RAISES, first_run
from simulator.scenarios.promises.breakers import counts, require_known
from simulator.scenarios.promises.calls import Call, Calling, Earlier, Other
from simulator.scenarios.promises.expectation import Chain, Circumstances, Person, expect_chain
from simulator.scenarios.promises.layers import (
    MET_IN,
    NO_TURN,
    NotComputed,
    is_blocked,
    list_fallbacks,
    met_in,
    node_waits,
    not_back,
    not_by_rule,
    options,
)

# -- prelude -----------------------------------------------------------------------------------------------------------


def before_the_end(spec: FabricSpec, tier: Tier, *, seed: int = 1) -> Earlier:
    """Return the calls of a fabric's undisturbed run. Raises NotComputed if it does not complete."""
    before = baseline.drive_undisturbed(baseline.scripted_models(spec), tier, seed=seed)
    if before.why:
        raise NotComputed(before.why)
    events = list_events(before.world.store.rows(first_run(before.world).id))
    facts: list[tuple[int, Any]] = [(event.at, event.fact) for event in events]
    began = facts[0][0]
    ended = next(at for at, fact in facts if fact.kind == "stage_entered" and fact.stage == Stage.FINALIZE)
    return Earlier(tuple(_calls(facts, began, ended)), (ended - began) / US)


def _calls(facts: list[tuple[int, Any]], began: int, ended: int) -> Iterator[Call]:
    """Yield the calls that were issued before the last stage began."""
    issued: dict[str, Any] = {}
    for at, fact in facts:
        if at > ended:
            return
        if fact.kind == "call_issued":
            issued[fact.command_id] = fact
        elif fact.kind in ("model_answered", "tool_answered") and (call := issued.get(fact.command_id)) is not None:
            model = call.target if call.call == "model" else ""
            yield Call((at - began) / US, call.step_id.partition(".")[0], call.agent, model)


# -- circumstances -----------------------------------------------------------------------------------------------------

_R, _F = Reaction, FailureType
NO_BREAKER, NO_CHEAPER = "no circuit breaker counts the failure", "the failure is not one that a cheaper model ends"
NO_FALLBACK = "the failure is not one that another model ends"
NOTHING_TO_INJECT = "no call was blocked that a message could answer"
NO_AGENT_AT_WORK = "no agent is at work that could answer with what it has"
NOT_RETRIED = "the failure is not retried"

_ALWAYS_OUT = {_R.WAIT_FOR_BREAKER: NO_BREAKER, _R.CHEAPER_MODEL: NO_CHEAPER}
_NOT_A_CALL = {**_ALWAYS_OUT, _R.FALLBACK_MODEL: NO_FALLBACK}
_OF_A_STAGE = {**_NOT_A_CALL, _R.INJECT: NOTHING_TO_INJECT, _R.TERMINATE: NO_AGENT_AT_WORK}

CANNOT: Mapping[FailureType, Mapping[Reaction, str]] = {
    _F.TOOL_LOOP: _NOT_A_CALL,
    _F.DEADLOCK: {**_OF_A_STAGE, _R.RETRY: "the step that planned has ended well"},
    _F.COST_OVERRUN: {**_OF_A_STAGE, _R.RETRY: "no step has failed that could run again"},
    _F.PROVIDER: {**_ALWAYS_OUT, _R.INJECT: NOTHING_TO_INJECT},
    _F.SCHEMA_GROUNDING: _OF_A_STAGE,
    _F.PLAN_MALFORMED: _OF_A_STAGE,
    _F.NO_PROGRESS: {**_NOT_A_CALL, _R.INJECT: NOTHING_TO_INJECT},
    _F.UNSAFE_OUTPUT: {**_NOT_A_CALL, _R.INJECT: NOTHING_TO_INJECT, _R.RETRY: NOT_RETRIED},
}
"""Reactions that cannot apply to a failure as ``sustained`` makes it, in any fabric, with the reasons.

Total over the failure types, by test.
"""

WHOLE_STAGE = frozenset({_F.DEADLOCK, _F.COST_OVERRUN})
"""Failures of a whole stage, not of one step."""
HANDS_OVER: Mapping[FailureType, Literal["plan", "step"]] = {
    _F.DEADLOCK: "plan",
    _F.COST_OVERRUN: "plan",
    _F.PLAN_MALFORMED: "step",
}
"""Object of a handover, for failures that the agent above meets too."""
OF_A_BRANCH = frozenset({_F.TOOL_LOOP, _F.NO_PROGRESS})
"""Failures of one branch of a fan-out. If it ends without a result, the fan-in policy decides about the stage."""


CLASSES = {_F.PROVIDER: ErrorClass.TRANSIENT_INFRA, _F.COST_OVERRUN: ErrorClass.BUDGET_EXHAUSTED}
"""Error class of failures; others are deterministic."""


def circumstances(spec: FabricSpec, table: Table, failure: FailureType, tier: Tier, person: Person) -> Circumstances:
    """Return the facts about the fabric that its table does not contain."""
    cannot: dict[str, str] = {str(one): why for one, why in CANNOT[failure].items()}
    if spec.topology.planner is None:
        cannot[Reaction.REPLAN] = "the plan is fixed"
    planned = failure in (_F.DEADLOCK, _F.PLAN_MALFORMED)
    whose = spec.topology.planner if planned else spec.topology.finalizer
    if spec.topology.handover is None:
        cannot[Reaction.HANDOVER] = "no stronger agent is configured"
    elif spec.topology.handover == whose and (planned or MET_IN[failure] is Stage.FINALIZE):
        cannot[Reaction.HANDOVER] = "the stronger agent does this work already"
    if failure is FailureType.SCHEMA_GROUNDING and spec.gates.citations == "off":
        cannot[Reaction.RETRY] = "the agent was corrected as often as it may be"
    if failure is FailureType.PROVIDER:
        del cannot[Reaction.WAIT_FOR_BREAKER]
    if why := not_by_rule(spec, failure):
        cannot[Reaction.ROUTE] = why
    if why := not_back(spec, failure):
        cannot[Reaction.GO_BACK] = why
    counted = failure in (FailureType.SCHEMA_GROUNDING, FailureType.PLAN_MALFORMED, FailureType.UNSAFE_OUTPUT)
    return Circumstances(
        cannot=cannot,
        replans=spec.policy.limits.replans_per_stage,
        handover=HANDS_OVER.get(failure, "cure"),
        moves=failure is FailureType.COST_OVERRUN,
        step=failure not in WHOLE_STAGE,
        calling=_find_finalizer_call(spec, tier) if failure is FailureType.PROVIDER else None,
        planned=failure is FailureType.DEADLOCK,
        answers=failure in (FailureType.TOOL_LOOP, FailureType.NO_PROGRESS),
        poll=failure is FailureType.TOOL_LOOP and _finds_one_call(spec),
        counted=effective_limit(spec.policy.failure_signature.limit) if counted else None,
        in_doubt=DIRECT[Direct.ABORT, tier],
        blocked=is_blocked(spec, failure),
        person=person,
        overrun=failure is FailureType.COST_OVERRUN,
        ends_overrun=failure is FailureType.COST_OVERRUN and _room(spec),
        rounds=spec.policy.humans.failure_rounds,
        static_answer=spec.safe_fallback is not None,
        error_class=CLASSES.get(failure, ErrorClass.DETERMINISTIC),
        second=options(spec, table[failure, tier], failure, tier, Stage.PLAN),
    )


def _finds_one_call(spec: FabricSpec) -> bool:
    """Return True if repetition of a call is detected as such, and not as a cycle or a paraphrase."""
    detector = spec.policy.of_stage(Stage.FAN_OUT).loop_detector
    return detector.preset in ("flow", "ag2") if detector.preset else "identical_calls" in detector.detectors


def _room(spec: FabricSpec) -> bool:
    """Return True if a session may spend the cap that finance names; a higher cap is refused."""
    budget = spec.policy.budget
    return budget.session_usd_micros is None or budget.session_usd_micros >= RAISES * budget.run_usd_micros


def _find_finalizer_call(spec: FabricSpec, tier: Tier) -> Calling:
    """Return the finalizer's call, whose provider fails, with its surroundings.

    Raises NotComputed if the undisturbed run does not reach it.
    """
    agent, above = spec.topology.finalizer, spec.topology.handover or ""
    if agent is None:
        raise NotComputed("there is no finalizer whose call could fail")
    policy = spec.policy.of_stage(Stage.FINALIZE)
    deadlines = policy.deadlines_of(tier)
    models = {one.name: Other(endpoint=endpoint_name(one), capable=one.capable) for one in spec.models}
    return Calling(
        agent=agent,
        above=above,
        own={name: spec.agent(name).model for name in (agent, above) if name},
        models=models,
        behind=tuple(list_fallbacks(spec, spec.agent(agent).model)),
        needs=spec.needs(spec.agent(agent)),
        falls_back=tier is not Tier.HIGH_STAKES,  # There a person has to name one.
        breakers=spec.policy.breakers,
        stage=Stage.FINALIZE,
        fabric=spec.name,
        retry=policy.retry,
        layered=spec.policy.retry_layers.layered,
        node=node_waits(spec.policy.retry_layers, Stage.FINALIZE),
        call_s=deadlines.call_s,
        stage_s=deadlines.stage_s,
        run_s=deadlines.run_s,
        earlier=before_the_end(spec, tier),
    )


def promise(
    spec: FabricSpec,
    table: Table,
    failure: FailureType,
    tier: Tier,
    person: Person,
    recovers_after: int | None = None,
    *,
    alone: bool = True,
) -> Chain:
    """Return the chain that the fabric's table promises for a failure that stays, or ends after a number of
    decisions.

    ``alone``: no other run uses its breakers and retry tokens. Raises NotComputed.
    """
    if recovers_after is not None and failure is FailureType.COST_OVERRUN:
        raise NotComputed("what was spent stays spent: an overrun does not go away by itself")
    if not alone and failure is FailureType.PROVIDER and _shares(spec):
        raise NotComputed("other runs move the breakers, or take the retry tokens, that this cell hangs on")
    given = circumstances(spec, table, failure, tier, person)
    ladder = options(spec, table[failure, tier], failure, tier, met_in(spec, failure))
    require_known(spec, failure, ladder)
    if failure not in OF_A_BRANCH:
        return expect_chain(ladder, given, None, recovers_after)
    row = FailureType.SCHEMA_GROUNDING
    gap = circumstances(spec, table, row, tier, person)
    again = {
        **gap.cannot,
        _R.RETRY: "each agent that failed was tried again already, as often as its own cell says",
        _R.ROUTE: NO_TURN,
        _R.GO_BACK: NO_TURN,
    }
    merged = options(spec, table[row, tier], row, tier, Stage.FAN_OUT)
    return expect_chain(
        ladder, given, (merged, replace(gap, cannot=again, handover="plan", step=False)), recovers_after
    )


def _shares(spec: FabricSpec) -> bool:
    """Return True if a provider's failure depends on other runs of the fabric or the provider."""
    layers, breakers = spec.policy.retry_layers, spec.policy.breakers
    return layers.layered or any(counts(one) and one.scope is not BreakerScope.TOOL for one in breakers)

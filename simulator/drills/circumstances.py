"""What holds in a fabric beside its table: which reactions can apply to a failure there, and the chain that its cells then promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from fabric.core.breaker.policy import BreakerScope, SignalName
from fabric.core.decision_table import DIRECT, Accompaniment, Reaction, Table
from fabric.core.endpoints import endpoint_name
from fabric.core.fallbacks import chain
from fabric.core.flow import Stage
from fabric.core.retry_layers import ROWS
from fabric.core.signatures import effective_limit
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Direct, FailureType, Tier
from simulator.drills.baseline import RAISES
from simulator.drills.expectation import Breaking, Chain, Circumstances, Person, expected

_R, _F = Reaction, FailureType
NO_BREAKER, NO_CHEAPER = "no circuit breaker counts the failure", "the failure is not one that a cheaper model ends"
NO_FALLBACK = "the failure is not one that another model ends"
NOTHING_TO_INJECT = "no call was blocked that a message could answer"
NOBODY_AT_WORK = "no agent is at work that could answer with what it has"
NOT_RETRIED = "the failure is not retried"

_ALWAYS_OUT = {_R.WAIT_FOR_BREAKER: NO_BREAKER, _R.CHEAPER_MODEL: NO_CHEAPER}
_NOT_A_CALL = {**_ALWAYS_OUT, _R.FALLBACK_MODEL: NO_FALLBACK}
_OF_A_STAGE = {**_NOT_A_CALL, _R.INJECT: NOTHING_TO_INJECT, _R.TERMINATE: NOBODY_AT_WORK}

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
"""Reactions that cannot apply to a failure as ``sustained`` makes it, in any fabric, and why. Total over the failure types, by test."""

WHOLE_STAGE = frozenset({_F.DEADLOCK, _F.COST_OVERRUN})
"""Failures that are a stage's, not one step's."""
HANDS_OVER: Mapping[FailureType, Literal["plan", "step"]] = {
    _F.DEADLOCK: "plan",
    _F.COST_OVERRUN: "plan",
    _F.PLAN_MALFORMED: "step",
}
"""What a handover gives away where whoever stands above meets the failure too."""
OF_A_BRANCH = frozenset({_F.TOOL_LOOP, _F.NO_PROGRESS})
"""Failures of one branch of a fan-out: where it ends without a result, the fan-in policy decides about the stage."""


class NotComputed(ValueError):
    """What the table promises in this fabric is not known to this computation; the sentence says what stands in the way."""


def circumstances(spec: FabricSpec, failure: FailureType, tier: Tier, person: Person) -> Circumstances:
    """What holds in this fabric beside its table."""
    cannot: dict[str, str] = {str(one): why for one, why in CANNOT[failure].items()}
    cannot[Accompaniment.TICKET] = "no ticket queue is configured"
    if spec.topology.planner is None:
        cannot[Reaction.REPLAN] = "the plan is fixed"
    if spec.topology.handover is None:
        cannot[Reaction.HANDOVER] = "nobody stands above"
    if failure is FailureType.SCHEMA_GROUNDING and spec.gates.citations == "off":
        cannot[Reaction.RETRY] = "the agent was corrected as often as it may be"
    breaker = _breaking(spec) if failure is FailureType.PROVIDER else None
    if breaker is not None:
        del cannot[Reaction.WAIT_FOR_BREAKER]
    counted = failure in (FailureType.SCHEMA_GROUNDING, FailureType.PLAN_MALFORMED, FailureType.UNSAFE_OUTPUT)
    return Circumstances(
        cannot=cannot,
        replans=spec.policy.limits.replans_per_stage,
        handover=HANDS_OVER.get(failure, "cure"),
        moves=failure is FailureType.COST_OVERRUN,
        step=failure not in WHOLE_STAGE,
        call=failure is FailureType.PROVIDER,
        planned=failure is FailureType.DEADLOCK,
        answers=failure in (FailureType.TOOL_LOOP, FailureType.NO_PROGRESS),
        counted=effective_limit(spec.policy.failure_signature.limit) if counted else None,
        in_doubt=DIRECT[Direct.ABORT, tier],
        person=person,
        overrun=failure is FailureType.COST_OVERRUN,
        ends_overrun=failure is FailureType.COST_OVERRUN and _room(spec),
        rounds=spec.policy.humans.failure_rounds,
        fallbacks=0 if tier is Tier.HIGH_STAKES else _stand_ins(spec),  # There a person has to name one.
        static_answer=spec.safe_fallback is not None,
        breaker=breaker,
    )


def _room(spec: FabricSpec) -> bool:
    """Whether a session may spend what finance names; a cap above that is refused, and nobody answers otherwise."""
    budget = spec.policy.budget
    return budget.session_usd_micros is None or budget.session_usd_micros >= RAISES * budget.run_usd_micros


ALONE = frozenset({BreakerScope.AGENT, BreakerScope.STAGE})
"""Scopes whose breakers meet the finalizer's calls and no others."""


def _breaking(spec: FabricSpec) -> Breaking | None:
    """The breaker in front of the finalizer that counts what its provider answers. One that other agents' calls move too, or of several signals of it, is not computed."""
    found = [
        (one, signal)
        for one in spec.policy.breakers
        for signal in one.signals
        if SignalName.SERVER_ERROR in signal.names and one.before(_named(spec, one.scope))
    ]
    if not found:
        return None
    [(one, signal)] = found
    if one.scope not in ALONE or signal.mode not in ("consecutive", "cumulative") or one.on_open != "none":
        raise NotComputed(
            f"policy.breakers: a drill takes one of an agent or stage that counts failures, and no fallback: not {one.scope}, {signal.mode}, {one.on_open}"
        )
    return Breaking(int(signal.threshold), one.max_trips)


def _named(spec: FabricSpec, scope: BreakerScope) -> str:
    """What the finalizer's calls are of, in that scope; empty: nothing that has a name."""
    finalizer = spec.topology.finalizer
    if scope is BreakerScope.STAGE:
        return Stage.FINALIZE
    if finalizer is None or scope not in (BreakerScope.AGENT, BreakerScope.PROVIDER):
        return ""
    return finalizer if scope is BreakerScope.AGENT else endpoint_name(spec.model(spec.agent(finalizer).model))


def _stand_ins(spec: FabricSpec) -> int:
    """How many models stand behind the finalizer's, whose provider fails."""
    own = spec.agent(spec.topology.finalizer).model if spec.topology.finalizer else ""
    return len(chain({model.name: model.fallbacks for model in spec.models}, own))


def promise(
    spec: FabricSpec,
    table: Table,
    failure: FailureType,
    tier: Tier,
    person: Person,
    recovers_after: int | None = None,
) -> Chain:
    """What the fabric's own table says will be decided about a failure that stays, or is gone after so many decisions. Raises NotComputed."""
    if recovers_after is not None and failure is FailureType.COST_OVERRUN:
        raise NotComputed("what was spent stays spent: an overrun does not go away by itself")
    if _layered(spec, failure):
        raise NotComputed("retry layers stand before this cell, and what they do is not computed")
    given = circumstances(spec, failure, tier, person)
    if failure not in OF_A_BRANCH:
        return expected(table[failure, tier], given, None, recovers_after)
    row = FailureType.SCHEMA_GROUNDING
    gap = circumstances(spec, row, tier, person)
    again = {**gap.cannot, _R.RETRY: "each failed branch went to the end of its own ladder"}
    fan_in = (table[row, tier], replace(gap, cannot=again, handover="plan", step=False))
    return expected(table[failure, tier], given, fan_in, recovers_after)


def _layered(spec: FabricSpec, failure: FailureType) -> bool:
    """Whether what the table promises of a failure comes behind retry layers, of which this computation knows nothing."""
    return spec.policy.retry_layers.layered and (len(ROWS[failure]) > 1 or failure in OF_A_BRANCH)

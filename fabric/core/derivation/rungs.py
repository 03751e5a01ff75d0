"""Whether a rung applies, as far as the journal alone can say: one function a reaction, written a second time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core.cheaper import HELPS
from fabric.core.decision_table import Reaction
from fabric.core.derivation.asked import Asked, stage_of
from fabric.core.flow import Stage
from fabric.core.graph.by_edge import routed_by_edge
from fabric.core.mechanisms import circuit_breaker
from fabric.core.retry_presets import CAP_S
from fabric.core.taxonomy import CLASSIFY, Cause, Tier

LIMITS = frozenset({Cause.HOP_LIMIT, Cause.RECURSION_LIMIT, Cause.VISIT_LIMIT, Cause.TURN_LIMIT})
TOO_LATE = frozenset({Cause.RUN_DEADLINE, Cause.STAGE_DEADLINE, Cause.DEADLINE_NEAR})
AT_ITS_END = frozenset({Cause.CORRECTIONS_SPENT, Cause.PARTIAL_FAN_IN})


def goes_back(asked: Asked) -> bool:
    """Whether an unmet goal has somewhere to go back to, and may."""
    return asked.rules.spec.policy.goal_gates.retry == "replan" and bool(_replan(asked))


OF_ONE_CALL = ("identical_calls", "same_call_in_a_row", "flow", "ag2")
"""Detectors, and rules of documents, that stop one call made again and again."""


def is_poll(asked: Asked) -> bool:
    """Returns whether the cause is one call made again and again that changes nothing."""
    details = asked.trip.evidence.details
    if asked.trip.cause is not Cause.LOOP_DETECTED or details.get("detector") not in OF_ONE_CALL:
        return False
    return asked.rules.spec.tool(str(details["tool"])).effect not in ("mutating", "irreversible")


def _yes(asked: Asked) -> bool:
    return True


def _terminate(asked: Asked) -> bool:
    step = asked.ledger.steps.get(asked.fact.step_id)
    return step is not None and step.status == "active" and not step.final


def _replan(asked: Asked) -> bool:
    if asked.trip.cause is Cause.RUN_DEADLINE or asked.ledger.slice:
        return False
    spec = asked.rules.spec
    used = asked.ledger.replans[stage_of(asked.ledger, asked.fact)]
    return spec.topology.planner is not None and used < spec.policy.limits.replans_per_stage


def _inject(asked: Asked) -> bool | None:
    """Only into what was withheld; that a call was is in the journal before the decision, whose it was is not always."""
    return False if asked.trip.cause in LIMITS or asked.fact.command_id or not asked.fact.step_id else None


def _retry(asked: Asked) -> bool | None:
    fact, trip = asked.fact, asked.trip
    if trip.cause in AT_ITS_END or trip.mechanism == circuit_breaker.NAME:
        return False
    if not fact.command_id:
        return None  # As many agents as are allowed may be at work.
    row = CLASSIFY[trip.cause]
    if not row.retried and row.flow_class != "semantic":
        return False
    if _layered(asked) and asked.ledger.calls.get(fact.command_id) == "tool":
        return False
    return False if _too_long(asked) else None


def _layered(asked: Asked) -> bool:
    return asked.rules.ladders.presets


def _too_long(asked: Asked) -> bool:
    """Whether whoever failed wants to be left alone for longer than a retry may wait."""
    failed = asked.ledger.attempts.get(asked.fact.command_id)
    if failed is None or failed.retry_after_s is None:
        return False
    return failed.retry_after_s > (CAP_S if _layered(asked) else asked.policy.retry.cap_s)


def _retry_node(asked: Asked) -> bool | None:
    """A node at work that failed for what goes away by itself; budget and clock are no part of the journal."""
    step = asked.ledger.steps.get(asked.fact.step_id)
    if step is None or step.final or asked.trip.mechanism == circuit_breaker.NAME:
        return False
    return None if CLASSIFY[asked.trip.cause].retried and not _too_long(asked) else False


def _accept_partial(asked: Asked) -> bool:
    step = asked.ledger.steps.get(asked.fact.step_id)
    if step is None or step.stage != Stage.FAN_OUT or not CLASSIFY[asked.trip.cause].retried:
        return False
    return asked.rules.spec.policy.retry_layers.partial_of(Stage.FAN_OUT, step.agent)


def _route(asked: Asked) -> bool | None:
    """Of a turn at work, and for no cause that is barred; which rule or target leads on is judged with the conversation (``speakers.py``)."""
    step = asked.ledger.steps.get(asked.fact.step_id)
    if step is None or step.stage != Stage.FAN_OUT or step.status not in ("active", "delegated"):
        return False
    return None if routed_by_edge(asked.trip.cause, asked.tier) else False


def _wait(asked: Asked) -> bool | None:
    failed = asked.ledger.attempts.get(asked.fact.command_id)
    open_ = failed is not None and failed.breaker_wait_s is not None
    return None if open_ or wait_named(asked) else False


def wait_named(asked: Asked) -> bool:
    """Returns True where an endpoint that is away named a wait. S1's layers wait for their cap at most."""
    failed = asked.ledger.attempts.get(asked.fact.command_id)
    if failed is None or failed.retry_after_s is None or _layered(asked):
        return False
    return CLASSIFY[asked.trip.cause].failover


def _handover(asked: Asked) -> bool | None:
    if asked.trip.cause in TOO_LATE:
        return False
    above, step = asked.rules.spec.topology.handover, asked.ledger.steps.get(asked.fact.step_id)
    if above is None:
        return False
    if step is None:
        return False if asked.ledger.planner == above else _replan(asked)
    return False if step.agent == above else None


def _fallback_model(asked: Asked) -> bool | None:
    """Only for a failed call of a model that names others, where another one could help; who of them may take it is judged by its numbers (``models.py``),
    and in high-stakes is a person's to say.
    """
    fact, spec, trip = asked.fact, asked.rules.spec, asked.trip
    if not fact.command_id or asked.ledger.calls.get(fact.command_id) == "tool" or asked.tier is Tier.HIGH_STAKES:
        return False
    if asked.ledger.ending or not CLASSIFY[trip.cause].failover:
        return False
    if trip.mechanism == circuit_breaker.NAME and trip.evidence.details.get("fallback", "none") != "model":
        return False
    call, step = asked.ledger.issued.get(fact.command_id), asked.ledger.steps.get(fact.step_id)
    if call is None or step is None:
        return None
    return None if spec.model(step.stands_for or call.target).fallbacks else False


def _safe_fallback(asked: Asked) -> bool:
    details = asked.trip.evidence.details
    if asked.trip.mechanism == circuit_breaker.NAME and details.get("fallback", "none") != "static_answer":
        return False
    return asked.rules.spec.safe_fallback is not None


def _cheaper(asked: Asked) -> bool | None:
    """Only for a call of a model that has a cheaper one; what that would cost, and what speaks against it, is judged by its numbers (``models.py``)."""
    step, spec = asked.ledger.steps.get(asked.fact.step_id), asked.rules.spec
    of_tool = asked.ledger.calls.get(asked.fact.command_id) == "tool"
    if step is None or step.status != "active" or not step.agent or of_tool or asked.trip.cause not in HELPS:
        return False
    return None if spec.model(step.model or spec.agent(step.agent).model).cheaper else False


RUNGS: Mapping[Reaction, Callable[[Asked], bool | None]] = {
    Reaction.HALT: _yes,
    Reaction.ABORT: _yes,
    Reaction.ESCALATE: _yes,
    Reaction.SURFACE: _yes,
    Reaction.SAFE_FALLBACK: _safe_fallback,
    Reaction.TERMINATE: _terminate,
    Reaction.REPLAN: _replan,
    Reaction.ACCEPT_PARTIAL: _accept_partial,
    Reaction.ROUTE: _route,
    Reaction.GO_BACK: _route,
    Reaction.RETRY_NODE: _retry_node,
    Reaction.INJECT: _inject,
    Reaction.RETRY: _retry,
    Reaction.HANDOVER: _handover,
    Reaction.FALLBACK_MODEL: _fallback_model,
    Reaction.CHEAPER_MODEL: _cheaper,
    Reaction.WAIT_FOR_BREAKER: _wait,
}
"""Whether a rung applies, as far as the journal alone can say; None: it cannot. Total over reactions, by test."""

"""Failover: which model is asked instead when one fails (S1 "Model fallbacks"; semantics.md 4 "Failover"). The choice alone; ``swap.py`` carries it out.

A model's chain is what it names in ``fallbacks``, and what those name, nearest first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from fabric.core.cost import Price
from fabric.core.endpoints import endpoint_of
from fabric.core.fallbacks import chain
from fabric.core.frozen import value
from fabric.core.spec import Capability, ModelSpec
from fabric.core.taxonomy import Cause, Tier


class Target(StrEnum):
    """Where a call may go after a failure."""

    ANY = "any"
    """To any model of the chain: another one of the same endpoint may answer."""
    ELSEWHERE = "elsewhere"
    """To another endpoint: what failed is the endpoint's or its account's, whatever the model."""
    NOWHERE = "nowhere"
    """The same would come of it, or it is not the model that failed."""


_A, _E, _N = Target.ANY, Target.ELSEWHERE, Target.NOWHERE

TARGETS: Mapping[Cause, Target] = MappingProxyType(
    {
        Cause.RATE_LIMIT: _A,
        Cause.SERVER_ERROR: _A,
        Cause.TIMEOUT: _A,
        Cause.DROPPED_STREAM: _A,
        Cause.QUEUE_FULL: _A,
        Cause.NETWORK: _E,
        Cause.MALFORMED_ANSWER: _E,
        Cause.QUOTA: _E,
        Cause.KEY_CAP: _E,
        Cause.RETRY_BUDGET_EMPTY: _E,
        Cause.RETRY_ASKED: _N,
        Cause.AUTH: _N,
        Cause.BAD_REQUEST: _N,
        Cause.BAD_CONFIGURATION: _N,
        Cause.UNKNOWN_MODEL: _N,
        Cause.CONTEXT_LENGTH: _N,
        Cause.CONTENT_FILTER: _N,
        Cause.SCHEMA_INVALID: _N,
        Cause.TOOL_CONSTRAINT: _N,
        Cause.UNKNOWN: _N,
        Cause.CORRECTIONS_SPENT: _N,
        Cause.INVARIANT: _N,
        Cause.GROUNDING: _N,
        Cause.PARTIAL_FAN_IN: _N,
        Cause.DUPLICATE_CALL: _N,
        Cause.DEPENDENCY_FAILED: _N,
        Cause.WRITE_CONFLICT: _N,
        Cause.TOKEN_LIMIT: _N,
        Cause.BUDGET_GATE: _N,
        Cause.COST_VELOCITY: _N,
        Cause.PRICE_MISSING: _N,
        Cause.RUN_DEADLINE: _N,
        Cause.STAGE_DEADLINE: _N,
        Cause.DEADLINE_NEAR: _N,
        Cause.TURN_LIMIT: _N,
        Cause.HOP_LIMIT: _N,
        Cause.RECURSION_LIMIT: _N,
        Cause.VISIT_LIMIT: _N,
        Cause.NO_PROGRESS: _N,
        Cause.BRIEF_REPEATED: _N,
        Cause.SUPERVISOR_STUCK: _N,
        Cause.HANDOFF_CYCLE: _N,
        Cause.SUB_AGENT_CAP: _N,
        Cause.EVENT_CAP: _N,
        Cause.PAYLOAD_CAP: _N,
        Cause.PENDING_CAP: _N,
        Cause.LOOP_DETECTED: _N,
        Cause.PLAN_GATE: _N,
        Cause.POLICY_DENIED: _N,
        Cause.WORKSPACE_POLICY: _N,
        Cause.PERSONA_VIOLATION: _N,
        Cause.INJECTED_INSTRUCTION: _N,
        Cause.OUTCOME_UNKNOWN: _N,
        Cause.BELOW_TAU: _N,
        Cause.USER_CANCEL: _N,
        Cause.STALLED: _N,
        Cause.REPEATED_FAILURE: _N,
        Cause.RESTART_BLOCKED: _N,
        Cause.GOAL_UNMET: _N,
    }
)
"""Total over ``Cause`` and one with ``CLASSIFY``'s column *failover*, both by test."""

ASKS_FIRST: Mapping[Tier, bool] = MappingProxyType({Tier.INTERACTIVE: False, Tier.BATCH: False, Tier.HIGH_STAKES: True})
"""Whether a person approves before another model answers; total over ``Tier``, by test."""


FREE = Price(0, 0)
RuledOut = Literal["tried", "needs", "endpoint", "price", "breaker", "guard"]
"""Why a model of the chain cannot take the call, in a word (``events.Candidate``)."""


@value(kw_only=True)
class Lost:
    """The call that failed, as far as the choice needs it."""

    model: str
    """The one that failed."""
    cause: Cause
    tier: Tier
    stands_for: str = ""
    """The model that it stood in for, whose chain goes on; empty: it failed in its own right."""
    needs: frozenset[Capability] = frozenset()
    """What the call cannot do without: tool use where it offers tools, and what its agent says."""
    input_tokens: int = 1_000
    output_tokens: int = 1_000
    """What the call is expected to take; only the proportion and the order of costs hang on it."""
    tried: frozenset[str] = frozenset()
    """Models that this call was given to before; never asked again."""
    approved: bool = False
    """A person said that another model may answer."""


@value()
class PassedOver:
    """A model of the chain that cannot take the call."""

    model: str
    reason: str
    ruled_out: RuledOut = "guard"


@value()
class Failover:
    """What was chosen."""

    model: str
    """Name of the model to ask; empty: none."""
    asks_first: bool = False
    """A person has to approve it before."""
    reason: str = ""
    """Why there is none; one sentence."""
    passed_over: tuple[PassedOver, ...] = ()


def _willing(name: str) -> PassedOver | None:
    return None


def choose(
    lost: Lost,
    models: Mapping[str, ModelSpec],
    prices: Mapping[str, Price],
    refuses: Callable[[str], PassedOver | None] = _willing,
) -> Failover:
    """The model to ask instead. ``models`` and ``prices`` by name, of one revision; KeyError when ``lost.model`` is none of them.

    Endpoints are taken in the order in which the chain first names them. Of one endpoint's models that one is taken which lacks the fewest
    capabilities of the lost model's; then the one whose cost for this call differs the least; then the one that the chain names first.
    ``refuses`` says why a model that is fit may not take the call now, such as what it costs; it is asked in that order, and no further than needed.
    """
    target = TARGETS[lost.cause]
    if target is Target.NOWHERE:
        return Failover("", reason=f"{lost.cause} would not go away with another model")
    origin = lost.stands_for or lost.model
    names = chain({name: model.fallbacks for name, model in models.items()}, origin)
    if not names:
        return Failover("", reason=f"model {origin!r} names no fallbacks")
    over: list[PassedOver] = []
    fit: list[str] = []
    for name in names:
        unfit = _why_not(lost, target, models, prices, name)
        if unfit is None:
            fit.append(name)
        else:
            over.append(unfit)
    endpoints = list(dict.fromkeys(endpoint_of(models[name]) for name in names))
    fit.sort(key=lambda name: (endpoints.index(endpoint_of(models[name])), _distance(lost, models, prices, name)))
    for name in fit:
        refused = refuses(name)
        if refused is None:
            return Failover(name, ASKS_FIRST[lost.tier] and not lost.approved, passed_over=tuple(over))
        over.append(refused)
    return Failover("", reason=f"no model of {origin!r}'s chain can take the call", passed_over=tuple(over))


def _why_not(
    lost: Lost, target: Target, models: Mapping[str, ModelSpec], prices: Mapping[str, Price], name: str
) -> PassedOver | None:
    model = models[name]
    if name in lost.tried or name == lost.model:
        return PassedOver(name, "it was asked already", "tried")
    if lacking := sorted(lost.needs - model.capable):
        return PassedOver(name, f"the call needs {', '.join(lacking)}", "needs")
    if target is Target.ELSEWHERE and endpoint_of(model) == endpoint_of(models[lost.model]):
        return PassedOver(name, f"it is at the same endpoint, and {lost.cause} is the endpoint's", "endpoint")
    return None if name in prices else PassedOver(name, "its price is not known", "price")


def _distance(lost: Lost, models: Mapping[str, ModelSpec], prices: Mapping[str, Price], name: str) -> tuple[int, int]:
    """Capabilities that are lost, then micro-dollars between the two for this call."""
    own, other = (prices.get(each, FREE).cost(lost.input_tokens, lost.output_tokens) for each in (lost.model, name))
    return len(models[lost.model].capable - models[name].capable), abs(other - own)

"""Failover: chooses the fallback for a failed model (S1 "Model fallbacks"; docs/specification/retries.md). The
choice alone; ``fallback_model.py`` carries it out.

A model's chain is the models in its ``fallbacks``, and those in theirs, nearest first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from fabric.core.spec.endpoints import find_endpoint
from fabric.core.spec.policies.fallbacks import chain
from fabric.core.spec.tree import Capability, ModelSpec
from fabric.core.values.cost import Price
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import CLASSIFY, Cause, FailoverTarget, Tier

ASKS_FIRST: Mapping[Tier, bool] = MappingProxyType({Tier.INTERACTIVE: False, Tier.BATCH: False, Tier.HIGH_STAKES: True})
"""True for tiers in which a person approves before another model answers; total over ``Tier``, by test."""


FREE = Price(0, 0)
RuledOut = Literal["tried", "needs", "endpoint", "price", "breaker", "guard"]
"""Reason for which a model of the chain cannot take the call, in a word (``events.Candidate``)."""


@value(kw_only=True)
class LostCall:
    """The call that failed, as far as the choice needs it."""

    model: str
    """The one that failed."""
    cause: Cause
    tier: Tier
    stands_for: str = ""
    """The model whose chain goes on, since the failed model is its fallback; "": the failed model is none."""
    needs: frozenset[Capability] = frozenset()
    """Capabilities that the call needs: tool use where it offers tools, and those that its agent declares."""
    input_tokens: int = 1_000
    output_tokens: int = 1_000
    """Expected output of the call; only the proportion and the order of costs depend on it."""
    tried: frozenset[str] = frozenset()
    """Models that this call went to before; never chosen again."""
    approved: bool = False
    """True: a person approved another model."""


@value()
class PassedOver:
    """A model of the chain that cannot take the call."""

    model: str
    reason: str
    ruled_out: RuledOut = "guard"


@value()
class Failover:
    """The chosen fallback, and the models passed over."""

    model: str
    """Name of the model to call; "": none."""
    asks_first: bool = False
    """A person has to approve it before."""
    reason: str = ""
    """Why there is none; one sentence."""
    passed_over: tuple[PassedOver, ...] = ()


def _check_willing(name: str) -> PassedOver | None:
    return None


def choose(
    lost: LostCall,
    models: Mapping[str, ModelSpec],
    prices: Mapping[str, Price],
    refuses: Callable[[str], PassedOver | None] = _check_willing,
) -> Failover:
    """Choose the fallback. ``models`` and ``prices`` by name, of one revision. Raises KeyError if ``lost.model`` is
    none of them.

    1. Endpoints are tried in the order in which the chain first names them.
    2. Of one endpoint's models, the one wins that lacks the fewest capabilities of the lost model.
    3. Then the one whose cost for this call differs least, then the one that the chain names first.

    ``refuses`` returns why a fit model may not take the call now, such as its cost. It is called in that order, and
    no further than needed.
    """
    target = CLASSIFY[lost.cause].fails_over_to
    if target is FailoverTarget.NOWHERE:
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
    endpoints = list(dict.fromkeys(find_endpoint(models[name]) for name in names))
    fit.sort(key=lambda name: (endpoints.index(find_endpoint(models[name])), _distance(lost, models, prices, name)))
    for name in fit:
        refused = refuses(name)
        if refused is None:
            return Failover(name, ASKS_FIRST[lost.tier] and not lost.approved, passed_over=tuple(over))
        over.append(refused)
    return Failover("", reason=f"no model of {origin!r}'s chain can take the call", passed_over=tuple(over))


def _why_not(
    lost: LostCall, target: FailoverTarget, models: Mapping[str, ModelSpec], prices: Mapping[str, Price], name: str
) -> PassedOver | None:
    model = models[name]
    if name in lost.tried or name == lost.model:
        return PassedOver(name, "it was asked already", "tried")
    if lacking := sorted(lost.needs - model.capable):
        return PassedOver(name, f"the call needs {', '.join(lacking)}", "needs")
    if target is FailoverTarget.ELSEWHERE and find_endpoint(model) == find_endpoint(models[lost.model]):
        return PassedOver(name, f"it is at the same endpoint, and {lost.cause} is the endpoint's", "endpoint")
    return None if name in prices else PassedOver(name, "its price is not known", "price")


def _distance(
    lost: LostCall, models: Mapping[str, ModelSpec], prices: Mapping[str, Price], name: str
) -> tuple[int, int]:
    """Return the number of capabilities lost, then the difference in micro-dollars for this call."""
    own, other = (prices.get(each, FREE).cost(lost.input_tokens, lost.output_tokens) for each in (lost.model, name))
    return len(models[lost.model].capable - models[name].capable), abs(other - own)

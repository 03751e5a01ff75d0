"""What stands before and in a cell: the rungs that a failure goes down, with the layers of preset ``fabro`` where a fabric has them.

Read out of semantics.md ("Retry layers") once more, beside ``fabric/core/retry_layers``, which the engine lays its ladders by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from fabric.core.decision_table import Accompaniment, Ladder, Reaction
from fabric.core.flow import Stage
from fabric.core.retry_policy import Edge, RetryLayers
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import ErrorClass, FailureType, Tier
from simulator.drills.bounds import Span
from simulator.drills.turns import goes_back, leaves_by_rules

_R, _F = Reaction, FailureType


@dataclass(frozen=True, slots=True)
class Option:
    """A rung: what is done, how often, and for which failures."""

    reaction: Reaction
    times: int | None
    with_: tuple[Accompaniment, ...] = ()
    error_class: ErrorClass | None = None
    """An edge that is for failures of this class alone; None: for any."""
    poll: bool = False
    """Whether it asks about a call alone that may be a poll."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How often something is tried, the first time included, and how long between: seconds before the first retry, and its growth."""

    attempts: int
    base_s: float
    factor: float

    def before(self, retry: int) -> Span:
        """How long the wait before the retry of that number lasts, from 1: with its jitter, and never longer than a minute."""
        grown = self.base_s * self.factor ** (retry - 1)
        return Span(min(LONGEST_S, 0.5 * grown), min(LONGEST_S, 1.5 * grown))


LONGEST_S = 60.0
CALLS = Waits(4, 1.0, 2.0)
"""Of a model's call: 3 retries from 1 s x2."""
NODE_PRESETS: Mapping[str, Waits] = {
    "none": Waits(1, 0.0, 1.0),
    "standard": Waits(5, 0.2, 2.0),
    "aggressive": Waits(5, 0.5, 2.0),
    "linear": Waits(3, 0.5, 1.0),
    "patient": Waits(3, 2.0, 3.0),
}
MOST = 20
"""Uses of one rung."""

Part = Literal["calls", "failover", "nodes", "edges", "targets", "rest"]
STANDS: Mapping[FailureType, tuple[Part, ...]] = {
    _F.TOOL_LOOP: ("rest",),
    _F.DEADLOCK: ("rest",),
    _F.COST_OVERRUN: ("failover", "edges", "rest"),
    _F.PROVIDER: ("calls", "failover", "nodes", "edges", "targets", "rest"),
    _F.SCHEMA_GROUNDING: ("edges", "targets", "rest"),
    _F.PLAN_MALFORMED: ("edges", "targets", "rest"),
    _F.NO_PROGRESS: ("rest",),
    _F.UNSAFE_OUTPUT: ("rest",),
}
"""Which layers a row has, in their order. Total over the failure types, by test."""
MET_IN: Mapping[FailureType, Stage] = {
    _F.TOOL_LOOP: Stage.FAN_OUT,
    _F.DEADLOCK: Stage.FAN_OUT,  # A plan is looked at as it goes out.
    _F.COST_OVERRUN: Stage.FINALIZE,
    _F.PROVIDER: Stage.FINALIZE,
    _F.SCHEMA_GROUNDING: Stage.FINALIZE,
    _F.PLAN_MALFORMED: Stage.PLAN,
    _F.NO_PROGRESS: Stage.FAN_OUT,
    _F.UNSAFE_OUTPUT: Stage.FINALIZE,
}
"""The stage of each failure as ``sustained`` makes it. Total over the failure types, by test."""


def met_in(spec: FabricSpec, failure: FailureType) -> Stage:
    """Where the failure is met as ``sustained`` makes it. After the one who spends it all the critic is asked, where there is one."""
    if failure is FailureType.COST_OVERRUN and spec.topology.critic is not None:
        return Stage.VALIDATE
    return MET_IN[failure]


TAKEN_UP = (_R.RETRY, _R.FALLBACK_MODEL)
"""Rungs of a cell whose place the layers take."""
LEADS = {"replan": _R.REPLAN, "handover": _R.HANDOVER}


def options(spec: FabricSpec, cell: Ladder, failure: FailureType, tier: Tier, stage: Stage) -> tuple[Option, ...]:
    """The rungs of a failure that happens in that stage, in their order."""
    return tuple(_alerting(_laid(spec, cell, failure, tier, stage)))


def _alerting(rungs: tuple[Option, ...]) -> Iterator[Option]:
    """From the first rung that alerts people on, each one does (semantics.md 10 "Alert")."""
    alerts = False
    for one in rungs:
        alerts = alerts or Accompaniment.ALERT in one.with_
        yield (
            replace(one, with_=(*one.with_, Accompaniment.ALERT))
            if alerts and Accompaniment.ALERT not in one.with_
            else one
        )


def _laid(spec: FabricSpec, cell: Ladder, failure: FailureType, tier: Tier, stage: Stage) -> tuple[Option, ...]:
    own = tuple(Option(rung.reaction, rung.times, rung.with_, poll=rung.poll) for rung in cell.rungs)
    layers = spec.policy.retry_layers
    routed = stage is Stage.FAN_OUT and leaves_by_rules(spec)
    led = (*([BY_RULE] if routed else ()), *([BACK] if stage is Stage.FAN_OUT and goes_back(spec) else ()))
    if layers.preset != "fabro":
        return _in_the_graph(own, led) if led else own
    left = tuple(one for one in own if one.reaction not in TAKEN_UP)
    waits = tuple(one for one in left if one.reaction is _R.WAIT_FOR_BREAKER)
    parts = STANDS[failure]
    if "failover" in parts:
        left = tuple(one for one in left if one not in waits)
    edges = () if (failure, tier) == (_F.COST_OVERRUN, Tier.HIGH_STAKES) else tuple(_edges(spec, stage))
    said: Mapping[Part, tuple[Option, ...]] = {
        "calls": (Option(_R.RETRY, CALLS.attempts - 1),),
        "failover": (*_failover(spec), *waits) if _other_first(own) else (*waits, *_failover(spec)),
        "nodes": tuple(_nodes(layers, stage)),
        "edges": (*([BY_RULE] if routed else ()), *edges),
        "targets": (*(one for one in led if one is BACK), *_targets(spec, stage)),
        "rest": left,
    }
    return tuple(one for part in parts for one in said[part])


def _other_first(own: tuple[Option, ...]) -> bool:
    """Returns True where a cell asks another model before it waits."""
    order = [one.reaction for one in own if one.reaction in (_R.FALLBACK_MODEL, _R.WAIT_FOR_BREAKER)]
    return order[:1] == [_R.FALLBACK_MODEL]


BY_RULE = Option(_R.ROUTE, 1)
"""A turn that failed goes on by a rule of its graph."""
BACK = Option(_R.GO_BACK, 1)
"""One that no rule leads on from goes back to a retry target of its graph."""
OF_A_CALL = (_R.RETRY, _R.WAIT_FOR_BREAKER, _R.FALLBACK_MODEL, _R.INJECT)
"""What is done before a turn has failed."""


def _in_the_graph(own: tuple[Option, ...], led: tuple[Option, ...]) -> tuple[Option, ...]:
    """Behind all that a cell does first about calls, in front of the rest."""
    first = tuple(takewhile(lambda one: one.reaction in OF_A_CALL or one.poll, own))
    return (*first, *led, *own[len(first) :])


def node_waits(layers: RetryLayers, stage: Stage) -> Waits:
    """How often a node of that stage is tried: by its preset, else by its own count, else by the fabric's, else three times more."""
    own = layers.stages.get(stage)
    if own is not None and own.retry_policy is not None:
        return NODE_PRESETS[own.retry_policy]
    counts = (own.max_retries if own is not None else None, layers.max_retries, 3)
    return Waits(next(count for count in counts if count is not None) + 1, 5.0, 2.0)


def _failover(spec: FabricSpec) -> Iterator[Option]:
    """As often as the longest chain of the fabric has models."""
    if longest := max(len(behind(spec, model.name)) for model in spec.models):
        yield Option(_R.FALLBACK_MODEL, min(longest, MOST))


def behind(spec: FabricSpec, name: str) -> list[str]:
    """The models that may stand in for one, nearest first: those that it names, then those that they name, each once."""
    found: list[str] = []
    ahead = list(spec.model(name).fallbacks)
    while ahead:
        one = ahead.pop(0)
        if one != name and one not in found:
            found.append(one)
            ahead += spec.model(one).fallbacks
    return found


def _nodes(layers: RetryLayers, stage: Stage) -> Iterator[Option]:
    more = node_waits(layers, stage).attempts - 1
    if more:
        yield Option(_R.RETRY_NODE, min(more, MOST))
    own = layers.stages.get(stage)
    if own is not None and own.allow_partial:
        yield Option(_R.ACCEPT_PARTIAL, 1)


def _edges(spec: FabricSpec, stage: Stage) -> Iterator[Option]:
    """The stage's, then the fabric's; the same one once."""
    layers, seen = spec.policy.retry_layers, list[Edge]()
    own = layers.stages.get(stage)
    for edge in (*(own.edges if own is not None else ()), *layers.edges):
        if edge not in seen:
            seen.append(edge)
            yield replace(_leads(spec, edge.to), error_class=edge.failure_class)


def _targets(spec: FabricSpec, stage: Stage) -> Iterator[Option]:
    """Node, node fallback, fabric, fabric fallback; each once."""
    layers, seen = spec.policy.retry_layers, list[str]()
    own = layers.stages.get(stage)
    named = (own.retry_target, own.fallback_retry_target) if own is not None else ()
    for to in (*named, layers.retry_target, layers.fallback_retry_target):
        if to is not None and to not in seen:
            seen.append(to)
            yield _leads(spec, to)


def _leads(spec: FabricSpec, to: str) -> Option:
    """To the plan within the stage's replans; to the agent above once."""
    reaction = LEADS[to]
    return Option(reaction, min(spec.policy.limits.replans_per_stage, MOST) if reaction is _R.REPLAN else 1)

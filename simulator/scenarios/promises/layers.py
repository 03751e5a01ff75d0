"""Lists the rungs of a failure, with the layers of preset ``fabro`` around the cell.

It implements docs/specification/retries.md a second time, beside ``fabric/core/spec/retry_layers.py``, from which the
engine builds its ladders.

1. Cells of single stages that no drill meets are found: each failure is drilled only in one stage.
2. A failed turn goes on by a rule of a graph as the written rules say (``simulator/rules/facts/speakers.py``).
3. Durations are bounded, in seconds: waits are drawn, and the judge knows only their bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal, NamedTuple

from fabric.core.spec.cells import OwnCell
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import Accompaniment, Ladder, Reaction
from fabric.core.spec.policies.retries import Edge, RetryLayers
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import ErrorClass, FailureType, Tier
from simulator.rules.facts.conditions import asks_how
from simulator.rules.facts.speakers import leads_on, restarts_from


class NotComputed(ValueError):
    """The table's promise for this fabric is not computable; the sentence names the obstacle."""


class Span(NamedTuple):
    """A duration between two bounds, in seconds."""

    low: float
    high: float

    def plus(self, other: Span) -> Span:
        """Return the sum."""
        return Span(self.low + other.low, self.high + other.high)

    def short_of(self, whole_s: float) -> Span:
        """Return the rest of a known duration."""
        return Span(max(0.0, whole_s - self.high), max(0.0, whole_s - self.low))

    def times(self, low: float, high: float) -> Span:
        """Return the span multiplied by a factor that lies between ``low`` and ``high``."""
        return Span(self.low * low, self.high * high)


NONE = Span(0.0, 0.0)


def exactly(seconds: float) -> Span:
    """Return a duration that is known exactly."""
    return Span(seconds, seconds)


def reaches_limit(lasts: Span, limit_s: float, what: str) -> bool:
    """Return True if a duration reaches a limit. Raises NotComputed if it only may: ``what`` names the consequence."""
    if lasts.low >= limit_s:
        return True
    if lasts.high < limit_s:
        return False
    raise NotComputed(f"waits are drawn, and {what} hangs on them")


_R, _F = Reaction, FailureType


@dataclass(frozen=True, slots=True)
class Option:
    """A rung: reaction, number of uses, and its failures."""

    reaction: Reaction
    times: int | None
    with_: tuple[Accompaniment, ...] = ()
    error_class: ErrorClass | None = None
    """Class of failures that an edge requires; None for any."""
    poll: bool = False
    """True if it applies only to calls that may be polls."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Number of attempts, with the first, and waits: seconds before the first retry, and growth."""

    attempts: int
    base_s: float
    factor: float

    def find_wait(self, retry: int) -> Span:
        """Return the wait before a retry, numbered from 1: with its jitter, and at most a minute."""
        grown = self.base_s * self.factor ** (retry - 1)
        return Span(min(LONGEST_S, 0.5 * grown), min(LONGEST_S, 1.5 * grown))


LONGEST_S = 60.0
CALLS = Waits(4, 1.0, 2.0)
"""Waits of a model's call: 3 retries from 1 s, doubling."""
NODE_PRESETS: Mapping[str, Waits] = {
    "none": Waits(1, 0.0, 1.0),
    "standard": Waits(5, 0.2, 2.0),
    "aggressive": Waits(5, 0.5, 2.0),
    "linear": Waits(3, 0.5, 1.0),
    "patient": Waits(3, 2.0, 3.0),
}
MOST = 20
"""Largest number of uses of one rung."""

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
"""Layers of a row, in order. Total over the failure types, by test."""
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
    """Return the stage in which the failure is met as ``sustained`` makes it.

    A critic is called after the agent that spends all money, if there is one.
    """
    if failure is FailureType.COST_OVERRUN and spec.topology.critic is not None:
        return Stage.VALIDATE
    return MET_IN[failure]


TAKEN_UP = (_R.RETRY, _R.FALLBACK_MODEL)
"""Rungs of a cell that the layers replace."""
LEADS = {"replan": _R.REPLAN, "handover": _R.HANDOVER}


def options(spec: FabricSpec, cell: Ladder, failure: FailureType, tier: Tier, stage: Stage) -> tuple[Option, ...]:
    """Return the rungs of a failure in a stage, in order. ``cell``: the fabric's; the stage's own cell replaces it."""
    own = spec.policy.stages.get(stage)
    of_stage = own.decision_table.get(failure, {}).get(tier) if own is not None else None
    return tuple(_add_alerts(_lay_ladder(spec, of_stage or cell, failure, tier, stage)))


def _add_alerts(rungs: tuple[Option, ...]) -> Iterator[Option]:
    """Yield the rungs; after the first that alerts people, every one does (docs/specification/protections.md)."""
    alerts = False
    for one in rungs:
        alerts = alerts or Accompaniment.ALERT in one.with_
        yield (
            replace(one, with_=(*one.with_, Accompaniment.ALERT))
            if alerts and Accompaniment.ALERT not in one.with_
            else one
        )


def _lay_ladder(spec: FabricSpec, cell: Ladder, failure: FailureType, tier: Tier, stage: Stage) -> tuple[Option, ...]:
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
    """Return True if a cell takes a fallback model before it waits."""
    order = [one.reaction for one in own if one.reaction in (_R.FALLBACK_MODEL, _R.WAIT_FOR_BREAKER)]
    return order[:1] == [_R.FALLBACK_MODEL]


BY_RULE = Option(_R.ROUTE, 1)
"""A rung that continues a failed turn by a rule of its graph."""
BACK = Option(_R.GO_BACK, 1)
"""A rung that returns to a retry target of the graph, if no rule applies."""
OF_A_CALL = (_R.RETRY, _R.WAIT_FOR_BREAKER, _R.FALLBACK_MODEL, _R.INJECT)
"""Reactions before a turn has failed."""


def _in_the_graph(own: tuple[Option, ...], led: tuple[Option, ...]) -> tuple[Option, ...]:
    """Insert the graph's rungs after the cell's first rungs about calls, before the others."""
    first = tuple(takewhile(lambda one: one.reaction in OF_A_CALL or one.poll, own))
    return (*first, *led, *own[len(first) :])


def node_waits(layers: RetryLayers, stage: Stage) -> Waits:
    """Return the attempts of a node: by its preset, its own count, the fabric's count, or three retries."""
    own = layers.stages.get(stage)
    if own is not None and own.retry_policy is not None:
        return NODE_PRESETS[own.retry_policy]
    counts = (own.max_retries if own is not None else None, layers.max_retries, 3)
    return Waits(next(count for count in counts if count is not None) + 1, 5.0, 2.0)


def _failover(spec: FabricSpec) -> Iterator[Option]:
    """Yield the fallback rung, with as many uses as the fabric's longest chain has models."""
    if longest := max(len(list_fallbacks(spec, model.name)) for model in spec.models):
        yield Option(_R.FALLBACK_MODEL, min(longest, MOST))


def list_fallbacks(spec: FabricSpec, name: str) -> list[str]:
    """Return the fallbacks of a model, nearest first: its own, then theirs, each once."""
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
    """Yield the stage's edges, then the fabric's, without duplicates."""
    layers, seen = spec.policy.retry_layers, list[Edge]()
    own = layers.stages.get(stage)
    for edge in (*(own.edges if own is not None else ()), *layers.edges):
        if edge not in seen:
            seen.append(edge)
            yield replace(_leads(spec, edge.to), error_class=edge.failure_class)


def _targets(spec: FabricSpec, stage: Stage) -> Iterator[Option]:
    """Yield the targets of node, node fallback, fabric and fabric fallback, each once."""
    layers, seen = spec.policy.retry_layers, list[str]()
    own = layers.stages.get(stage)
    named = (own.retry_target, own.fallback_retry_target) if own is not None else ()
    for to in (*named, layers.retry_target, layers.fallback_retry_target):
        if to is not None and to not in seen:
            seen.append(to)
            yield _leads(spec, to)


def _leads(spec: FabricSpec, to: str) -> Option:
    """Return the rung of an edge: to the plan within the stage's replans; to the agent above once."""
    reaction = LEADS[to]
    return Option(reaction, min(spec.policy.limits.replans_per_stage, MOST) if reaction is _R.REPLAN else 1)


def unmet(spec: FabricSpec) -> tuple[OwnCell, ...]:
    """Return the stages' own cells that no drill meets."""
    return tuple(
        cell for cell in spec.cells if cell.stage is not None and cell.stage not in _drilled_in(spec, cell.failure)
    )


def unmet_said(spec: FabricSpec) -> str:
    """Return one sentence about cells of single stages that no drill meets; empty: none."""
    found = [f"{cell.stage}: {cell.failure} x {cell.tier}" for cell in unmet(spec)]
    if not found:
        return ""
    return f"No drill meets these cells of single stages, so nothing is shown about them: {', '.join(found)}"


def _drilled_in(spec: FabricSpec, failure: FailureType) -> frozenset[Stage]:
    """Return the stages in which drills meet the row.

    A branch without a result also leaves a gap in the fan-out. A drill meets an overrun once more in the new plan.
    """
    found = {met_in(spec, failure)}
    found |= {Stage.FAN_OUT} if failure is FailureType.SCHEMA_GROUNDING else set()
    return frozenset(found | ({Stage.PLAN} if failure is FailureType.COST_OVERRUN else set()))


NO_TURN = "it is no turn that a rule could lead on from"
CLASSES: Mapping[FailureType, ErrorClass] = {
    FailureType.TOOL_LOOP: ErrorClass.COMPILATION_LOOP,
    FailureType.NO_PROGRESS: ErrorClass.COMPILATION_LOOP,
}
"""Error class of each failure that a turn meets, as ``sustained`` makes it."""


def leaves_by_rules(spec: FabricSpec) -> bool:
    """Return True if a rule of the fabric's graph depends on the end of a turn."""
    topology = spec.topology
    if not isinstance(topology, GraphTopology):
        return False
    rules = topology.graph.to_dict()["transitions"]
    return any(asks_how(rule["when"]) for rule in rules)


def goes_back(spec: FabricSpec) -> bool:
    """Return True if a failed turn of the fabric's graph leads back to a retry target."""
    topology = spec.topology
    if not isinstance(topology, GraphTopology):
        return False
    own = topology.retry_targets.values()
    named = [topology.retry_target, topology.fallback_retry_target]
    named += [to for one in own for to in (one.retry_target, one.fallback_retry_target)]
    return any(to is not None for to in named)


def not_back(spec: FabricSpec, failure: FailureType) -> str:
    """Return why the failure of the first turn does not go back to a retry target; empty if it does."""
    topology = spec.topology
    if failure not in CLASSES or not isinstance(topology, GraphTopology):
        return NO_TURN
    if not not_by_rule(spec, failure):
        return "a rule on how a turn ended decides"
    first = topology.initial_speaker
    own = topology.retry_targets.get(first)
    named = (own.retry_target, own.fallback_retry_target) if own is not None else (None, None)
    ways = [to for to in (*named, topology.retry_target, topology.fallback_retry_target) if to is not None]
    if topology.max_turns is None or topology.max_turns < 2:
        return "there is no turn after the first"
    # Only the first speaker has had a turn yet.
    left = [to for to in ways if _visits(spec, to) > (1 if to == first else 0)]
    return "" if left else "no retry target has a turn left"


def _visits(spec: FabricSpec, who: str) -> float:
    limits, topology = spec.policy.limits, spec.topology
    assert isinstance(topology, GraphTopology)
    most = topology.max_visits.get(who, limits.max_node_visits)
    if most is None:
        return float("inf")
    return most - 1 if limits.visits_preset == "fabro" else most


def is_blocked(spec: FabricSpec, failure: FailureType) -> bool:
    """Return True if the failure of the first turn reaches a restart edge, which it never crosses."""
    topology = spec.topology
    if not_by_rule(spec, failure) or not isinstance(topology, GraphTopology):
        return False
    return restarts_from(topology.graph, topology.context, topology.initial_speaker, str(CLASSES[failure]))


def not_by_rule(spec: FabricSpec, failure: FailureType) -> str:
    """Return why the failure of the first turn does not go on by a rule; empty if it does."""
    topology = spec.topology
    if failure not in CLASSES or not isinstance(topology, GraphTopology):
        return NO_TURN
    on = leads_on(topology.graph, topology.context, topology.initial_speaker, str(CLASSES[failure]))
    return "" if on else "no rule on how a turn ended leads on from it"

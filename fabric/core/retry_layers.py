"""Preset ``fabro`` as ladders: S1's layers laid into the cells of the decision table, once, when a fabric is compiled (semantics.md 4 "Retry layers").

A layer is one or more rungs. So the ladder commands layers as it commands any rung: counted, passed over with a reason, journaled and derived again. What is
left of a cell when its own retry, wait and fallback rungs have gone up into the layers stands behind them: it is the run's failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fabric.core.decision_table import Accompaniment, Ladder, Reaction, Rung, Table, table_digest
from fabric.core.fallbacks import chain
from fabric.core.fingerprint import fingerprint
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.graph.by_edge import has_edges
from fabric.core.graph.retry_targets import has_targets
from fabric.core.retry_policy import Edge, RetryLayers, WayOut
from fabric.core.retry_presets import MODEL_CALLS
from fabric.core.spec_graph import GraphTopology
from fabric.core.taxonomy import ErrorClass, FailureType, Tier

if TYPE_CHECKING:
    from fabric.core.spec import FabricSpec

TIMES_MAX = 20
"""Most uses of one rung."""


class Layer(StrEnum):
    """S1's layers, in its order ("When failures become fatal")."""

    CALL_RETRIES = "call_retries"
    FAILOVER = "failover"
    NODE_RETRIES = "node_retries"
    EDGE_ROUTING = "edge_routing"
    RETRY_TARGET = "retry_target"
    RUN_FAILURE = "run_failure"


class LayerRung(Rung):
    """A rung that belongs to a layer."""

    layer: Layer
    failure_class: ErrorClass | None = None
    """Edge: the class of failure that it is for; None: any."""


CALL_LEVEL = frozenset({Reaction.RETRY, Reaction.WAIT_FOR_BREAKER, Reaction.FALLBACK_MODEL})
"""Rungs of a cell that are a call's (semantics.md 5): its retries and fallbacks are the layers' to say, its wait stands between the two."""

_L, _F = Layer, FailureType
_ALL = tuple(Layer)
_NODE = (_L.EDGE_ROUTING, _L.RETRY_TARGET, _L.RUN_FAILURE)

ROWS: Mapping[FailureType, tuple[Layer, ...]] = MappingProxyType(
    {
        _F.PROVIDER: _ALL,
        _F.SCHEMA_GROUNDING: _NODE,
        _F.PLAN_MALFORMED: _NODE,
        _F.COST_OVERRUN: (_L.FAILOVER, _L.EDGE_ROUTING, _L.RUN_FAILURE),
        _F.TOOL_LOOP: (_L.RUN_FAILURE,),
        _F.DEADLOCK: (_L.RUN_FAILURE,),
        _F.NO_PROGRESS: (_L.RUN_FAILURE,),
        _F.UNSAFE_OUTPUT: (_L.RUN_FAILURE,),
    }
)
"""Which layers stand in which row; total, by test. Calls and nodes are retried for what is transient alone; a quota fails over; loops, stalls and what is unsafe
are the run's at once (S1 "The run also terminates immediately for")."""
NEVER_BY_EDGE = frozenset({(_F.COST_OVERRUN, Tier.HIGH_STAKES)})
"""Budget and limit trips never route by edge in high-stakes (semantics.md 5)."""
ROUTED = frozenset({ErrorClass.TRANSIENT_INFRA, ErrorClass.DETERMINISTIC, ErrorClass.BUDGET_EXHAUSTED})
"""Classes of failures that some row routes by edge; one with ``ROWS`` and ``CLASSIFY``, by test."""

Layered = Mapping[tuple[FailureType, Tier, Stage], Ladder]
"""The ladders that differ from their cell; empty: no layers are in force."""


@value()
class Ladders:
    """The decision table of a fabric, with its layers laid in."""

    table: Table
    layered: Layered
    version: str
    """Digest of both: what a decision names."""
    presets: bool = False
    """Whether S1's layers are in force; else a graph's rules alone make ladders differ."""

    def at(self, failure: FailureType, tier: Tier, stage: Stage) -> Ladder:
        """The ladder of a failure that happened in that stage."""
        return _alerting(self.layered.get((failure, tier, stage)) or self.table[failure, tier])


@lru_cache(maxsize=4_096)
def _alerting(ladder: Ladder) -> Ladder:
    """The ladder as it is gone down: people who are alerted at a rung are alerted at each one behind it, since a rung that cannot apply is skipped."""
    first = next((n for n, rung in enumerate(ladder.rungs) if Accompaniment.ALERT in rung.with_), None)
    if first is None:
        return ladder
    rungs = tuple(
        rung.model_copy(update={"with_": (*rung.with_, Accompaniment.ALERT)})
        if n > first and Accompaniment.ALERT not in rung.with_
        else rung
        for n, rung in enumerate(ladder.rungs)
    )
    return ladder.model_copy(update={"rungs": rungs})


def ladders(table: Table, spec: FabricSpec | None = None) -> Ladders:
    """The table with what a fabric says of its layers. ``spec`` None: there are none."""
    if spec is None or not spec.policy.retry_layers.layered:
        return _with_edges(table, spec)
    # A rung stands in many ladders: each is made, and shown, once.
    of_stages = {stage: _of_stage(spec, stage) for stage in Stage}
    layered: dict[tuple[FailureType, Tier, Stage], Ladder] = {}
    for failure in FailureType:
        for tier in Tier:
            cell = table[failure, tier]
            of_cell = _of_cell(cell, ROWS[failure])
            for stage in Stage:
                rungs = tuple(_rungs(failure, tier, of_cell, of_stages[stage], swaps_first=_swaps_first(cell)))
                layered[failure, tier, stage] = Ladder.model_construct(rungs=rungs, deviation=cell.deviation)
    rungs_by_id = {id(rung): rung for ladder in layered.values() for rung in ladder.rungs}
    shown = {key: rung.model_dump(mode="json") for key, rung in rungs_by_id.items()}
    said: dict[str, Any] = {
        "/".join(key): [shown[id(rung)] for rung in ladder.rungs] for key, ladder in layered.items()
    }
    # How long a node waits stands in no rung, and a decision about it hangs on it.
    said["waits"] = [str(spec.policy.retry_layers.retries_of(stage)) for stage in Stage]
    return Ladders(table, layered, fingerprint([table_digest(table), said]), presets=True)


ROUTED_ON = "rules of the graph"
LED_BACK = "retry targets of the graph"
_BEFORE_EDGES = frozenset({Reaction.RETRY, Reaction.WAIT_FOR_BREAKER, Reaction.FALLBACK_MODEL, Reaction.INJECT})
"""Rungs that are still about a call, or said to the agent at work: a turn has not failed before them."""


def _with_edges(table: Table, spec: FabricSpec | None) -> Ladders:
    """Returns the ladders without layers. Where a graph has rules on how a turn ended, each cell of a turn has the way by them.

    It stands behind what is done about the turn's calls. Behind it stands the way back to a retry target, where there is any.
    """
    ways = () if spec is None else (*_edges_of(spec), *_targets_of(spec))
    if not ways:
        return Ladders(table, {}, table_digest(table))
    layered = {(failure, tier, Stage.FAN_OUT): _routed(cell, ways) for (failure, tier), cell in table.items()}
    said = [_SAID[rung.reaction] for rung in ways]
    return Ladders(table, layered, fingerprint([table_digest(table), *said]))


def _edges_of(spec: FabricSpec) -> tuple[Rung, ...]:
    return (_rung(Layer.EDGE_ROUTING, Reaction.ROUTE, 1),) if _has_edges(spec) else ()


def _targets_of(spec: FabricSpec) -> tuple[Rung, ...]:
    led = isinstance(spec.topology, GraphTopology) and has_targets(spec.topology)
    return (_rung(Layer.RETRY_TARGET, Reaction.GO_BACK, 1),) if led else ()


_SAID = {Reaction.ROUTE: ROUTED_ON, Reaction.GO_BACK: LED_BACK}


def _has_edges(spec: FabricSpec) -> bool:
    return isinstance(spec.topology, GraphTopology) and has_edges(spec.topology)


def _routed(cell: Ladder, ways: tuple[Rung, ...]) -> Ladder:
    at = next((n for n, rung in enumerate(cell.rungs) if rung.reaction not in _BEFORE_EDGES and not rung.poll), 0)
    rungs = (*cell.rungs[:at], *ways, *cell.rungs[at:])
    return Ladder.model_construct(rungs=rungs, deviation=cell.deviation)


_Laid = Mapping[Layer, tuple[Rung, ...]]
"""What stands in each layer; nothing in one that is missing."""


def _rungs(
    failure: FailureType, tier: Tier, of_cell: _Laid, of_stage: _Laid, *, swaps_first: bool = False
) -> Iterator[Rung]:
    for layer in ROWS[failure]:
        if layer is Layer.EDGE_ROUTING and (failure, tier) in NEVER_BY_EDGE:
            continue
        mine, stage_s = of_cell.get(layer, ()), of_stage.get(layer, ())
        # A cell that asks another model before it waits does so here too.
        yield from (*stage_s, *mine) if layer is Layer.FAILOVER and swaps_first else (*mine, *stage_s)


def _of_cell(cell: Ladder, layers: tuple[Layer, ...]) -> _Laid:
    """What a cell leaves for the layers: its wait, where the row has a failover that it can stand in front of, and whatever is no layer's."""
    waits = tuple(rung for rung in cell.rungs if rung.reaction is Reaction.WAIT_FOR_BREAKER)
    gone_up = CALL_LEVEL if Layer.FAILOVER in layers else CALL_LEVEL - {Reaction.WAIT_FOR_BREAKER}
    return {
        Layer.FAILOVER: tuple(_of(rung, Layer.FAILOVER) for rung in waits),
        Layer.RUN_FAILURE: tuple(_of(rung, Layer.RUN_FAILURE) for rung in cell.rungs if rung.reaction not in gone_up),
    }


def _swaps_first(cell: Ladder) -> bool:
    reactions = [rung.reaction for rung in cell.rungs]
    both = Reaction.FALLBACK_MODEL in reactions and Reaction.WAIT_FOR_BREAKER in reactions
    return both and reactions.index(Reaction.FALLBACK_MODEL) < reactions.index(Reaction.WAIT_FOR_BREAKER)


def _of_stage(spec: FabricSpec, stage: Stage) -> _Laid:
    """What the fabric says of a stage's layers."""
    told, stand_ins = spec.policy.retry_layers, _stand_ins(spec)
    return {
        Layer.CALL_RETRIES: (_rung(Layer.CALL_RETRIES, Reaction.RETRY, MODEL_CALLS.attempts - 1),),
        Layer.FAILOVER: (_rung(Layer.FAILOVER, Reaction.FALLBACK_MODEL, stand_ins),) if stand_ins else (),
        Layer.NODE_RETRIES: tuple(_of_node(told, stage)),
        Layer.EDGE_ROUTING: (
            *(_edges_of(spec) if stage is Stage.FAN_OUT else ()),
            *(_way(spec, Layer.EDGE_ROUTING, edge) for edge in told.edges_of(stage)),
        ),
        Layer.RETRY_TARGET: (
            *(_targets_of(spec) if stage is Stage.FAN_OUT else ()),
            *(_way(spec, Layer.RETRY_TARGET, Edge(to=to)) for to in told.targets_of(stage)),
        ),
    }


def _of_node(told: RetryLayers, stage: Stage) -> Iterator[Rung]:
    if retries := told.most_retries(stage):
        yield _rung(Layer.NODE_RETRIES, Reaction.RETRY_NODE, retries)
    workers = told.workers if stage is Stage.FAN_OUT else ()
    if any(told.partial_of(stage, name) for name in ("", *workers)):
        yield _rung(Layer.NODE_RETRIES, Reaction.ACCEPT_PARTIAL, 1)


WAYS: Mapping[WayOut, Reaction] = MappingProxyType({"replan": Reaction.REPLAN, "handover": Reaction.HANDOVER})
"""What a way out is done by."""


def _way(spec: FabricSpec, layer: Layer, edge: Edge) -> Rung:
    reaction = WAYS[edge.to]
    times = spec.policy.limits.replans_per_stage if reaction is Reaction.REPLAN else 1
    return _rung(layer, reaction, times, edge.failure_class)


def _rung(layer: Layer, reaction: Reaction, times: int, failure_class: ErrorClass | None = None) -> LayerRung:
    return LayerRung(reaction=reaction, times=min(times, TIMES_MAX), layer=layer, failure_class=failure_class)


def _of(rung: Rung, layer: Layer) -> LayerRung:
    return LayerRung.model_validate({**rung.model_dump(by_alias=True), "layer": layer})


def _stand_ins(spec: FabricSpec) -> int:
    """How many models stand behind the one that has the most."""
    named = {model.name: model.fallbacks for model in spec.models}
    return max(len(chain(named, name)) for name in named)


def stage_of(step_id: str, scope: str) -> Stage:
    """The stage of a decision about that step; where it is no step's, of what its rung is counted against (``stage:...``)."""
    return Stage(step_id.partition(".")[0] or scope.partition(":")[2])


def layer_of(rung: Rung) -> str:
    """The layer that a rung belongs to; empty: none is in force."""
    return str(rung.layer) if isinstance(rung, LayerRung) else ""


def unrouted(rung: Rung, error_class: ErrorClass) -> str:
    """Why a rung is not for a failure of that class; empty: it is."""
    wanted = rung.failure_class if isinstance(rung, LayerRung) else None
    return "" if wanted in (None, error_class) else f"the edge is for {wanted}, and this is {error_class}"


def by_edge(rung: Rung) -> bool:
    """Whether a rung is an edge, or a graph's retry target: the author leads a failure elsewhere by it, also one that does not go away by itself."""
    return isinstance(rung, LayerRung) and (rung.layer is Layer.EDGE_ROUTING or rung.reaction is Reaction.GO_BACK)

"""Lays S1's retry layers (preset ``fabro``) into the cells of the decision table (docs/specification/retries.md).

This happens once, when a fabric is compiled. A layer is one or more rungs. So the ladder commands layers as it commands
any rung: counted, passed over with a reason, journaled and derived again. A cell's own retry, wait and fallback rungs
go up into the layers. The rungs that remain stand behind them: they are the run's failure. Problems of a fabric's retry
layers are found here too, each a sentence with its path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from fabric.core.graph.retry_targets import has_edges, has_targets
from fabric.core.spec.policies.decision_table import Accompaniment, Ladder, Reaction, Rung, Table, table_digest
from fabric.core.spec.policies.fallbacks import chain
from fabric.core.spec.policies.limits import Retry
from fabric.core.spec.policies.retries import MODEL_CALLS, Edge, RetryLayers, WayOut
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.tree import FabricTree
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.identity_cache import keep_results
from fabric.core.values.taxonomy import ErrorClass, FailureType, Tier

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
"""Rungs of a cell that are a call's (docs/specification/topologies.md). Its retries and fallbacks are the layers' to
say, its wait stands between the two.
"""

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
"""Layers of each row; total by test. Calls and nodes retry transient failures only; a quota fails over. Loops,
stalls and unsafe outputs go to the run at once (S1 "The run also terminates immediately for").
"""
NEVER_BY_EDGE = frozenset({(_F.COST_OVERRUN, Tier.HIGH_STAKES)})
"""Budget and limit trips never route by edge in high-stakes (docs/specification/topologies.md)."""
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
    """Return True if S1's layers are in force. Otherwise only a graph's rules change ladders."""

    def find_ladder(self, failure: FailureType, tier: Tier, stage: Stage) -> Ladder:
        """The ladder of a failure that happened in that stage."""
        return _carry_alerts(self.layered.get((failure, tier, stage)) or self.table[failure, tier])


@keep_results
def _carry_alerts(ladder: Ladder) -> Ladder:
    """Return the ladder with each alert repeated at the rungs behind it. A rung that cannot apply is skipped, and its
    alert must not be.
    """
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


def ladders(table: Table, spec: FabricTree | None = None) -> Ladders:
    """The table with what a fabric says of its layers. ``spec`` None: there are none."""
    own = {} if spec is None else own_cells(spec)
    if spec is None or not spec.policy.retry_layers.layered:
        return _with_edges(table, spec, own)
    # A rung stands in many ladders: each is made, and shown, once.
    of_stages = {stage: _of_stage(spec, stage) for stage in Stage}
    layered: dict[tuple[FailureType, Tier, Stage], Ladder] = {}
    for failure in FailureType:
        for tier in Tier:
            for stage in Stage:
                cell = own.get((failure, tier, stage)) or table[failure, tier]
                of_cell = _of_cell(cell, ROWS[failure])
                rungs = tuple(
                    _rungs(failure, tier, of_cell, of_stages[stage], falls_back_first=_falls_back_first(cell))
                )
                layered[failure, tier, stage] = Ladder.model_construct(rungs=rungs, deviation=cell.deviation)
    rungs_by_id = {id(rung): rung for ladder in layered.values() for rung in ladder.rungs}
    shown = {key: rung.model_dump(mode="json") for key, rung in rungs_by_id.items()}
    said: dict[str, Any] = {
        "/".join(key): [shown[id(rung)] for rung in ladder.rungs] for key, ladder in layered.items()
    }
    # The wait of a node stands in no rung, and a decision about it depends on it.
    said["waits"] = [str(spec.policy.retry_layers.retries_of(stage)) for stage in Stage]
    return Ladders(table, layered, fingerprint([table_digest(table), said]), presets=True)


ROUTED_ON = "rules of the graph"
LED_BACK = "retry targets of the graph"
_BEFORE_EDGES = frozenset({Reaction.RETRY, Reaction.WAIT_FOR_BREAKER, Reaction.FALLBACK_MODEL, Reaction.INJECT})
"""Rungs that are still about a call, or said to the agent at work. A turn has not failed before them."""


def own_cells(spec: FabricTree) -> Layered:
    """The cells that single stages have of their own (``policy.stages``)."""
    return {(one.failure, one.tier, one.stage): one.ladder for one in spec.cells if one.stage is not None}


def _with_edges(table: Table, spec: FabricTree | None, own: Layered) -> Ladders:
    """Returns the ladders without layers. Where a graph has rules on how a turn ended, each cell of a turn has the way
    by them.

    It stands behind what is done about the turn's calls. Behind it stands the way back to a retry target, where there
    is any.
    """
    ways = () if spec is None else (*_list_edges(spec), *_list_targets(spec))
    if not ways and not own:
        return Ladders(table, {}, table_digest(table))
    layered = dict(own)
    for failure, tier in table if ways else ():
        key = (failure, tier, Stage.FAN_OUT)
        layered[key] = _route_ladder(own.get(key) or table[failure, tier], ways)
    said: list[Any] = [_SAID[rung.reaction] for rung in ways]
    said += [{"/".join(key): ladder.model_dump(mode="json") for key, ladder in own.items()}] if own else []
    return Ladders(table, layered, fingerprint([table_digest(table), *said]))


def _list_edges(spec: FabricTree) -> tuple[Rung, ...]:
    return (_rung(Layer.EDGE_ROUTING, Reaction.ROUTE, 1),) if _has_edges(spec) else ()


def _list_targets(spec: FabricTree) -> tuple[Rung, ...]:
    led = isinstance(spec.topology, GraphTopology) and has_targets(spec.topology)
    return (_rung(Layer.RETRY_TARGET, Reaction.GO_BACK, 1),) if led else ()


_SAID = {Reaction.ROUTE: ROUTED_ON, Reaction.GO_BACK: LED_BACK}


def _has_edges(spec: FabricTree) -> bool:
    return isinstance(spec.topology, GraphTopology) and has_edges(spec.topology)


def _route_ladder(cell: Ladder, ways: tuple[Rung, ...]) -> Ladder:
    at = next((n for n, rung in enumerate(cell.rungs) if rung.reaction not in _BEFORE_EDGES and not rung.poll), 0)
    rungs = (*cell.rungs[:at], *ways, *cell.rungs[at:])
    return Ladder.model_construct(rungs=rungs, deviation=cell.deviation)


_Laid = Mapping[Layer, tuple[Rung, ...]]
"""Return the rungs of each layer; a missing layer has none."""


def _rungs(
    failure: FailureType, tier: Tier, of_cell: _Laid, of_stage: _Laid, *, falls_back_first: bool = False
) -> Iterator[Rung]:
    for layer in ROWS[failure]:
        if layer is Layer.EDGE_ROUTING and (failure, tier) in NEVER_BY_EDGE:
            continue
        mine, stage_s = of_cell.get(layer, ()), of_stage.get(layer, ())
        # A cell that asks another model before it waits does so here too.
        yield from (*stage_s, *mine) if layer is Layer.FAILOVER and falls_back_first else (*mine, *stage_s)


def _of_cell(cell: Ladder, layers: tuple[Layer, ...]) -> _Laid:
    """Return the rungs that a cell leaves to the layers: its wait before a failover, and rungs of no layer."""
    waits = tuple(rung for rung in cell.rungs if rung.reaction is Reaction.WAIT_FOR_BREAKER)
    gone_up = CALL_LEVEL if Layer.FAILOVER in layers else CALL_LEVEL - {Reaction.WAIT_FOR_BREAKER}
    return {
        Layer.FAILOVER: tuple(_layer_rung(rung, Layer.FAILOVER) for rung in waits),
        Layer.RUN_FAILURE: tuple(
            _layer_rung(rung, Layer.RUN_FAILURE) for rung in cell.rungs if rung.reaction not in gone_up
        ),
    }


def _falls_back_first(cell: Ladder) -> bool:
    reactions = [rung.reaction for rung in cell.rungs]
    both = Reaction.FALLBACK_MODEL in reactions and Reaction.WAIT_FOR_BREAKER in reactions
    return both and reactions.index(Reaction.FALLBACK_MODEL) < reactions.index(Reaction.WAIT_FOR_BREAKER)


def _of_stage(spec: FabricTree, stage: Stage) -> _Laid:
    """Return the fabric's configuration of a stage's layers."""
    told, fallbacks = spec.policy.retry_layers, _fallbacks(spec)
    return {
        Layer.CALL_RETRIES: (_rung(Layer.CALL_RETRIES, Reaction.RETRY, MODEL_CALLS.attempts - 1),),
        Layer.FAILOVER: (_rung(Layer.FAILOVER, Reaction.FALLBACK_MODEL, fallbacks),) if fallbacks else (),
        Layer.NODE_RETRIES: tuple(_of_node(told, stage)),
        Layer.EDGE_ROUTING: (
            *(_list_edges(spec) if stage is Stage.FAN_OUT else ()),
            *(_way(spec, Layer.EDGE_ROUTING, edge) for edge in told.edges_of(stage)),
        ),
        Layer.RETRY_TARGET: (
            *(_list_targets(spec) if stage is Stage.FAN_OUT else ()),
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
"""Return the reaction that leads out of a layer."""


def _way(spec: FabricTree, layer: Layer, edge: Edge) -> Rung:
    reaction = WAYS[edge.to]
    times = spec.policy.limits.replans_per_stage if reaction is Reaction.REPLAN else 1
    return _rung(layer, reaction, times, edge.failure_class)


def _rung(layer: Layer, reaction: Reaction, times: int, failure_class: ErrorClass | None = None) -> LayerRung:
    return LayerRung(reaction=reaction, times=min(times, TIMES_MAX), layer=layer, failure_class=failure_class)


def _layer_rung(rung: Rung, layer: Layer) -> LayerRung:
    return LayerRung.model_validate({**rung.model_dump(by_alias=True), "layer": layer})


def _fallbacks(spec: FabricTree) -> int:
    """Return the largest number of fallbacks of any model."""
    named = {model.name: model.fallbacks for model in spec.models}
    return max(len(chain(named, name)) for name in named)


def read_stage(step_id: str, scope: str) -> Stage:
    """Return the stage of a decision about a step. Without a step it is in the rung's scope (``stage:...``)."""
    return Stage(step_id.partition(".")[0] or scope.partition(":")[2])


def find_layer(rung: Rung) -> str:
    """The layer that a rung belongs to; empty: none is in force."""
    return str(rung.layer) if isinstance(rung, LayerRung) else ""


def explain_unrouted(rung: Rung, error_class: ErrorClass) -> str:
    """Why a rung is not for a failure of that class; empty: it is."""
    wanted = rung.failure_class if isinstance(rung, LayerRung) else None
    return "" if wanted in (None, error_class) else f"the edge is for {wanted}, and this is {error_class}"


def by_edge(rung: Rung) -> bool:
    """Return True if a rung is an edge or a graph's retry target. Its author also leads permanent failures elsewhere
    with it.
    """
    return isinstance(rung, LayerRung) and (rung.layer is Layer.EDGE_ROUTING or rung.reaction is Reaction.GO_BACK)


HERE = "policy.retry_layers"
_OWN_WAITS = ("base_s", "factor", "cap_s")


def layer_problems(spec: FabricTree) -> Iterator[str]:
    """Yield each problem of ``policy.retry_layers``. Nothing is wrong where no layers are in force and none are
    described.
    """
    told = spec.policy.retry_layers
    if not told.layered:
        # The value tells what was written: a fabric that is written out names every field, and must be read again.
        for name, field in RetryLayers.model_fields.items():
            if name != "preset" and getattr(told, name) != field.get_default(call_default_factory=True):
                yield f"{HERE}.{name}: only preset fabro has layers; name it, or leave {name} out"
        return
    yield from _ways(spec)
    yield from _partial(spec)
    yield from _said_twice(spec)
    for name in told.workers:
        if not isinstance(spec.topology, GraphTopology) or name not in spec.topology.workers:
            yield f"{HERE}.workers.{name}: {name!r} is no worker that takes turns by a graph; say it of a stage, or leave it out"


def _ways(spec: FabricTree) -> Iterator[str]:
    told = spec.policy.retry_layers
    for path, to in told.named_ways().items():
        if to == "replan" and spec.topology.planner is None:
            yield f"{HERE}.{path}: the plan is fixed, so there is nothing to replan; name handover, or leave it out"
        elif to == "handover" and spec.topology.handover is None:
            yield f"{HERE}.{path}: no agent is above the others; name one in topology.handover, or leave it out"
    for path, group in ("", told), *((f"stages.{stage}.", one) for stage, one in told.stages.items()):
        for n, edge in enumerate(group.edges):
            if edge.failure_class is not None and edge.failure_class not in ROUTED:
                known = ", ".join(sorted(ROUTED))
                yield (
                    f"{HERE}.{path}edges.{n}.failure_class: a failure of class {edge.failure_class} is the decision table's "
                    f"alone; give one of {known}"
                )


def _partial(spec: FabricTree) -> Iterator[str]:
    policy = spec.policy
    for stage, node in policy.retry_layers.stages.items():
        where = f"{HERE}.stages.{stage}.allow_partial"
        if not node.allow_partial:
            continue
        if stage is not Stage.FAN_OUT:
            yield f"{where}: stage {stage} has one part, and nothing is no part of it; leave it out"
        elif policy.fan_in.mode != "all":
            said = "continues with any result" if policy.fan_in.mode == "best_effort" else "says how many are enough"
            yield f"{where}: fan_in {policy.fan_in.mode} {said} already; leave one of the two out"


def _said_twice(spec: FabricTree) -> Iterator[str]:
    """The layers say how often calls are retried and who stands in; nothing else may."""
    for cell in spec.cells:
        for n, rung in enumerate(cell.ladder.rungs):
            if rung.reaction in (Reaction.RETRY, Reaction.FALLBACK_MODEL):
                yield (
                    f"{cell.path}.rungs.{n}: {rung.reaction} is a layer's under "
                    "policy.retry_layers with preset fabro; take the rung out"
                )
    retry = spec.policy.retry
    told = [f"policy.retry.{name}" for name in _OWN_WAITS if getattr(retry, name) != Retry.model_fields[name].default]
    for stage, own in spec.policy.stages.items():
        told += [f"policy.stages.{stage}.retry.{name}" for name in _OWN_WAITS if name in own.retry.given_fields]
    for path in told:
        yield f"{path}: under policy.retry_layers with preset fabro the layers have waits of their own; leave it out"

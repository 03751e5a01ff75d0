"""What of a fabric's retry layers does not fit it: a sentence each, with its path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fabric.core.decision_table import Reaction
from fabric.core.flow import Stage
from fabric.core.policy import Retry
from fabric.core.retry_layers import ROUTED
from fabric.core.retry_policy import RetryLayers
from fabric.core.spec_graph import GraphTopology

if TYPE_CHECKING:
    from fabric.core.spec import FabricSpec

HERE = "policy.retry_layers"
_OWN_WAITS = ("base_s", "factor", "cap_s")


def layer_problems(spec: FabricSpec) -> Iterator[str]:
    """What is wrong with ``policy.retry_layers`` in this fabric; nothing where no layers are in force and none are described."""
    told = spec.policy.retry_layers
    if not told.layered:
        # What is said is told by its value: a fabric that is written out names every field, and must be read again.
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


def _ways(spec: FabricSpec) -> Iterator[str]:
    told = spec.policy.retry_layers
    for path, to in told.named_ways().items():
        if to == "replan" and spec.topology.planner is None:
            yield f"{HERE}.{path}: the plan is fixed, so there is nothing to replan; name handover, or leave it out"
        elif to == "handover" and spec.topology.handover is None:
            yield f"{HERE}.{path}: nobody is above the others; name an agent in topology.handover, or leave it out"
    for path, group in ("", told), *((f"stages.{stage}.", one) for stage, one in told.stages.items()):
        for n, edge in enumerate(group.edges):
            if edge.failure_class is not None and edge.failure_class not in ROUTED:
                known = ", ".join(sorted(ROUTED))
                yield (
                    f"{HERE}.{path}edges.{n}.failure_class: a failure of class {edge.failure_class} is the decision table's "
                    f"alone; give one of {known}"
                )


def _partial(spec: FabricSpec) -> Iterator[str]:
    policy = spec.policy
    for stage, node in policy.retry_layers.stages.items():
        where = f"{HERE}.stages.{stage}.allow_partial"
        if not node.allow_partial:
            continue
        if stage is not Stage.FAN_OUT:
            yield f"{where}: stage {stage} has one part, and nothing is no part of it; leave it out"
        elif policy.fan_in.mode != "all":
            said = (
                "goes on with whatever came back" if policy.fan_in.mode == "best_effort" else "says how many are enough"
            )
            yield f"{where}: fan_in {policy.fan_in.mode} {said} already; leave one of the two out"


def _said_twice(spec: FabricSpec) -> Iterator[str]:
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
        told += [f"policy.stages.{stage}.retry.{name}" for name in _OWN_WAITS if name in own.retry.given]
    for path in told:
        yield f"{path}: under policy.retry_layers with preset fabro the layers have waits of their own; leave it out"

"""Places of a fabric at which failures strike, and the replies of models there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core.events.inputs import ModelReplied, ToolCall
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.conversation import is_conversation
from fabric.runtime.ports.calls import ModelRequest
from simulator.agents.schema_values import value
from simulator.scenarios.baseline.equipment import reader
from simulator.scenarios.strikes.handovers import find_circle


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Agents of a fabric at which failures strike. A name is empty where no agent has the place."""

    worker: str
    armed: str
    """The first worker that has a tool which only reads..."""
    tool: str
    """...and that tool."""
    branch: str
    """The start of that worker's first branch or turn. Empty where the topology does not fix it."""
    aggregator: str
    finalizer: str
    cap_usd_micros: int
    cites: bool
    """True: a gate looks at citations."""
    briefed: tuple[str, ...] = ()
    """Agents that every plan has to brief: all, where workers take turns."""
    pair: Mapping[str, str] = field(default_factory=dict)
    """The next agent of each, so that two have the request in turn."""
    three: Mapping[str, str] = field(default_factory=dict)
    """The next agent of each, so that three have it in turn. Empty where no three can."""


def build_places(spec: FabricSpec) -> Places:
    """Return the places of a fabric."""
    topology = spec.topology
    armed, tool = reader(spec)
    return Places(
        worker=(topology.hands() or topology.workers)[0],
        armed=armed,
        tool=tool,
        branch=_branch(spec, armed),
        aggregator=topology.aggregator or "",
        finalizer=topology.finalizer or "",
        cap_usd_micros=spec.policy.budget.run_usd_micros,
        cites=spec.gates.citations != "off",
        briefed=topology.workers if is_conversation(topology) else (),
        pair=find_circle(spec, 2),
        three=find_circle(spec, 3),
    )


def _branch(spec: FabricSpec, worker: str) -> str:
    if is_conversation(spec.topology):
        return "fan_out.0."  # The first speaker.
    return next((f"fan_out.{n}." for n, name in enumerate(spec.topology.order()) if name == worker), "")


def reply_with(request: ModelRequest, said: Any, *calls: ToolCall) -> ModelReplied:
    """Return a reply that says this, in words or as JSON. It has data where the agent's author wants some."""
    if request.data_schema is not None and isinstance(said, dict) and "citations" in said:
        said = {**said, "data": value(request.data_schema, said["text"])}
    return ModelReplied(
        command_id=request.command_id,
        attempt=request.attempt,
        text=said if isinstance(said, str) else json.dumps(said),
        calls=calls,
    )

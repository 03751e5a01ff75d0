"""Which circuit breakers stand in front of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fabric.core.breaker.passing import Gate, Key
from fabric.core.breaker.policy import Breaker, BreakerScope, SignalName
from fabric.core.commands import CallModel, CallTool
from fabric.core.endpoints import endpoint_name
from fabric.core.fallbacks import chain
from fabric.core.spec import FabricSpec


def name_of(scope: BreakerScope, spec: FabricSpec, command: CallModel | CallTool) -> str | None:
    """What a breaker of a scope stands in front of where this call goes out, by name; None: nothing, it is no call of that kind."""
    match scope:
        case BreakerScope.PROVIDER:
            return endpoint_name(spec.model(command.model)) if isinstance(command, CallModel) else None
        case BreakerScope.TOOL:
            return command.tool if isinstance(command, CallTool) else None
        case BreakerScope.AGENT:
            return command.agent or None  # What the oracle asks, nobody asks.
        case BreakerScope.STAGE:
            return command.step_id.partition(".")[0]
        case BreakerScope.FABRIC:
            return spec.name


def row_scope(scope: BreakerScope, fabric_id: str, name: str) -> str:
    """Whose breaker it is: what stands in its row. A provider's endpoint is the same one for all fabrics."""
    match scope:
        case BreakerScope.PROVIDER:
            return f"{scope}:{name}"
        case BreakerScope.FABRIC:
            return f"{scope}:{fabric_id}"
        case BreakerScope.AGENT | BreakerScope.TOOL | BreakerScope.STAGE:
            return f"{scope}:{fabric_id}:{name}"


def gates_of(
    breakers: Iterable[Breaker],
    fabric_id: str,
    spec: FabricSpec,
    command: CallModel | CallTool,
    streaks: Mapping[SignalName, int],
    *,
    dear_passes: bool = False,
    last_word: bool = False,
) -> tuple[Gate, ...]:
    """The breakers in front of a call, in the policy's order, each row once. What a tool's endpoint says counts for the tool alone; a model's for all of its own.

    A call that a stand-in takes is the fallback that ``on_open: model`` speaks of: of such breakers it passes those that do not go by the model.
    ``dear_passes``: a person let the run go on at its rate. ``last_word``: it is an agent's last one, without tools.
    """
    found: dict[Key, Gate] = {}
    dear_passes = dear_passes or not isinstance(command, CallModel) or _costs_less(spec, command)
    stands_in = isinstance(command, CallModel) and _stands_in(spec, command)
    for breaker in breakers:
        name = name_of(breaker.scope, spec, command)
        if name is None or not breaker.before(name):
            continue
        if stands_in and breaker.on_open == "model" and breaker.scope is not BreakerScope.PROVIDER:
            continue
        key = Key(row_scope(breaker.scope, fabric_id, name), breaker.kind)
        counts = isinstance(command, CallModel) or breaker.scope is BreakerScope.TOOL
        found.setdefault(key, Gate(breaker, key, counts, streaks, dear_passes, last_word=last_word))
    return tuple(found.values())


def _stands_in(spec: FabricSpec, command: CallModel) -> bool:
    """Whether the model is one of those that may stand in for its agent's own."""
    own = spec.agent(command.agent).model
    if command.model == own:
        return False
    return command.model in chain({model.name: model.fallbacks for model in spec.models}, own)


def _costs_less(spec: FabricSpec, command: CallModel) -> bool:
    """Whether the model is one of those that are cheaper than its agent's own."""
    cheaper = {model.name: model.cheaper for model in spec.models}
    name = cheaper.get(spec.agent(command.agent).model)
    while name is not None and name != command.model:  # Publication refuses a ring.
        name = cheaper.get(name)
    return name is not None

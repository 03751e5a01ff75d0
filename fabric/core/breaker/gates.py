"""Finds the circuit breakers in front of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fabric.core.breaker.passing import BreakerKey, Gate
from fabric.core.events.commands import CallModel, CallTool
from fabric.core.spec.endpoints import endpoint_name
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import Breaker, BreakerScope, SignalName
from fabric.core.spec.policies.fallbacks import chain
from fabric.core.values.identity_cache import keep_results


def find_name(scope: BreakerScope, spec: FabricSpec, command: CallModel | CallTool) -> str | None:
    """Return the name of the thing that a breaker of this scope guards in a call. None: the scope has no such call."""
    match scope:
        case BreakerScope.PROVIDER:
            return endpoint_name(spec.model(command.model)) if isinstance(command, CallModel) else None
        case BreakerScope.TOOL:
            return command.tool if isinstance(command, CallTool) else None
        case BreakerScope.AGENT:
            return command.agent or None  # A call of the oracle has no agent.
        case BreakerScope.STAGE:
            return command.step_id.partition(".")[0]
        case BreakerScope.FABRIC:
            return spec.name


def row_scope(scope: BreakerScope, fabric_id: str, name: str) -> str:
    """Return the scope that a breaker's row is kept under. All fabrics share a provider's endpoint."""
    match scope:
        case BreakerScope.PROVIDER:
            return f"{scope}:{name}"
        case BreakerScope.FABRIC:
            return f"{scope}:{fabric_id}"
        case BreakerScope.AGENT | BreakerScope.TOOL | BreakerScope.STAGE:
            return f"{scope}:{fabric_id}:{name}"


def list_gates(
    breakers: Iterable[Breaker],
    fabric_id: str,
    spec: FabricSpec,
    command: CallModel | CallTool,
    streaks: Mapping[SignalName, int],
    *,
    dear_passes: bool = False,
    last_word: bool = False,
) -> tuple[Gate, ...]:
    """Return the breakers in front of a call, in the policy's order, each row once. A tool's end counts for the
    tool's breakers alone, a model's for all.

    A call to a stand-in passes each breaker with ``on_open: model``, except a provider's. ``dear_passes``: a person
    let the run go on at its rate. ``last_word``: it is an agent's last one, without tools.
    """
    found: dict[BreakerKey, Gate] = {}
    dear_passes = dear_passes or not isinstance(command, CallModel) or _costs_less(spec, command)
    stands_in = isinstance(command, CallModel) and _stands_in(spec, command)
    for breaker in breakers:
        name = find_name(breaker.scope, spec, command)
        if name is None or not breaker.stands_before(name):
            continue
        if stands_in and breaker.on_open == "model" and breaker.scope is not BreakerScope.PROVIDER:
            continue
        key = BreakerKey(row_scope(breaker.scope, fabric_id, name), breaker.kind)
        counts = isinstance(command, CallModel) or breaker.scope is BreakerScope.TOOL
        found.setdefault(key, Gate(breaker, key, counts, streaks, dear_passes, last_word=last_word))
    return tuple(found.values())


def _stands_in(spec: FabricSpec, command: CallModel) -> bool:
    """Return True if the model is a fallback of its agent's own."""
    own = spec.agent(command.agent).model
    if command.model == own:
        return False
    return command.model in _list_fallbacks(spec, own)


@keep_results
def _list_fallbacks(spec: FabricSpec, own: str) -> tuple[str, ...]:
    return chain({model.name: model.fallbacks for model in spec.models}, own)


def _costs_less(spec: FabricSpec, command: CallModel) -> bool:
    """Return True if the model is a cheaper one for its agent's own."""
    return command.model in _list_cheaper(spec, spec.agent(command.agent).model)


@keep_results
def _list_cheaper(spec: FabricSpec, own: str) -> tuple[str, ...]:
    """Return the cheaper models for a model, nearest first."""
    cheaper = {model.name: model.cheaper for model in spec.models}
    found: list[str] = []
    name = cheaper.get(own)
    while name is not None and name not in found:
        found.append(name)
        name = cheaper.get(name)
    return tuple(found)

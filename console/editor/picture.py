"""The picture of a draft's topology, also where the draft is no fabric yet. It shows what can be read and names what it
leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from console.editor.remainder import readable
from console.forms.controls.fields import at
from console.topologies.drawing import Link
from console.topologies.fabrics import topology_links, topology_svg
from fabric.core.schema.topology import DEFAULT_KIND, SupervisorTopology
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.gates import Gates, OracleCheck
from fabric.core.spec.tools import ToolSpec
from fabric.core.spec.tree import AgentSpec, ModelSpec
from fabric.core.values.units import JSON
from fabric.services.fabrics.trials.parts import sketch

MADE = ("memory", "conversation")
"""Kinds of the tools that the engine makes of other parts."""
ROLES = ("planner", "plan_critic", "aggregator", "critic", "finalizer", "handover")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A topology as a picture and as a table; None and empty where nothing can be drawn."""

    picture: str | None
    links: tuple[Link, ...] = ()
    left_out: tuple[str, ...] = ()
    """Sentences: what the draft names that is not there."""
    whole: bool = True
    """True for the whole fabric, not only its readable part."""


def drawn(tree: JSON, spec: FabricSpec | None) -> Drawn:
    """The picture of a draft."""
    if spec is not None:
        return Drawn(topology_svg(spec), tuple(topology_links(spec)))
    known, left_out = _sketched(tree if isinstance(tree, dict) else {})
    if not known.topology.workers:
        return Drawn(None, (), tuple(left_out), whole=False)
    return Drawn(topology_svg(known), tuple(topology_links(known)), tuple(left_out), whole=False)


def _sketched(tree: Mapping[str, JSON]) -> tuple[FabricSpec, list[str]]:
    topology = _group(tree, "topology")
    whole, left_out = readable(topology, frozenset(one["name"] for one in _items(tree, "agents")))
    read = sketch(tree, Gates())
    if whole is not None:
        read = read.model_copy(update={"topology": whole})  # Before anything is worked out of it.
    made = {one.name: one for one in read.all_tools if one.kind in MADE}
    tools = {one.name: one for one in _tools(tree)} | made
    agents = {one.name: one for one in _agents(tree, frozenset(tools))}
    if whole is None:
        whole, left_out = _named_in(topology, frozenset(agents))
    gates = _group(tree, "gates")
    grounding = gates.get("grounding_critic")
    if grounding is not None and not (isinstance(grounding, str) and grounding in agents):
        left_out.append(f"gates.grounding_critic is left out: {grounding!r} is no agent of this fabric."[:200])
        grounding = None
    spec = read.model_copy(
        update={
            "models": tuple(_models(tree, agents.values())),
            "tools": tuple(one for one in tools.values() if one.kind not in MADE),
            "agents": tuple(agents.values()),
            "topology": whole,
            "gates": Gates.model_construct(
                oracle=tuple(_checks(gates, agents)) or None,
                grounding_critic=grounding,
            ),
        }
    )
    return spec, list(dict.fromkeys(left_out))


def _named_in(topology: Mapping[str, JSON], agents: frozenset[str]) -> tuple[SupervisorTopology, list[str]]:
    """Return the workers and roles of an unreadable topology."""
    kind = topology.get("kind", DEFAULT_KIND)
    left_out = [] if kind == DEFAULT_KIND else ["Its topology cannot be read: the workers are drawn as a supervisor's."]

    def there(name: JSON, role: str) -> str | None:
        if isinstance(name, str) and name in agents:
            return name
        if name is not None:
            left_out.append(f"topology.{role} is left out: {name!r} is no agent of this fabric."[:200])
        return None

    roles: dict[str, Any] = {role: there(topology.get(role), role) for role in ROLES}
    listed = topology.get("workers")
    found = [there(one, f"workers.{n}") for n, one in enumerate(listed)] if isinstance(listed, list) else []
    workers = tuple(dict.fromkeys(one for one in found if one))
    return SupervisorTopology.model_construct(**roles, plan=None, workers=workers), left_out


def _group(tree: Mapping[str, JSON], name: str) -> dict[str, JSON]:
    found = at(tree, name)
    return found if isinstance(found, dict) else {}


def _items(tree: Mapping[str, JSON], listed: str) -> Iterator[dict[str, JSON]]:
    """The things of a list that have a name."""
    found = at(tree, listed)
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str) and one["name"]:
            yield one


def _tools(tree: Mapping[str, JSON]) -> Iterator[ToolSpec]:
    for one in _items(tree, "tools"):
        try:
            yield ToolSpec.model_validate(one)
        except ValidationError:
            yield ToolSpec.model_construct(name=one["name"], kind="callable", effect="irreversible")


def _agents(tree: Mapping[str, JSON], tools: frozenset[str]) -> Iterator[AgentSpec]:
    for one in _items(tree, "agents"):
        named = one.get("tools")
        mine = [tool for tool in named if isinstance(tool, str) and tool in tools] if isinstance(named, list) else []
        model = str(one.get("model", ""))
        yield AgentSpec.model_construct(name=one["name"], model=model, instructions="", tools=tuple(mine))


def _models(tree: Mapping[str, JSON], agents: Any) -> Iterator[ModelSpec]:
    """The models that agents name, those that are nowhere as what they are called."""
    known = {one["name"]: one for one in _items(tree, "models")}
    for name in dict.fromkeys(agent.model for agent in agents):
        model = known.get(name, {}).get("model", "")
        yield ModelSpec.model_construct(name=name, provider="scripted", model=model if isinstance(model, str) else "")


def _checks(gates: Mapping[str, JSON], agents: Mapping[str, AgentSpec]) -> Iterator[OracleCheck]:
    listed = gates.get("oracle")
    for one in listed if isinstance(listed, list) else ():
        try:
            check = OracleCheck.model_validate(one)
        except ValidationError:
            continue
        if check.critic is None or check.critic in agents:
            yield check

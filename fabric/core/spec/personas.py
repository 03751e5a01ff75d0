"""Warns of personas that an author probably did not mean: they bar all tools, or name needless things."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.spec.tools import ALLOWED, DENIED, Persona, because, covers, list_needed_capabilities, list_violations
from fabric.core.spec.tree import AgentSpec, FabricTree


def doubtful(spec: FabricTree) -> Iterator[tuple[str, str]]:
    """Tools that an agent can never call, and entries that are about no tool: a sentence each, with its path."""
    known = {capability for tool in spec.asked_tools for capability in list_needed_capabilities(tool)}
    for n, agent in enumerate(spec.agents):
        if agent.persona is not None:
            yield from _out_of_reach(spec, n, agent)
            yield from _about_nothing(f"agents.{n}.persona", agent.persona, known)


def _out_of_reach(spec: FabricTree, n: int, agent: AgentSpec) -> Iterator[tuple[str, str]]:
    found = {name: why for name in agent.tools if (why := list_violations(agent.persona, spec.tool(name)))}
    if len(found) > 1 and len(found) == len(dict.fromkeys(agent.tools)):
        yield (
            f"agents.{n}.persona",
            f"agent {agent.name!r} may call none of its {len(found)} tools: its persona bars them all",
        )
    for m, name in enumerate(agent.tools):
        if name in found:
            yield f"agents.{n}.tools.{m}", f"agent {agent.name!r} can never call {name!r}: it {because(found[name][0])}"


def _about_nothing(path: str, persona: Persona, known: set[str]) -> Iterator[tuple[str, str]]:
    for field, entries in ((ALLOWED, persona.allowed_capabilities or ()), (DENIED, persona.denied_capabilities)):
        for n, entry in enumerate(entries):
            if not any(covers(entry, one) for one in known):
                yield f"{path}.{field}.{n}", f"no tool of this fabric needs {entry!r}"

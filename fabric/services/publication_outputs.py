"""Which agents may have an output schema, and which data nobody would see (semantics.md 1 "Typed data"). What does not compile is told with the gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fabric.core.spec import FabricSpec
from fabric.services.fabric_yaml import Problem

if TYPE_CHECKING:
    from fabric.services.publication import Installation

ANSWERS = {
    "planner": "plans, and its answer is a plan",
    "critic": "is the critic, and its answer is a score",
    "plan_critic": "judges plans, and its answer is a verdict",
    "handover": "may plan where the run is handed over, and for whom it takes over it answers by their schema",
}
"""What an agent answers in the roles that have no data; who judges for the gates answers a verdict."""


def typed_outputs(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    """Agents with an output schema whose answers have no data."""
    judging = set(spec.judging.values())
    for n, agent in enumerate(spec.agents):
        if agent.output_schema is None:
            continue
        path, roles = f"agents.{n}.output_schema", [role for role in ANSWERS if _named(spec, role) == agent.name]
        if agent.answers == "text":
            said = "answers in plain words, which have no data"
            yield Problem(path, f"agent {agent.name!r} {said}; let it answer in json, or leave the schema out")
        elif roles or agent.name in judging:
            said = ANSWERS[roles[0]] if roles else "judges for a gate, and its answer is a verdict"
            yield Problem(path, f"agent {agent.name!r} {said}; leave the schema out, or name another agent there")


def planned_calls(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    """Agents that are to plan calls and cannot."""
    for n, agent in enumerate(spec.agents):
        path = f"agents.{n}.calls"
        if agent.calls and agent.answers == "text":
            yield Problem(
                path, f"agent {agent.name!r} answers in plain words, and a plan is JSON; let it answer in json"
            )
        elif agent.calls and not agent.tools:
            yield Problem(path, f"agent {agent.name!r} has no tools to plan calls of; give it some, or leave this out")


def warnings(spec: FabricSpec) -> Iterator[Problem]:
    """Data that is asked for and gets lost."""
    topology = spec.topology
    for n, agent in enumerate(spec.agents):
        if agent.output_schema is None:
            continue
        path = f"agents.{n}.output_schema"
        if agent.name in topology.workers and topology.aggregator is None:
            said = "and without an aggregator nobody is shown the data of workers; name an aggregator"
            yield Problem(path, f"agent {agent.name!r} is a worker, {said}")
        elif agent.name == topology.aggregator and topology.finalizer not in (None, *spec.typed):
            said = f"whose outcome finalizer {topology.finalizer!r} words without data; give it an output_schema too"
            yield Problem(path, f"agent {agent.name!r} is the aggregator, {said}")


def _named(spec: FabricSpec, role: str) -> str | None:
    return spec.topology.roles().get(role)

"""Publication rules for typed data: output schemas and memories.

Schemas that do not compile are reported with the gates. A memory's values must fit its schema, and an unused memory
causes a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.memories import OFFERED, tool_name
from fabric.core.values.fingerprint import encode
from fabric.policies.schemas.evaluators import SchemaProblem, compile_schema
from fabric.services.fabrics.yaml.document import FabricProblem
from fabric.services.installation.facts import InstallationFacts

ANSWERS = {
    "planner": "plans, and its answer is a plan",
    "critic": "is the critic, and its answer is a score",
    "plan_critic": "judges plans, and its answer is a verdict",
    "handover": "may plan where the run is handed over, and for whom it takes over it answers by their schema",
}
"""Answer of an agent in each role without data, in words. An agent that judges for the gates answers with a verdict."""


def typed_outputs(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each agent with an output schema whose answers have no data."""
    judging = set(spec.judge_agents.values())
    for n, agent in enumerate(spec.agents):
        if agent.output_schema is None:
            continue
        path, roles = (
            f"agents.{n}.output_schema",
            [role for role in ANSWERS if _role_in_words(spec, role) == agent.name],
        )
        if agent.answers == "text":
            said = "answers in text, which have no data"
            yield FabricProblem(path, f"agent {agent.name!r} {said}; let it answer in json, or leave the schema out")
        elif roles or agent.name in judging:
            said = ANSWERS[roles[0]] if roles else "judges for a gate, and its answer is a verdict"
            yield FabricProblem(path, f"agent {agent.name!r} {said}; leave the schema out, or name another agent there")


def planned_calls(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each agent that should plan calls and cannot."""
    for n, agent in enumerate(spec.agents):
        path = f"agents.{n}.calls"
        if agent.calls and agent.answers == "text":
            yield FabricProblem(
                path, f"agent {agent.name!r} answers in text, and a plan is JSON; let it answer in json"
            )
        elif agent.calls and not agent.tools:
            yield FabricProblem(
                path, f"agent {agent.name!r} has no tools to plan calls of; give it some, or leave this out"
            )


def warnings(spec: FabricSpec) -> Iterator[FabricProblem]:
    """Yield a warning for requested data that is lost."""
    topology = spec.topology
    for n, agent in enumerate(spec.agents):
        if agent.output_schema is None:
            continue
        path = f"agents.{n}.output_schema"
        if agent.name in topology.workers and topology.aggregator is None:
            said = "and without an aggregator no agent reads the workers' data; name an aggregator"
            yield FabricProblem(path, f"agent {agent.name!r} is a worker, {said}")
        elif agent.name == topology.aggregator and topology.finalizer not in (None, *spec.output_schemas):
            said = f"whose outcome finalizer {topology.finalizer!r} words without data; give it an output_schema too"
            yield FabricProblem(path, f"agent {agent.name!r} is the aggregator, {said}")


def _role_in_words(spec: FabricSpec, role: str) -> str | None:
    return spec.topology.roles().get(role)


def memory_values(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each value's schema that fails inside a tool's arguments, or refers to another."""
    for n, memory in enumerate(spec.memories):
        if memory.value_schema is None:
            continue
        path = f"memories.{n}.value_schema"
        if '"$ref"' in encode(memory.value_schema).decode():
            yield FabricProblem(
                path, f"memory {memory.name!r} refers ($ref) to another schema; write it out in its place"
            )
            continue
        try:
            compile_schema(memory.value_schema)
        except SchemaProblem as error:
            yield FabricProblem(path, f"memory {memory.name!r}: {error}")


def warn_unused_memories(spec: FabricSpec, used_tools: Collection[str]) -> Iterator[FabricProblem]:
    """Yield a warning for each memory without a used tool."""
    for n, memory in enumerate(spec.memories):
        if not any(tool_name(verb, memory.name) in used_tools for verb in OFFERED):
            yield FabricProblem(f"memories.{n}", f"memory {memory.name!r} is used nowhere")

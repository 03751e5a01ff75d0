"""FabricSpec: a fabric as one typed tree, in YAML and out. Frozen once published; a run pins its digest.

What a field means to an author stands in its description; where a name does not exist the error says which field named it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    Field,
    StringConstraints,
    model_validator,
)

from fabric.core import spec_conversation
from fabric.core.decision_table import Ladder
from fabric.core.fallbacks import cheaper_problems, fallback_problems
from fabric.core.fingerprint import fingerprint
from fabric.core.flow import Stage
from fabric.core.gates import HTTP_TEST, Gates
from fabric.core.policy import FlowPolicy
from fabric.core.saga import MUTATES, Effect
from fabric.core.spec_breakers import breaker_problems
from fabric.core.spec_judges import unknown_judges
from fabric.core.spec_layers import layer_problems
from fabric.core.spec_mcp import McpServers, mcp_problems
from fabric.core.spec_memories import OFFERED, MemorySpec, Verb, engine_made, tool_name
from fabric.core.spec_memories import problems as memory_problems
from fabric.core.spec_parts import Line, Name, Named, Prose, SpecGroup
from fabric.core.spec_persona import Persona
from fabric.core.spec_price import ModelPrice
from fabric.core.spec_stages import OwnCell, cells_of, stage_problems
from fabric.core.spec_tools import ToolSpec
from fabric.core.spec_topologies import Topology
from fabric.core.spec_topology import Tiers
from fabric.core.taxonomy import FailureType, Tier
from fabric.core.templates import host_of

N = TypeVar("N", bound=Named)


class Capability(StrEnum):
    """What a model may be needed for (S1 "Model fallbacks": tool use, vision, reasoning; and answers held to a schema)."""

    TOOL_USE = "tool_use"
    STRUCTURED_OUTPUT = "structured_output"
    VISION = "vision"
    REASONING = "reasoning"


class ModelSpec(Named):
    """A model that agents may use."""

    provider: Name = Field(
        default="openai",
        description="Which provider adapter answers: openai, anthropic, google, scripted, fixed (no model: one call that options.agents.NAME writes), or a registered one.",
    )
    model: str = Field(
        default="", max_length=200, description="The provider's model id. Empty: FABRIC_MODEL, with openai."
    )
    base_url: str = Field(
        default="", max_length=500, description="Endpoint. Empty: the provider's, such as FABRIC_MODEL_URL."
    )
    price: ModelPrice | None = Field(
        default=None, description="None: the offline price list; a model without a price is refused."
    )
    structured_output: bool = Field(default=True, description="Ask the endpoint for schema-constrained answers.")
    tool_calls: bool = Field(default=True, description="The endpoint understands tool definitions.")
    context_tokens: Annotated[int, Field(ge=256)] | None = None
    options: dict[str, Any] = Field(default_factory=dict, description="Passed to the provider adapter.")
    capabilities: tuple[Literal["vision", "reasoning"], ...] = Field(
        default=(),
        description="What it can beside tool_calls and structured_output: a fallback should lack none of it.",
    )
    fallbacks: tuple[Name, ...] = Field(
        default=(), description="Models of this fabric that may stand in when its provider fails, the preferred first."
    )
    cheaper: Name | None = Field(
        default=None, description="Model of this fabric that answers in its place where a run costs too much."
    )

    @property
    def capable(self) -> frozenset[Capability]:
        """Everything that it can."""
        told = {Capability(name) for name in self.capabilities}
        told |= {Capability.TOOL_USE} if self.tool_calls else set()
        return frozenset(told | ({Capability.STRUCTURED_OUTPUT} if self.structured_output else set()))


class AgentSpec(Named):
    """An agent: instructions, a model, the tools it may propose."""

    instructions: Prose
    model: Name
    tools: tuple[Name, ...] = ()
    answers: Literal["json", "text"] = Field(
        default="json",
        description="json: the stage's schema. text: plain words, citations as [name]; not for planner or critic.",
    )
    needs: tuple[Literal["structured_output", "vision", "reasoning"], ...] = Field(
        default=(),
        description="What a model must be capable of to stand in for its own, beside the tool use that its tools ask for.",
    )
    output_schema: dict[str, Any] | None = Field(
        default=None,
        description="JSON schema of data, a field that its answers have beside text and citations: for workers, the aggregator and the finalizer. "
        "None: they have no such field.",
    )
    max_output_tokens: Annotated[int, Field(ge=1, le=200_000)] = 1_024
    inline_document_chars: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=0, description="How much of each attached document stands in its prompt; 0: it reads them by tools."
    )
    calls: Literal["planned"] | None = Field(
        default=None,
        description="planned: calls may come as JSON in its answers, with conditions. None: as its endpoint's tool calls.",
    )
    persona: Persona | None = Field(default=None, description="What it may use at all. None: every tool that it has.")


class FabricSpec(SpecGroup):
    """A whole fabric."""

    name: Name
    title: Line
    description: Prose = ""
    example: Prose = Field(default="", description="A request that shows what it is for; offered on the start page.")
    tiers: Tiers = Tiers()
    models: Annotated[tuple[ModelSpec, ...], Field(min_length=1)]
    mcp_servers: McpServers = ()
    tools: tuple[ToolSpec, ...] = ()
    memories: Annotated[tuple[MemorySpec, ...], Field(max_length=16)] = Field(
        default=(),
        description="What runs remember. Agents write and read by the tools that they name: memory_write_NAME, "
        "memory_read_NAME, memory_delete_NAME.",
    )
    agents: Annotated[tuple[AgentSpec, ...], Field(min_length=1)]
    topology: Topology
    gates: Gates = Gates()
    policy: FlowPolicy
    reviewers: tuple[Line, ...] = Field(default=(), description="Who answers escalations: user names or roles.")
    safe_fallback: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)] | None = (
        Field(
            default=None,
            description="Static answer that a run ends with where its cell says safe_fallback. None: it is surfaced instead.",
        )
    )
    decision_table: dict[FailureType, dict[Tier, Ladder]] = Field(
        default_factory=dict, description="Cells that differ."
    )

    @model_validator(mode="after")
    def _names_exist(self) -> FabricSpec:
        problems = [
            *_duplicates(self),
            *_unknown(self),
            *unknown_judges(self),
            *_unknown_ways_back(self),
            *_unknown_goals(self),
            *fallback_problems({model.name: model.fallbacks for model in self.models}),
            *cheaper_problems({model.name: model.cheaper for model in self.models}),
            *stage_problems(self),
            *layer_problems(self),
            *breaker_problems(self),
            *mcp_problems(self.mcp_servers, [(tool.kind, tool.target) for tool in self.tools]),
            *memory_problems(self.memories, declared := [(tool.name, tool.kind) for tool in self.tools]),
            *spec_conversation.problems(self.topology, declared),
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @cached_property
    def cells(self) -> tuple[OwnCell, ...]:
        """The cells of the decision table that the author wrote: the fabric's, then those of its stages."""
        return tuple(cells_of(self))

    def agent(self, name: str) -> AgentSpec:
        """The agent of that name; KeyError when there is none."""
        return self._agents[name]

    @cached_property
    def _agents(self) -> dict[str, AgentSpec]:
        return _named(self.agents)

    def needs(self, agent: AgentSpec) -> frozenset[Capability]:
        """What a model must be capable of that answers for an agent."""
        told = {Capability(name) for name in agent.needs}
        return frozenset(told | ({Capability.TOOL_USE} if agent.tools else set()))

    @cached_property
    def typed(self) -> dict[str, dict[str, Any]]:
        """The output schemas, by the name of their agent."""
        return {agent.name: agent.output_schema for agent in self.agents if agent.output_schema is not None}

    @cached_property
    def asking(self) -> dict[str, str]:
        """The rules before which calls a person is asked, by the name of their tool."""
        return {tool.name: tool.approve_when for tool in self.tools if tool.approve_when is not None}

    @cached_property
    def screened(self) -> bool:
        """Whether results are screened for instructions: it has a tool that changes something, and gives no reason against it."""
        return self.gates.unscreened is None and any(Effect(tool.effect) in MUTATES for tool in self.all_tools)

    def model(self, name: str) -> ModelSpec:
        """The model of that name; KeyError when there is none."""
        return self._models[name]

    @cached_property
    def _models(self) -> dict[str, ModelSpec]:
        return _named(self.models)

    def tool(self, name: str) -> ToolSpec:
        """The tool of that name, declared, made of a memory, or the one that an address of the oracle stands for; KeyError when there is none."""
        if name.startswith(HTTP_TEST):
            return oracle_tool(self.gates, name)
        made = self._made.get(name)
        return self._tools[name] if made is None else made[0]

    @cached_property
    def _tools(self) -> dict[str, ToolSpec]:
        return _named((*self.tools, *self.conversation_tools))

    def memory_of(self, tool: str) -> tuple[MemorySpec, Verb] | None:
        """The memory that an engine-made tool is of, and what it does with it; None for every other tool."""
        made = self._made.get(tool)
        return None if made is None else made[1:]

    def in_journal(self, tool: str) -> bool:
        """Whether a tool is of a run's own memory or of its conversation, which are its journal: calling it asks nobody."""
        if self.of_conversation(tool):
            return True
        found = self.memory_of(tool)
        return found is not None and found[0].scope == "run"

    @property
    def all_tools(self) -> tuple[ToolSpec, ...]:
        """The declared tools, then those that the engine makes of memories and of the topology."""
        return (*self.tools, *(made[0] for made in self._made.values()), *self.conversation_tools)

    @cached_property
    def conversation_tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the engine makes of the topology."""
        return tuple(ToolSpec.model_validate(fields) for fields in spec_conversation.engine_made(self.topology))

    def of_conversation(self, tool: str) -> bool:
        """Whether a tool is one of those."""
        return any(one.name == tool for one in self.conversation_tools)

    def tools_of(self, agent: AgentSpec) -> tuple[str, ...]:
        """The tools that an agent has in a run of this topology: those that it names, those of a conversation where it takes part in it alone."""
        talks = agent.name in self.topology.workers
        own = frozenset(spec_conversation.BY_KIND.get(self.topology.kind, ()) if talks else ())
        return tuple(name for name in agent.tools if name in own or name in self._standing)

    @cached_property
    def _standing(self) -> frozenset[str]:
        """The tools that are there whatever the topology is: the declared ones and those of memories."""
        return frozenset({tool.name for tool in self.tools} | set(self._made))

    @cached_property
    def _made(self) -> dict[str, tuple[ToolSpec, MemorySpec, Verb]]:
        return {
            fields["name"]: (ToolSpec.model_validate(fields), memory, verb)
            for memory in self.memories
            for verb, fields in engine_made(memory)
        }

    @property
    def asked_tools(self) -> tuple[ToolSpec, ...]:
        """Every tool that a run may call: the declared ones, those of memories, and those that addresses of the oracle stand for."""
        tests = (check.asked_tool for check in self.gates.oracle or () if check.http is not None)
        return (*self.all_tools, *(self.tool(name) for name in tests))

    @property
    def judging(self) -> dict[str, str]:
        """Agents that the gates ask, by the field that names them."""
        found = {f"gates.oracle.{n}.critic": one.critic for n, one in enumerate(self.gates.oracle or ())}
        found["gates.grounding_critic"] = self.gates.grounding_critic
        return {field: name for field, name in found.items() if name is not None}

    def digest(self) -> str:
        """The revision: 128 bits in hex over the canonical JSON of the whole tree."""
        return fingerprint(self.model_dump(mode="json"))


def oracle_tool(gates: Gates, name: str) -> ToolSpec:
    """The tool that an address of the oracle stands for: the built-in ``http_get``, held to that address's host. KeyError when there is none."""
    for check in gates.oracle or ():
        if check.http is not None and check.asked_tool == name:
            hosts = (host_of(check.http.url),)
            within = check.http.timeout_s
            return ToolSpec.model_construct(name=name, target="http_get", allowed_hosts=hosts, timeout_s=within)
    raise KeyError(name)


def _named(items: tuple[N, ...]) -> dict[str, N]:
    """The items by their names; the first of several of one name, which validation refuses."""
    return {item.name: item for item in reversed(items)}


def _duplicates(spec: FabricSpec) -> Any:
    named: tuple[tuple[str, tuple[Named, ...]], ...]
    named = (("models", spec.models), ("tools", spec.tools), ("agents", spec.agents))
    for field, items in named:
        seen: set[str] = set()
        for n, item in enumerate(items):
            if item.name in seen:
                yield f"{field}.{n}.name: {item.name!r} is there twice"
            seen.add(item.name)


def _unknown(spec: FabricSpec) -> Any:
    agents = {agent.name for agent in spec.agents}
    models, tools = {model.name for model in spec.models}, {tool.name for tool in spec.tools}
    tools |= {tool_name(verb, memory.name) for memory in spec.memories for verb in OFFERED}
    tools |= {tool.name for tool in spec.conversation_tools}
    for field, name in spec.topology.roles().items():
        if name not in agents:
            yield f"topology.{field}: no agent is named {name!r}"
    for n, agent in enumerate(spec.agents):
        if agent.model not in models:
            yield f"agents.{n}.model: no model is named {agent.model!r}"
        for missing in (name for name in agent.tools if name not in tools):
            yield f"agents.{n}.tools: no tool is named {missing!r}"
    for name in spec.policy.budget.agents:
        if name not in agents:
            yield f"policy.budget.agents.{name}: no agent is named {name!r}"
    yield from (f"topology.{told}" for told in spec.topology.misplaced())


def _unknown_ways_back(spec: FabricSpec) -> Any:
    tools = {tool.name for tool in spec.tools}
    for n, tool in enumerate(spec.tools):
        for field in ("compensation", "reconcile"):
            name = getattr(tool, field)
            if name is not None and name not in tools:
                yield f"tools.{n}.{field}: no tool is named {name!r}"


def _unknown_goals(spec: FabricSpec) -> Any:
    for n, node in enumerate(spec.policy.goal_gates.nodes):
        if node not in spec.topology.everybody() and node not in tuple(Stage):
            yield f"policy.goal_gates.nodes.{n}: {node!r} is no stage and no worker of this fabric"


CITATION = re.compile(r"\[([^\[\]\n]{1,200})\]")
"""How a text agent cites: ``[name]``."""

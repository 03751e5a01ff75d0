"""The tree of a fabric: models, agents and all other fields, and what is looked up in them by name.

What a field means to an author stands in its description.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    Field,
    StringConstraints,
)

from fabric.core.schema.limits import Unit, declare_amount, declare_limit
from fabric.core.schema.parts import Line, Name, Named, Prose, SpecGroup
from fabric.core.schema.topology import Tiers
from fabric.core.spec.cells import OwnCell, list_cells
from fabric.core.spec.mcp import McpServers
from fabric.core.spec.memories import MemorySpec, Verb, engine_made
from fabric.core.spec.policies.decision_table import Ladder
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.spec.policies.gates import HTTP_TEST, Gates
from fabric.core.spec.price import ModelPrice
from fabric.core.spec.tools import Persona, ToolSpec
from fabric.core.spec.topologies import conversation as spec_conversation
from fabric.core.spec.topologies.kinds import Topology
from fabric.core.texts.templates import read_host
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.saga import MUTATES, Effect
from fabric.core.values.taxonomy import FailureType, Tier

N = TypeVar("N", bound=Named)


class Capability(StrEnum):
    """Capability of a model (S1 "Model fallbacks": tool use, vision, reasoning; and structured output)."""

    TOOL_USE = "tool_use"
    STRUCTURED_OUTPUT = "structured_output"
    VISION = "vision"
    REASONING = "reasoning"


class ModelSpec(Named):
    """A model that agents may use."""

    provider: Name = Field(
        default="openai",
        description="The provider adapter that answers: openai, anthropic, google, scripted, fixed (no model; it answers what options.agents.NAME says), or a registered one.",
    )
    model: str = Field(
        default="", max_length=200, description="The provider's model id. Empty: FABRIC_MODEL, for openai."
    )
    base_url: str = Field(
        default="",
        max_length=500,
        description="Address of the endpoint. Empty: the provider's, such as FABRIC_MODEL_URL.",
    )
    price: ModelPrice | None = Field(
        default=None,
        description="The price of the model. None: the offline price list has it; a model without a price is refused.",
    )
    structured_output: bool = Field(
        default=True, description="True: the endpoint is asked for answers in the form of a schema."
    )
    tool_calls: bool = Field(default=True, description="True: the endpoint understands tool definitions.")
    context_tokens: Annotated[int, Field(ge=256)] | None = declare_amount(
        None,
        "Context window",
        Unit.TOKENS,
        "The endpoint accepts this many tokens in one request; the page of models shows the number. None: the price list's.",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Options for the provider adapter.")
    capabilities: tuple[Literal["vision", "reasoning"], ...] = Field(
        default=(),
        description="Capabilities in addition to tool_calls and structured_output. A fallback should have all of them.",
    )
    fallbacks: tuple[Name, ...] = Field(
        default=(),
        description="Models of this fabric that answer if the provider of this one fails, the preferred one first.",
    )
    cheaper: Name | None = Field(
        default=None, description="A model of this fabric that answers instead if a run costs too much."
    )

    @property
    def capable(self) -> frozenset[Capability]:
        """All capabilities of the model."""
        told = {Capability(name) for name in self.capabilities}
        told |= {Capability.TOOL_USE} if self.tool_calls else set()
        return frozenset(told | ({Capability.STRUCTURED_OUTPUT} if self.structured_output else set()))


class AgentSpec(Named):
    """An agent: instructions, a model, the tools it may propose."""

    instructions: Prose = Field(description="Instructions of the agent, which its model reads first.")
    model: Name = Field(description="Model that answers for the agent.")
    tools: tuple[Name, ...] = Field(default=(), description="Tools that the agent may call.")
    answers: Literal["json", "text"] = Field(
        default="json",
        description="json: answers follow the stage's schema. text: answers are prose with citations as [name]; a planner or critic cannot use it.",
    )
    needs: tuple[Literal["structured_output", "vision", "reasoning"], ...] = Field(
        default=(),
        description="Capabilities that a fallback model must have, in addition to tool use for the agent's tools.",
    )
    output_schema: dict[str, Any] | None = Field(
        default=None,
        description="JSON schema of the field `data` in the agent's answers, in addition to text and citations. For workers, the aggregator and the finalizer. None: answers have no such field.",
    )
    max_output_tokens: Annotated[int, Field(ge=1, le=200_000)] = declare_limit(
        1_024,
        "Longest answer",
        Unit.TOKENS,
        "One answer may have at most this many tokens.",
        stops="the answer is cut off",
    )
    inline_document_chars: Annotated[int, Field(ge=0, le=1_000_000)] = declare_limit(
        0,
        "Each document in the prompt",
        Unit.CHARACTERS,
        "The prompt contains at most this many characters of each attached document. 0: the agent reads documents by tools.",
        stops="the rest of the document is left out of the prompt",
    )
    calls: Literal["planned"] | None = Field(
        default=None,
        description="planned: the agent may write its calls as JSON in its answer, with conditions. None: it makes calls as its endpoint does.",
    )
    persona: Persona | None = Field(
        default=None, description="Capabilities that the agent may use. None: those of all its tools."
    )


class FabricTree(SpecGroup):
    """A fabric as its author wrote it: each field is sound in itself, and they are not compared yet."""

    name: Name = Field(
        description="Name by which runs are started: lower-case letters, digits, - and _. It never changes."
    )
    title: Line = Field(description="Title of the fabric for people.")
    description: Prose = Field(default="", description="Words about the fabric for people.")
    example: Prose = Field(default="", description="A sample request; the start page offers it.")
    tiers: Tiers = Field(
        default=Tiers(), description="Tiers that a run may have, and the one that it has if its caller names none."
    )
    models: Annotated[tuple[ModelSpec, ...], Field(min_length=1)] = Field(
        description="Models that the agents use, each with its price."
    )
    mcp_servers: McpServers = ()
    tools: tuple[ToolSpec, ...] = Field(
        default=(), description="Tools that the agents may call, and the effect of each on the world."
    )
    memories: Annotated[tuple[MemorySpec, ...], Field(max_length=16)] = Field(
        default=(),
        description="Values that runs keep. Agents use a memory with its tools: memory_write_NAME, memory_read_NAME, memory_delete_NAME.",
    )
    agents: Annotated[tuple[AgentSpec, ...], Field(min_length=1)] = Field(
        description="Agents of the fabric, each with instructions, a model and tools."
    )
    topology: Topology = Field(description="Agents by their work: who plans, works, merges, judges and answers.")
    gates: Gates = Field(default=Gates(), description="Checks of the outputs of stages, beside their schemas.")
    policy: FlowPolicy = Field(description="Budgets, limits and protections.")
    reviewers: tuple[Line, ...] = Field(default=(), description="People who answer reviews: user names or roles.")
    safe_fallback: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)] | None = (
        Field(
            default=None,
            description="A static answer that replaces the result if a cell says safe_fallback. None: the run returns its error and its partial result.",
        )
    )
    decision_table: dict[FailureType, dict[Tier, Ladder]] = Field(
        default_factory=dict, description="Cells of the decision table that differ from the default."
    )

    @cached_property
    def cells(self) -> tuple[OwnCell, ...]:
        """The cells of the decision table that the author wrote: the fabric's, then those of its stages."""
        return tuple(list_cells(self.decision_table, self.policy.stages))

    def agent(self, name: str) -> AgentSpec:
        """The agent of that name; KeyError when there is none."""
        return self._agents[name]

    @cached_property
    def _agents(self) -> dict[str, AgentSpec]:
        return _index_by_name(self.agents)

    def needs(self, agent: AgentSpec) -> frozenset[Capability]:
        """Return the capabilities that a model of an agent needs."""
        told = {Capability(name) for name in agent.needs}
        return frozenset(told | ({Capability.TOOL_USE} if agent.tools else set()))

    @cached_property
    def output_schemas(self) -> dict[str, dict[str, Any]]:
        """The output schemas, by the name of their agent."""
        return {agent.name: agent.output_schema for agent in self.agents if agent.output_schema is not None}

    @cached_property
    def asking_rules(self) -> dict[str, str]:
        """The rules before which calls a person is asked, by the name of their tool."""
        return {tool.name: tool.approve_when for tool in self.tools if tool.approve_when is not None}

    @cached_property
    def screened(self) -> bool:
        """Return True if results are screened for instructions: a tool changes something, and no reason waives the
        screening.
        """
        return self.gates.unscreened is None and any(Effect(tool.effect) in MUTATES for tool in self.all_tools)

    def model(self, name: str) -> ModelSpec:
        """The model of that name; KeyError when there is none."""
        return self._models[name]

    @cached_property
    def _models(self) -> dict[str, ModelSpec]:
        return _index_by_name(self.models)

    def tool(self, name: str) -> ToolSpec:
        """Return the tool of that name: declared, made of a memory, or made of an oracle's address. KeyError: there is
        none.
        """
        if name.startswith(HTTP_TEST):
            return oracle_tool(self.gates, name)
        made = self._memory_tools.get(name)
        return self._tools[name] if made is None else made[0]

    def find_tool(self, name: str) -> ToolSpec | None:
        """Return the tool of that name, declared or made by the engine; None for an unknown one."""
        made = self._memory_tools.get(name)
        return self._tools.get(name) if made is None else made[0]

    def polls(self, name: str) -> bool:
        """Return True if equal calls of that tool are no loop."""
        tool = self.find_tool(name)
        return tool is not None and tool.polling

    @cached_property
    def _tools(self) -> dict[str, ToolSpec]:
        return _index_by_name((*self.tools, *self.conversation_tools))

    def memory_of(self, tool: str) -> tuple[MemorySpec, Verb] | None:
        """The memory that an engine-made tool is of, and what it does with it; None for every other tool."""
        made = self._memory_tools.get(tool)
        return None if made is None else made[1:]

    def in_journal(self, tool: str) -> bool:
        """Return True if a tool works on a run's own memory or conversation, which are in its journal."""
        if self.of_conversation(tool):
            return True
        found = self.memory_of(tool)
        return found is not None and found[0].scope == "run"

    @property
    def all_tools(self) -> tuple[ToolSpec, ...]:
        """The declared tools, then those that the engine makes of memories and of the topology."""
        return (*self.tools, *(made[0] for made in self._memory_tools.values()), *self.conversation_tools)

    @cached_property
    def conversation_tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the engine makes of the topology."""
        return tuple(ToolSpec.model_validate(fields) for fields in spec_conversation.engine_made(self.topology))

    def of_conversation(self, tool: str) -> bool:
        """Return True if a tool is one of the conversation tools."""
        return any(one.name == tool for one in self.conversation_tools)

    def tools_of(self, agent: AgentSpec) -> tuple[str, ...]:
        """Return the tools that an agent has in a run of this topology. Tools of a conversation count only for agents
        that take part in it.
        """
        if not agent.tools:
            return ()
        talks = agent.name in self.topology.workers
        own = frozenset(spec_conversation.BY_KIND.get(self.topology.kind, ()) if talks else ())
        return tuple(name for name in agent.tools if name in own or name in self._standing_tools)

    @cached_property
    def _standing_tools(self) -> frozenset[str]:
        """The tools that are there whatever the topology is: the declared ones and those of memories."""
        return frozenset({tool.name for tool in self.tools} | set(self._memory_tools))

    @cached_property
    def _memory_tools(self) -> dict[str, tuple[ToolSpec, MemorySpec, Verb]]:
        return {
            fields["name"]: (ToolSpec.model_validate(fields), memory, verb)
            for memory in self.memories
            for verb, fields in engine_made(memory)
        }

    @property
    def asked_tools(self) -> tuple[ToolSpec, ...]:
        """Return every tool that a run may call: declared ones, those of memories, and those of the oracle's
        addresses.
        """
        tests = (check.asked_tool for check in self.gates.oracle or () if check.http is not None)
        return (*self.all_tools, *(self.tool(name) for name in tests))

    @property
    def judge_agents(self) -> dict[str, str]:
        """Agents that the gates ask, by the field that names them."""
        found = {f"gates.oracle.{n}.critic": one.critic for n, one in enumerate(self.gates.oracle or ())}
        found["gates.grounding_critic"] = self.gates.grounding_critic
        return {field: name for field, name in found.items() if name is not None}

    def digest(self) -> str:
        """The revision: 128 bits in hex over the canonical JSON of the whole tree."""
        return fingerprint(self.model_dump(mode="json"))


def oracle_tool(gates: Gates, name: str) -> ToolSpec:
    """The tool that an address of the oracle stands for: the built-in ``http_get``, held to that address's host.
    KeyError when there is none.
    """
    for check in gates.oracle or ():
        if check.http is not None and check.asked_tool == name:
            hosts = (read_host(check.http.url),)
            within = check.http.timeout_s
            return ToolSpec.model_construct(name=name, target="http_get", allowed_hosts=hosts, timeout_s=within)
    raise KeyError(name)


def _index_by_name(items: tuple[N, ...]) -> dict[str, N]:
    """The items by their names; the first of several of one name, which validation refuses."""
    return {item.name: item for item in reversed(items)}


CITATION = re.compile(r"\[([^\[\]\n]{1,200})\]")
"""Citation form of agents that answer in text: ``[name]``."""

"""Equips a fabric with what faults need: an agent in a role, a tool, and a first call of it.

The drill says what it added. Scripted agents call no tools by themselves. So an agent that has a disturbed tool calls
it in its first turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fabric.core.events.inputs import ModelReplied, ToolCall
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.frozen import replace
from fabric.runtime.ports.calls import ModelRequest
from simulator.agents.schema_values import arguments
from simulator.cast.agents import Reply
from simulator.faults.fault import Calls, Handing, ToolCalls
from simulator.scenarios.baseline.equipment import LOOKUP, only_reads, reader, with_lookup, with_role, with_tools
from simulator.scenarios.baseline.work import Ask
from simulator.scenarios.spec.scenario import Disturbance
from simulator.scenarios.strikes.answers import ARMED, PLANNED
from simulator.scenarios.strikes.handovers import with_hub, with_transfer

WORDS = "what the request is about"
"""The text that a called tool is given."""

ROLES: Mapping[str, str] = {**dict.fromkeys(PLANNED, "planner"), "unsure": "critic"}
"""The role that meets a fault, whatever the fault's parameters say."""
STUCK = "supervisor_stuck"
"""The fault that needs a supervisor who gives work out again and again."""


def _own(name: str, **fields: str) -> ToolSpec:
    return LOOKUP.model_copy(update={"name": f"drill-{name}", "description": f"Does {name}, in a drill.", **fields})


BOOK = (_own("book", effect="mutating", compensation="drill-unbook"), _own("unbook", effect="idempotent"))
WIRE = (_own("wire", effect="irreversible"),)


def _can_be_undone(tool: ToolSpec) -> bool:
    return tool.effect == "mutating" and tool.compensation is not None and tool.approve_when is None


def _is_asked_about(tool: ToolSpec) -> bool:
    return tool.effect == "irreversible" and tool.approval == "required"


CALLED: Mapping[str, Callable[[ToolSpec], bool]] = {
    **dict.fromkeys(("tool_error", "tool_slow", "tool_hang", "tool_failed", "tool_instructs"), only_reads),
    **dict.fromkeys(("effect_lost_answer", "effect_refused", "compensation_fails"), _can_be_undone),
    "person_edits": _is_asked_about,
}
"""Faults that are met by a call of a tool, and of which kind."""
_OWN: Mapping[Callable[[ToolSpec], bool], tuple[ToolSpec, ...]] = {
    only_reads: (LOOKUP,),
    _can_be_undone: BOOK,
    _is_asked_about: WIRE,
}


def _callable(spec: FabricSpec, kind: Callable[[ToolSpec], bool]) -> str:
    """Return the first tool of a kind that a worker has. Empty: no worker has one."""
    tools = {tool.name: tool for tool in spec.all_tools}
    offered = (name for worker in spec.topology.workers for name in spec.agent(worker).tools)
    return next((name for name in offered if kind(tools[name])), "")


def equip_fabric(spec: FabricSpec, disturbances: Sequence[Disturbance]) -> tuple[FabricSpec, str]:
    """Return the fabric with what it lacks for the faults, and the change in words.

    The words are empty where it lacks nothing.
    """
    said: list[str] = []
    if any(one.fault.name == STUCK for one in disturbances):
        spec, what = with_hub(spec)
        said += [what] if what else []
    for one in disturbances:
        given, name = one.parameters, one.fault.name
        role = (given.role if isinstance(given, Calls) else None) or ROLES.get(name)
        if role in ("planner", "aggregator", "critic", "finalizer"):
            spec, what = with_role(role)(spec)
            said += [what] if what else []
        if (role == "armed" or name in ARMED) and not reader(spec)[1]:
            spec = with_lookup(spec)
            said.append("a tool that reads")
        if isinstance(given, Handing):
            spec, what = with_transfer(spec, given.peers)
            said += [what] if what else []
        kind = None if isinstance(given, ToolCalls) and given.tool else CALLED.get(name)
        if kind is not None and not _callable(spec, kind):
            spec = with_tools(spec, *_OWN[kind])
            said.append(f"tool {_OWN[kind][0].name}")
    return spec, " and ".join(said)


def call_disturbed_tools(ask: Ask, spec: FabricSpec, disturbances: Sequence[Disturbance]) -> Ask:
    """Agents that call, as their first turn, the tools which are disturbed; else they do as ``ask`` says."""
    wanted = list(dict.fromkeys(filter(None, (_find_needed_tool(spec, one) for one in disturbances))))

    def ask_model(request: ModelRequest) -> Reply:
        reply = ask(request)
        offers = {offer.name: offer for offer in request.tools}
        names = [name for name in wanted if name in offers]
        begun = any(message.role in ("assistant", "tool") for message in request.messages)
        if begun or not names or not isinstance(reply.result, ModelReplied):
            return reply
        calls = tuple(
            ToolCall(call_id=f"drill-{n}", tool=name, args=arguments(offers[name].parameters, WORDS))
            for n, name in enumerate(names)
        )
        said = replace(reply.result, text="", calls=calls)
        return Reply(reply.delay_s, said, silent=reply.silent, billed=reply.billed)

    return ask_model if wanted else ask


def _find_needed_tool(spec: FabricSpec, one: Disturbance) -> str:
    """Return the tool that has to be called for a fault. Empty: it needs none."""
    if isinstance(one.parameters, ToolCalls) and one.parameters.tool:
        return one.parameters.tool
    kind = CALLED.get(one.fault.name)
    return _callable(spec, kind) if kind else ""

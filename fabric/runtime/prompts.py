"""Words for prompts: fills a command's message references with contents, ready to send. Pure; the journal never
contains the result.

Templates are named and versioned (``brief@1``): a changed wording is a new version, so that an old run's prompts can
still be rebuilt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from fabric.core.conversations.memory import Origin
from fabric.core.decision.slices import read_output
from fabric.core.events.commands import CallModel, CallTool, Message
from fabric.core.events.inputs import CallStreamed, ToolCall
from fabric.core.grounding import passages
from fabric.core.schema.payloads import AGENT_OUTPUT, asked_json_schema, json_schema
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.mcp import find_server
from fabric.core.spec.topologies.conversation import is_conversation
from fabric.core.spec.tree import AgentSpec
from fabric.core.state.context import Contents
from fabric.core.texts.places import marks
from fabric.core.values.tracing import Trace, find_trace
from fabric.core.values.units import JSON
from fabric.core.values.words import count
from fabric.runtime.answer_shapes import DATA_SCHEMA, PLACES, PLANNING, SHAPES
from fabric.runtime.ports.calls import ChatMessage, ModelRequest, ToolOffer, ToolRequest
from fabric.runtime.ports.journal import ClaimedRun, Document
from fabric.runtime.ports.memories import MemoryCall

Documents = Callable[[], tuple[Document, ...]]


def find_run_trace(claimed: ClaimedRun) -> Trace:
    """Return the place of a run in its trace."""
    return find_trace(
        claimed.trace_id,
        claimed.run_id,
        parent_run_id=claimed.parent_run_id,
        parent_command=claimed.parent_command,
        context=claimed.trace_context,
    )


def model_request(
    command: CallModel,
    *,
    trace: Trace,
    spec: FabricSpec,
    contents: Contents,
    documents: Documents,
    offers: Mapping[str, ToolOffer],
    workspace: str = "",
    child: bool = False,
    streamed: Callable[[CallStreamed], None] | None = None,
) -> ModelRequest:
    """Return the request for one attempt. ``child``: True if another run spawned this one; ``streamed``: called with
    each of its calls as they arrive. Raises MissingContent if a content of the prompt was erased.
    """
    agent = spec.agent(command.agent)
    data = spec.output_schemas[command.typed] if command.typed else None
    fill = _Fill(spec, agent, command.output, contents, documents, data)
    words = agent.answers == "text" or fill.plans  # No endpoint takes a schema with arguments of any shape.
    schema = None if words else json_schema(command.output) if data is None else asked_json_schema(data)
    return ModelRequest(
        command_id=command.command_id,
        attempt=command.attempt,
        run_id=trace.run_id,
        trace_headers=trace.write_headers(trace.call(command.command_id, command.attempt)),
        agent=command.agent,
        model=spec.model(command.model),
        messages=tuple(fill.message(message) for message in command.messages),
        tools=tuple(_build_offer(spec, name, offers) for name in command.tools),
        output=command.output,
        output_schema=schema,
        plans=fill.plans,
        data_schema=data,
        max_output_tokens=command.max_output_tokens,
        idempotency_key=command.idempotency_key,
        deadline_at=command.deadline_at,
        workspace=workspace,
        child=child,
        streamed=streamed,
    )


def tool_request(
    command: CallTool,
    *,
    trace: Trace,
    spec: FabricSpec,
    contents: Contents,
    documents: Documents,
    fabric_id: str = "",
) -> ToolRequest:
    """Return the request for one attempt. Its arguments are in the answer that proposed the call, or in their own
    content for a call of the engine.
    """
    tool, content = spec.tool(command.tool), contents.read(command.args_ref)
    args = content.get("args")
    if args is None:
        args = next(call["args"] for call in content["calls"] if call["call_id"] == command.call_id)
    return ToolRequest(
        command_id=command.command_id,
        attempt=command.attempt,
        run_id=trace.run_id,
        trace_headers=trace.write_headers(trace.call(command.command_id, command.attempt)),
        tool=tool,
        args=args,
        idempotency_key=command.idempotency_key,
        deadline_at=command.deadline_at,
        documents=documents,
        memory=_memory(command, trace.run_id, spec, fabric_id),
        answers={said["asked"]: said["answer"] for said in map(contents.read, command.answers)},
        server=find_server(spec.mcp_servers, tool.kind, tool.target),
    )


def _memory(command: CallTool, run_id: str, spec: FabricSpec, fabric_id: str) -> MemoryCall | None:
    found = spec.memory_of(command.tool)
    if found is None:
        return None
    origin = Origin(run_id=run_id, step_id=command.step_id, agent=command.agent)
    return MemoryCall(memory=found[0], verb=found[1], fabric_id=fabric_id, origin=origin)


def _build_offer(spec: FabricSpec, name: str, offers: Mapping[str, ToolOffer]) -> ToolOffer:
    """Return a tool as it is offered to an agent of this topology. ``offers``: those of the whole fabric, whose
    conversations' tools include those of all its teams.
    """
    if not spec.of_conversation(name):
        return offers[name]
    tool = spec.tool(name)
    return ToolOffer(name=name, description=tool.description, parameters=tool.parameters or {})


def overhead_bytes(spec: FabricSpec, agent: AgentSpec, offers: Mapping[str, ToolOffer]) -> int:
    """Return an upper bound in bytes of templates, instructions and tool definitions in any prompt of an agent."""
    shapes = max(len(shape) for shape in SHAPES.values())
    schemas = max(len(json.dumps(json_schema(name))) for name in AGENT_OUTPUT)
    had = (_build_offer(spec, name, offers) for name in spec.tools_of(agent) if name in offers)
    tools = sum(len(json.dumps(_offer_json(offer))) for offer in had)
    roster = sum(len(worker.instructions.encode()) + 200 for worker in spec.agents)
    shapes += len(PLANNING) + 1 if agent.calls else 0
    return len(agent.instructions.encode()) + shapes + schemas + _data_bytes(spec, agent) + tools + roster + 4_000


def _data_bytes(spec: FabricSpec, agent: AgentSpec) -> int:
    """Return the most bytes of the agent's output schema, in words and as sent to the endpoint. An agent that takes
    over may have any agent's schema.
    """
    held = spec.output_schemas.values() if agent.name == spec.topology.handover else ()
    own = () if agent.output_schema is None else (agent.output_schema,)
    return max((2 * len(json.dumps(schema)) + 200 for schema in (*held, *own)), default=0)


def _offer_json(offer: ToolOffer) -> JSON:
    return {"name": offer.name, "description": offer.description, "parameters": offer.parameters}


class _Fill:
    """Fills one prompt's templates."""

    def __init__(
        self,
        spec: FabricSpec,
        agent: AgentSpec,
        output: str,
        contents: Contents,
        documents: Documents,
        data: Mapping[str, JSON] | None = None,
    ) -> None:
        self.spec, self.agent, self.output = spec, agent, output
        self.contents, self.documents = contents, documents
        self.data = data
        """The output schema that it has to fit; None: there is none."""
        self.plans = agent.calls == "planned" and output != "judgement"

    @property
    def shape(self) -> str:
        """Return the instruction about the shape of the answer."""
        return _shape(self.agent, self.output, self.data, plans=self.plans)

    def message(self, message: Message) -> ChatMessage:
        """Return one rendered message; raises KeyError for an unknown template."""
        found = TEMPLATES[message.template](self, message)
        return found if isinstance(found, ChatMessage) else ChatMessage(message.role, found)

    def read(self, message: Message, index: int) -> JSON:
        """Return the content at a position of the message's references."""
        return self.contents.read(message.refs[index])

    def output_of(self, message: Message, index: int) -> JSON:
        """Return the typed payload at a position of the message's references."""
        return self.read(message, index)["output"]

    def part(self, part: JSON) -> str:
        """Return a branch's summary, or the reason of its gap."""
        if not part["ref"]:
            return f"No result: {part['gap']}"
        said = read_output(self.contents.read(part["ref"]), part["branch"])
        won = f"For {said['winner']}. " if "winner" in said else ""
        return f"{won}{said['text']}{_write_data(said)}"

    def list_grounds(self, request: JSON, judged: JSON) -> str:
        """Return the attached documents for a grounding critic: the passages that were chosen when its step opened."""
        spans = judged.get("shown")
        if spans is None:
            return self.list_attachments(request)
        shown = (
            f"--- {document.name} ---\n{passages.passages_text(document.text, spans[document.name])}"
            for document in self.documents()
            if document.name in spans
        )
        unknown = "".join(f"\n- {line}" for line in judged.get("left_out", ()))
        told = (
            f"\n\nThese parts were left out. You cannot see them, so they support no statement:{unknown}"
            if unknown
            else ""
        )
        return "\n\nAttached documents:\n" + "\n".join(shown) + told

    def list_attachments(self, request: JSON) -> str:
        """Return the attached documents as far as the agent's prompt includes them, or their names. Texts are read
        only where they are shown.
        """
        names, limit = request.get("documents", ()), self.agent.inline_document_chars
        if not names:
            return ""
        if not limit:
            return "\n\nAttached documents: " + ", ".join(names)
        shown = [(document.name, document.text[:limit]) for document in self.documents()]
        told = "\n".join(f"--- {name} ---\n{text}" for name, text in shown)
        return f"{_citation_form(text for _, text in shown)}\n\nAttached documents:\n{told}"


def _citation_form(texts: Iterable[str]) -> str:
    """Return the form of a citation with a place, where one of the texts has places."""
    return f"\n\n{PLACES}" if any(next(marks(text), None) for text in texts) else ""


def _shape(agent: AgentSpec, output: str, data: Mapping[str, JSON] | None, *, plans: bool) -> str:
    if agent.answers == "text":
        return SHAPES["text"]
    told = SHAPES[output if data is None else "typed"]
    return f"{told} {PLANNING}" if plans else told


def agent_text(agent: AgentSpec, output: str, data: Mapping[str, JSON] | None = None, *, plans: bool = False) -> str:
    """Return the message that opens an agent's prompts: name, instructions, and the shape of its answer."""
    schema = "" if data is None else f"\n{DATA_SCHEMA}{_compact(data)}"
    return f"You are {agent.name}. {agent.instructions}\n\n{_shape(agent, output, data, plans=plans)}{schema}"


def _agent(fill: _Fill, message: Message) -> str:
    return agent_text(fill.agent, fill.output, fill.data, plans=fill.plans)


def _plan(fill: _Fill, message: Message) -> str:
    topology = fill.spec.topology
    roster = "\n".join(f"- {name}: {fill.spec.agent(name).instructions}" for name in dict.fromkeys(topology.workers))
    limit, left = fill.spec.policy.limits.plan_branches, message.part
    started = "" if left is None else f" {count(left, 'agent')} may still be started."
    turns = " They take turns: brief each of them once." if is_conversation(topology) else ""
    return (
        f"Request:\n{_request_text(fill, message)}{fill.list_attachments(fill.read(message, 0))}\n\nWorkers:\n{roster}\n\n"
        f"Divide the request into at most {count(min(limit, left or limit), 'brief')}, each for one of these workers by name.{started}{turns}"
    )


def _request_text(fill: _Fill, message: Message) -> str:
    """Return a run's request; for a retried child with the note on the failure."""
    request = fill.read(message, 0)
    note = request.get("note", "")
    return f"{request['text']}\n\n{note}" if note else str(request["text"])


def _brief(fill: _Fill, message: Message) -> str:
    plan = fill.output_of(message, 1)
    brief = plan["briefs"][message.part or 0]
    return f"Request:\n{_request_text(fill, message)}\n\nYour part: {brief['title']}\n{brief['instructions']}{fill.list_attachments(fill.read(message, 0))}"


def _answer_text(fill: _Fill, message: Message) -> str:
    said = fill.output_of(message, 0)
    return f"{message.speaker} said:\n{said['text']}{_write_data(said)}"


def _merge(fill: _Fill, message: Message) -> str:
    parts = fill.output_of(message, 2)
    shown = "\n\n".join(f"## {part['title']} ({part['agent']})\n{fill.part(part)}" for part in parts)
    return f"Request:\n{fill.read(message, 0)['text']}\n\nResults:\n{shown}\n\nMerge these results into one answer to the request."


def _criticise(fill: _Fill, message: Message) -> str:
    criteria = "\n".join(f"- {line}" for line in fill.output_of(message, 1)["exit_criteria"])
    result = fill.output_of(message, 2)
    cited = ", ".join(result["citations"]) or "none"
    return (
        f"Request:\n{fill.read(message, 0)['text']}\n\nExit criteria:\n{criteria}\n\nResult:\n{result['text']}\n"
        f"Citations: {cited}{_write_data(result)}\n\nScore how well the result meets the exit criteria."
    )


def _vet(fill: _Fill, message: Message) -> str:
    topology = fill.spec.topology
    roster = "\n".join(f"- {name}: {fill.spec.agent(name).instructions}" for name in dict.fromkeys(topology.workers))
    plan = fill.output_of(message, 1)
    briefs = "\n".join(f"- {one['title']} ({one['agent']}): {one['instructions']}" for one in plan["briefs"])
    criteria = "\n".join(f"- {line}" for line in plan["exit_criteria"])
    return (
        f"Request:\n{fill.read(message, 0)['text']}{fill.list_attachments(fill.read(message, 0))}\n\nWorkers:\n{roster}\n\n"
        f"Plan:\n{plan['goal']}\n{briefs}\nExit criteria:\n{criteria}{_note_text(fill, message, 1)}\n\n"
        "Judge this plan before it goes out: do the briefs cover the request, does each go to the right worker, and do the exit criteria say when it is done?"
    )


def _ground(fill: _Fill, message: Message) -> str:
    result = fill.output_of(message, 1)
    cited = ", ".join(result["citations"]) or "none"
    contents = (fill.contents.read(ref) for ref in message.refs[2:])
    told = "\n".join(f"- {_compact(one.get('result', one))}" for one in contents) or "none"
    documents = fill.list_grounds(fill.read(message, 0), fill.read(message, 1))
    return (
        f"Request:\n{fill.read(message, 0)['text']}{documents}\n\nWhat tools answered:\n{told}\n\n"
        f"Result:\n{result['text']}\nCitations: {cited}{_note_text(fill, message, 1)}\n\n"
        "Judge whether the request, the documents or the tools' answers support each statement of the result. Name each statement that they do not support."
    )


def _assess(fill: _Fill, message: Message) -> str:
    criteria = "\n".join(f"- {line}" for line in fill.output_of(message, 1)["exit_criteria"])
    result, check = fill.output_of(message, 2), (fill.spec.gates.oracle or ())[message.part or 0]
    cited = ", ".join(result["citations"]) or "none"
    return (
        f"Request:\n{fill.read(message, 0)['text']}{fill.list_attachments(fill.read(message, 0))}\n\nExit criteria:\n{criteria}\n\n"
        f"Outcome:\n{result['text']}\nCitations: {cited}{_write_data(result)}{_note_text(fill, message, 2)}\n\n"
        f"Judge whether this outcome meets the exit criteria. It does not if: {check.message}"
    )


def _write_data(result: JSON) -> str:
    """Return the data of an agent with an output schema; "" in the output that the grounding critic judges."""
    return f"\nData: {_compact(result['data'])}" if "data" in result else ""


def _note_text(fill: _Fill, message: Message, index: int) -> str:
    """Return the failure of an earlier attempt at this judgement; "" without one."""
    note = fill.read(message, index).get("text", "")
    return f"\n\nAn earlier attempt at this judgement failed: {note}" if note else ""


def _finish(fill: _Fill, message: Message) -> str:
    result = fill.output_of(message, 2)
    cited = ", ".join(result["citations"]) or "none"
    return (
        f"Request:\n{fill.read(message, 0)['text']}\n\nChecked result:\n{result['text']}\nCitations: {cited}{_write_data(result)}\n\n"
        "Write the final answer to the request from this result. Keep its citations."
    )


def _answer(fill: _Fill, message: Message) -> ChatMessage:
    content = fill.read(message, 0)
    text = content.get("text", "")
    if "output" in content and not text:
        text = _compact(content["output"])
    calls = tuple(
        ToolCall(
            call_id=c["call_id"],
            tool=c["tool"],
            args=c.get("args"),
            raw_args=c.get("raw_args", ""),
            server_id=c.get("server_id", ""),
            own=c.get("own"),
        )
        for c in content.get("calls", ())
    )
    return ChatMessage("assistant", text, calls, model=content.get("from", ""), own=content.get("own"))


_compact: Callable[[JSON], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""JSON without blanks: no longer than the content was counted at."""


def _result(fill: _Fill, message: Message) -> ChatMessage:
    content = fill.read(message, 0)
    value = content.get("result", content)
    text = value if isinstance(value, str) else _compact(value)
    return ChatMessage("tool", text, call_id=message.call_id, tool=message.tool)


def _correction(fill: _Fill, message: Message) -> str:
    problems = "\n".join(f"- {problem}" for problem in fill.read(message, 0)["problems"])
    return f"Your answer could not be used:\n{problems}\n\n{fill.shape}"


def _note(fill: _Fill, message: Message) -> str:
    return str(fill.read(message, 0)["text"])


def _feedback(fill: _Fill, message: Message) -> str:
    told = fill.read(message, 0)
    problems = "\n".join(f"- {problem}" for problem in told["problems"])
    return f"An earlier plan failed in stage {told['stage']}: {told['text']}\n{problems}\nPlan again so that this does not happen."


def _final(fill: _Fill, message: Message) -> str:
    return f"You may not use any more tools. Answer now with what you have. {fill.shape}"


TEMPLATES: Mapping[str, Callable[[_Fill, Message], str | ChatMessage]] = {
    "agent@1": _agent,
    "plan@1": _plan,
    "brief@1": _brief,
    "said@1": _answer_text,
    "merge@1": _merge,
    "criticise@1": _criticise,
    "finish@1": _finish,
    "vet@1": _vet,
    "ground@1": _ground,
    "assess@1": _assess,
    "answer@1": _answer,
    "result@1": _result,
    "correction@1": _correction,
    "note@1": _note,
    "feedback@1": _feedback,
    "final@1": _final,
}
"""Every template there is."""

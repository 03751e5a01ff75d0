"""Amazon Bedrock's Converse."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from fabric.core.values.metering import ReportedTokens, whole
from fabric.core.values.units import JSON
from fabric.providers.protocols.contract import (
    Assembly,
    ModelAnswer,
    Protocol,
    SaidCall,
    build_finish,
    dicts,
    malformed_event,
    read_call,
    read_text,
    read_tier,
)
from fabric.providers.protocols.fitting import ConversationTurn, FittedConversation, compact
from fabric.providers.protocols.messages_api import close_schema, order_parts
from fabric.providers.protocols.options import extend_body
from fabric.runtime.ports.calls import ModelRequest

PASSED_ON: Mapping[str, str] = {"temperature": "temperature", "top_p": "topP", "stop_sequences": "stopSequences"}
"""Options that go out, with their fields of ``inferenceConfig``."""
NO_OFFER = "It was on offer before. Do not call it now."
"""Description of a tool that only the history names."""


class Converse(Protocol):
    """Converse, for every model on Bedrock (Amazon Bedrock API reference, "Converse")."""

    key = "converse"
    noun = "answer of Converse"
    wanted = "output"
    url_hint = "; the URL is usually https://bedrock-runtime.REGION.amazonaws.com"

    def path(self, model: str, *, stream: bool) -> str:
        """Return the path with the model, whose colons and slashes are escaped."""
        return f"/model/{quote(model, safe='')}/converse"

    def body(
        self, request: ModelRequest, fitted: FittedConversation, *, model: str, schema: bool, stream: bool
    ) -> dict[str, JSON]:
        """Return the request's body."""
        options = request.model.options
        config: dict[str, JSON] = {"maxTokens": request.max_output_tokens}
        config |= {field: options[name] for name, field in PASSED_ON.items() if name in options}
        body: dict[str, JSON] = {"messages": [_message(turn) for turn in fitted.turns], "inferenceConfig": config}
        if fitted.system:
            body["system"] = [{"text": fitted.system}]
        if tools := _tools(request, fitted):
            body["toolConfig"] = {"tools": [{"toolSpec": tool} for tool in tools]}
        if schema:
            shape = {"schema": compact(close_schema(dict(request.output_schema or {}))), "name": request.output}
            body["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": shape}}}
        return extend_body(body, options)

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Return True where there is a message, even an empty one."""
        output = value.get("output")
        return isinstance(output, dict) and isinstance(output.get("message"), dict)

    def read(self, value: dict[str, JSON]) -> ModelAnswer:
        """Read texts and calls; reasoning and all other parts go back as they came."""
        blocks = _blocks(value.get("output"))
        calls = [_call(block["toolUse"]) for block in blocks if isinstance(block.get("toolUse"), dict)]
        return ModelAnswer(
            text="".join(read_text(block.get("text")) for block in blocks),
            calls=calls,
            finish=build_finish(value.get("stopReason")),
            model=_read_invoked_model(value.get("trace")),
            usage=read_usage(value.get("usage")),
            own=_own(blocks),
            tier=read_tier(value),
        )

    def assembly(self) -> Assembly:
        """Return an assembly for an unrequested stream: Bedrock's own have another form."""
        return _UnwantedStream()


def read_usage(usage: JSON) -> ReportedTokens:
    """Return the tokens; those of the prompt cache are counted apart from the input's."""
    if not isinstance(usage, dict):
        return ReportedTokens()
    return ReportedTokens(
        input=whole(usage.get("inputTokens")),
        output=whole(usage.get("outputTokens")),
        total=whole(usage.get("totalTokens")),
        cached=whole(usage.get("cacheReadInputTokens")),
        cache_written=whole(usage.get("cacheWriteInputTokens")),
        cached_inside=False,
    )


# -- going out ---------------------------------------------------------------------------------------------------------


def _message(turn: ConversationTurn) -> dict[str, JSON]:
    if turn.user:
        content: list[JSON] = [
            {"toolResult": {"toolUseId": one.id, "content": [{"text": one.text}]}} for one in turn.results
        ]
        return {"role": "user", "content": content + [{"text": text} for text in turn.texts]}
    text: list[JSON] = [{"text": text.rstrip()} for text in turn.texts]
    calls: dict[str, JSON] = {
        call.id: {"toolUse": {"toolUseId": call.id, "name": call.tool, "input": call.args}} for call in turn.calls
    }
    return {"role": "assistant", "content": order_parts(turn.own or (), text, calls)}


def _tools(request: ModelRequest, fitted: FittedConversation) -> list[dict[str, JSON]]:
    """Return the tools on offer. Without any, those of the history: Converse refuses calls in it without any tool."""
    if request.tools and request.model.tool_calls:
        return [_spec(tool.name, tool.description, dict(tool.parameters)) for tool in request.tools]
    names = dict.fromkeys(call.tool for turn in fitted.turns for call in turn.calls)
    return [_spec(name, NO_OFFER, {"type": "object", "properties": {}}) for name in names]


def _spec(name: str, description: str, schema: dict[str, JSON]) -> dict[str, JSON]:
    described = {"description": description} if description.strip() else {}
    return {"name": name, **described, "inputSchema": {"json": schema}}


# -- coming back -------------------------------------------------------------------------------------------------------


def _blocks(output: JSON) -> list[dict[str, JSON]]:
    message = output.get("message") if isinstance(output, dict) else None
    return dicts(message.get("content")) if isinstance(message, dict) else []


def _call(use: dict[str, JSON]) -> SaidCall:
    return read_call(use, use.get("toolUseId"))


def _read_invoked_model(trace: JSON) -> str:
    """Return the answering model, where a prompt router names it; no other part of an answer does."""
    router = trace.get("promptRouter") if isinstance(trace, dict) else None
    return read_text(router.get("invokedModelId")) if isinstance(router, dict) else ""


def _own(blocks: list[dict[str, JSON]]) -> JSON:
    """Return all parts in order, where some are the provider's own; None: there are only texts and calls."""
    parts: list[JSON] = []
    for block in blocks:
        if isinstance(block.get("toolUse"), dict):
            parts.append({"call": _call(block["toolUse"]).id})
        elif "text" not in block:
            parts.append({"opaque": block})
        elif {"text": True} not in parts:
            parts.append({"text": True})
    return parts if any("opaque" in part for part in parts) else None


class _UnwantedStream(Assembly):
    """A stream of events that Converse does not have."""

    def take(self, event: dict[str, JSON]) -> None:
        """Raise MalformedAnswer."""
        raise malformed_event()

    def count_begun(self) -> int:
        """Return no call."""
        return 0

    def body(self) -> dict[str, JSON]:
        """Return no answer."""
        return {}

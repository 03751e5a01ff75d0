"""Amazon Bedrock's Converse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fabric.adapters.providers.fitting import Fitted, Turn, compact
from fabric.adapters.providers.model_options import extended
from fabric.adapters.providers.protocols.contract import (
    Answer,
    Assembly,
    Protocol,
    SaidCall,
    dicts,
    finish_of,
    malformed_event,
    said_call,
    text_of,
    tier_of,
)
from fabric.adapters.providers.protocols.messages_api import close_schema, in_order
from fabric.core.metering import Reported, whole
from fabric.runtime.call_ports import ModelRequest

JSON = Any
PASSED_ON: Mapping[str, str] = {"temperature": "temperature", "top_p": "topP", "stop_sequences": "stopSequences"}
"""Options that go out, and the field of ``inferenceConfig`` that each goes out as."""
NO_OFFER = "It was on offer before. Do not call it now."
"""The description of a tool that only the history names."""


class Converse(Protocol):
    """Converse, for every model that Bedrock serves (Amazon Bedrock API reference, "Converse")."""

    key = "converse"
    noun = "answer of Converse"
    wanted = "output"
    url_hint = "; the URL is usually https://bedrock-runtime.REGION.amazonaws.com"

    def path(self, model: str, *, stream: bool) -> str:
        """The model is part of the path; its colons and slashes are escaped."""
        return f"/model/{quote(model, safe='')}/converse"

    def body(self, request: ModelRequest, fitted: Fitted, *, model: str, schema: bool, stream: bool) -> dict[str, JSON]:
        """The request's body."""
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
        return extended(body, options)

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Returns True where there is a message, with nothing in it perhaps."""
        output = value.get("output")
        return isinstance(output, dict) and isinstance(output.get("message"), dict)

    def read(self, value: dict[str, JSON]) -> Answer:
        """Texts and calls; reasoning and whatever else there is goes back as it came."""
        blocks = _blocks(value.get("output"))
        calls = [_call(block["toolUse"]) for block in blocks if isinstance(block.get("toolUse"), dict)]
        return Answer(
            text="".join(text_of(block.get("text")) for block in blocks),
            calls=calls,
            finish=finish_of(value.get("stopReason")),
            model=_invoked(value.get("trace")),
            usage=reported(value.get("usage")),
            own=_own(blocks),
            tier=tier_of(value),
        )

    def assembly(self) -> Assembly:
        """Reads a stream that was not asked for: Bedrock's own have another form."""
        return _Unasked()


def reported(usage: JSON) -> Reported:
    """Tokens; those of the prompt cache are counted apart from the input's."""
    if not isinstance(usage, dict):
        return Reported()
    return Reported(
        input=whole(usage.get("inputTokens")),
        output=whole(usage.get("outputTokens")),
        total=whole(usage.get("totalTokens")),
        cached=whole(usage.get("cacheReadInputTokens")),
        cache_written=whole(usage.get("cacheWriteInputTokens")),
        cached_inside=False,
    )


# -- going out ---------------------------------------------------------------------------------------------------------


def _message(turn: Turn) -> dict[str, JSON]:
    if turn.user:
        content: list[JSON] = [
            {"toolResult": {"toolUseId": one.id, "content": [{"text": one.text}]}} for one in turn.results
        ]
        return {"role": "user", "content": content + [{"text": text} for text in turn.texts]}
    text: list[JSON] = [{"text": text.rstrip()} for text in turn.texts]
    calls: dict[str, JSON] = {
        call.id: {"toolUse": {"toolUseId": call.id, "name": call.tool, "input": call.args}} for call in turn.calls
    }
    return {"role": "assistant", "content": in_order(turn.own or (), text, calls)}


def _tools(request: ModelRequest, fitted: Fitted) -> list[dict[str, JSON]]:
    """The tools on offer. Where none is, those that the history speaks of: Converse refuses calls in it without any tool."""
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
    return said_call(use, use.get("toolUseId"))


def _invoked(trace: JSON) -> str:
    """The model that answered, where a prompt router says which; nothing else of an answer names it."""
    router = trace.get("promptRouter") if isinstance(trace, dict) else None
    return text_of(router.get("invokedModelId")) if isinstance(router, dict) else ""


def _own(blocks: list[dict[str, JSON]]) -> JSON:
    """All parts in order, where some are the provider's own; None: there are only texts and calls."""
    parts: list[JSON] = []
    for block in blocks:
        if isinstance(block.get("toolUse"), dict):
            parts.append({"call": _call(block["toolUse"]).id})
        elif "text" not in block:
            parts.append({"opaque": block})
        elif {"text": True} not in parts:
            parts.append({"text": True})
    return parts if any("opaque" in part for part in parts) else None


class _Unasked(Assembly):
    """A stream of events, of which none is Converse's."""

    def take(self, event: dict[str, JSON]) -> None:
        """Raises Malformed."""
        raise malformed_event()

    def begun(self) -> int:
        """No call."""
        return 0

    def body(self) -> dict[str, JSON]:
        """No answer."""
        return {}

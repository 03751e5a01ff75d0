"""Each provider's protocol as a scripted endpoint speaks it, for tests that hold of each provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fabric.core.spec.tree import ModelSpec
from fabric.providers.anthropic import Anthropic
from fabric.providers.clouds.azure import Azure
from fabric.providers.clouds.bedrock import Bedrock
from fabric.providers.clouds.vertex import Vertex
from fabric.providers.exchange.http_model import Endpoint, HttpModel
from fabric.providers.google import Google
from fabric.providers.openai_compatible import OpenAICompatible
from fabric.providers.protocols.contract import Protocol
from simulator.endpoint import Received, ScriptedEndpoint, Step
from simulator.endpoint import answer as openai_answer
from simulator.endpoint import call as openai_call
from simulator.endpoint import refusal as openai_refusal
from simulator.endpoint.wire.streams import stream_step
from tests.fabric.providers.asking import KEY, request


def step(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Step:
    return Step(status=status, body=json.dumps(body).encode(), headers=headers or {})


@dataclass(frozen=True)
class Spoken:
    """One provider's protocol."""

    name: str
    adapter: type[HttpModel]
    model: str
    path: str
    """Of the one request that is made."""
    base: str
    """What the base URL has behind the host."""
    key_header: str
    answer: Callable[..., Step]
    """``(text, calls, usage, finish)``: calls as (tool, arguments, id), finish as one of stop, length, content_filter."""
    refusal: Callable[..., Step]
    """``(status, message, code)`` with ``headers``; code is one of the protocol's own."""
    schema: Callable[[Any], Any]
    """The schema that a request's body wants the answer held to; None: none."""
    tools: Callable[[Any], list[str]]
    system: Callable[[Any], str]
    cap: Callable[[Any], int]
    settings: tuple[str, str]
    events: Callable[..., list[bytes]]
    """``answer`` as the events of a stream; with ``usage`` None nothing in it says what it took. The first of them says nothing of the answer."""
    streams_at: str
    """The path, with its query, of a request for a stream."""
    asks_stream: Callable[[Any], bool]
    """Whether a request's body asks for a stream, where it is the body that does."""
    overloaded: tuple[Any, ...]
    """Of a refusal that an error within a stream says."""
    reported: int
    """The status that such an error stands for."""
    nonsense: tuple[Any, ...]
    """Objects that are no event of the protocol's, though each looks like one."""
    options: tuple[tuple[str, Any], ...] = ()
    """Options that every model has."""

    @property
    def protocol(self) -> Protocol:
        return self.adapter(Endpoint())._protocol(self.spec())

    def url(self, endpoint: ScriptedEndpoint) -> str:
        return f"http://{endpoint.authority}{self.base}"

    def port(self, endpoint: ScriptedEndpoint, key: str = KEY, **more: Any) -> HttpModel:
        return self.adapter(Endpoint(self.url(endpoint), "", key), **more)

    def spec(self, **changed: Any) -> ModelSpec:
        options = {**dict(self.options), **changed.get("options", {})}
        return ModelSpec(**{"name": "main", "provider": self.name, "model": self.model, **changed, "options": options})

    def key_of(self, received: Received) -> str:
        return received.headers.get(self.key_header, "").removeprefix("Bearer ")

    def ask(self, script: Any, *, key: str = KEY, spec: Any = None, **changed: Any) -> tuple[Any, list[Received]]:
        """One ask against a script, closed afterwards; one that hangs fails instead."""

        async def go(provider: HttpModel) -> Any:
            try:
                return await asyncio.wait_for(provider.ask(request(model=self.spec(**(spec or {})), **changed)), 60)
            finally:
                await provider.aclose()

        with ScriptedEndpoint(script if callable(script) else [script]) as endpoint:
            return asyncio.run(go(self.port(endpoint, key))), endpoint.received


def _openai(text: Any = "", calls: Any = (), usage: Any = (10, 5), finish: str = "") -> Step:
    return openai_answer(text, [openai_call(*one) for one in calls], usage=usage, finish=finish)


def _openai_refusal(status: int, message: str = "", code: str = "", headers: Any = None) -> Step:
    return openai_refusal(status, message, code=code, headers=headers)


_STOPS = {"": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic(text: Any = "", calls: Any = (), usage: Any = (10, 5), finish: str = "") -> Step:
    content = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": one[2], "name": one[0], "input": one[1]} for one in calls]
    body: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
    }
    body |= {"stop_reason": "tool_use" if calls else _STOPS[finish], "stop_sequence": None}
    if usage is not None:
        body["usage"] = {"input_tokens": usage[0], "output_tokens": usage[1]}
    return step(body)


def _anthropic_refusal(status: int, message: str = "", code: str = "", headers: Any = None) -> Step:
    error = {"type": code or "invalid_request_error", "message": message}
    return step({"type": "error", "error": error, "request_id": "req_1"}, status, headers)


_ENDS = {"": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


def _google(text: Any = "", calls: Any = (), usage: Any = (10, 5), finish: str = "") -> Step:
    parts: list[Any] = [{"text": text}] if text else []
    parts += [{"functionCall": {"name": one[0], "args": one[1], "id": one[2]}} for one in calls]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": _ENDS[finish], "index": 0}
    body: dict[str, Any] = {"candidates": [candidate], "modelVersion": "scripted"}
    if usage is not None:
        body["usageMetadata"] = {
            "promptTokenCount": usage[0],
            "candidatesTokenCount": usage[1],
            "totalTokenCount": sum(usage),
        }
    return step(body)


def google_refusal(status: int, message: str = "", code: str = "", headers: Any = None, details: Any = ()) -> Step:
    error = {"code": status, "message": message, "status": code or "INVALID_ARGUMENT", "details": list(details)}
    return step({"error": error}, status, headers)


ASKED = {"stream": True, "stream_options": {"include_usage": True}}
PIECE_CHARS = 12


def pieces(text: str) -> list[str]:
    return [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]


def event(value: Any) -> bytes:
    """One event, with its type as its name where it has one."""
    name = f"event: {value['type']}\n" if isinstance(value, dict) and "type" in value else ""
    return f"{name}data: {json.dumps(value)}\n\n".encode()


def _openai_events(*given: Any, **more: Any) -> list[bytes]:
    return list(stream_step(_openai(*given, **more), ASKED).pieces or ())


def _anthropic_events(text: Any = "", calls: Any = (), usage: Any = (10, 5), finish: str = "") -> list[bytes]:
    message = json.loads(_anthropic("", (), usage, finish).body) | {"content": [], "stop_reason": None}
    if usage is not None:
        message["usage"]["output_tokens"] = 1
    told: list[Any] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    blocks = [({"type": "text", "text": ""}, "text_delta", "text", text)] if text else []
    for tool, args, call_id in calls:
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": {}}
        said = args if isinstance(args, str) else json.dumps(args)
        blocks.append((block, "input_json_delta", "partial_json", said))
    for index, (block, kind, field, said) in enumerate(blocks):
        told.append({"type": "content_block_start", "index": index, "content_block": block})
        deltas = [{"type": kind, field: piece} for piece in pieces(said)]
        told += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        told.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": "tool_use" if calls else _STOPS[finish], "stop_sequence": None}
    last: dict[str, Any] = {"type": "message_delta", "delta": delta}
    if usage is not None:
        last["usage"] = {"output_tokens": usage[1]}
    return [event(one) for one in (*told, last, {"type": "message_stop"})]


def _google_events(text: Any = "", calls: Any = (), usage: Any = (10, 5), finish: str = "") -> list[bytes]:
    parts: list[Any] = [{"text": ""}, *({"text": piece} for piece in pieces(text or ""))]
    parts += [{"functionCall": {"name": one[0], "args": one[1], "id": one[2]}} for one in calls]
    told = []
    for part in (*parts, {"text": ""}):
        chunk = json.loads(_google("", (), usage and (usage[0], 1)).body) | {"responseId": "r1"}
        chunk["candidates"][0]["content"]["parts"] = [part]
        del chunk["candidates"][0]["finishReason"]
        told.append(chunk)
    told[-1]["candidates"][0]["finishReason"] = _ENDS[finish]
    if usage is not None:
        told[-1]["usageMetadata"] = json.loads(_google(usage=usage).body)["usageMetadata"]
    return [event(one) for one in told]


OPENAI = Spoken(
    name="openai",
    adapter=OpenAICompatible,
    model="small",
    path="/v1/chat/completions",
    base="/v1",
    key_header="authorization",
    answer=_openai,
    refusal=_openai_refusal,
    schema=lambda body: body.get("response_format", {}).get("json_schema", {}).get("schema"),
    tools=lambda body: [one["function"]["name"] for one in body.get("tools", ())],
    system=lambda body: body["messages"][0]["content"],
    cap=lambda body: body["max_tokens"],
    settings=("FABRIC_MODEL_URL", "FABRIC_MODEL_KEY"),
    events=_openai_events,
    streams_at="/v1/chat/completions",
    asks_stream=lambda body: body.get("stream") is True,
    overloaded=(503, "overloaded", "server_error"),
    reported=500,
    nonsense=({"choices": [7]}, {"choices": [{"index": 0, "delta": 7}]}),
)
ANTHROPIC = Spoken(
    name="anthropic",
    adapter=Anthropic,
    model="claude-opus-4-8",
    path="/v1/messages",
    base="",
    key_header="x-api-key",
    answer=_anthropic,
    refusal=_anthropic_refusal,
    schema=lambda body: body.get("output_config", {}).get("format", {}).get("schema"),
    tools=lambda body: [one["name"] for one in body.get("tools", ())],
    system=lambda body: body["system"],
    cap=lambda body: body["max_tokens"],
    settings=("FABRIC_ANTHROPIC_URL", "FABRIC_ANTHROPIC_KEY"),
    events=_anthropic_events,
    streams_at="/v1/messages",
    asks_stream=lambda body: body.get("stream") is True,
    overloaded=(529, "Overloaded", "overloaded_error"),
    reported=500,
    nonsense=(
        {"type": "content_block_delta", "index": 0, "delta": 7},
        {"type": "content_block_start", "index": 0, "content_block": 7},
        {"type": "message_start", "message": 7},
    ),
)
GOOGLE = Spoken(
    name="google",
    adapter=Google,
    model="gemini-2.5-flash",
    path="/v1beta/models/gemini-2.5-flash:generateContent",
    base="",
    key_header="x-goog-api-key",
    answer=_google,
    refusal=google_refusal,
    schema=lambda body: body["generationConfig"].get("responseJsonSchema"),
    tools=lambda body: [one["name"] for tool in body.get("tools", ()) for one in tool["functionDeclarations"]],
    system=lambda body: body["systemInstruction"]["parts"][0]["text"],
    cap=lambda body: body["generationConfig"]["maxOutputTokens"],
    settings=("FABRIC_GOOGLE_URL", "FABRIC_GOOGLE_KEY"),
    events=_google_events,
    streams_at="/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
    asks_stream=lambda body: True,
    overloaded=(503, "overloaded", "UNAVAILABLE"),
    reported=503,
    nonsense=({"candidates": [7]}, {"candidates": 7}),
)


def _responses(text: Any = "", calls: Any = (), usage: Any = (10, 5), finish: str = "") -> Step:
    said = {"type": "output_text", "text": text, "annotations": []}
    output: list[Any] = [{"type": "message", "id": "m1", "role": "assistant", "content": [said]}] if text else []
    for tool, args, call_id in calls:
        arguments = args if isinstance(args, str) else json.dumps(args)
        output.append({"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": tool})
        output[-1] |= {"arguments": arguments, "status": "completed"}
    why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    body: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1_700_000_000, "model": "scripted"}
    body["output"] = output
    body |= {"status": "incomplete", "incomplete_details": {"reason": why}} if why else {"status": "completed"}
    if usage is not None:
        body["usage"] = {"input_tokens": usage[0], "output_tokens": usage[1], "total_tokens": sum(usage)}
    return step(body)


def _responses_events(*given: Any, **more: Any) -> list[bytes]:
    whole = json.loads(_responses(*given, **more).body)
    told: list[Any] = [{"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}}]
    for n, item in enumerate(whole["output"]):
        is_call = item["type"] == "function_call"
        begun = {**item, "arguments": ""} if is_call else {**item, "content": []}
        told.append({"type": "response.output_item.added", "output_index": n, "item": begun})
        kind = "function_call_arguments" if is_call else "output_text"
        said = item["arguments"] if is_call else item["content"][0]["text"]
        told += [{"type": f"response.{kind}.delta", "output_index": n, "delta": one} for one in pieces(said)]
        told.append({"type": "response.output_item.done", "output_index": n, "item": item})
    kind = "incomplete" if whole["status"] == "incomplete" else "completed"
    return [event(one) for one in (*told, {"type": f"response.{kind}", "response": whole})]


_CONVERSE_ENDS = {"": "end_turn", "length": "max_tokens", "content_filter": "content_filtered"}


def _bedrock(text: Any = "", calls: Any = (), usage: Any = (10, 5), finish: str = "") -> Step:
    content: list[Any] = [{"text": text}] if text else []
    content += [{"toolUse": {"toolUseId": one[2], "name": one[0], "input": one[1]}} for one in calls]
    body: dict[str, Any] = {"output": {"message": {"role": "assistant", "content": content}}}
    body |= {"stopReason": "tool_use" if calls else _CONVERSE_ENDS[finish], "metrics": {"latencyMs": 7}}
    body["trace"] = {"promptRouter": {"invokedModelId": "scripted"}}
    if usage is not None:
        body["usage"] = {"inputTokens": usage[0], "outputTokens": usage[1], "totalTokens": sum(usage)}
    return step(body)


def _bedrock_refusal(status: int, message: str = "", code: str = "", headers: Any = None) -> Step:
    names = {"x-amzn-ErrorType": f"{code}:http://internal.amazon.com/coral/"} if code else {}
    return step({"message": message}, status, {**names, **(headers or {})})


def _bedrock_schema(body: Any) -> Any:
    text = body.get("outputConfig", {}).get("textFormat")
    return json.loads(text["structure"]["jsonSchema"]["schema"]) if text else None


RESPONSES = replace(
    OPENAI,
    path="/v1/responses",
    answer=_responses,
    schema=lambda body: body.get("text", {}).get("format", {}).get("schema"),
    tools=lambda body: [one["name"] for one in body.get("tools", ())],
    system=lambda body: body["instructions"],
    cap=lambda body: body["max_output_tokens"],
    events=_responses_events,
    streams_at="/v1/responses",
    nonsense=({"type": "response.completed", "response": 7}, {"type": "response.output_item.done", "item": 7}),
    options=(("api", "responses"),),
)
AZURE = replace(
    OPENAI,
    name="azure",
    adapter=Azure,
    path="/openai/v1/chat/completions",
    base="",
    key_header="api-key",
    cap=lambda body: body["max_completion_tokens"],
    settings=("FABRIC_AZURE_URL", "FABRIC_AZURE_KEY"),
    streams_at="/openai/v1/chat/completions",
)
VERTEX = replace(
    GOOGLE,
    name="vertex",
    adapter=Vertex,
    path="/v1/projects/p/locations/us-central1/publishers/google/models/gemini-2.5-flash:generateContent",
    settings=("FABRIC_VERTEX_URL", "FABRIC_VERTEX_KEY"),
    streams_at="/v1/projects/p/locations/us-central1/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
    options=(("project", "p"), ("location", "us-central1")),
)
BEDROCK = Spoken(
    name="bedrock",
    adapter=Bedrock,
    model="us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    path="/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
    base="",
    key_header="authorization",
    answer=_bedrock,
    refusal=_bedrock_refusal,
    schema=_bedrock_schema,
    tools=lambda body: [one["toolSpec"]["name"] for one in body.get("toolConfig", {}).get("tools", ())],
    system=lambda body: body["system"][0]["text"],
    cap=lambda body: body["inferenceConfig"]["maxTokens"],
    settings=("FABRIC_BEDROCK_URL", "FABRIC_BEDROCK_KEY"),
    events=lambda *given, **more: [],
    streams_at="",
    asks_stream=lambda body: False,
    overloaded=(503, "overloaded", "ServiceUnavailableException"),
    reported=503,
    nonsense=(),
)
"""It streams in a form of its own, and is not asked to."""
VENDORS = (OPENAI, ANTHROPIC, GOOGLE)
STREAMED = (OPENAI, RESPONSES, ANTHROPIC, GOOGLE, AZURE, VERTEX)
"""Those whose answers stream in as events."""
ALL = (*STREAMED, BEDROCK)

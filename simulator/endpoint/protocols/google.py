"""Google's ``generateContent`` and ``streamGenerateContent``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Event, Refusal
from simulator.endpoint.protocols.protocol import Protocol, SimulatedRequest, Unreadable
from simulator.endpoint.wire.steps import ABSENT, SimulatedAnswer, SimulatedCall, Usage, seal
from simulator.endpoint.wire.streams import cut_text

ENDS: Mapping[str, str] = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
STATUSES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""google.rpc.Code by HTTP status."""
MODES: Mapping[str, str] = {"AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
_capital = re.compile(r"[A-Z]")


def read_field(found: JSON, name: str) -> JSON:
    """Return a field by its JSON name, or by its snake case, which Google takes too."""
    if not isinstance(found, Mapping):
        return None
    return found.get(name, found.get(_capital.sub(lambda one: f"_{one[0].lower()}", name)))


def read(asked: SimulatedRequest) -> dict[str, JSON]:
    """Contents as messages; a response of a function is a tool's message."""
    body = asked.body
    contents = body.get("contents") or []
    if isinstance(contents, Mapping):
        contents = [contents]
    if not isinstance(contents, list) or not all(isinstance(one, Mapping) for one in contents):
        raise Unreadable("Invalid value at 'contents': this is no list of objects")
    made: dict[str, JSON] = {"model": asked.path.partition("/models/")[2].partition(":")[0], "messages": []}
    system = read_field(body, "systemInstruction")
    if system:
        made["messages"].append({"role": "system", "content": _text(_parts(system))})
    for content in contents:
        made["messages"] += _messages(content)
    declared = [one for tool in body.get("tools") or () for one in read_field(tool, "functionDeclarations") or ()]
    made["tools"] = [_tool(one) for one in declared]
    calling = read_field(read_field(body, "toolConfig"), "functionCallingConfig") or {}
    if calling.get("mode"):
        made["tool_choice"] = MODES.get(calling["mode"], "auto")
    config = read_field(body, "generationConfig") or {}
    schema = read_field(config, "responseJsonSchema") or read_field(config, "responseSchema")
    if schema:
        made["response_format"] = {"type": "json_schema", "json_schema": {"schema": lower_schema(schema)}}
    elif read_field(config, "responseMimeType") == "application/json":
        made["response_format"] = {"type": "json_object"}
    return made | {"max_tokens": read_field(config, "maxOutputTokens")}


def _parts(content: JSON) -> list[Mapping[str, JSON]]:
    if isinstance(content, str):
        return [{"text": content}]
    return [one for one in read_field(content, "parts") or () if isinstance(one, Mapping)]


def _text(parts: list[Mapping[str, JSON]]) -> str:
    return "\n".join(str(one["text"]) for one in parts if one.get("text") and not one.get("thought"))


def _messages(content: Mapping[str, JSON]) -> Iterator[dict[str, JSON]]:
    parts = _parts(content)
    responses = [one for part in parts if (one := read_field(part, "functionResponse"))]
    for number, one in enumerate(responses):
        told = one.get("response")
        text = told.get("result", told.get("output", told)) if isinstance(told, Mapping) else told
        said = text if isinstance(text, str) else json.dumps(text)
        yield {"role": "tool", "tool_call_id": str(one.get("id") or number), "content": said}
    calls = [one for part in parts if (one := read_field(part, "functionCall"))]
    role = "assistant" if content.get("role") == "model" else "user"
    made = [
        {
            "id": str(one.get("id") or number),
            "type": "function",
            "function": {"name": one.get("name"), "arguments": json.dumps(one.get("args") or {})},
        }
        for number, one in enumerate(calls)
    ]
    if made:
        yield {"role": "assistant", "content": _text(parts) or None, "tool_calls": made}
    elif not responses or _text(parts):
        yield {"role": role, "content": _text(parts)}


def _tool(declared: Mapping[str, JSON]) -> dict[str, JSON]:
    parameters = read_field(declared, "parametersJsonSchema") or lower_schema(
        declared.get("parameters") or {"type": "object"}
    )
    function = {"name": declared.get("name"), "description": declared.get("description"), "parameters": parameters}
    return {"type": "function", "function": function}


def lower_schema(schema: JSON) -> JSON:
    """Return Google's schema, whose types are in capitals, as JSON Schema."""
    if isinstance(schema, list):
        return [lower_schema(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {name: lower_schema(one) for name, one in schema.items()}
    if isinstance(made.get("type"), str):
        made["type"] = made["type"].lower()
    return made


def write(answer: SimulatedAnswer, asked: SimulatedRequest) -> dict[str, JSON]:
    """Return a ``GenerateContentResponse``."""
    return _response(_list_parts(answer), answer, asked, ends=True)


def _response(parts: list[JSON], answer: SimulatedAnswer, asked: SimulatedRequest, *, ends: bool) -> dict[str, JSON]:
    candidate: dict[str, JSON] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if ends:
        candidate["finishReason"] = ENDS.get(answer.reason, answer.reason.upper())
    body: dict[str, JSON] = {"candidates": [candidate]}
    if answer.usage is not None:
        body["usageMetadata"] = _usage(answer.usage)
    return body | {"modelVersion": answer.model, "responseId": f"response-{asked.number}"}


def _list_parts(answer: SimulatedAnswer) -> list[dict[str, JSON]]:
    parts: list[dict[str, JSON]] = []
    if answer.reasoning:
        parts.append({"text": answer.reasoning, "thought": True})
    if answer.text:
        parts.append({"text": answer.text})
    for at, call in enumerate(answer.calls):
        parts.append({"functionCall": _call(call, answer)})
        if answer.seals == "call" and not at:
            parts[-1]["thoughtSignature"] = seal(call.name)
    return parts


def _call(call: SimulatedCall, answer: SimulatedAnswer) -> dict[str, JSON]:
    made = {"name": call.name}
    if call.id != ABSENT:
        made["id"] = call.id
    if call.arguments:
        made["args"] = call.arguments if answer.turned else call.args
    return made


def _usage(usage: Usage) -> dict[str, JSON]:
    prompt, out = usage.input, usage.output
    if usage.apart and usage.cached is not None:
        prompt += usage.cached  # Google has them inside, always.
    if usage.reasoning is not None:
        out = max(0, out - usage.reasoning)  # Google has them apart, always.
    numbers = [one for one in (prompt, out, usage.reasoning) if isinstance(one, int | float)]
    said = {"promptTokenCount": prompt, "candidatesTokenCount": out, "totalTokenCount": sum(numbers)}
    if usage.cached is not None:
        said["cachedContentTokenCount"] = usage.cached
    if usage.reasoning is not None:
        said["thoughtsTokenCount"] = usage.reasoning
    if usage.audio is not None:
        said["promptTokensDetails"] = [{"modality": "AUDIO", "tokenCount": usage.audio}]
    return said


def events(answer: SimulatedAnswer, asked: SimulatedRequest) -> list[Event]:
    """Return a response for each bit of text and each call; the last has the reason why it ends."""
    parts: list[tuple[dict[str, JSON], bool]] = []
    for part in _list_parts(answer):
        if "text" not in part:
            parts.append((part, True))
            continue
        rest = {name: one for name, one in part.items() if name != "text"}
        parts += [({"text": piece, **rest}, not rest) for piece in cut_text(part["text"])]
    found = [Event(_response([part], answer, asked, ends=False), carries=carries) for part, carries in parts]
    return [*found, Event(_response([{"text": ""}], answer, asked, ends=True))]


def refuse(refusal: Refusal) -> JSON:
    """Return Google's error body."""
    status = STATUSES.get(refusal.status, "INVALID_ARGUMENT" if refusal.status < 500 else "UNKNOWN")
    return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}


GOOGLE = Protocol("google", read, write, events, refuse, lambda refusal: Event(refuse(refusal)), lambda event: False)

"""Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Event, Refusal
from simulator.endpoint.protocols.protocol import Protocol, SimulatedRequest, Unreadable
from simulator.endpoint.wire.steps import ABSENT, SimulatedAnswer, SimulatedCall, Usage, seal
from simulator.endpoint.wire.streams import cut_text

STOPS: Mapping[str, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
KINDS: Mapping[int, str] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""The type of an error by its status."""
CHOICES: Mapping[str, str] = {"auto": "auto", "any": "required", "none": "none"}


def read(asked: SimulatedRequest) -> dict[str, JSON]:
    """Blocks as messages: results of tools in messages of their own, before the text that stands beside them."""
    body = asked.body
    messages, tools = body.get("messages") or [], body.get("tools") or []
    for name, found in (("messages", messages), ("tools", tools)):
        if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
            raise Unreadable(f"{name}: Input should be a valid list of objects")
    made: dict[str, JSON] = {"model": body.get("model"), "messages": []}
    if body.get("system"):
        made["messages"].append({"role": "system", "content": _text(_blocks(body["system"]))})
    for message in messages:
        made["messages"] += _messages(message)
    made["tools"] = [_tool(one) for one in tools if "input_schema" in one]
    choice = body.get("tool_choice") or {}
    if choice.get("type") == "tool":
        made["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif choice:
        made["tool_choice"] = CHOICES.get(str(choice.get("type")), "auto")
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    if form.get("type") == "json_schema":
        made["response_format"] = {"type": "json_schema", "json_schema": {"schema": form.get("schema")}}
    return made | {"max_tokens": body.get("max_tokens")}


def _blocks(content: JSON) -> list[Mapping[str, JSON]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [one for one in content or () if isinstance(one, Mapping)]


def _text(blocks: list[Mapping[str, JSON]]) -> str:
    return "\n".join(str(one["text"]) for one in blocks if one.get("type") == "text")


def _messages(message: Mapping[str, JSON]) -> Iterator[dict[str, JSON]]:
    blocks = _blocks(message.get("content"))
    for one in blocks:
        if one.get("type") == "tool_result":
            content = _text(_blocks(one.get("content") or ""))
            yield {"role": "tool", "tool_call_id": one.get("tool_use_id"), "content": content}
    calls = [
        {
            "id": one.get("id"),
            "type": "function",
            "function": {"name": one.get("name"), "arguments": json.dumps(one.get("input"))},
        }
        for one in blocks
        if one.get("type") == "tool_use"
    ]
    text = _text(blocks)
    if calls:
        yield {"role": message.get("role"), "content": text or None, "tool_calls": calls}
    elif text or not any(one.get("type") == "tool_result" for one in blocks):
        yield {"role": message.get("role"), "content": text}


def _tool(tool: Mapping[str, JSON]) -> dict[str, JSON]:
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


def write(answer: SimulatedAnswer, asked: SimulatedRequest) -> dict[str, JSON]:
    """Return a ``message``."""
    content = [*_list_thinking(answer), *([{"type": "text", "text": answer.text}] if answer.text else [])]
    content += [_call(one, answer) for one in answer.calls]
    message: dict[str, JSON] = {
        "id": f"msg_{asked.number:06d}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": STOPS.get(answer.reason, answer.reason),
        "stop_sequence": None,
    }
    if answer.usage is not None:
        message["usage"] = _usage(answer.usage)
    return message


def _list_thinking(answer: SimulatedAnswer) -> list[dict[str, JSON]]:
    if not answer.reasoning:
        return []
    if answer.seals == "redacted":
        return [{"type": "redacted_thinking", "data": seal(answer.reasoning)}]
    return [{"type": "thinking", "thinking": answer.reasoning, "signature": seal(answer.reasoning)}]


def _call(call: SimulatedCall, answer: SimulatedAnswer) -> dict[str, JSON]:
    made = {"type": "tool_use", "id": call.id, "name": call.name}
    if call.id == ABSENT:
        del made["id"]
    return made | {"input": call.arguments if answer.turned else call.args}


def _usage(usage: Usage) -> dict[str, JSON]:
    inside = usage.cached if usage.cached is not None and not usage.apart else 0
    fresh = usage.input - inside if isinstance(usage.input, int) else usage.input
    said = {"input_tokens": fresh, "output_tokens": usage.output}
    return said | {"cache_creation_input_tokens": 0, "cache_read_input_tokens": usage.cached or 0}


def events(answer: SimulatedAnswer, asked: SimulatedRequest) -> list[Event]:
    """Return the events ``message_start``, the blocks, ``message_delta``, ``message_stop``."""
    message = write(answer, asked)
    opening = {**message, "content": [], "stop_reason": None}
    if "usage" in message:
        opening["usage"] = {**message["usage"], "output_tokens": 1}
    found = [_event({"type": "message_start", "message": opening}), _event({"type": "ping"})]
    for index, block in enumerate(message["content"]):
        found += _block(index, block, answer)
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    last: dict[str, JSON] = {"type": "message_delta", "delta": delta}
    if "usage" in message:
        last["usage"] = message["usage"]
    return [*found, _event(last), _event({"type": "message_stop"})]


def _block(index: int, block: Mapping[str, JSON], answer: SimulatedAnswer) -> Iterator[Event]:
    start, deltas = dict(block), []
    if block["type"] == "text":
        start["text"] = ""
        deltas = [{"type": "text_delta", "text": piece} for piece in cut_text(block["text"])]
    elif block["type"] == "thinking":
        start |= {"thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in cut_text(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif block["type"] == "tool_use" and not answer.turned:
        number = index - sum(1 for _ in _list_thinking(answer)) - bool(answer.text)
        start["input"] = {}
        pieces = ["", *cut_text(answer.calls[number].arguments)]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    yield _event({"type": "content_block_start", "index": index, "content_block": start})
    for delta in deltas:
        carries = bool(delta.get("text") or delta.get("partial_json"))
        yield _event({"type": "content_block_delta", "index": index, "delta": delta}, carries=carries)
    yield _event({"type": "content_block_stop", "index": index})


def _event(data: dict[str, JSON], *, carries: bool = False) -> Event:
    return Event(data, data["type"], carries)


def refuse(refusal: Refusal) -> JSON:
    """Return Anthropic's error body."""
    kind = KINDS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.message}, "request_id": "req_scripted"}


def error_event(refusal: Refusal) -> Event:
    """Return the event ``error``."""
    return _event({"type": "error", "error": refuse(refusal)["error"]})


ANTHROPIC = Protocol("anthropic", read, write, events, refuse, error_event, lambda event: event.name == "message_stop")

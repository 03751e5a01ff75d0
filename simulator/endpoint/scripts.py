"""The scripted agents over the protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from fabric.core.inputs import CallFailed, ToolCall
from fabric.core.spec import ModelSpec
from fabric.runtime.call_ports import ChatMessage, ModelRequest, ToolOffer
from simulator.endpoint import steps
from simulator.endpoint.asked_data import data_schema
from simulator.endpoint.server import Received
from simulator.endpoint.steps import Step
from simulator.kernel import scripted

JSON = Any


def agents(options: Mapping[str, JSON] | None = None) -> Callable[[Received], Step]:
    """The scripted agents as a model behind the protocol. ``options`` as in ``simulator.kernel.scripted``."""

    def reply(received: Received) -> Step:
        if received.method == "GET" and received.path.endswith("/models"):
            return Step(body=json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}).encode())
        if not isinstance(received.body, dict) or not received.path.endswith("/chat/completions"):
            return steps.refusal(404, f"nothing is served at {received.path}; ask /v1/chat/completions")
        said = scripted.answer(_request(received, dict(options or {})))
        result = said.result
        if isinstance(result, CallFailed):
            headers = {} if result.retry_after_s is None else {"Retry-After": f"{result.retry_after_s:g}"}
            return steps.refusal(result.status or 500, result.message, headers=headers)
        calls = [
            steps.call(one.tool, one.raw_args if one.args is None else one.args, one.call_id) for one in result.calls
        ]
        usage = (result.input_tokens, result.output_tokens)
        finish = "length" if result.finish == "length" else ""
        return steps.answer(result.text, calls, usage=usage, finish=finish, delay_s=said.delay_s)

    return reply


_ROLES: Mapping[str, Literal["system", "user", "assistant", "tool"]] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "tool": "tool",
}


def _request(received: Received, options: dict[str, JSON]) -> ModelRequest:
    """The port's request as far as the protocol carries it."""
    body = received.body
    form = body.get("response_format") or {}
    named = form.get("json_schema", {}).get("name")
    messages = tuple(_message(message) for message in body.get("messages", ()))
    opening = messages[0].text if messages else ""
    output = named or received.headers.get("x-fabric-output") or "summary"
    return ModelRequest(
        command_id=received.idempotency_key,
        attempt=1,
        run_id="",
        trace_id="",
        span_id="",
        agent=received.agent,
        model=ModelSpec(name="scripted", model=str(body.get("model", "")), options=options),
        messages=messages,
        tools=tuple(_offer(tool.get("function", {})) for tool in body.get("tools") or ()),
        output=output,
        # An agent that answers in words is told so in its first message; every other one is asked for JSON.
        output_schema=None if not form and "JSON" not in opening else {},
        data_schema=data_schema(opening, form.get("json_schema", form).get("schema")),
        max_output_tokens=int(body.get("max_tokens") or body.get("max_completion_tokens") or 1_024),
        idempotency_key=received.idempotency_key,
        deadline_at=0,
    )


def _message(message: Mapping[str, JSON]) -> ChatMessage:
    calls = tuple(
        ToolCall(call_id=str(call.get("id", "")), tool=str(call.get("function", {}).get("name", "")), args=None)
        for call in message.get("tool_calls") or ()
    )
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)
    return ChatMessage(_ROLES.get(message.get("role", ""), "user"), text, calls, str(message.get("tool_call_id", "")))


def _offer(function: Mapping[str, JSON]) -> ToolOffer:
    return ToolOffer(
        name=str(function.get("name", "")),
        description=str(function.get("description", "")),
        parameters=function.get("parameters") or {"type": "object"},
    )

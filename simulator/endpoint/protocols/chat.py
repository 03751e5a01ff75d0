"""OpenAI's chat completions, as OpenAI and those who copy it speak them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Event, Refusal
from simulator.endpoint.behaviour.turns import problem
from simulator.endpoint.protocols.protocol import Protocol, SimulatedRequest, Unreadable
from simulator.endpoint.wire.steps import ABSENT, SimulatedAnswer, SimulatedCall, Usage, seal
from simulator.endpoint.wire.streams import list_chunks

DONE = "[DONE]"
KINDS: Mapping[int, str] = {400: "invalid_request_error", 401: "invalid_request_error", 429: "requests"}
"""The type of an error by its status; any other is a server's."""


def read(asked: SimulatedRequest) -> dict[str, JSON]:
    """The body as it is."""
    if wrong := problem(asked.body):
        raise Unreadable(wrong)
    return dict(asked.body)


def write(answer: SimulatedAnswer, asked: SimulatedRequest) -> dict[str, JSON]:
    """Return a ``chat.completion``."""
    message: dict[str, JSON] = {"role": "assistant", "content": answer.text, **_write_reasoning(answer)}
    if answer.calls:
        message["tool_calls"] = [_call(one, answer, first=not at) for at, one in enumerate(answer.calls)]
    completion: dict[str, JSON] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": answer.model,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.reason}],
    }
    if answer.usage is not None:
        completion["usage"] = _usage(answer.usage)
    return completion


def _write_reasoning(answer: SimulatedAnswer) -> dict[str, JSON]:
    if not answer.reasoning:
        return {}
    if answer.seals == "details":
        detail: dict[str, JSON] = {
            "type": "reasoning.text",
            "text": answer.reasoning,
            "signature": seal(answer.reasoning),
        }
        detail |= {"format": "anthropic-claude-v1", "index": 0}
        return {"reasoning": answer.reasoning, "reasoning_details": [detail]}
    return {"reasoning_content": answer.reasoning}


def _call(call: SimulatedCall, answer: SimulatedAnswer, *, first: bool) -> dict[str, JSON]:
    arguments = call.args if answer.turned else call.arguments
    made: dict[str, JSON] = {"id": call.id, "type": "function"}
    made["function"] = {"name": call.name, "arguments": arguments}
    if call.id == ABSENT:
        del made["id"]
    if answer.seals == "call" and first:
        made["extra_content"] = {"google": {"thought_signature": seal(call.name)}}
    return made


def _usage(usage: Usage) -> dict[str, JSON]:
    numbers = [one for one in (usage.input, usage.output) if isinstance(one, int | float)]
    said: dict[str, JSON] = {"prompt_tokens": usage.input, "completion_tokens": usage.output}
    said["total_tokens"] = sum(numbers) + (usage.cached or 0) * usage.apart
    if usage.cached is not None and usage.apart:
        said |= {"cache_read_input_tokens": usage.cached, "cache_creation_input_tokens": 0}
    elif usage.cached is not None:
        said["prompt_tokens_details"] = {"cached_tokens": usage.cached, "audio_tokens": 0}
    if usage.audio is not None:
        said["prompt_tokens_details"] = {"cached_tokens": usage.cached or 0, "audio_tokens": usage.audio}
    if usage.reasoning is not None:
        said["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning, "audio_tokens": 0}
    return said


def events(answer: SimulatedAnswer, asked: SimulatedRequest) -> list[Event]:
    """Its chunks, and ``[DONE]``."""
    options = asked.body.get("stream_options")
    with_usage = isinstance(options, Mapping) and options.get("include_usage") is True
    chunks = list_chunks(write(answer, asked), with_usage=with_usage)
    return [*(Event(one, carries=_carries(one)) for one in chunks), Event(DONE)]


def _carries(chunk: Mapping[str, JSON]) -> bool:
    deltas = [choice["delta"] for choice in chunk["choices"]]
    return any(one.get("content") or any("id" not in call for call in one.get("tool_calls", ())) for one in deltas)


def refuse(refusal: Refusal) -> JSON:
    """Return OpenAI's error body."""
    kind = refusal.kind or KINDS.get(
        refusal.status, "invalid_request_error" if refusal.status < 500 else "server_error"
    )
    return {
        "error": {
            "message": refusal.message,
            "type": kind,
            "param": refusal.param or None,
            "code": refusal.code or None,
        }
    }


def error_event(refusal: Refusal) -> Event:
    """Return an error where a chunk is expected."""
    return Event(refuse(replace(refusal, kind=refusal.kind or "server_error")))


CHAT = Protocol("chat", read, write, events, refuse, error_event, lambda event: event.data == DONE)

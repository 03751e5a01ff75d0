"""OpenAI's Responses API, stored and stateless."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Event, Refusal
from simulator.endpoint.protocols import chat
from simulator.endpoint.protocols.protocol import Protocol, SimulatedRequest, Unreadable
from simulator.endpoint.wire.steps import ABSENT, SimulatedAnswer, SimulatedCall, Usage, seal
from simulator.endpoint.wire.streams import cut_text

STORED_MAX = 1_000
"""Responses that are kept; the oldest goes."""
SEALED = "reasoning.encrypted_content"
"""The field that a client includes to get its reasoning sealed."""
REASONS: Mapping[str, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""The reasons why a response is incomplete."""


def list_items(asked: SimulatedRequest) -> list[Mapping[str, JSON]]:
    """Return the whole input: the items behind ``previous_response_id``, and the request's own.

    Raises Unreadable for an unknown id.
    """
    found: list[Mapping[str, JSON]] = []
    if previous := asked.body.get("previous_response_id"):
        if previous not in asked.stored:
            said = f"Previous response with id '{previous}' not found."
            param = "previous_response_id"
            raise Unreadable(said, Refusal(400, said, "previous_response_not_found", param=param))
        found += asked.stored[previous]
    given = asked.body.get("input") or []
    own = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(own, list) or not all(isinstance(one, Mapping) for one in own):
        raise Unreadable("Invalid type for 'input': expected a string or an array of objects.")
    return [*found, *own]


def read(asked: SimulatedRequest) -> dict[str, JSON]:
    """Items as messages; calls that stand side by side are of one message."""
    body = asked.body
    messages: list[dict[str, JSON]] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    for item in list_items(asked):
        _add(messages, item)
    tools = [{"type": "function", "function": one} for one in body.get("tools") or () if one.get("type") == "function"]
    made: dict[str, JSON] = {"model": body.get("model"), "messages": messages, "tools": tools}
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping):
        made["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif choice:
        made["tool_choice"] = choice
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        made["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": form.get("name"), "schema": form.get("schema")},
        }
    elif form.get("type") == "json_object":
        made["response_format"] = {"type": "json_object"}
    return made | {"max_tokens": body.get("max_output_tokens")}


def _add(messages: list[dict[str, JSON]], item: Mapping[str, JSON]) -> None:
    kind = item.get("type", "message")
    if kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        if messages and messages[-1]["role"] == "assistant":
            messages[-1].setdefault("tool_calls", []).append(call)
        else:
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    elif kind == "function_call_output":
        messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": _text(item.get("output"))})
    elif kind == "message":
        messages.append({"role": item.get("role"), "content": _text(item.get("content"))})


def _text(content: JSON) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(one.get("text", "")) for one in content or () if isinstance(one, Mapping))


def write(answer: SimulatedAnswer, asked: SimulatedRequest) -> dict[str, JSON]:
    """Return a ``response``. It is stored unless the request says otherwise."""
    body, number = asked.body, asked.number
    output = [*_list_reasoning(answer, asked), *_message(answer, number)]
    output += [_call(one, answer, number, at) for at, one in enumerate(answer.calls)]
    whole = answer.reason in ("stop", "tool_calls")
    reason = REASONS.get(answer.reason)
    response: dict[str, JSON] = {
        "id": f"resp_{number:06d}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed" if whole else "incomplete" if reason else answer.reason,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store") is not False,
        "temperature": 1.0,
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
    }
    if answer.usage is not None:
        response["usage"] = _usage(answer.usage)
    if response["store"]:
        while len(asked.stored) >= STORED_MAX:
            del asked.stored[next(iter(asked.stored))]
        asked.stored[response["id"]] = [*list_items(asked), *output]
    return response


def _list_reasoning(answer: SimulatedAnswer, asked: SimulatedRequest) -> list[dict[str, JSON]]:
    if not answer.reasoning:
        return []
    item: dict[str, JSON] = {"id": f"rs_{asked.number:06d}", "type": "reasoning"}
    item["summary"] = [{"type": "summary_text", "text": answer.reasoning}]
    if SEALED in (asked.body.get("include") or ()):
        item["encrypted_content"] = seal(answer.reasoning)
    return [item]


def _message(answer: SimulatedAnswer, number: int) -> list[dict[str, JSON]]:
    if not answer.text and answer.calls:
        return []
    part = {"type": "output_text", "text": answer.text or "", "annotations": [], "logprobs": []}
    message = {"id": f"msg_{number:06d}", "type": "message", "status": "completed", "role": "assistant"}
    return [{**message, "content": [part]}]


def _call(call: SimulatedCall, answer: SimulatedAnswer, number: int, at: int) -> dict[str, JSON]:
    made: dict[str, JSON] = {"id": f"fc_{number:06d}_{at}", "type": "function_call", "status": "completed"}
    if call.id != ABSENT:
        made["call_id"] = call.id
    return made | {"name": call.name, "arguments": call.args if answer.turned else call.arguments}


def _usage(usage: Usage) -> dict[str, JSON]:
    numbers = [one for one in (usage.input, usage.output) if isinstance(one, int | float)]
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached or 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": sum(numbers) + (usage.cached or 0) * usage.apart,
    }


def events(answer: SimulatedAnswer, asked: SimulatedRequest) -> list[Event]:
    """Return the events from ``response.created`` to ``response.completed``, numbered."""
    response = write(answer, asked)
    opening = {**response, "status": "in_progress", "output": [], "usage": None}
    found = [_event("response.created", response=opening), _event("response.in_progress", response=opening)]
    for index, item in enumerate(response["output"]):
        found += _item(index, item)
    last = "response.incomplete" if response["status"] == "incomplete" else "response.completed"
    found.append(_event(last, response=response))
    for number, event in enumerate(found):
        event.data["sequence_number"] = number
    return found


def _item(index: int, item: Mapping[str, JSON]) -> Iterator[Event]:
    at = {"output_index": index, "item_id": item["id"]}
    if item["type"] == "message":
        yield from _text_item(index, item)
        return
    if item["type"] == "reasoning":
        summary, text = {**at, "summary_index": 0}, item["summary"][0]["text"]
        yield _announce_item(index, {**item, "summary": []})
        yield _event("response.reasoning_summary_part.added", **summary, part={"type": "summary_text", "text": ""})
        for piece in cut_text(text):
            yield _event("response.reasoning_summary_text.delta", **summary, delta=piece)
        yield _event("response.reasoning_summary_text.done", **summary, text=text)
        yield _event("response.reasoning_summary_part.done", **summary, part=item["summary"][0])
    else:
        yield _announce_item(index, {**item, "arguments": "", "status": "in_progress"})
        arguments = item["arguments"]
        for piece in cut_text(arguments) if isinstance(arguments, str) else [arguments]:
            yield _event("response.function_call_arguments.delta", carries=True, **at, delta=piece)
        yield _event("response.function_call_arguments.done", **at, name=item["name"], arguments=arguments)
    yield _event("response.output_item.done", output_index=index, item=item)


def _text_item(index: int, item: Mapping[str, JSON]) -> Iterator[Event]:
    at = {"output_index": index, "item_id": item["id"], "content_index": 0}
    [part] = item["content"]
    yield _announce_item(index, {**item, "content": [], "status": "in_progress"})
    yield _event("response.content_part.added", **at, part={**part, "text": ""})
    for piece in cut_text(part["text"]):
        yield _event("response.output_text.delta", carries=True, **at, delta=piece, logprobs=[])
    yield _event("response.output_text.done", **at, text=part["text"], logprobs=[])
    yield _event("response.content_part.done", **at, part=part)
    yield _event("response.output_item.done", output_index=index, item=item)


def _announce_item(index: int, item: Mapping[str, JSON]) -> Event:
    return _event("response.output_item.added", output_index=index, item=item)


def _event(kind: str, *, carries: bool = False, **data: JSON) -> Event:
    return Event({"type": kind, **data}, kind, carries)


def error_event(refusal: Refusal) -> Event:
    """Return the event ``error``."""
    return _event("error", code=refusal.code or None, message=refusal.message, param=None, sequence_number=0)


RESPONSES = Protocol(
    "responses", read, write, events, chat.refuse, error_event, lambda event: event.name == "response.completed"
)

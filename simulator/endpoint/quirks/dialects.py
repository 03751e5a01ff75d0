"""Quirks that one protocol alone has: answers that are none, in its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Behaviour, Event, Form, Name
from simulator.endpoint.behaviour.misbehaviour import healthy

FAILED = {"code": "server_error", "message": "The server had an error while processing your request."}
REFUSAL = "I can't help with that."


def _fail_body(protocol: Name, body: JSON) -> JSON:
    return body | {"status": "failed", "error": FAILED, "output": []}


def _failed_events(protocol: Name, events: list[Event]) -> list[Event]:
    name = "response.failed"
    data = events[-1].data
    last = {**data, "type": name, "response": _fail_body(protocol, data["response"])}
    return [*events[: len(events) // 2], Event(last, name)]


def _replace_body(make: Callable[[JSON], JSON]) -> Form:
    """Return a form that makes the body, or the only event, anew."""
    return Form(
        lambda protocol, body: make(body), lambda protocol, events: [replace(events[-1], data=make(events[-1].data))]
    )


def _block_body(body: JSON) -> JSON:
    rest = {name: one for name, one in body.items() if name != "candidates"}
    return rest | {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}


def _break_body(body: JSON) -> JSON:
    said = "Malformed function call: print(default_api.look(q='x'))"
    return body | {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": said, "index": 0}]}


def _no_parts(body: JSON) -> JSON:
    return body | {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP", "index": 0}]}


def _refuse_body(protocol: Name, body: JSON) -> JSON:
    if protocol == "chat":
        for choice in body["choices"]:
            choice["message"] = {"role": "assistant", "content": None, "refusal": REFUSAL}
            choice["finish_reason"] = "stop"
    else:
        part = {"type": "refusal", "refusal": REFUSAL}
        item = {"id": "msg_refusal", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
        body["output"] = [item]
    return body


def _refusing_events(protocol: Name, events: list[Event]) -> list[Event]:
    if protocol == "chat":
        deltas = [{"role": "assistant", "content": None}, {"refusal": REFUSAL}]
        made = []
        for delta in deltas:
            head = {**events[0].data, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            made.append(Event(head))
        return [*made, *(one for one in events if not one.carries and not _opens_call(one))]
    data = events[-1].data
    return [*events[:2], replace(events[-1], data={**data, "response": _refuse_body(protocol, data["response"])})]


def _opens_call(event: Event) -> bool:
    if not isinstance(event.data, dict):
        return False
    deltas = [choice["delta"] for choice in event.data["choices"]]
    return any(delta.get("tool_calls") or "role" in delta for delta in deltas)


BEHAVIOURS: Mapping[str, Behaviour] = {
    "response_failed": Behaviour(healthy, form=Form(_fail_body, _failed_events), protocols=("responses",)),
    "refused_answer": Behaviour(healthy, form=Form(_refuse_body, _refusing_events), protocols=("chat", "responses")),
    "blocked_prompt": Behaviour(healthy, form=_replace_body(_block_body), protocols=("google",)),
    "malformed_call": Behaviour(healthy, form=_replace_body(_break_body), spoken=1, protocols=("google",)),
    "no_parts": Behaviour(healthy, form=_replace_body(_no_parts), protocols=("google",)),
}  # fmt: skip
"""The behaviour of each fault whose ``play`` is this module."""

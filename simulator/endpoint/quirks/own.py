"""Quirks that one protocol alone has: answers that are none, in its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from simulator.endpoint.misbehaviour import healthy
from simulator.endpoint.scenario import Event, Form, Name, Scenario

JSON = Any

FAILED = {"code": "server_error", "message": "The server had an error while processing your request."}
REFUSAL = "I can't help with that."


def _failed(protocol: Name, body: JSON) -> JSON:
    return body | {"status": "failed", "error": FAILED, "output": []}


def _failed_events(protocol: Name, events: list[Event]) -> list[Event]:
    name = "response.failed"
    data = events[-1].data
    last = {**data, "type": name, "response": _failed(protocol, data["response"])}
    return [*events[: len(events) // 2], Event(last, name)]


def _replaced(make: Callable[[JSON], JSON]) -> Form:
    """The body, or the only event, made anew."""
    return Form(
        lambda protocol, body: make(body), lambda protocol, events: [replace(events[-1], data=make(events[-1].data))]
    )


def _blocked(body: JSON) -> JSON:
    rest = {name: one for name, one in body.items() if name != "candidates"}
    return rest | {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}


def _malformed(body: JSON) -> JSON:
    said = "Malformed function call: print(default_api.look(q='x'))"
    return body | {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": said, "index": 0}]}


def _no_parts(body: JSON) -> JSON:
    return body | {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP", "index": 0}]}


def _refusing(protocol: Name, body: JSON) -> JSON:
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
    return [*events[:2], replace(events[-1], data={**data, "response": _refusing(protocol, data["response"])})]


def _opens_call(event: Event) -> bool:
    if not isinstance(event.data, dict):
        return False
    deltas = [choice["delta"] for choice in event.data["choices"]]
    return any(delta.get("tool_calls") or "role" in delta for delta in deltas)


SCENARIOS: Mapping[str, Scenario] = {
    "response_failed": Scenario("Gives a response whose status is failed.", healthy, form=Form(_failed, _failed_events), protocols=("responses",)),
    "refused_answer": Scenario("Gives a refusal where the text should be.", healthy, form=Form(_refusing, _refusing_events), protocols=("chat", "responses")),
    "blocked_prompt": Scenario("Blocks the prompt: no candidates, and why.", healthy, form=_replaced(_blocked), protocols=("google",)),
    "malformed_call": Scenario("Says once that the model's call is malformed, and gives no content.", healthy, form=_replaced(_malformed), spoken=1, protocols=("google",)),
    "no_parts": Scenario("Gives content without parts.", healthy, form=_replaced(_no_parts), protocols=("google",)),
}  # fmt: skip
"""By what ``--scenario`` takes."""

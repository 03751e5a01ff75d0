"""The service tier that an answer was made in, where each protocol names it, at once and as a stream."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.providers.exchange.settlement import settle
from fabric.providers.protocols.chat import Chat
from fabric.providers.protocols.contract import TIER_FIELDS, read_tier
from fabric.providers.protocols.converse import Converse
from fabric.providers.protocols.gemini import GenerateContent
from fabric.providers.protocols.messages_api import MessagesApi
from fabric.providers.protocols.responses import Responses
from tests.fabric.providers.asking import request
from tests.fabric.providers.exchange.test_settling import anthropic, chat, google, responses

TIER = "priority"
CHUNK = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}]}
BEGUN = {"type": "message_start", "message": {"role": "assistant", "model": "m", "usage": {"service_tier": TIER}}}
BODIES: list[tuple[Any, dict[str, Any]]] = [
    (Chat(), chat({"content": "hi"}, service_tier=TIER)),
    (Responses(), responses({"type": "message", "content": "hi"}, service_tier=TIER)),
    (MessagesApi(), anthropic({"type": "text", "text": "hi"}, usage={"service_tier": TIER})),
    (Converse(), {"output": {"message": {"content": [{"text": "hi"}]}}, "serviceTier": {"type": TIER}}),
    (GenerateContent(), google({"text": "hi"}) | {"usageMetadata": {"serviceTier": TIER}}),
    (GenerateContent(), google({"text": "hi"}) | {"usageMetadata": {"trafficType": TIER}}),
    (GenerateContent(), {"usageMetadata": {"trafficType": TIER}}),
]
STREAMS: list[tuple[Any, list[dict[str, Any]]]] = [
    (Chat(), [{**CHUNK, "service_tier": TIER}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]),
    (Responses(), [{"type": "response.completed", "response": BODIES[1][1]}]),
    (MessagesApi(), [BEGUN, {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}}]),
    (GenerateContent(), [google({"text": "hi"}) | {"usageMetadata": {"trafficType": TIER}}]),
]


def doubt(protocol: Any, body: dict[str, Any]) -> str:
    return settle(request(), protocol.read(body), protocol=protocol.key, mended=False).usage_problem


@pytest.mark.parametrize("row", range(len(BODIES)))
def test_an_answer_in_a_tier_without_a_known_price_says_so(row: int):
    assert doubt(*BODIES[row]).endswith(
        f"in its service tier {TIER!r}, whose price is not known: the model's own price is charged"
    )


@pytest.mark.parametrize("row", range(len(STREAMS)))
def test_a_stream_says_so_too(row: int):
    protocol, events = STREAMS[row]
    assembly = protocol.assembly()
    for event in events:
        assembly.take(event)
    assert f"service tier {TIER!r}" in doubt(protocol, assembly.body())


def test_every_place_is_some_protocols():
    def without(path: tuple[str, ...]) -> set[int]:
        return {n for n, (_, body) in enumerate(BODIES) if _at(body, path) == TIER}

    assert all(without(path) for path in TIER_FIELDS)
    assert all(read_tier(body) == TIER for _, body in BODIES)
    assert read_tier({"service_tier": None, "usage": 1, "serviceTier": "flex"}) == ""


def _at(body: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body

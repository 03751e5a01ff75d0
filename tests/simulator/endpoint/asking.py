"""A conversation with a scenario over real HTTP, through the official client of the protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import openai

from simulator.endpoint import Received, ScriptedEndpoint, Step
from simulator.endpoint.player import PLAYS, Playing

PATIENCE_S = 60.0
QUESTION = "What does the report say?"
TEXT = {"type": "string"}


def tool(name: str, description: str = "Looks.", **properties: Any) -> dict[str, Any]:
    """A function on offer, whose parameters are all required."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


LOOK = tool("look", q=TEXT)
FIND = tool("find", q=TEXT, limit={"type": "integer", "minimum": 5})
TO_B = tool("transfer_to_b", "Hands over to agent b.")


def playing(scenario: str, **over: Any) -> Callable[[Received], Step]:
    """A scenario from its first request on; ``over`` as in ``Playing``."""
    return Playing(PLAYS[scenario], **{"after": 0, **over}).reply


@dataclass
class Heard:
    """One answer as the client gave it."""

    finish: str | None = None
    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Tool and arguments, as they came."""
    ids: list[str] = field(default_factory=list)
    tokens: int | None = None
    chunks: int = 0
    raw: Any = None
    """What came where no completion did."""


def client(url: str, timeout_s: float = PATIENCE_S) -> openai.AsyncOpenAI:
    """The official client, which retries nothing by itself."""
    return openai.AsyncOpenAI(base_url=url, api_key="sk-test", max_retries=0, timeout=timeout_s)


async def hear(made: openai.AsyncOpenAI, *, stream: bool, heard: Heard | None = None, **request: Any) -> Heard:
    """Asks once. Whatever the client raises is raised; ``heard`` has what came before it."""
    found = heard or Heard()
    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], **request}
    if not stream:
        _whole(found, await made.chat.completions.create(**asked))
        return found
    asked |= {"stream": True, "stream_options": {"include_usage": True}}
    chunks: Any = await made.chat.completions.create(**asked)
    async for chunk in chunks:
        found.chunks += 1
        if chunk.usage is not None:
            found.tokens = chunk.usage.total_tokens
        for choice in chunk.choices:
            _delta(found, choice)
    return found


def _whole(found: Heard, said: Any) -> None:
    if not getattr(said, "choices", None):
        found.raw = said
        return
    [choice] = said.choices
    found.finish, found.text, found.tokens = choice.finish_reason, choice.message.content, said.usage.total_tokens
    for one in choice.message.tool_calls or ():
        found.calls.append((one.function.name, one.function.arguments))
        found.ids.append(one.id)


def _delta(found: Heard, choice: Any) -> None:
    found.finish = choice.finish_reason or found.finish
    found.text += choice.delta.content or ""
    for one in choice.delta.tool_calls or ():
        if one.id:
            assert one.index == len(found.calls), "calls come in their order"
            found.calls.append((one.function.name, ""))
            found.ids.append(one.id)
        name, text = found.calls[one.index]
        found.calls[one.index] = (name, text + (one.function.arguments or ""))


async def converse(
    scenario: str,
    tools: Sequence[dict[str, Any]],
    turns: int,
    *,
    stream: bool,
    results: Callable[[int], str] = lambda turn: "the same",
) -> list[Heard]:
    """So many turns, fewer where the model comes to an end; each call is answered by what ``results`` says in that turn."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    said = []
    with ScriptedEndpoint(playing(scenario)) as endpoint:
        async with client(endpoint.url) as made:
            for turn in range(turns):
                heard = await hear(made, stream=stream, messages=messages, tools=list(tools))
                said.append(heard)
                if not heard.calls:
                    break
                messages += _answered(heard, results(turn))
    return said


def _answered(heard: Heard, result: str) -> list[dict[str, Any]]:
    calls = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": args}}
        for one, (name, args) in zip(heard.ids, heard.calls, strict=True)
    ]
    told = [{"role": "tool", "tool_call_id": one, "content": result} for one in heard.ids]
    return [{"role": "assistant", "content": heard.text, "tool_calls": calls}, *told]


def arguments_of(heard: Heard) -> dict[str, Any]:
    """Of the first call."""
    found: dict[str, Any] = json.loads(heard.calls[0][1])
    return found

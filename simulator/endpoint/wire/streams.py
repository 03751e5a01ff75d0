"""An OpenAI-compatible endpoint sends an answer in chunks where the request says ``"stream": true``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fabric.core.values.units import JSON
from simulator.endpoint.wire.steps import JSON_TYPE, Step

STREAM_TYPE = "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
PIECE_CHARS = 12
"""Characters of a text or of arguments in one chunk."""
PIECES_MAX = 64
"""Chunks of one text; a longer one has longer chunks."""


def wants_stream(path: str, body: JSON) -> bool:
    """Return True if a request wants a stream."""
    return isinstance(body, Mapping) and body.get("stream") is True and path.endswith("/chat/completions")


def stream_step(step: Step, body: Mapping[str, JSON]) -> Step:
    """Return the step as a stream.

    A refusal, and a body that is no JSON, stay as they are. JSON that is no completion is one event.
    """
    if step.status != 200 or step.content_type != JSON_TYPE or step.mode in ("hang", "hang_up"):
        return step
    if step.stream == "as_it_is":
        return step
    completion = _completion(step.body)
    if step.mode == "trickle":
        return replace(step, content_type=STREAM_TYPE, pieces=(_event(_chunk({}, {"content": " "})),))
    if completion is None:
        pieces = (b"data: " + step.body.replace(b"\n", b" ") + b"\n\n",) if step.body else ()
        return replace(step, content_type=STREAM_TYPE, pieces=pieces)
    options = body.get("stream_options")
    with_usage = isinstance(options, Mapping) and options.get("include_usage") is True
    chunks = list(list_chunks(completion, with_usage=with_usage))
    if step.stream == "doubled":
        at = _find_doubled(chunks)
        chunks.insert(at, chunks[at])
    events = [_event(chunk) for chunk in chunks]
    if step.stream == "cut":
        return replace(step, content_type=STREAM_TYPE, mode="send", pieces=tuple(events[: len(events) // 2]))
    return replace(step, content_type=STREAM_TYPE, pieces=(*events, DONE))


def _completion(body: bytes) -> dict[str, JSON] | None:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("choices"), list) else None


def list_chunks(completion: Mapping[str, JSON], *, with_usage: bool) -> Iterator[dict[str, JSON]]:
    """Yield the role, the text, the calls, the finish reason, and the usage where it was asked for."""
    more = {"usage": None} if with_usage else {}
    for choice in completion["choices"]:
        index, message = choice["index"], choice["message"]
        for delta in _deltas(message):
            yield _chunk(completion, delta, index=index) | more
        yield _chunk(completion, {}, index=index, finish=choice["finish_reason"]) | more
    if with_usage:
        yield {**_chunk(completion, {}), "choices": [], "usage": completion.get("usage")}


def _deltas(message: Mapping[str, JSON]) -> Iterator[dict[str, JSON]]:
    content = message["content"]
    yield {"role": "assistant", "content": None if content is None else ""}
    for name in sorted(message.keys() - {"role", "content", "tool_calls"}):
        for piece in cut_text(message[name]) if isinstance(message[name], str) else [message[name]]:
            yield {name: piece}
    for piece in cut_text(content or "") if not isinstance(content, list) else [content]:
        yield {"content": piece}
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        if not isinstance(function["arguments"], str):
            yield {"tool_calls": [{**call, "index": number}]}
            continue
        opening = {**call, "index": number, "function": {"name": function["name"], "arguments": ""}}
        yield {"tool_calls": [opening]}
        for text in cut_text(function["arguments"]):
            yield {"tool_calls": [{"index": number, "function": {"arguments": text}}]}


def _chunk(
    completion: Mapping[str, JSON], delta: JSON, *, index: int = 0, finish: str | None = None
) -> dict[str, JSON]:
    return {
        "id": completion.get("id", "chatcmpl-scripted"),
        "object": "chat.completion.chunk",
        "created": completion.get("created", 0),
        "model": completion.get("model", "scripted"),
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}],
    }


def cut_text(text: str) -> Iterator[str]:
    """Return a text in pieces."""
    size = max(PIECE_CHARS, -(-len(text) // PIECES_MAX))
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _find_doubled(chunks: Sequence[Mapping[str, JSON]]) -> int:
    """Return the index of the chunk that comes twice: the first with text or arguments."""
    for at, chunk in enumerate(chunks):
        for choice in chunk["choices"]:
            calls = choice["delta"].get("tool_calls") or ()
            if choice["delta"].get("content") or any("id" not in call for call in calls):
                return at
    return 0


def _event(chunk: Mapping[str, JSON]) -> bytes:
    """Return one event. Escaped throughout, so that what no encoding can carry goes out as the protocol has it."""
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"

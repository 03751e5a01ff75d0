"""What the scripted endpoint does with one request: a value a step, and a constructor for each kind of answer and misbehaviour."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from simulator.endpoint.answers import Answer

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer. ``mode``: send it whole; trickle blanks for ever; hang without a byte; drop the connection inside the body, go silent there, or break off behind the last event."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON_TYPE
    mode: Literal["send", "trickle", "hang", "drop", "hang_up", "stall", "broken"] = "send"
    stream: Literal["whole", "cut", "doubled", "broken", "as_it_is"] = "whole"
    """The effect on a stream: its chunks, half of them and then a clean end, one of them twice, a broken connection behind the last of them, or nothing."""
    pieces: tuple[bytes, ...] | None = None
    """The events of a stream, sent one after another instead of the body; see ``streaming``."""
    every_s: float = 0.01
    """Seconds between the bytes of a trickle."""
    delay_s: float = 0.0
    """Seconds before the first byte."""
    answer: Answer | None = None
    """The answer, in place of ``body``, for any protocol; ``rendering`` gives it its form."""


def call(tool: str, args: Any, call_id: str = "call-1") -> dict[str, Any]:
    """A proposed tool call as the protocol has it. ``args`` as text goes out as it is, right or wrong."""
    text = args if isinstance(args, str) else json.dumps(args)
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": text}}


def answer(
    text: str | None = "",
    calls: Sequence[Mapping[str, Any]] = (),
    *,
    usage: tuple[int, int] | None = (10, 5),
    finish: str = "",
    model: str = "scripted",
    delay_s: float = 0.0,
) -> Step:
    """A chat completion. ``usage`` is tokens in and out; None leaves it out, as some servers do."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [dict(item) for item in calls]
    completion: dict[str, Any] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish or ("tool_calls" if calls else "stop")}],
    }
    if usage is not None:
        completion["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Step(body=json.dumps(completion).encode(), delay_s=delay_s)


def refusal(
    status: int, message: str = "", *, code: str = "", kind: str = "", headers: Mapping[str, str] | None = None
) -> Step:
    """An error status with an OpenAI-style error body. ``headers`` may carry Retry-After."""
    error = {"message": message, "type": kind or None, "code": code or None}
    return Step(status=status, body=json.dumps({"error": error}).encode(), headers=headers or {})


def html(status: int = 200) -> Step:
    """A web page where JSON is wanted: a proxy's login, or the wrong URL."""
    page = b"<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>"
    return Step(status=status, body=page, content_type="text/html; charset=utf-8")


def empty() -> Step:
    """A 200 with nothing in it."""
    return Step()


def bad_json() -> Step:
    """A 200 whose JSON stops in the middle, the connection closing as if it were whole."""
    return Step(body=b'{"id": "chatcmpl-scripted", "choices": [{"message": {"content": "it beg')


def trickle(every_s: float = 0.01) -> Step:
    """A blank every so often, for ever: each one keeps an ordinary read timeout from firing."""
    return Step(mode="trickle", every_s=every_s)


def hang() -> Step:
    """Takes the request and never says a word."""
    return Step(mode="hang")


def drop() -> Step:
    """Announces a whole answer, sends half of it and closes."""
    return Step(mode="drop", body=answer("this sentence is never finished").body)


def stall() -> Step:
    """Announces a whole answer, sends half of it and says no more; the connection stays open."""
    return Step(mode="stall", body=answer("this sentence is never finished").body)


def cut_stream() -> Step:
    """A stream that ends in the middle as if it were over: no finish reason, no ``[DONE]``. Without streaming the connection is dropped."""
    return Step(mode="drop", stream="cut", body=answer("this sentence is never finished").body)


def error_body() -> Step:
    """A 200 that holds an error where the answer should be."""
    error = {"message": "the model is overloaded", "type": "server_error", "code": 503}
    return Step(body=json.dumps({"error": error}).encode())


def hang_up() -> Step:
    """Takes the request and closes without an answer."""
    return Step(mode="hang_up")


def unfit_text() -> Step:
    """An answer with a NUL, a lone surrogate and, as it should be, a whole pair."""
    completion = json.loads(answer("MARK").body)
    raw = json.dumps(completion).replace("MARK", r"a\u0000b\ud800c\ud83d\ude00")
    return Step(body=raw.encode())

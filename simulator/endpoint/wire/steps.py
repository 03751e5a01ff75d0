"""Makes steps: a step is the answer to one request, with a constructor for each kind of answer and
misbehaviour.

A model's answer, before a protocol gives it a form, has text, reasoning, calls, finish reason and usage.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fabric.core.values.units import JSON

ABSENT = "\0absent"
"""An id that stands for a field that is left out."""
Seals = Literal["", "reasoning", "details", "call", "thinking", "redacted", "encrypted"]
"""The parts that must come back with the history, by provider: DeepSeek, OpenRouter, Gemini, Anthropic
(two), OpenAI.
"""


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """One call. ``arguments`` is the text as the model wrote it, right or wrong; ``id`` may be of any type."""

    name: str
    arguments: str
    id: JSON = ABSENT

    @property
    def args(self) -> JSON:
        """The arguments as an object; the text itself where it is none."""
        try:
            return json.loads(self.arguments)
        except ValueError:
            return self.arguments


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. ``cached`` are inside of ``input`` unless ``apart``; values may be of any type."""

    input: JSON = 10
    output: JSON = 5
    cached: int | None = None
    apart: bool = False
    reasoning: int | None = None
    audio: int | None = None


@dataclass(frozen=True, slots=True)
class SimulatedAnswer:
    """One answer.

    ``finish`` is one of chat completions' words, or an unknown word. An empty ``finish`` gives the word that fits.
    """

    text: str | None = ""
    calls: tuple[SimulatedCall, ...] = ()
    reasoning: str = ""
    seals: Seals = ""
    finish: str = ""
    usage: Usage | None = field(default_factory=Usage)
    model: str = "scripted"
    turned: bool = False
    """Arguments have the form of the other protocols: an object where text is wanted, text where an object is."""

    @property
    def reason(self) -> str:
        """Returns why it ends."""
        return self.finish or ("tool_calls" if self.calls else "stop")


def seal(text: str) -> str:
    """Return an opaque value that fits this text alone, as signatures do. Base64, as Anthropic and Google have them."""
    return base64.b64encode(hashlib.sha256(f"seal {text}".encode("utf-8", "surrogatepass")).digest()).decode("ascii")


def find_answer(body: bytes) -> SimulatedAnswer | None:
    """Return a chat completion's body as an answer. None: the body is no completion."""
    try:
        found = json.loads(body)
        [choice, *_] = found["choices"]
        message = choice["message"]
        calls = tuple(_call(one) for one in message.get("tool_calls") or ())
        text, finish = message.get("content"), choice.get("finish_reason") or ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return SimulatedAnswer(text, calls, finish=finish, usage=_usage(found.get("usage")), model=str(found.get("model")))


def _call(call: Mapping[str, JSON]) -> SimulatedCall:
    return SimulatedCall(call["function"]["name"], call["function"]["arguments"], call.get("id", ABSENT))


def _usage(usage: Mapping[str, JSON] | None) -> Usage | None:
    return Usage(usage["prompt_tokens"], usage["completion_tokens"]) if usage else None


JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer.

    ``mode`` sends it whole, trickles blanks, hangs, or stops inside the body (drop, stall, or behind the last event).
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON_TYPE
    mode: Literal["send", "trickle", "hang", "drop", "hang_up", "stall", "broken"] = "send"
    stream: Literal["whole", "cut", "doubled", "broken", "as_it_is"] = "whole"
    """The change of a stream.

    Its chunks come as they are, end cleanly in the middle, come with one doubled, or end in a broken connection. Or
    the answer is no stream.
    """
    pieces: tuple[bytes, ...] | None = None
    """The events of a stream, sent one after another instead of the body; see ``wire/streams.py``."""
    every_s: float = 0.01
    """Seconds between the bytes of a trickle."""
    delay_s: float = 0.0
    """Seconds before the first byte."""
    answer: SimulatedAnswer | None = None
    """The answer, in place of ``body``, for any protocol; ``player.render_step`` gives it its form."""


def call(tool: str, args: Any, call_id: str = "call-1") -> dict[str, Any]:
    """Return a proposed tool call as the protocol has it. ``args`` as text goes out as it is, right or wrong."""
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
    """Return a chat completion. ``usage`` is tokens in and out. None leaves it out, as some servers do."""
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
    """Return an error status with an OpenAI-style error body. ``headers`` may carry Retry-After."""
    error = {"message": message, "type": kind or None, "code": code or None}
    return Step(status=status, body=json.dumps({"error": error}).encode(), headers=headers or {})


def html(status: int = 200) -> Step:
    """Return a web page where JSON is wanted: a proxy's login, or the wrong URL."""
    page = b"<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>"
    return Step(status=status, body=page, content_type="text/html; charset=utf-8")


def empty() -> Step:
    """Return a 200 with nothing in it."""
    return Step()


def bad_json() -> Step:
    """Return a 200 whose JSON stops in the middle, the connection closing as if it were whole."""
    return Step(body=b'{"id": "chatcmpl-scripted", "choices": [{"message": {"content": "it beg')


def trickle(every_s: float = 0.01) -> Step:
    """Return a blank every so often, for ever: each one keeps an ordinary read timeout from firing."""
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
    """Return a stream that ends in the middle as if it were over: no finish reason, no ``[DONE]``.

    An answer that is not streamed breaks off.
    """
    return Step(mode="drop", stream="cut", body=answer("this sentence is never finished").body)


def error_body() -> Step:
    """Return a 200 that holds an error where the answer should be."""
    error = {"message": "the model is overloaded", "type": "server_error", "code": 503}
    return Step(body=json.dumps({"error": error}).encode())


def hang_up() -> Step:
    """Takes the request and closes without an answer."""
    return Step(mode="hang_up")


def unfit_text() -> Step:
    """Return an answer with a NUL, a lone surrogate and, as it should be, a whole pair."""
    completion = json.loads(answer("MARK").body)
    raw = json.dumps(completion).replace("MARK", r"a\u0000b\ud800c\ud83d\ude00")
    return Step(body=raw.encode())

"""The answer of a model before a protocol gives it its form: text, reasoning, calls, the reason of its end, its bill."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

JSON = Any

ABSENT = "\0absent"
"""As an id: the field is left out."""
Seals = Literal["", "reasoning", "details", "call", "thinking", "redacted", "encrypted"]
"""Parts that must come back with the history, by the way of a provider: DeepSeek, OpenRouter, Gemini, Anthropic (two), OpenAI."""


@dataclass(frozen=True, slots=True)
class Call:
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
class Answer:
    """One answer. ``finish`` is one of chat completions' words, or an unknown word; empty: the word that fits."""

    text: str | None = ""
    calls: tuple[Call, ...] = ()
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
    """An opaque value that fits this text alone, as signatures do. Base64, as Anthropic and Google have them."""
    return base64.b64encode(hashlib.sha256(f"seal {text}".encode("utf-8", "surrogatepass")).digest()).decode("ascii")


def answer_of(body: bytes) -> Answer | None:
    """A chat completion's body as an answer; None where it is none."""
    try:
        found = json.loads(body)
        [choice, *_] = found["choices"]
        message = choice["message"]
        calls = tuple(_call(one) for one in message.get("tool_calls") or ())
        text, finish = message.get("content"), choice.get("finish_reason") or ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Answer(text, calls, finish=finish, usage=_usage(found.get("usage")), model=str(found.get("model")))


def _call(call: Mapping[str, JSON]) -> Call:
    return Call(call["function"]["name"], call["function"]["arguments"], call.get("id", ABSENT))


def _usage(usage: Mapping[str, JSON] | None) -> Usage | None:
    return Usage(usage["prompt_tokens"], usage["completion_tokens"]) if usage else None

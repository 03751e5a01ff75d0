"""Google's ``generateContent``, as the Gemini API and Vertex AI speak it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fabric.adapters.providers.fitting import Fitted, SentCall, Turn
from fabric.adapters.providers.model_options import extended
from fabric.adapters.providers.protocols.chat import offered
from fabric.adapters.providers.protocols.contract import (
    Answer,
    Assembly,
    Protocol,
    SaidCall,
    are_objects,
    dicts,
    finish_of,
    first_of,
    later_finish,
    malformed_event,
    said_call,
    text_of,
    tier_of,
    word_of,
)
from fabric.core.metering import Reported, whole
from fabric.runtime.call_ports import ModelRequest

JSON = Any
PASSED_ON: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "topP",
    "seed": "seed",
    "stop_sequences": "stopSequences",
}
"""Options that go out, and the field that each goes out as."""
_PART_NAMES = {"function_call": "functionCall", "thought_signature": "thoughtSignature"}
"""Fields of a part as protocol buffers write them."""


class GenerateContent(Protocol):
    """``generateContent`` and ``streamGenerateContent``."""

    key = "gemini"
    noun = "answer of generateContent"
    enveloped = True
    listed = True
    wanted = "candidates"
    url_hint = "; the URL is usually https://generativelanguage.googleapis.com"

    def path(self, model: str, *, stream: bool) -> str:
        """The model is part of the path."""
        name = model if "/" in model else f"models/{model}"
        return f"/v1beta/{name}:{verb(stream=stream)}"

    def body(self, request: ModelRequest, fitted: Fitted, *, model: str, schema: bool, stream: bool) -> dict[str, JSON]:
        """The request's body."""
        options = request.model.options
        config: dict[str, JSON] = {"maxOutputTokens": request.max_output_tokens}
        config |= {field: options[name] for name, field in PASSED_ON.items() if name in options}
        if schema:
            config |= {"responseMimeType": "application/json", "responseJsonSchema": dict(request.output_schema or {})}
        body: dict[str, JSON] = {
            "contents": [one for turn in fitted.turns for one in _contents(turn)],
            "generationConfig": config,
        }
        if fitted.system:
            body["systemInstruction"] = {"parts": [{"text": fitted.system}]}
        if request.tools and request.model.tool_calls:
            body["tools"] = [
                {"functionDeclarations": [offered(tool, "parametersJsonSchema") for tool in request.tools]}
            ]
        return extended(body, options)

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Candidates, or why there are none: the prompt was blocked."""
        candidates = value.get("candidates")
        if candidates and are_objects(candidates):
            return True
        return _blocked(value)

    def read(self, value: dict[str, JSON]) -> Answer:
        """The first candidate."""
        model, usage = text_of(value.get("modelVersion")), reported(_one(value, "usageMetadata"))
        tier = tier_of(value)
        first = first_of(dicts(value.get("candidates")))
        if not first:
            return Answer(finish="content_filter", model=model, usage=usage, tier=tier)
        parts = _parts(first)
        texts = [text_of(part.get("text")) for part in parts if not part.get("thought")]
        calls = [_call(part) for part in parts if isinstance(part.get("functionCall"), dict)]
        own = _own(parts)
        return Answer("".join(texts), calls, finish_of(_one(first, "finishReason")), model, usage, own, tier)

    def assembly(self) -> Assembly:
        """Begins to put a stream together."""
        return _Assembly()


def verb(*, stream: bool) -> str:
    """Returns the operation that is asked of the model, as the path has it."""
    return "streamGenerateContent?alt=sse" if stream else "generateContent"


def reported(usage: JSON) -> Reported:
    """Tokens; those of thoughts and of tools' prompts are counted apart."""
    if not isinstance(usage, dict):
        return Reported()
    return Reported(
        input=whole(_one(usage, "promptTokenCount")),
        output=whole(_one(usage, "candidatesTokenCount")),
        total=whole(_one(usage, "totalTokenCount")),
        cached=whole(_one(usage, "cachedContentTokenCount")),
        reasoning=whole(_one(usage, "thoughtsTokenCount")),
        reasoning_inside=False,
        audio_in=_audio(_one(usage, "promptTokensDetails")),
        audio_out=_audio(_one(usage, "candidatesTokensDetails")),
    )


def _audio(details: JSON) -> int | None:
    return next((whole(one.get("tokenCount")) for one in dicts(details) if one.get("modality") == "AUDIO"), None)


def _blocked(value: dict[str, JSON]) -> bool:
    feedback = value.get("promptFeedback")
    return isinstance(feedback, dict) and bool(feedback.get("blockReason"))


# -- going out ---------------------------------------------------------------------------------------------------------


def _contents(turn: Turn) -> list[dict[str, JSON]]:
    """A turn. A user's words follow the results in a content of their own: LiteLLM puts words before results that they share one with."""
    if turn.user:
        results: list[JSON] = [
            {"functionResponse": {"name": one.tool, "response": {"output": one.text}, "id": one.id}}
            for one in turn.results
        ]
        words: list[JSON] = [{"text": text} for text in turn.texts]
        return [{"role": "user", "parts": parts} for parts in (results, words) if parts]
    opaque = [part["opaque"] for part in turn.own or ()]
    texts = (
        []
        if any("text" in part and not part.get("thought") for part in opaque)
        else [{"text": text} for text in turn.texts]
    )
    return [{"role": "model", "parts": [*opaque, *texts, *(_sent(call) for call in turn.calls)]}]


def _sent(call: SentCall) -> dict[str, JSON]:
    return {"functionCall": {"name": call.tool, "args": call.args, "id": call.id}} | (call.own or {})


# -- coming back -------------------------------------------------------------------------------------------------------


_snake = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _one(value: Mapping[str, JSON], name: str) -> JSON:
    """A field, whether its name is written as JSON has it or as protocol buffers do."""
    found = value.get(name)
    return value.get(_snake.sub("_", name).lower()) if found is None else found


def _parts(candidate: dict[str, JSON]) -> list[dict[str, JSON]]:
    content = candidate.get("content")
    parts = dicts(content.get("parts")) if isinstance(content, dict) else []
    return [{_PART_NAMES.get(name, name): one for name, one in part.items()} for part in parts]


def _call(part: dict[str, JSON]) -> SaidCall:
    call = part["functionCall"]
    own = {name: one for name, one in part.items() if name != "functionCall" and one} or None
    said = said_call(call, call.get("id"), own)
    if call.get("partialArgs") or call.get("willContinue"):
        said.arguments = [
            call.get("partialArgs")
        ]  # Arguments in pieces, which nobody here asks for: never an empty object.
    return said


def _own(parts: list[dict[str, JSON]]) -> JSON:
    """Parts that go back as they came: signed texts, code, thoughts with a signature. None: there are none.

    A signature belongs to its part, so where one text is signed all of them go back as they were. (Gemini API, "Thought signatures")
    """
    spoken = [
        part for part in parts if "functionCall" not in part and (not part.get("thought") or "thoughtSignature" in part)
    ]
    if all(set(part) <= {"text", "thought"} for part in spoken):
        return None
    return [{"opaque": part} for part in spoken]


class _Assembly(Assembly):
    """Chunks, each a body of its own with the parts that are new in it."""

    whole_at_once = True

    def __init__(self) -> None:
        self._top: dict[str, JSON] = {}
        self._parts: list[JSON] = []
        self._finish: JSON = None

    def take(self, event: dict[str, JSON]) -> None:
        """A chunk. Only the last count of tokens is of the whole answer; earlier ones count the part that had come."""
        candidates = event.get("candidates")
        if candidates is not None and not are_objects(candidates):
            raise malformed_event()
        self._top |= {name: event[name] for name in ("modelVersion", "promptFeedback") if event.get(name)}
        first = first_of(dicts(candidates))
        for part in _parts(first):
            # A piece of text is added to the one before it.
            said = bool(part.get("text")) or bool(set(part) - {"text", "thought"})
            self.output = self.output or said
            if said:
                self._add(part)
        self._finish = later_finish(self._finish, _one(first, "finishReason"))
        self.over = bool(word_of(self._finish)) or _blocked(self._top)
        usage = _one(event, "usageMetadata")
        if self.over and usage:
            self._top["usageMetadata"] = usage

    def _add(self, part: dict[str, JSON]) -> None:
        last = self._parts[-1] if self._parts else {}
        kinds = {"text", "thought"}
        if set(part) <= kinds and last and set(last) <= kinds and part.get("thought") == last.get("thought"):
            self._parts[-1] = {**last, "text": text_of(last.get("text")) + text_of(part.get("text"))}
        else:
            self._parts.append(part)

    def begun(self) -> int:
        """Calls that have come, each whole."""
        return sum("functionCall" in part for part in self._parts)

    def body(self) -> dict[str, JSON]:
        """A body with one candidate."""
        if _blocked(self._top) and not self._parts:
            return self._top
        candidate = {"content": {"role": "model", "parts": self._parts}, "finishReason": self._finish}
        return {**self._top, "candidates": [candidate]}

"""Google's ``generateContent``, as the Gemini API and Vertex AI speak it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fabric.core.values.metering import ReportedTokens, whole
from fabric.core.values.units import JSON
from fabric.providers.protocols.chat import tool_offer
from fabric.providers.protocols.contract import (
    Assembly,
    ModelAnswer,
    Protocol,
    SaidCall,
    are_objects,
    build_finish,
    dicts,
    find_first,
    find_word,
    later_finish,
    malformed_event,
    read_call,
    read_text,
    read_tier,
)
from fabric.providers.protocols.fitting import ConversationTurn, FittedConversation, SentCall
from fabric.providers.protocols.options import extend_body
from fabric.runtime.ports.calls import ModelRequest

PASSED_ON: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "topP",
    "seed": "seed",
    "stop_sequences": "stopSequences",
}
"""Options that go out, with their fields."""
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
        """Return the path with the model."""
        name = model if "/" in model else f"models/{model}"
        return f"/v1beta/{name}:{verb(stream=stream)}"

    def body(
        self, request: ModelRequest, fitted: FittedConversation, *, model: str, schema: bool, stream: bool
    ) -> dict[str, JSON]:
        """Return the request's body."""
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
                {"functionDeclarations": [tool_offer(tool, "parametersJsonSchema") for tool in request.tools]}
            ]
        return extend_body(body, options)

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Return True for candidates, or for the reason of a blocked prompt."""
        candidates = value.get("candidates")
        if candidates and are_objects(candidates):
            return True
        return _is_blocked(value)

    def read(self, value: dict[str, JSON]) -> ModelAnswer:
        """Read the first candidate."""
        model, usage = read_text(value.get("modelVersion")), read_usage(_one(value, "usageMetadata"))
        tier = read_tier(value)
        first = find_first(dicts(value.get("candidates")))
        if not first:
            return ModelAnswer(finish="content_filter", model=model, usage=usage, tier=tier)
        parts = _parts(first)
        texts = [read_text(part.get("text")) for part in parts if not part.get("thought")]
        calls = [_call(part) for part in parts if isinstance(part.get("functionCall"), dict)]
        own = _own(parts)
        return ModelAnswer("".join(texts), calls, build_finish(_one(first, "finishReason")), model, usage, own, tier)

    def assembly(self) -> Assembly:
        """Return a fresh assembly of a stream."""
        return _Assembly()


def verb(*, stream: bool) -> str:
    """Return the operation of the model, as the path has it."""
    return "streamGenerateContent?alt=sse" if stream else "generateContent"


def read_usage(usage: JSON) -> ReportedTokens:
    """Return the tokens; those of thoughts and of tools' prompts are counted apart."""
    if not isinstance(usage, dict):
        return ReportedTokens()
    return ReportedTokens(
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


def _is_blocked(value: dict[str, JSON]) -> bool:
    feedback = value.get("promptFeedback")
    return isinstance(feedback, dict) and bool(feedback.get("blockReason"))


# -- going out ---------------------------------------------------------------------------------------------------------


def _contents(turn: ConversationTurn) -> list[dict[str, JSON]]:
    """Return a turn's contents. A user's words have a content of their own after the results: LiteLLM puts words
    before results in a shared one.
    """
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
    return [{"role": "model", "parts": [*opaque, *texts, *(_sent_call(call) for call in turn.calls)]}]


def _sent_call(call: SentCall) -> dict[str, JSON]:
    return {"functionCall": {"name": call.tool, "args": call.args, "id": call.id}} | (call.own or {})


# -- coming back -------------------------------------------------------------------------------------------------------


_snake = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _one(value: Mapping[str, JSON], name: str) -> JSON:
    """Return a field under its JSON name or its name in protocol buffers."""
    found = value.get(name)
    return value.get(_snake.sub("_", name).lower()) if found is None else found


def _parts(candidate: dict[str, JSON]) -> list[dict[str, JSON]]:
    content = candidate.get("content")
    parts = dicts(content.get("parts")) if isinstance(content, dict) else []
    return [{_PART_NAMES.get(name, name): one for name, one in part.items()} for part in parts]


def _call(part: dict[str, JSON]) -> SaidCall:
    call = part["functionCall"]
    own = {name: one for name, one in part.items() if name != "functionCall" and one} or None
    said = read_call(call, call.get("id"), own)
    if call.get("partialArgs") or call.get("willContinue"):
        said.arguments = [
            call.get("partialArgs")
        ]  # Arguments in pieces, which this program never requests: never an empty object.
    return said


def _own(parts: list[dict[str, JSON]]) -> JSON:
    """Return the parts that go back as they came: signed texts, code, thoughts with a signature. None: there are
    none.

    A signature belongs to its part, so where one text is signed all of them go back unchanged. (Gemini API, "Thought
    signatures")
    """
    spoken = [
        part for part in parts if "functionCall" not in part and (not part.get("thought") or "thoughtSignature" in part)
    ]
    if all(set(part) <= {"text", "thought"} for part in spoken):
        return None
    return [{"opaque": part} for part in spoken]


class _Assembly(Assembly):
    """Collects chunks, each a body of its own with new parts."""

    whole_at_once = True

    def __init__(self) -> None:
        self._top: dict[str, JSON] = {}
        self._parts: list[JSON] = []
        self._finish: JSON = None

    def take(self, event: dict[str, JSON]) -> None:
        """Read a chunk. Only the last count of tokens is of the whole answer; earlier ones count the part that had
        come.
        """
        candidates = event.get("candidates")
        if candidates is not None and not are_objects(candidates):
            raise malformed_event()
        self._top |= {name: event[name] for name in ("modelVersion", "promptFeedback") if event.get(name)}
        first = find_first(dicts(candidates))
        for part in _parts(first):
            # A piece of text is added to the one before it.
            said = bool(part.get("text")) or bool(set(part) - {"text", "thought"})
            self.output = self.output or said
            if said:
                self._add(part)
        self._finish = later_finish(self._finish, _one(first, "finishReason"))
        self.over = bool(find_word(self._finish)) or _is_blocked(self._top)
        usage = _one(event, "usageMetadata")
        if self.over and usage:
            self._top["usageMetadata"] = usage

    def _add(self, part: dict[str, JSON]) -> None:
        last = self._parts[-1] if self._parts else {}
        kinds = {"text", "thought"}
        if set(part) <= kinds and last and set(last) <= kinds and part.get("thought") == last.get("thought"):
            self._parts[-1] = {**last, "text": read_text(last.get("text")) + read_text(part.get("text"))}
        else:
            self._parts.append(part)

    def count_begun(self) -> int:
        """Return the number of received calls, each whole."""
        return sum("functionCall" in part for part in self._parts)

    def body(self) -> dict[str, JSON]:
        """Return a body with one candidate."""
        if _is_blocked(self._top) and not self._parts:
            return self._top
        candidate = {"content": {"role": "model", "parts": self._parts}, "finishReason": self._finish}
        return {**self._top, "candidates": [candidate]}

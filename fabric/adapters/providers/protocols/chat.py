"""OpenAI's chat completions, as OpenAI and the many servers that follow it speak them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fabric.adapters.providers.errors import Malformed
from fabric.adapters.providers.fitting import Fitted, Turn, compact
from fabric.adapters.providers.protocols.contract import (
    Answer,
    Assembly,
    Protocol,
    SaidCall,
    dicts,
    finish_of,
    id_of,
    malformed_event,
    own_fields,
    text_of,
    tier_of,
)
from fabric.core.metering import Reported, whole
from fabric.runtime.call_ports import ModelRequest, ToolOffer

JSON = Any
PASSED_ON: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop_sequences": "stop",
}
"""Options that go out, and the field that each goes out as."""
ARGUMENT_FIELDS = ("arguments", "args", "parameters", "input")
"""Where servers put the arguments of a call."""
DESCRIPTION_CHARS = 1_024
"""OpenAI refuses a longer description of a tool."""

_strict_turns = re.compile(r"mistral|mixtral|magistral|ministral|codestral|devstral|pixtral|gemma", re.IGNORECASE)
"""Models whose templates refuse a user's message right after a tool's."""


class Chat(Protocol):
    """Chat completions."""

    key = "chat"
    noun = "chat completion"
    wanted = "choices"
    url_hint = "; the URL usually ends in /v1"
    done_line = True

    def path(self, model: str, *, stream: bool) -> str:
        """Always the same."""
        return "/chat/completions"

    def body(self, request: ModelRequest, fitted: Fitted, *, model: str, schema: bool, stream: bool) -> dict[str, JSON]:
        """The request's body. Its options are those that ``OpenAICompatible`` names."""
        options = request.model.options
        body: dict[str, JSON] = {"model": model, "messages": list(_messages(fitted, options, model))}
        body[str(options.get("max_tokens_field") or "max_tokens")] = request.max_output_tokens
        body |= {field: options[name] for name, field in PASSED_ON.items() if name in options}
        if request.tools and request.model.tool_calls:
            body["tools"] = [{"type": "function", "function": offered(tool, "parameters")} for tool in request.tools]
            if "parallel_tool_calls" in options:
                body["parallel_tool_calls"] = options["parallel_tool_calls"]
        if schema:
            body["response_format"] = _response_format(request)
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body | dict(options.get("extra_body") or {})

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Returns True where there is a choice with something in it."""
        first = _first(value)
        return bool(first) and any(isinstance(first.get(name), dict | str) for name in ("message", "delta", "text"))

    def read(self, value: dict[str, JSON]) -> Answer:
        """The first choice."""
        choice = _first(value)
        if choice.get("error"):
            raise Malformed("with an error instead of choices")
        message = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
        if not isinstance(message, dict):
            message = {"content": message}
        text, parts = _content(message.get("content"))
        refusal = text_of(message.get("refusal"))
        own: dict[str, JSON] = own_fields(message) or {}
        if parts:
            own["content"] = parts
        calls = [_call(one) for one in dicts(message.get("tool_calls"))]
        if not calls and isinstance(message.get("function_call"), dict):
            calls = [_call({"function": message["function_call"]})]
        return Answer(
            text=text or refusal,
            calls=calls,
            finish="content_filter" if refusal and not text else finish_of(choice.get("finish_reason")),
            model=text_of(value.get("model")),
            usage=reported(value.get("usage")),
            own=own or None,
            tier=tier_of(value),
        )

    def assembly(self) -> Assembly:
        """Begins to put a stream together."""
        return _Assembly()


def offered(tool: ToolOffer, schema_field: str) -> dict[str, JSON]:
    """A tool on offer. Never in strict mode, which few compatible servers know."""
    described = tool.description[:DESCRIPTION_CHARS]
    return {"name": tool.name, "description": described, schema_field: dict(tool.parameters)}


def reported(usage: JSON) -> Reported:
    """The endpoint's count of tokens, in the fields of OpenAI, DeepSeek and their kin."""
    if not isinstance(usage, dict):
        return Reported()
    of_prompt = _details(usage, "prompt_tokens_details", "input_tokens_details")
    of_answer = _details(usage, "completion_tokens_details", "output_tokens_details")
    return Reported(
        input=_count(usage, "prompt_tokens", "input_tokens"),
        output=_count(usage, "completion_tokens", "output_tokens"),
        total=_count(usage, "total_tokens"),
        cached=_count(of_prompt, "cached_tokens")
        or _count(usage, "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens"),
        cache_written=_count(of_prompt, "cache_write_tokens", "cache_creation_tokens")
        or _count(usage, "cache_creation_input_tokens"),
        reasoning=_count(of_answer, "reasoning_tokens") or _count(usage, "reasoning_tokens"),
        audio_in=_count(of_prompt, "audio_tokens"),
        audio_out=_count(of_answer, "audio_tokens"),
    )


def _count(values: dict[str, JSON], *names: str) -> int | None:
    return whole(_one(values, *names))


def _details(usage: dict[str, JSON], *names: str) -> dict[str, JSON]:
    return next((usage[name] for name in names if isinstance(usage.get(name), dict)), {})


def _one(values: dict[str, JSON], *names: str) -> JSON:
    return next((values[name] for name in names if values.get(name) is not None), None)


# -- going out ---------------------------------------------------------------------------------------------------------


def _messages(fitted: Fitted, options: Mapping[str, JSON], model: str) -> list[dict[str, JSON]]:
    found: list[dict[str, JSON]] = []
    role = str(options.get("system_role") or "system")
    lead = fitted.system if role == "user" else ""
    if fitted.system and not lead:
        found.append({"role": role, "content": fitted.system})
    strict = bool(options.get("strict_turns", _strict_turns.search(model)))
    for turn in fitted.turns:
        if not turn.user:
            found.append(_assistant(turn, options))
            continue
        results = [
            {"role": "tool", "tool_call_id": one.id, "name": one.tool, "content": one.text} for one in turn.results
        ]
        text = "\n\n".join(part for part in (lead, turn.text) if part)
        lead = ""
        if results and text and strict:
            results[-1]["content"] += f"\n\n{text}"
            text = ""
        found += results
        if text:
            found.append({"role": "user", "content": text})
    return found


def _assistant(turn: Turn, options: Mapping[str, JSON]) -> dict[str, JSON]:
    message: dict[str, JSON] = {"role": "assistant", "content": turn.text or None}
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": compact(call.args)}}
            | (call.own or {})
            for call in turn.calls
        ]
    back = options.get("reasoning_back", "with_calls")
    # DeepSeek wants the reasoning back with calls, and its older models refuse it with anything else.
    if turn.own and (back == "always" or (back == "with_calls" and turn.calls)):
        message |= turn.own
    return message


def _response_format(request: ModelRequest) -> dict[str, JSON]:
    schema = dict(request.output_schema or {})
    if request.model.options.get("response_format") == "json_object":
        return {"type": "json_object", "schema": schema}  # As llama-cpp-python wants it.
    return {"type": "json_schema", "json_schema": {"name": request.output, "schema": schema}}


# -- coming back -------------------------------------------------------------------------------------------------------


def _first(value: dict[str, JSON]) -> dict[str, JSON]:
    """The choice of index 0, or the first one; empty: there is none."""
    choices = dicts(value.get("choices"))
    return next((one for one in choices if one.get("index") == 0), choices[0] if choices else {})


def _content(content: JSON) -> tuple[str, list[JSON]]:
    """The text of a message, and all of its parts where some are no text."""
    if isinstance(content, str):
        return content, []
    parts = content if isinstance(content, list) else [content] if isinstance(content, dict) else []
    texts: list[str] = []
    other = False
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            words = part.get("text") if part.get("type", "text") in ("text", "output_text") else None
            texts.append(words if isinstance(words, str) else "")
            other = other or words is None
    return "".join(texts), list(parts) if other else []


def _call(one: dict[str, JSON]) -> SaidCall:
    """A call, whether its name stands in ``function``, in ``custom`` or in the call itself."""
    inner = next((one[name] for name in ("function", "custom") if isinstance(one.get(name), dict)), one)
    arguments = _one(inner, *ARGUMENT_FIELDS)
    return SaidCall(id_of(one.get("id")), text_of(inner.get("name")), arguments, own_fields(one))


class _Assembly(Assembly):
    """Chunks of a chat completion."""

    def __init__(self) -> None:
        self._top: dict[str, JSON] = {}
        self._texts: list[str] = []
        self._parts: list[JSON] = []
        self._own: dict[str, JSON] = {}
        self._calls: list[dict[str, JSON]] = []
        self._open: dict[int, int] = {}
        self._finish: JSON = None
        self._last_is_call = False

    def take(self, event: dict[str, JSON]) -> None:
        """A chunk; the last may have no choices and the usage."""
        self._top |= {name: event[name] for name in ("model", "usage", "service_tier") if event.get(name) is not None}
        choices = event.get("choices")
        if not isinstance(choices, list | None):
            raise malformed_event()
        for choice in choices or ():
            if not isinstance(choice, dict):
                raise malformed_event()
            if choice.get("index") in (0, None):
                self._take_choice(choice)

    def _take_choice(self, choice: dict[str, JSON]) -> None:
        delta = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
        if not isinstance(delta, dict):
            raise malformed_event()
        self._take_words(delta)
        for one in dicts(delta.get("tool_calls")):
            self._take_call(one)
        if isinstance(delta.get("function_call"), dict):
            self._take_call({"index": 0, "function": delta["function_call"]})
        if choice.get("finish_reason"):
            self._finish, self.over = choice["finish_reason"], True

    def _take_words(self, delta: dict[str, JSON]) -> None:
        content = delta.get("content")
        if content:
            self.output, self._last_is_call = True, False
        if isinstance(content, str):
            self._texts.append(content)
        elif isinstance(content, list):
            self._parts += content
        for name, one in (own_fields(delta) or {}).items():
            self.output = True
            self._own[name] = _joined(self._own.get(name), one)

    def _take_call(self, delta: dict[str, JSON]) -> None:
        inner = delta.get("function")
        inner = inner if isinstance(inner, dict) else delta
        index = delta.get("index")
        index = index if isinstance(index, int) else max(self._open, default=0)
        at = self._open.get(index)
        self.output = self._last_is_call = True
        call_id, name = id_of(delta.get("id")), text_of(inner.get("name"))
        if at is None or _is_another(self._calls[at], call_id, name):
            self._open[index] = len(self._calls)
            call: dict[str, JSON] = {"id": call_id, "function": {"name": name, "arguments": ""}}
            self._calls.append(call)
        else:
            call = self._calls[at]
            call["id"] = call["id"] or call_id
            known = call["function"]["name"]
            call["function"]["name"] = known if name == known else known + name
        arguments = _one(inner, *ARGUMENT_FIELDS)
        if isinstance(arguments, dict):
            arguments = compact(arguments)
        call["function"]["arguments"] += text_of(arguments)
        for field, one in (own_fields(delta) or {}).items():
            call[field] = _joined(call.get(field), one)

    def begun(self) -> int:
        """Calls that have begun."""
        return len(self._calls)

    @property
    def after_calls(self) -> bool:
        """Words came after the last call."""
        return bool(self._calls) and not self._last_is_call

    def body(self) -> dict[str, JSON]:
        """A chat completion of one choice."""
        content: JSON = (
            [*({"type": "text", "text": one} for one in self._texts), *self._parts]
            if self._parts
            else "".join(self._texts)
        )
        message = {"content": content, "tool_calls": self._calls, **self._own}
        return {**self._top, "choices": [{"index": 0, "message": message, "finish_reason": self._finish}]}


def _is_another(call: dict[str, JSON], call_id: str, name: str) -> bool:
    """Returns True where a piece begins another call than the one at its place: some servers put every call at place 0."""
    if call_id and call["id"] and call_id != call["id"]:
        return True
    if call_id or not name or not call["function"]["arguments"]:
        return False
    return _is_whole(call["function"]["arguments"])


def _is_whole(arguments: str) -> bool:
    return arguments.rstrip().endswith("}") and arguments.count("{") <= arguments.count("}")


def _joined(known: JSON, more: JSON) -> JSON:
    """A field of a provider's own with what one more piece adds to it."""
    if isinstance(known, str) and isinstance(more, str):
        return known + more
    if isinstance(known, list) and isinstance(more, list):
        return known + more
    return more

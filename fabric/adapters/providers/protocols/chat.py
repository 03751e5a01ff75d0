"""OpenAI's chat completions, as OpenAI and the many servers that follow it speak them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fabric.adapters.providers.errors import Malformed
from fabric.adapters.providers.fitting import Fitted, Turn, compact
from fabric.adapters.providers.model_options import extended
from fabric.adapters.providers.protocols.chunks import Chunks, call_objects
from fabric.adapters.providers.protocols.contract import (
    Answer,
    Assembly,
    Protocol,
    SaidCall,
    dicts,
    finish_of,
    first_of,
    index_of,
    own_fields,
    plain,
    said_call,
    text_of,
    tier_of,
    word_of,
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
DESCRIPTION_CHARS = 1_024
"""OpenAI refuses a longer description of a tool."""

_strict_turns = re.compile(r"mistral|mixtral|magistral|ministral|codestral|devstral|pixtral|gemma", re.IGNORECASE)
"""Models whose templates refuse a user's message right after a tool's."""


class Chat(Protocol):
    """Chat completions."""

    key = "chat"
    noun = "chat completion"
    enveloped = True
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
        return extended(body, options)

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Returns True where there is a choice with something in it."""
        first = first_of(dicts(value.get("choices")))
        return bool(first) and any(isinstance(first.get(name), dict | str) for name in ("message", "delta", "text"))

    def read(self, value: dict[str, JSON]) -> Answer:
        """The first choice, with the parts of it that stand in others."""
        choices = dicts(value.get("choices"))
        first = first_of(choices)
        if first.get("error"):
            raise Malformed("with an error instead of choices")
        messages = [_message_of(one) for one in _parts_of_one(choices, first)]
        content = [_content(one.get("content")) for one in messages]
        text = "".join(words for words, _ in content)
        refusal = "".join(_refusal(one) for one in messages)
        own: dict[str, JSON] = {name: one for message in messages for name, one in (own_fields(message) or {}).items()}
        if parts := [part for _, several in content for part in several]:
            own["content"] = parts
        finish = finish_of(first.get("finish_reason"), first.get("native_finish_reason"))
        return Answer(
            text=text or refusal,
            calls=[call for message in messages for call in _calls(message)],
            finish="content_filter" if refusal and not text else finish,
            model=text_of(value.get("model")),
            usage=reported(_usage(value, first)),
            own=own or None,
            tier=tier_of(value),
        )

    def assembly(self) -> Assembly:
        """Begins to put a stream together."""
        return Chunks()


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


def _parts_of_one(choices: list[dict[str, JSON]], first: dict[str, JSON]) -> list[dict[str, JSON]]:
    """The choices that make one answer. Copilot writes text and calls of one answer into choices of their own; nobody here asks for a second answer."""
    place = index_of(first.get("index"))
    found = [one for one in choices if one is first or index_of(one.get("index")) in (None, place)]
    ends = plain(word_of(first.get("finish_reason"))) in ("toolcalls", "functioncall")
    if ends and not any(_calls(_message_of(one)) for one in found):
        found += [one for one in choices if one not in found and _calls(_message_of(one))]
    return found


def _message_of(choice: dict[str, JSON]) -> dict[str, JSON]:
    message = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
    return message if isinstance(message, dict) else {"content": message}


def _usage(value: dict[str, JSON], choice: dict[str, JSON]) -> JSON:
    """The counts, which Moonshot writes into the choice of a stream, and Groq into a field of its own."""
    groq = value.get("x_groq")
    places = (value.get("usage"), choice.get("usage"), groq.get("usage") if isinstance(groq, dict) else None)
    return next((one for one in places if one), None)


def _content(content: JSON) -> tuple[str, list[JSON]]:
    """The text of a message, and all of its parts where some are no text. An object that is no part is the answer itself, already read from its JSON."""
    if isinstance(content, str):
        return content, []
    if content is None or isinstance(content, bool | int | float):
        return ("" if content is None else compact(content)), []
    parts = content if isinstance(content, list) else [content]
    if isinstance(content, dict) and not ({"type", "text"} & set(content)):
        return compact(content), []
    texts: list[str] = []
    other = False
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part.get("type") != "refusal":
            words = part.get("text") if part.get("type", "text") in ("text", "output_text") else None
            words = words.get("value") if isinstance(words, dict) else words
            texts.append(words if isinstance(words, str) else "")
            other = other or words is None
    return "".join(texts), list(parts) if other else []


def _refusal(message: dict[str, JSON]) -> str:
    parts = dicts(message.get("content"))
    return text_of(message.get("refusal")) or "".join(text_of(part.get("refusal")) for part in parts)


def _calls(message: dict[str, JSON]) -> list[SaidCall]:
    """The calls of a message, whether they are a list, an object of them, or the JSON text of either; or the old ``function_call``."""
    found = [said_call(one, one.get("id"), own_fields(one)) for one in call_objects(message.get("tool_calls"))]
    if not found and isinstance(message.get("function_call"), dict):
        found = [said_call({"function": message["function_call"]}, None)]
    return found

"""Speaks OpenAI's chat completions, as OpenAI and the many compatible servers do, streamed or whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from fabric.core.values.metering import ReportedTokens, whole
from fabric.core.values.units import JSON
from fabric.providers.protocols.contract import (
    Assembly,
    ModelAnswer,
    Protocol,
    SaidCall,
    build_finish,
    dicts,
    find_first,
    find_index,
    find_word,
    later_finish,
    later_usage,
    malformed_event,
    own_fields,
    plain,
    read_call,
    read_text,
    read_tier,
)
from fabric.providers.protocols.fitting import ConversationTurn, FittedConversation, compact
from fabric.providers.protocols.options import extend_body
from fabric.providers.refusals.errors import MalformedAnswer
from fabric.runtime.ports.calls import ModelRequest, ToolOffer

PASSED_ON: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop_sequences": "stop",
}
"""Options that go out, with their fields."""
DESCRIPTION_CHARS = 1_024
"""Largest description of a tool that OpenAI accepts."""

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
        """Return the path, one for all models."""
        return "/chat/completions"

    def body(
        self, request: ModelRequest, fitted: FittedConversation, *, model: str, schema: bool, stream: bool
    ) -> dict[str, JSON]:
        """Return the request's body. Its options are those of ``OpenAICompatible``."""
        options = request.model.options
        body: dict[str, JSON] = {"model": model, "messages": list(_messages(fitted, options, model))}
        body[str(options.get("max_tokens_field") or "max_tokens")] = request.max_output_tokens
        body |= {field: options[name] for name, field in PASSED_ON.items() if name in options}
        if request.tools and request.model.tool_calls:
            body["tools"] = [{"type": "function", "function": tool_offer(tool, "parameters")} for tool in request.tools]
            if "parallel_tool_calls" in options:
                body["parallel_tool_calls"] = options["parallel_tool_calls"]
        if schema:
            body["response_format"] = _response_format(request)
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return extend_body(body, options)

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Return True where there is a choice with content."""
        first = find_first(dicts(value.get("choices")))
        return bool(first) and any(isinstance(first.get(name), dict | str) for name in ("message", "delta", "text"))

    def read(self, value: dict[str, JSON]) -> ModelAnswer:
        """Read the first choice, with its parts in other choices."""
        choices = dicts(value.get("choices"))
        first = find_first(choices)
        if first.get("error"):
            raise MalformedAnswer("with an error instead of choices")
        messages = [_build_message(one) for one in _parts_of_one(choices, first)]
        content = [_content(one.get("content")) for one in messages]
        text = "".join(words for words, _ in content)
        refusal = "".join(_refusal(one) for one in messages)
        own: dict[str, JSON] = {name: one for message in messages for name, one in (own_fields(message) or {}).items()}
        if parts := [part for _, several in content for part in several]:
            own["content"] = parts
        finish = build_finish(first.get("finish_reason"), first.get("native_finish_reason"))
        return ModelAnswer(
            text=text or refusal,
            calls=[call for message in messages for call in _calls(message)],
            finish="content_filter" if refusal and not text else finish,
            model=read_text(value.get("model")),
            usage=read_usage(_usage(value, first)),
            own=own or None,
            tier=read_tier(value),
        )

    def assembly(self) -> Assembly:
        """Return a fresh assembly of a stream."""
        return Chunks()


def tool_offer(tool: ToolOffer, schema_field: str) -> dict[str, JSON]:
    """Return a tool on offer. Never in strict mode, which few compatible servers know."""
    described = tool.description[:DESCRIPTION_CHARS]
    return {"name": tool.name, "description": described, schema_field: dict(tool.parameters)}


def read_usage(usage: JSON) -> ReportedTokens:
    """Return the endpoint's count of tokens, in the fields of OpenAI, DeepSeek and their kin."""
    if not isinstance(usage, dict):
        return ReportedTokens()
    of_prompt = _details(usage, "prompt_tokens_details", "input_tokens_details")
    of_answer = _details(usage, "completion_tokens_details", "output_tokens_details")
    return ReportedTokens(
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


def _messages(fitted: FittedConversation, options: Mapping[str, JSON], model: str) -> list[dict[str, JSON]]:
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


def _assistant(turn: ConversationTurn, options: Mapping[str, JSON]) -> dict[str, JSON]:
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
    """Return the choices that make one answer. Copilot writes text and calls of one answer into separate choices; no
    request wants a second answer.
    """
    place = find_index(first.get("index"))
    found = [one for one in choices if one is first or find_index(one.get("index")) in (None, place)]
    ends = plain(find_word(first.get("finish_reason"))) in ("toolcalls", "functioncall")
    if ends and not any(_calls(_build_message(one)) for one in found):
        found += [one for one in choices if one not in found and _calls(_build_message(one))]
    return found


def _build_message(choice: dict[str, JSON]) -> dict[str, JSON]:
    message = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
    return message if isinstance(message, dict) else {"content": message}


def _usage(value: dict[str, JSON], choice: dict[str, JSON]) -> JSON:
    """Return the counts, which Moonshot writes into the choice of a stream, and Groq into a field of its own."""
    groq = value.get("x_groq")
    places = (value.get("usage"), choice.get("usage"), groq.get("usage") if isinstance(groq, dict) else None)
    return next((one for one in places if one), None)


def _content(content: JSON) -> tuple[str, list[JSON]]:
    """Return the text of a message, and all of its parts where some are no text. An object that is no part is the
    answer itself, already parsed.
    """
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
    return read_text(message.get("refusal")) or "".join(read_text(part.get("refusal")) for part in parts)


def _calls(message: dict[str, JSON]) -> list[SaidCall]:
    """Return the calls of a message. They are a list, an object, the JSON text of either, or the old
    ``function_call``.
    """
    found = [read_call(one, one.get("id"), own_fields(one)) for one in call_objects(message.get("tool_calls"))]
    if not found and isinstance(message.get("function_call"), dict):
        found = [read_call({"function": message["function_call"]}, None)]
    return found


def call_objects(given: JSON) -> list[dict[str, JSON]]:
    """Return the calls in a list, in an object of them, or in the JSON text of either."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return []
    if isinstance(given, dict):
        is_call = "function" in given or "name" in given
        return [given] if is_call else [one for below in given.values() for one in call_objects(below)]
    return [one for below in given for one in call_objects(below)] if isinstance(given, list) else []


class Chunks(Assembly):
    """Collects the chunks of a chat completion, each choice on its own."""

    def __init__(self) -> None:
        self._top: dict[str, JSON] = {}
        self._choices: dict[int, _Choice] = {}

    def take(self, event: dict[str, JSON]) -> None:
        """Read a chunk; the last may have no choices and the usage."""
        self._top |= {name: event[name] for name in ("model", "service_tier", "x_groq") if event.get(name)}
        choices = event.get("choices")
        if not isinstance(choices, list | None) or not all(isinstance(one, dict) for one in choices or ()):
            raise malformed_event()
        for given in (event, *(choices or ())):
            if given.get("usage") is not None:
                self._top["usage"] = later_usage(self._top.get("usage"), given["usage"])
        for choice in choices or ():
            index = find_index(choice.get("index")) or 0
            one = self._choices.setdefault(index, _Choice())
            self.output = one.take(choice) or self.output
            self.over = one.over if one is self._first else self.over

    @property
    def _first(self) -> _Choice | None:
        return self._choices.get(0) or next(iter(self._choices.values()), None)

    def count_begun(self) -> int:
        """Return the number of calls that have begun in the first choice."""
        return len(self._first.calls) if self._first else 0

    @property
    def after_calls(self) -> bool:
        """Return True if words came after the last call."""
        return self._first is not None and bool(self._first.calls) and not self._first.last_is_call

    @property
    def closes(self) -> bool:
        """Return True if the last call's arguments end with a brace."""
        return bool(self.count_begun()) and self._first.calls[-1]["function"]["arguments"].rstrip().endswith("}")  # type: ignore[union-attr]

    def body(self) -> dict[str, JSON]:
        """Return a chat completion of the received choices."""
        choices = [one.body(index) for index, one in self._choices.items()]
        return {**self._top, "choices": choices or [{"index": 0, "message": {}}]}


class _Choice:
    """Pieces of one choice."""

    def __init__(self) -> None:
        self.over = self.last_is_call = False
        self.calls: list[dict[str, JSON]] = []
        self._texts: list[str] = []
        self._parts: list[JSON] = []
        self._own: dict[str, JSON] = {}
        self._open: dict[int, int] = {}
        self._ends: dict[str, JSON] = {}

    def take(self, choice: dict[str, JSON]) -> bool:
        """Read a piece; return True where the answer has grown."""
        delta = choice.get("delta")
        if delta is None or (not delta and not self._has_words()):
            # A message beside the pieces repeats all of them.
            delta = choice.get("message") or {"content": choice.get("text")}
        if not isinstance(delta, dict):
            raise malformed_event()
        more = self._take_words(delta)
        for one in call_objects(delta.get("tool_calls")):
            self._take_call(one)
        if isinstance(delta.get("function_call"), dict):
            self._take_call({"index": 0, "function": delta["function_call"]})
        more = more or bool(delta.get("tool_calls") or delta.get("function_call"))
        for name in ("finish_reason", "native_finish_reason"):
            self._ends[name] = later_finish(self._ends.get(name), choice.get(name))
        if find_word(choice.get("finish_reason")) or more:
            # A piece behind an end shows that it was none.
            self.over = bool(find_word(choice.get("finish_reason")))
        return more

    def _has_words(self) -> bool:
        return bool(self._texts or self._parts or self.calls)

    def _take_words(self, delta: dict[str, JSON]) -> bool:
        content = delta.get("content")
        if content:
            self.last_is_call = False
        if isinstance(content, str):
            self._texts.append(content)
        elif content is not None:
            self._parts += content if isinstance(content, list) else [content]
        own = own_fields(delta) or {}
        if delta.get("refusal"):
            own["refusal"] = delta["refusal"]
        for name, one in own.items():
            self._own[name] = _join_pieces(self._own.get(name), one)
        return bool(content or own)

    def _take_call(self, delta: dict[str, JSON]) -> None:
        said = read_call(delta, delta.get("id"))
        at = self._place(delta, said)
        self.last_is_call = True
        if at == len(self.calls):
            self.calls.append({"id": said.id, "function": {"name": said.tool, "arguments": ""}})
        call = self.calls[at]
        call["id"] = call["id"] or said.id
        known = call["function"]["name"]
        call["function"]["name"] = known if said.tool in ("", known) else known + said.tool
        arguments = said.arguments
        if arguments is not None and not isinstance(arguments, str):
            arguments = compact(arguments)
        call["function"]["arguments"] += arguments or ""
        for field, one in (own_fields(delta) or {}).items():
            call[field] = _join_pieces(call.get(field), one)

    def _place(self, delta: dict[str, JSON], said: SaidCall) -> int:
        """Return the call that a piece continues, or the place behind the last for a new one."""
        if said.id and not said.tool:
            # Some servers say whose piece it is by the id alone, at any index.
            known = [n for n, call in enumerate(self.calls) if call["id"] == said.id]
            if known:
                return known[-1]
        index = find_index(delta.get("index"))
        index = max(self._open, default=0) if index is None else index
        at = self._open.get(index)
        if at is None or (said.tool and _is_another(self.calls[at], said.id, said.tool)):
            at = self._open[index] = len(self.calls)
        return at

    def body(self, index: int) -> dict[str, JSON]:
        """Return the choice of the pieces."""
        content: JSON = "".join(self._texts)
        if self._parts:
            content = [*({"type": "text", "text": one} for one in self._texts), *self._parts]
        message = {"content": content, "tool_calls": self.calls, **self._own}
        return {"index": index, "message": message, **self._ends}


def _is_another(call: dict[str, JSON], call_id: str, name: str) -> bool:
    """Return True where a piece begins another call than the one at its place. Some servers put every call at
    place 0.
    """
    if call_id and call["id"] and call_id != call["id"]:
        return True
    if call_id or not name or not call["function"]["arguments"]:
        return False
    return _is_whole(call["function"]["arguments"])


def _is_whole(arguments: str) -> bool:
    return arguments.rstrip().endswith("}") and arguments.count("{") <= arguments.count("}")


def _join_pieces(known: JSON, more: JSON) -> JSON:
    """Return a provider's own field with one more piece."""
    if isinstance(known, str) and isinstance(more, str):
        return known + more
    if isinstance(known, list) and isinstance(more, list):
        return known + more
    return more

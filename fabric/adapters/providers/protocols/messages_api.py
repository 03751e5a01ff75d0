"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fabric.adapters.providers.fitting import Fitted, Turn
from fabric.adapters.providers.protocols.chat import offered
from fabric.adapters.providers.protocols.contract import (
    Answer,
    Assembly,
    Protocol,
    SaidCall,
    are_objects,
    dicts,
    finish_of,
    id_of,
    malformed_event,
    text_of,
    tier_of,
)
from fabric.core.metering import Reported, whole
from fabric.runtime.call_ports import ModelRequest

JSON = Any
PASSED_ON = ("temperature", "top_p", "stop_sequences")
UNTAKEN = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
        "minItems",
        "uniqueItems",
    }
)
"""Keywords of JSON schema that structured outputs refuse. The engine checks the answer against them. (Anthropic, "Structured outputs")"""


class MessagesApi(Protocol):
    """Messages."""

    key = "messages"
    noun = "message of the Messages API"
    schema_with_tools = True
    wanted = "content"
    url_hint = "; the URL is usually https://api.anthropic.com"
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

    def path(self, model: str, *, stream: bool) -> str:
        """Always the same."""
        return "/v1/messages"

    def body(self, request: ModelRequest, fitted: Fitted, *, model: str, schema: bool, stream: bool) -> dict[str, JSON]:
        """The request's body."""
        options = request.model.options
        body: dict[str, JSON] = {"model": model, "max_tokens": request.max_output_tokens}
        if fitted.system:
            body["system"] = fitted.system
        body["messages"] = [_message(turn) for turn in fitted.turns]
        body |= {name: options[name] for name in PASSED_ON if name in options}
        if request.tools and request.model.tool_calls:
            body["tools"] = [offered(tool, "input_schema") for tool in request.tools]
            if "parallel_tool_calls" in options:
                body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": not options["parallel_tool_calls"]}
        if schema:
            shape = close_schema(dict(request.output_schema or {}))
            body["output_config"] = {"format": {"type": "json_schema", "schema": shape}}
        if stream:
            body["stream"] = True
        return body | dict(options.get("extra_body") or {})

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Returns True where there is content, with nothing in it perhaps."""
        content = value.get("content")
        return (isinstance(content, str) or are_objects(content)) and value.get("type", "message") == "message"

    def read(self, value: dict[str, JSON]) -> Answer:
        """Texts and calls; thinking and whatever else there is goes back as it came."""
        content = value["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else dicts(content)
        texts = [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]
        calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
        return Answer(
            text="".join(texts),
            calls=calls,
            finish=finish_of(value.get("stop_reason")),
            model=text_of(value.get("model")),
            usage=reported(value.get("usage")),
            own=_own(blocks),
            tier=tier_of(value),
        )

    def assembly(self) -> Assembly:
        """Begins to put a stream together."""
        return _Assembly()


def reported(usage: JSON) -> Reported:
    """Tokens; those of the prompt cache are counted apart from the input's."""
    if not isinstance(usage, dict):
        return Reported()
    return Reported(
        input=whole(usage.get("input_tokens")),
        output=whole(usage.get("output_tokens")),
        cached=whole(usage.get("cache_read_input_tokens")),
        cache_written=whole(usage.get("cache_creation_input_tokens")),
        cached_inside=False,
    )


def close_schema(schema: JSON) -> JSON:
    """A schema as structured outputs take it: every object closed, and without the keywords that they refuse."""
    if isinstance(schema, list):
        return [close_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: close_schema(one) for name, one in schema.items() if name not in UNTAKEN or isinstance(one, dict)}
    if closed.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


# -- going out ---------------------------------------------------------------------------------------------------------


def _message(turn: Turn) -> dict[str, JSON]:
    if turn.user:
        content: list[JSON] = [
            {"type": "tool_result", "tool_use_id": one.id, "content": one.text} for one in turn.results
        ]
        return {"role": "user", "content": content + [{"type": "text", "text": text} for text in turn.texts]}
    text = [{"type": "text", "text": text.rstrip()} for text in turn.texts]
    calls: dict[str, JSON] = {
        call.id: {"type": "tool_use", "id": call.id, "name": call.tool, "input": call.args} for call in turn.calls
    }
    if turn.own is None:
        return {"role": "assistant", "content": [*text, *calls.values()]}
    return {"role": "assistant", "content": in_order(turn.own, text, calls)}


def in_order(own: JSON, text: list[JSON], calls: dict[str, JSON]) -> list[JSON]:
    """The parts of an answer in the order that it came in: a provider's own as they were, text and calls in their places."""
    found: list[JSON] = []
    for part in own:
        if "opaque" in part:
            found.append(part["opaque"])
        elif "call" in part and part["call"] in calls:
            found.append(calls.pop(part["call"]))
        elif "text" in part:
            found, text = found + text, []
    return [*found, *text, *calls.values()]


# -- coming back -------------------------------------------------------------------------------------------------------


def _call(block: dict[str, JSON]) -> SaidCall:
    return SaidCall(id_of(block.get("id")), text_of(block.get("name")), block.get("input"))


def _own(blocks: list[dict[str, JSON]]) -> JSON:
    """All parts in order, where some are the provider's own; None: there are only texts and calls."""
    if all(block.get("type") in ("text", "tool_use") for block in blocks):
        return None
    parts: list[JSON] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "tool_use":
            parts.append({"call": id_of(block.get("id"))})
        elif kind != "text":
            parts.append({"opaque": block})
        elif {"text": True} not in parts:
            parts.append({"text": True})
    return parts


class _Assembly(Assembly):
    """Events of a message."""

    def __init__(self) -> None:
        self._message: dict[str, JSON] = {}
        self._usage: dict[str, JSON] = {}
        self._blocks: dict[JSON, dict[str, JSON]] = {}
        self._pieces: dict[JSON, list[str]] = {}

    def take(self, event: dict[str, JSON]) -> None:
        """Takes in one event; an unknown kind is passed over."""
        kind = event.get("type")
        if kind == "message_start":
            self._message = _object(event, "message")
            usage = self._message.get("usage")
            # The beginning counts a token or two of the answer; the end counts all of them.
            self._usage |= {**usage, "output_tokens": None} if isinstance(usage, dict) else {}
        elif kind == "content_block_start":
            block = dict(_object(event, "content_block"))
            if not isinstance(block.get("type"), str):
                raise malformed_event()
            self._blocks[event.get("index")] = block
            self.output = self.output or block["type"] != "text" or bool(block.get("text"))
        elif kind == "content_block_delta":
            self._take_delta(event.get("index"), _object(event, "delta"))
        elif kind == "message_delta":
            self._message |= {name: one for name, one in _object(event, "delta").items() if one is not None}
            # Some servers end their stream here, without the event that says that it is over.
            self.over = bool(self._message.get("stop_reason"))
            usage = event.get("usage")
            self._usage |= (
                {name: one for name, one in usage.items() if one is not None} if isinstance(usage, dict) else {}
            )
        elif kind == "message_stop":
            self.over = True

    def _take_delta(self, index: JSON, delta: dict[str, JSON]) -> None:
        self.output = True
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        if "partial_json" in delta:
            self._pieces.setdefault(index, []).append(text_of(delta["partial_json"]))
            return
        for name in ("text", "thinking", "signature", "data"):
            if isinstance(delta.get(name), str):
                block[name] = text_of(block.get(name)) + delta[name]
        if "citation" in delta:
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]

    def begun(self) -> int:
        """Calls that have begun."""
        return sum(block.get("type") == "tool_use" for block in self._blocks.values())

    @property
    def after_calls(self) -> bool:
        """Another block began after the last call."""
        kinds = [block.get("type") for block in self._blocks.values()]
        return bool(kinds) and kinds[-1] != "tool_use"

    def body(self) -> dict[str, JSON]:
        """The message that the events make."""
        content = []
        for index, block in self._blocks.items():
            pieces = "".join(self._pieces.get(index, ()))
            content.append({**block, "input": pieces} if block.get("type") == "tool_use" and pieces.strip() else block)
        return {**self._message, "content": content, "usage": self._usage}


def _object(event: dict[str, JSON], name: str) -> dict[str, JSON]:
    found = event.get(name)
    if not isinstance(found, dict):
        raise malformed_event()
    return found

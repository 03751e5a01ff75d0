"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fabric.adapters.providers.fitting import Fitted, Turn, compact
from fabric.adapters.providers.model_options import extended
from fabric.adapters.providers.protocols.chat import offered
from fabric.adapters.providers.protocols.chat import reported as chat_reported
from fabric.adapters.providers.protocols.contract import (
    Answer,
    Assembly,
    Protocol,
    SaidCall,
    are_objects,
    dicts,
    finish_of,
    id_of,
    index_of,
    later_finish,
    later_usage,
    malformed_event,
    said_call,
    text_of,
    tier_of,
    word_of,
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
        return extended(body, options)

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Returns True where there is content, with nothing in it perhaps."""
        content = value.get("content")
        is_content = isinstance(content, str) or are_objects(content)
        return is_content and (value.get("type") or "message") == "message"

    def read(self, value: dict[str, JSON]) -> Answer:
        """Texts and calls; thinking and whatever else there is goes back as it came."""
        content = value["content"]
        blocks = (
            [{"type": "text", "text": content}] if isinstance(content, str) else [_typed(one) for one in dicts(content)]
        )
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
    if not {"input_tokens", "output_tokens"} & set(usage):
        return chat_reported(usage)
    by_age = usage.get("cache_creation")
    written = sum(whole(one) or 0 for one in by_age.values()) if isinstance(by_age, dict) else 0
    return Reported(
        input=whole(usage.get("input_tokens")),
        output=whole(usage.get("output_tokens")),
        cached=whole(usage.get("cache_read_input_tokens")),
        cache_written=whole(usage.get("cache_creation_input_tokens")) or written or None,
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
    return said_call(block, block.get("id"))


def _typed(block: dict[str, JSON]) -> dict[str, JSON]:
    """A block with its type, which some gateways leave out."""
    if block.get("type"):
        return block
    kind = "text" if isinstance(block.get("text"), str) else "tool_use" if block.get("name") else ""
    return {**block, "type": kind} if kind else block


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
        self._usage: JSON = {}
        self._blocks: list[dict[str, JSON]] = []
        self._pieces: list[list[str]] = []
        self._at: dict[int, int] = {}
        self._open: set[int] = set()

    def take(self, event: dict[str, JSON]) -> None:
        """Takes in one event; an unknown kind is passed over."""
        kind = event.get("type")
        if kind == "message_start":
            self._begin(_object(event, "message"))
        elif kind == "message" and not self._blocks:
            self._take_whole(event)
        elif kind == "content_block_start":
            self._take_start(event)
        elif kind == "content_block_delta":
            self._take_delta(self._place(event), _object(event, "delta"))
        elif kind == "content_block_stop" and self._blocks:
            self._open.discard(self._place(event))
        elif kind == "message_delta":
            self._take_end(event)
        elif kind == "message_stop":
            # Without a reason, a call that is still open is one that was cut.
            self.over = bool(self._message.get("stop_reason")) or not self._open

    def _begin(self, message: dict[str, JSON]) -> None:
        if self._blocks:
            raise malformed_event()  # A second message: which one is meant is not known.
        self._message = message
        usage = message.get("usage")
        # The beginning counts a token or two of the answer; the end counts all of them.
        self._usage = {**usage, "output_tokens": None} if isinstance(usage, dict) else {}

    def _take_whole(self, event: dict[str, JSON]) -> None:
        """A message that came in one event."""
        if not are_objects(event.get("content")):
            raise malformed_event()
        self._message, self._usage = event, event.get("usage")
        self._blocks = [_typed(one) for one in dicts(event["content"])]
        self._pieces = [[] for _ in self._blocks]
        self.over = self.output = True

    def _take_start(self, event: dict[str, JSON]) -> None:
        block = _typed(dict(_object(event, "content_block")))
        if not isinstance(block.get("type"), str):
            raise malformed_event()
        index = index_of(event.get("index"))
        index = len(self._blocks) if index is None else index
        known = self._at.get(index)
        if known is None or self._pieces[known] or self._blocks[known] != block:
            self._at[index] = known = len(self._blocks)
            self._blocks.append(block)
            self._pieces.append([])
        if block["type"] == "tool_use":
            self._open.add(known)
        self.output = self.output or block["type"] != "text" or bool(block.get("text"))

    def _place(self, event: dict[str, JSON]) -> int:
        """Returns the block that an event goes on with; the last where it names none. A text may begin without the event for it."""
        index = index_of(event.get("index"))
        if index is None and self._blocks:
            return len(self._blocks) - 1
        index = index or 0
        if index not in self._at:
            self._at[index] = len(self._blocks)
            self._blocks.append({"type": "text", "text": ""})
            self._pieces.append([])
        return self._at[index]

    def _take_end(self, event: dict[str, JSON]) -> None:
        delta = _object(event, "delta")
        reason = later_finish(self._message.get("stop_reason"), delta.get("stop_reason"))
        self._message |= {**{name: one for name, one in delta.items() if one is not None}, "stop_reason": reason}
        # Some servers end their stream here, without the event that says that it is over.
        self.over = bool(word_of(reason))
        for usage in (event.get("usage"), delta.get("usage")):
            if usage is not None:
                self._usage = later_usage(self._usage, usage)

    def _take_delta(self, at: int, delta: dict[str, JSON]) -> None:
        self.output = True
        block = self._blocks[at]
        if "partial_json" in delta:
            piece = delta["partial_json"]
            self._pieces[at].append(piece if isinstance(piece, str) else "" if piece is None else compact(piece))
            return
        for name in ("text", "thinking", "signature", "data"):
            if isinstance(delta.get(name), str):
                block[name] = text_of(block.get(name)) + delta[name]
        if "citation" in delta:
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]

    def begun(self) -> int:
        """Calls that have begun."""
        return sum(block.get("type") == "tool_use" for block in self._blocks)

    @property
    def after_calls(self) -> bool:
        """Another block began after the last call."""
        return bool(self._blocks) and self._blocks[-1].get("type") != "tool_use"

    @property
    def closes(self) -> bool:
        """The last call's arguments end with a brace."""
        return bool(self._pieces) and bool(self._pieces[-1]) and self._pieces[-1][-1].rstrip().endswith("}")

    def body(self) -> dict[str, JSON]:
        """The message that the events make."""
        content = []
        for block, several in zip(self._blocks, self._pieces, strict=True):
            pieces = "".join(several)
            content.append({**block, "input": pieces} if block.get("type") == "tool_use" and pieces.strip() else block)
        return {**self._message, "content": content, "usage": self._usage}


def _object(event: dict[str, JSON], name: str) -> dict[str, JSON]:
    found = event.get(name)
    if not isinstance(found, dict):
        raise malformed_event()
    return found

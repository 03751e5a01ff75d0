"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from fabric.core.values.metering import ReportedTokens, whole
from fabric.core.values.units import JSON
from fabric.providers.protocols.chat import read_usage as chat_reported
from fabric.providers.protocols.chat import tool_offer
from fabric.providers.protocols.contract import (
    Assembly,
    ModelAnswer,
    Protocol,
    SaidCall,
    are_objects,
    build_finish,
    build_id,
    dicts,
    find_index,
    find_word,
    later_finish,
    later_usage,
    malformed_event,
    read_call,
    read_text,
    read_tier,
)
from fabric.providers.protocols.fitting import ConversationTurn, FittedConversation, compact
from fabric.providers.protocols.options import extend_body
from fabric.runtime.ports.calls import ModelRequest

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
"""Keywords of JSON schema that structured outputs refuse. The engine checks the answer against them. (Anthropic,
"Structured outputs")
"""


class MessagesApi(Protocol):
    """The Messages protocol."""

    key = "messages"
    noun = "message of the Messages API"
    schema_with_tools = True
    wanted = "content"
    url_hint = "; the URL is usually https://api.anthropic.com"
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

    def path(self, model: str, *, stream: bool) -> str:
        """Return the path, one for all models."""
        return "/v1/messages"

    def body(
        self, request: ModelRequest, fitted: FittedConversation, *, model: str, schema: bool, stream: bool
    ) -> dict[str, JSON]:
        """Return the request's body."""
        options = request.model.options
        body: dict[str, JSON] = {"model": model, "max_tokens": request.max_output_tokens}
        if fitted.system:
            body["system"] = fitted.system
        body["messages"] = [_message(turn) for turn in fitted.turns]
        body |= {name: options[name] for name in PASSED_ON if name in options}
        if request.tools and request.model.tool_calls:
            body["tools"] = [tool_offer(tool, "input_schema") for tool in request.tools]
            if "parallel_tool_calls" in options:
                body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": not options["parallel_tool_calls"]}
        if schema:
            shape = close_schema(dict(request.output_schema or {}))
            body["output_config"] = {"format": {"type": "json_schema", "schema": shape}}
        if stream:
            body["stream"] = True
        return extend_body(body, options)

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Return True where there is content, even an empty one."""
        content = value.get("content")
        is_content = isinstance(content, str) or are_objects(content)
        return is_content and (value.get("type") or "message") == "message"

    def read(self, value: dict[str, JSON]) -> ModelAnswer:
        """Read texts and calls; thinking and all other parts go back as they came."""
        content = value["content"]
        blocks = (
            [{"type": "text", "text": content}]
            if isinstance(content, str)
            else [_add_type(one) for one in dicts(content)]
        )
        texts = [read_text(block.get("text")) for block in blocks if block.get("type") == "text"]
        calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
        return ModelAnswer(
            text="".join(texts),
            calls=calls,
            finish=build_finish(value.get("stop_reason")),
            model=read_text(value.get("model")),
            usage=read_usage(value.get("usage")),
            own=_own(blocks),
            tier=read_tier(value),
        )

    def assembly(self) -> Assembly:
        """Return a fresh assembly of a stream."""
        return _Assembly()


def read_usage(usage: JSON) -> ReportedTokens:
    """Return the tokens; those of the prompt cache are counted apart from the input's."""
    if not isinstance(usage, dict):
        return ReportedTokens()
    if not {"input_tokens", "output_tokens"} & set(usage):
        return chat_reported(usage)
    by_age = usage.get("cache_creation")
    written = sum(whole(one) or 0 for one in by_age.values()) if isinstance(by_age, dict) else 0
    return ReportedTokens(
        input=whole(usage.get("input_tokens")),
        output=whole(usage.get("output_tokens")),
        cached=whole(usage.get("cache_read_input_tokens")),
        cache_written=whole(usage.get("cache_creation_input_tokens")) or written or None,
        cached_inside=False,
    )


def close_schema(schema: JSON) -> JSON:
    """Return a schema as structured outputs take it: every object closed, and without the keywords that they refuse."""
    if isinstance(schema, list):
        return [close_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: close_schema(one) for name, one in schema.items() if name not in UNTAKEN or isinstance(one, dict)}
    if closed.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


# -- going out ---------------------------------------------------------------------------------------------------------


def _message(turn: ConversationTurn) -> dict[str, JSON]:
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
    return {"role": "assistant", "content": order_parts(turn.own, text, calls)}


def order_parts(own: JSON, text: list[JSON], calls: dict[str, JSON]) -> list[JSON]:
    """Return the parts of an answer in their order: a provider's own unchanged, text and calls in their places."""
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
    return read_call(block, block.get("id"))


def _add_type(block: dict[str, JSON]) -> dict[str, JSON]:
    """Return a block with its type, which some gateways leave out."""
    if block.get("type"):
        return block
    kind = "text" if isinstance(block.get("text"), str) else "tool_use" if block.get("name") else ""
    return {**block, "type": kind} if kind else block


def _own(blocks: list[dict[str, JSON]]) -> JSON:
    """Return all parts in order, where some are the provider's own; None: there are only texts and calls."""
    if all(block.get("type") in ("text", "tool_use") for block in blocks):
        return None
    parts: list[JSON] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "tool_use":
            parts.append({"call": build_id(block.get("id"))})
        elif kind != "text":
            parts.append({"opaque": block})
        elif {"text": True} not in parts:
            parts.append({"text": True})
    return parts


class _Assembly(Assembly):
    """Assembles the events of a message."""

    def __init__(self) -> None:
        self._message: dict[str, JSON] = {}
        self._usage: JSON = {}
        self._blocks: list[dict[str, JSON]] = []
        self._pieces: list[list[str]] = []
        self._at: dict[int, int] = {}
        self._open: set[int] = set()

    def take(self, event: dict[str, JSON]) -> None:
        """Read one event; an unknown kind is skipped."""
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
        """Read a message that came in one event."""
        if not are_objects(event.get("content")):
            raise malformed_event()
        self._message, self._usage = event, event.get("usage")
        self._blocks = [_add_type(one) for one in dicts(event["content"])]
        self._pieces = [[] for _ in self._blocks]
        self.over = self.output = True

    def _take_start(self, event: dict[str, JSON]) -> None:
        block = _add_type(dict(_object(event, "content_block")))
        if not isinstance(block.get("type"), str):
            raise malformed_event()
        index = find_index(event.get("index"))
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
        """Return the block that an event continues; the last where it names none. A text may begin without its
        event.
        """
        index = find_index(event.get("index"))
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
        # Some servers end their stream here, without its final event.
        self.over = bool(find_word(reason))
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
                block[name] = read_text(block.get(name)) + delta[name]
        if "citation" in delta:
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]

    def count_begun(self) -> int:
        """Return the number of calls that have begun."""
        return sum(block.get("type") == "tool_use" for block in self._blocks)

    @property
    def after_calls(self) -> bool:
        """Return True if another block began after the last call."""
        return bool(self._blocks) and self._blocks[-1].get("type") != "tool_use"

    @property
    def closes(self) -> bool:
        """Return True if the last call's arguments end with a brace."""
        return bool(self._pieces) and bool(self._pieces[-1]) and self._pieces[-1][-1].rstrip().endswith("}")

    def body(self) -> dict[str, JSON]:
        """Return the message of the events."""
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

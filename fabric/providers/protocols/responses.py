"""OpenAI's Responses API, with the history in each request (stateless) or at the provider (stored)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fabric.core.values.units import JSON
from fabric.providers.protocols.chat import read_usage, tool_offer
from fabric.providers.protocols.contract import (
    Assembly,
    Ended,
    ModelAnswer,
    Protocol,
    SaidCall,
    are_objects,
    build_finish,
    build_id,
    dicts,
    find_index,
    malformed_event,
    read_call,
    read_text,
    read_tier,
)
from fabric.providers.protocols.fitting import ConversationTurn, FittedConversation, compact
from fabric.providers.protocols.messages_api import order_parts
from fabric.providers.protocols.options import extend_body
from fabric.providers.refusals.errors import MalformedAnswer
from fabric.runtime.ports.calls import ModelRequest

PASSED_ON = ("temperature", "top_p")
_without_reasoning = re.compile(r"(?:ft:)?(?:gpt-3|gpt-4|chatgpt-4)", re.IGNORECASE)
"""Models that refuse to return encrypted reasoning."""
_PIECES = ("response.output_text.", "response.function_call_arguments.")
"""Events with a part of a text or of arguments, or with all of it once more."""


class Responses(Protocol):
    """The Responses protocol. Without ``store`` the reasoning comes back encrypted and goes out with the history."""

    key = "responses"
    noun = "response of the Responses API"
    schema_with_tools = True
    wanted = "output"
    url_hint = "; the URL usually ends in /v1"

    def path(self, model: str, *, stream: bool) -> str:
        """Return the path, one for all models."""
        return "/responses"

    def body(
        self, request: ModelRequest, fitted: FittedConversation, *, model: str, schema: bool, stream: bool
    ) -> dict[str, JSON]:
        """Return the request's body."""
        options, stored = request.model.options, request.model.options.get("store") is True
        previous, turns = _previous(fitted.turns) if stored else ("", fitted.turns)
        body: dict[str, JSON] = {"model": model, "input": [item for turn in turns for item in _items(turn)]}
        body |= {"max_output_tokens": request.max_output_tokens, "store": stored}
        if fitted.system:
            body["instructions"] = fitted.system
        if previous:
            body["previous_response_id"] = previous
        if not stored and options.get("reasoning_back") != "never" and not _without_reasoning.match(model):
            body["include"] = ["reasoning.encrypted_content"]
        body |= {name: options[name] for name in PASSED_ON if name in options}
        if request.tools and request.model.tool_calls:
            body["tools"] = [
                {"type": "function", "strict": False, **tool_offer(tool, "parameters")} for tool in request.tools
            ]
            if "parallel_tool_calls" in options:
                body["parallel_tool_calls"] = options["parallel_tool_calls"]
        if schema:
            shape = {
                "type": "json_schema",
                "name": request.output,
                "schema": dict(request.output_schema or {}),
                "strict": False,
            }
            body["text"] = {"format": shape}
        if stream:
            body["stream"] = True
        return extend_body(body, options)

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Return True where there is output, even an empty one."""
        return (isinstance(_output(value), str) or are_objects(_output(value))) and not value.get("error")

    def read(self, value: dict[str, JSON]) -> ModelAnswer:
        """Read texts and calls; reasoning and all other parts go back as they came."""
        if value.get("status") == "failed":
            raise MalformedAnswer("with a response that failed")
        output = _output(value)
        items = (
            [{"type": "message", "content": output}]
            if isinstance(output, str)
            else [_add_type(one) for one in dicts(output)]
        )
        text, refused = _words(items)
        calls = [_call(item) for item in items if item.get("type") == "function_call"]
        return ModelAnswer(
            text=text,
            calls=calls,
            finish="content_filter" if refused else _finish(value, items),
            model=read_text(value.get("model")),
            usage=read_usage(value.get("usage")),
            own=_own(items, build_id(value.get("id")) if value.get("store") is True else ""),
            tier=read_tier(value),
        )

    def assembly(self) -> Assembly:
        """Return a fresh assembly of a stream."""
        return _Assembly()


# -- going out ---------------------------------------------------------------------------------------------------------


def _previous(turns: list[ConversationTurn]) -> tuple[str, list[ConversationTurn]]:
    """Return the id of this model's last response, and the turns since; empty and all turns: there is none."""
    for n in range(len(turns) - 1, -1, -1):
        if not turns[n].user:
            known = (part["response"] for part in turns[n].own or () if "response" in part)
            found = next(known, "")
            return (found, turns[n + 1 :]) if found else ("", turns)
    return "", turns


def _items(turn: ConversationTurn) -> list[JSON]:
    if turn.user:
        results: list[JSON] = [
            {"type": "function_call_output", "call_id": one.id, "output": one.text} for one in turn.results
        ]
        return results + [{"role": "user", "content": text} for text in turn.texts]
    text: list[JSON] = [{"role": "assistant", "content": text} for text in turn.texts]
    calls: dict[str, JSON] = {
        call.id: {"type": "function_call", "call_id": call.id, "name": call.tool, "arguments": compact(call.args)}
        for call in turn.calls
    }
    return order_parts(turn.own or (), text, calls)


# -- coming back -------------------------------------------------------------------------------------------------------


_UNENDED = frozenset({"in_progress", "queued", "cancelled", "canceled", "cancelling", "expired"})
"""Statuses of a response that is not over, or was broken off."""


def _output(value: Mapping[str, JSON]) -> JSON:
    """Return the items; some servers give the text alone, in the field that clients make of it."""
    output, text = value.get("output"), value.get("output_text")
    return text if not output and isinstance(text, str) and text else output


def _add_type(item: dict[str, JSON]) -> dict[str, JSON]:
    """Return an item with its type, which some servers leave out."""
    return {**item, "type": "message"} if not item.get("type") and "content" in item else item


def _finish(value: Mapping[str, JSON], items: list[dict[str, JSON]]) -> Ended:
    details = value.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if value.get("status") in _UNENDED:
        return "broken"
    found = build_finish(reason)
    cut = value.get("status") == "incomplete" or any(
        item.get("status") == "incomplete" for item in items if item.get("type") == "function_call"
    )
    # An incomplete response counts as cut, even for an unknown reason.
    return "length" if cut and found == "stop" else found


def _words(items: list[dict[str, JSON]]) -> tuple[str, bool]:
    """Return the text of all messages, and True if it is only a refusal of the model."""
    texts: list[str] = []
    refusals: list[str] = []
    for item in items:
        if item.get("type") == "message" and item.get("role", "assistant") == "assistant":
            content = item.get("content")
            for part in [{"text": content}] if isinstance(content, str) else dicts(content):
                texts.append(read_text(part.get("text")))
                refusals.append(read_text(part.get("refusal")))
    text, refusal = "".join(texts), "".join(refusals)
    return text or refusal, bool(refusal) and not text


def _call(item: dict[str, JSON]) -> SaidCall:
    return read_call(item, item.get("call_id") or item.get("id"))


def _own(items: list[dict[str, JSON]], response_id: str) -> JSON:
    """Return all parts in order, where some are the provider's own, and the response's id."""
    parts: list[JSON] = []
    for item in items:
        kind = item.get("type")
        if kind == "function_call":
            parts.append({"call": _call(item).id})
        elif kind != "message":
            parts.append({"opaque": item})
        elif {"text": True} not in parts:
            parts.append({"text": True})
    opaque = any("opaque" in part for part in parts)
    return (parts if opaque else []) + ([{"response": response_id}] if response_id else []) or None


class _Assembly(Assembly):
    """Assembles the events of a response. The last one has all of it; earlier finished items are kept for servers
    that omit them there.
    """

    def __init__(self) -> None:
        self._response: dict[str, JSON] = {}
        self._items: dict[int, dict[str, JSON]] = {}
        self._pieces: dict[int, str] = {}

    def take(self, event: dict[str, JSON]) -> None:
        """Read one event; an unknown kind is skipped."""
        kind = read_text(event.get("type"))
        if kind in (
            "response.completed",
            "response.incomplete",
            "response.failed",
            "response.cancelled",
            "response.done",
        ):
            response = event.get("response")
            if not isinstance(response, dict):
                raise malformed_event()
            self._response, self.over = response, True
            if kind == "response.completed" and response.get("status") in ("in_progress", "queued"):
                self._response = {**response, "status": "completed"}  # The event marks the end.
        elif kind in ("response.output_item.added", "response.output_item.done"):
            item = event.get("item")
            if not isinstance(item, dict):
                raise malformed_event()
            index = find_index(event.get("output_index"))
            begins = kind.endswith("added") or not self._items
            self._items[(len(self._items) if begins else self._find_index(item)) if index is None else index] = item
            self.output = self.output or item.get("type") != "message"
        elif kind.startswith(_PIECES):
            self._take_piece(kind, event)
        elif kind.endswith(".delta"):
            self.output = self.output or bool(event.get("delta"))
        elif not kind and event.get("object") == "response" and not self._items:
            self._response, self.over, self.output = event, True, True

    def _find_index(self, item: dict[str, JSON]) -> int:
        """Return the place of an item without one: that of its id, or behind the last."""
        same = [index for index, one in self._items.items() if one.get("id") and one.get("id") == item.get("id")]
        return same[0] if same else len(self._items)

    def _take_piece(self, kind: str, event: dict[str, JSON]) -> None:
        index = find_index(event.get("output_index"))
        index = max(self._items, default=0) if index is None else index
        said = next((event[name] for name in ("delta", "text", "arguments") if isinstance(event.get(name), str)), "")
        known = self._pieces.get(index, "")
        self.output = self.output or bool(said)
        if kind.endswith(".delta"):
            self._pieces[index] = known + said
        elif (said and kind.startswith("response.function_call")) or (said and not known):
            self._pieces[index] = said

    def count_begun(self) -> int:
        """Return the number of calls that have begun."""
        return sum(item.get("type") == "function_call" for item in self._items.values())

    @property
    def after_calls(self) -> bool:
        """Return True if another item began after the last call."""
        kinds = [item.get("type") for item in self._items.values()]
        return bool(kinds) and kinds[-1] != "function_call"

    @property
    def closes(self) -> bool:
        """Return True if the last call's arguments end with a brace."""
        index, item = next(reversed(self._items.items()), (0, {}))
        return (self._pieces.get(index) or read_text(item.get("arguments"))).rstrip().endswith("}")

    def body(self) -> dict[str, JSON]:
        """Return the response."""
        output = self._response.get("output")
        # A text without an announced item is a message.
        items = {**{index: {"type": "message"} for index in self._pieces}, **self._items}
        return {**self._response, "output": output or [self._fill_item(*one) for one in sorted(items.items())]}

    def _fill_item(self, index: int, item: dict[str, JSON]) -> dict[str, JSON]:
        """Return an item with its received pieces, where it has nothing itself."""
        said = self._pieces.get(index)
        if said and item.get("type") == "function_call" and not item.get("arguments"):
            return {**item, "arguments": said}
        return {**item, "content": said} if said and item.get("type") == "message" and not item.get("content") else item

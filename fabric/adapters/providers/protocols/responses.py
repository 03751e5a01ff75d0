"""OpenAI's Responses API, with the history in each request (stateless) or at the provider (stored)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fabric.adapters.providers.errors import Malformed
from fabric.adapters.providers.fitting import Fitted, Turn, compact
from fabric.adapters.providers.protocols.chat import offered, reported
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
from fabric.adapters.providers.protocols.messages_api import in_order
from fabric.runtime.call_ports import ModelRequest

JSON = Any
PASSED_ON = ("temperature", "top_p")
_without_reasoning = re.compile(r"(?:ft:)?(?:gpt-3|gpt-4|chatgpt-4)", re.IGNORECASE)
"""Models that refuse to be asked for encrypted reasoning."""


class Responses(Protocol):
    """Responses. Without ``store`` the reasoning comes back encrypted and goes out with the history."""

    key = "responses"
    noun = "response of the Responses API"
    schema_with_tools = True
    wanted = "output"
    url_hint = "; the URL usually ends in /v1"

    def path(self, model: str, *, stream: bool) -> str:
        """Always the same."""
        return "/responses"

    def body(self, request: ModelRequest, fitted: Fitted, *, model: str, schema: bool, stream: bool) -> dict[str, JSON]:
        """The request's body."""
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
                {"type": "function", "strict": False, **offered(tool, "parameters")} for tool in request.tools
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
        return body | dict(options.get("extra_body") or {})

    def is_answer(self, value: dict[str, JSON]) -> bool:
        """Returns True where there is output, with nothing in it perhaps."""
        output = value.get("output")
        return (isinstance(output, str) or are_objects(output)) and not value.get("error")

    def read(self, value: dict[str, JSON]) -> Answer:
        """Texts and calls; reasoning and whatever else there is goes back as it came."""
        if value.get("status") == "failed":
            raise Malformed("with a response that failed")
        output = value["output"]
        items = [{"type": "message", "content": output}] if isinstance(output, str) else dicts(output)
        text, refused = _words(items)
        calls = [_call(item) for item in items if item.get("type") == "function_call"]
        return Answer(
            text=text,
            calls=calls,
            finish="content_filter" if refused else _finish(value),
            model=text_of(value.get("model")),
            usage=reported(value.get("usage")),
            own=_own(items, id_of(value.get("id")) if value.get("store") is True else ""),
            tier=tier_of(value),
        )

    def assembly(self) -> Assembly:
        """Begins to put a stream together."""
        return _Assembly()


# -- going out ---------------------------------------------------------------------------------------------------------


def _previous(turns: list[Turn]) -> tuple[str, list[Turn]]:
    """The id of the last response of this model's, and the turns since; empty and all turns: there is none."""
    for n in range(len(turns) - 1, -1, -1):
        if not turns[n].user:
            known = (part["response"] for part in turns[n].own or () if "response" in part)
            found = next(known, "")
            return (found, turns[n + 1 :]) if found else ("", turns)
    return "", turns


def _items(turn: Turn) -> list[JSON]:
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
    return in_order(turn.own or (), text, calls)


# -- coming back -------------------------------------------------------------------------------------------------------


def _finish(value: Mapping[str, JSON]) -> Any:
    details = value.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    # An incomplete response counts as cut, even for an unknown reason.
    return (
        finish_of(reason)
        if reason in ("max_output_tokens", "content_filter") or value.get("status") != "incomplete"
        else "length"
    )


def _words(items: list[dict[str, JSON]]) -> tuple[str, bool]:
    """The text of all messages, and whether all it says is that the model refuses."""
    texts: list[str] = []
    refusals: list[str] = []
    for item in items:
        if item.get("type") == "message":
            content = item.get("content")
            for part in [{"text": content}] if isinstance(content, str) else dicts(content):
                texts.append(text_of(part.get("text")))
                refusals.append(text_of(part.get("refusal")))
    text, refusal = "".join(texts), "".join(refusals)
    return text or refusal, bool(refusal) and not text


def _call(item: dict[str, JSON]) -> SaidCall:
    return SaidCall(id_of(item.get("call_id") or item.get("id")), text_of(item.get("name")), item.get("arguments"))


def _own(items: list[dict[str, JSON]], response_id: str) -> JSON:
    """All parts in order, where some are the provider's own, and the response's id."""
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
    """Events of a response. The last one has all of it; items that were done before are kept for servers that leave them out of it."""

    def __init__(self) -> None:
        self._response: dict[str, JSON] = {}
        self._items: dict[JSON, dict[str, JSON]] = {}

    def take(self, event: dict[str, JSON]) -> None:
        """Takes in one event; an unknown kind is passed over."""
        kind = text_of(event.get("type"))
        index = event.get("output_index")
        if kind in ("response.completed", "response.incomplete", "response.failed", "response.done"):
            response = event.get("response")
            if not isinstance(response, dict):
                raise malformed_event()
            self._response, self.over = response, True
        elif kind in ("response.output_item.added", "response.output_item.done"):
            item = event.get("item")
            if not isinstance(item, dict):
                raise malformed_event()
            self._items[index] = item
            self.output = self.output or item.get("type") != "message"
        elif kind.endswith(".delta"):
            self.output = self.output or bool(event.get("delta"))

    def begun(self) -> int:
        """Calls that have begun."""
        return sum(item.get("type") == "function_call" for item in self._items.values())

    @property
    def after_calls(self) -> bool:
        """Another item began after the last call."""
        kinds = [item.get("type") for item in self._items.values()]
        return bool(kinds) and kinds[-1] != "function_call"

    def body(self) -> dict[str, JSON]:
        """The response."""
        output = self._response.get("output")
        return {**self._response, "output": output or list(self._items.values())}

"""The chunks of a chat completion that streams in, put together."""

from __future__ import annotations

import json
from typing import Any

from fabric.adapters.providers.fitting import compact
from fabric.adapters.providers.protocols.contract import (
    Assembly,
    SaidCall,
    index_of,
    later_finish,
    later_usage,
    malformed_event,
    own_fields,
    said_call,
    word_of,
)

JSON = Any


def call_objects(given: JSON) -> list[dict[str, JSON]]:
    """The calls in a list, in an object of them, or in the JSON text of either."""
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
    """Chunks of a chat completion, each choice by itself."""

    def __init__(self) -> None:
        self._top: dict[str, JSON] = {}
        self._choices: dict[int, _Choice] = {}

    def take(self, event: dict[str, JSON]) -> None:
        """A chunk; the last may have no choices and the usage."""
        self._top |= {name: event[name] for name in ("model", "service_tier", "x_groq") if event.get(name)}
        choices = event.get("choices")
        if not isinstance(choices, list | None) or not all(isinstance(one, dict) for one in choices or ()):
            raise malformed_event()
        for given in (event, *(choices or ())):
            if given.get("usage") is not None:
                self._top["usage"] = later_usage(self._top.get("usage"), given["usage"])
        for choice in choices or ():
            index = index_of(choice.get("index")) or 0
            one = self._choices.setdefault(index, _Choice())
            self.output = one.take(choice) or self.output
            self.over = one.over if one is self._first else self.over

    @property
    def _first(self) -> _Choice | None:
        return self._choices.get(0) or next(iter(self._choices.values()), None)

    def begun(self) -> int:
        """Calls that have begun in the first choice."""
        return len(self._first.calls) if self._first else 0

    @property
    def after_calls(self) -> bool:
        """Words came after the last call."""
        return self._first is not None and bool(self._first.calls) and not self._first.last_is_call

    @property
    def closes(self) -> bool:
        """The last call's arguments end with a brace."""
        return bool(self.begun()) and self._first.calls[-1]["function"]["arguments"].rstrip().endswith("}")  # type: ignore[union-attr]

    def body(self) -> dict[str, JSON]:
        """A chat completion of the choices that came."""
        choices = [one.body(index) for index, one in self._choices.items()]
        return {**self._top, "choices": choices or [{"index": 0, "message": {}}]}


class _Choice:
    """The pieces of one choice."""

    def __init__(self) -> None:
        self.over = self.last_is_call = False
        self.calls: list[dict[str, JSON]] = []
        self._texts: list[str] = []
        self._parts: list[JSON] = []
        self._own: dict[str, JSON] = {}
        self._open: dict[int, int] = {}
        self._ends: dict[str, JSON] = {}

    def take(self, choice: dict[str, JSON]) -> bool:
        """Takes a piece in; returns True where the answer has more in it than before."""
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
        if word_of(choice.get("finish_reason")) or more:
            # A piece behind an end shows that it was none.
            self.over = bool(word_of(choice.get("finish_reason")))
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
            self._own[name] = _joined(self._own.get(name), one)
        return bool(content or own)

    def _take_call(self, delta: dict[str, JSON]) -> None:
        said = said_call(delta, delta.get("id"))
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
            call[field] = _joined(call.get(field), one)

    def _place(self, delta: dict[str, JSON], said: SaidCall) -> int:
        """Returns the call that a piece goes on with, or the place behind the last for one that it begins."""
        if said.id and not said.tool:
            # Some servers say whose piece it is by the id alone, at any index.
            known = [n for n, call in enumerate(self.calls) if call["id"] == said.id]
            if known:
                return known[-1]
        index = index_of(delta.get("index"))
        index = max(self._open, default=0) if index is None else index
        at = self._open.get(index)
        if at is None or (said.tool and _is_another(self.calls[at], said.id, said.tool)):
            at = self._open[index] = len(self.calls)
        return at

    def body(self, index: int) -> dict[str, JSON]:
        """The choice that the pieces make."""
        content: JSON = "".join(self._texts)
        if self._parts:
            content = [*({"type": "text", "text": one} for one in self._texts), *self._parts]
        message = {"content": content, "tool_calls": self.calls, **self._own}
        return {"index": index, "message": message, **self._ends}


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

"""A request read as a turn of a conversation: what is on offer, what came before, in which form an answer is wanted; and answers in that form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simulator.endpoint import steps
from simulator.endpoint.asked_data import data_schema
from simulator.endpoint.server import Received
from simulator.endpoint.steps import Step
from simulator.kernel.schema_values import arguments, value

JSON = Any

HANDS_ON = re.compile(
    r"transfer|hand[ _-]?(?:off|over)|delegat|spawn|sub[ _-]?agent|coworker|call_agent", re.IGNORECASE
)
"""In the name or description of a tool that gives the work to another agent, as frameworks call them."""
CITES = ("citations", "sources", "references")
"""Fields of an answer that say what it rests on."""
SURE = ("score", "confidence", "probability", "certainty")
"""Fields of an answer that say how sure it is."""


@dataclass(frozen=True)
class Turn:
    """One request for a completion, of which ``problem`` says nothing. ``seed``: of whatever is drawn; ``protocol``: which is spoken."""

    received: Received
    seed: int = 1
    protocol: str = "chat"
    count: int = 1
    """1 for the first request that asks for an answer."""

    @property
    def body(self) -> Mapping[str, JSON]:
        """The request's body."""
        found: Mapping[str, JSON] = self.received.body
        return found

    @property
    def output(self) -> str:
        """Which of this product's outputs is asked for; empty for a client that does not say."""
        return self.received.headers.get("x-fabric-output", "")

    @cached_property
    def messages(self) -> list[Mapping[str, JSON]]:
        """The conversation."""
        return list(self.body.get("messages") or ())

    @cached_property
    def tools(self) -> list[Mapping[str, JSON]]:
        """Functions on offer, in their order; none where the choice is to call none."""
        if self.body.get("tool_choice") == "none":
            return []
        functions = [one.get("function", {}) for one in self.body.get("tools") or ()]
        return [one for one in functions if one.get("name")]

    @property
    def answers_by(self) -> Mapping[str, JSON] | None:
        """The tool that an answer has to be given by: the one that is chosen; where any call will do, the last on offer. None: in words."""
        choice = self.body.get("tool_choice")
        if isinstance(choice, Mapping):
            function = choice.get("function")
            name = function.get("name") if isinstance(function, Mapping) else None
            return next((tool for tool in self.tools if tool["name"] == name), None)
        return self.tools[-1] if choice == "required" and self.tools else None

    @cached_property
    def number(self) -> int:
        """How often the model has spoken before in this conversation."""
        return sum(one.get("role") == "assistant" for one in self.messages)

    @cached_property
    def result(self) -> str:
        """What the last tool said; empty: none has."""
        return next((_text(one) for one in reversed(self.messages) if one.get("role") == "tool"), "")

    @cached_property
    def question(self) -> str:
        """The last that a person said."""
        return next((_text(one) for one in reversed(self.messages) if one.get("role") == "user"), "")

    @cached_property
    def schema(self) -> Mapping[str, JSON] | None:
        """The JSON Schema that the answer has to fit; None: none was sent."""
        form: Mapping[str, JSON] = self.body.get("response_format") or {}
        found = form.get("json_schema", form).get("schema")
        return found if isinstance(found, Mapping) else None

    @property
    def wants_json(self) -> bool:
        """Whether the answer is to be an object: a form is asked for, or this product's first message asks for JSON."""
        form = self.body.get("response_format")
        if form and form.get("type") != "text":
            return True
        return bool(self.output) and "JSON" in (_text(self.messages[0]) if self.messages else "")

    @property
    def hands_on(self) -> Mapping[str, JSON] | None:
        """The first tool that gives the work to another agent; None: there is none."""
        return next((one for one in self.tools if is_handing_on(one)), None)


def problem(body: JSON) -> str:
    """What is wrong with a request for a completion, in one sentence; empty: nothing that matters here."""
    if not isinstance(body, Mapping):
        return "the body is no JSON object"
    for name in ("messages", "tools"):
        found = body.get(name) or []
        if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
            return f"{name}: this is no list of objects"
    if any(not isinstance(tool.get("function", {}), Mapping) for tool in body.get("tools") or ()):
        return "tools: function is no object"
    form = body.get("response_format") or {}
    if not isinstance(form, Mapping) or not isinstance(form.get("json_schema", {}), Mapping):
        return "response_format: this is no object with a json_schema"
    return ""


def is_handing_on(tool: Mapping[str, JSON]) -> bool:
    """Whether a tool, by what it is called and said to do, gives the work to another agent."""
    return bool(HANDS_ON.search(f"{tool.get('name')} {tool.get('description') or ''}"))


def calls(
    turn: Turn, words: Sequence[str], tool: Mapping[str, JSON] | None = None, *, text: str = "", **more: JSON
) -> Step:
    """A call for each of the words, of this tool, or of the first on offer, with arguments that fit it. ``more`` as in ``steps.answer``."""
    taken = tool or turn.tools[0]
    parameters = taken.get("parameters")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    made = [
        steps.call(str(taken["name"]), arguments(parameters, said), f"call-{turn.number + 1}-{at}")
        for at, said in enumerate(words, start=1)
    ]
    return steps.answer(text, made, **more)


def says(turn: Turn, text: str, *, citations: Sequence[str] = (), sure: float = 0.9, **more: JSON) -> Step:
    """An answer in words, in the form that is asked for. ``sure``, from 0 to 1, stands where the form has a place for it."""
    if turn.answers_by is not None:
        return calls(turn, [text], turn.answers_by, **more)
    if not turn.wants_json:
        return steps.answer(" ".join([text, *(f"[{name}]" for name in citations)]), **more)
    if turn.schema is None or turn.output == "summary":
        said = {"text": text, "citations": list(citations)}
        wanted = data_schema(_text(turn.messages[0]) if turn.messages else "", turn.schema)
        data = {} if wanted is None else {"data": value(wanted, text)}
        return steps.answer(json.dumps(said | data), **more)
    return steps.answer(json.dumps(_fitted(turn.schema, text, citations, sure)), **more)


def _fitted(schema: Mapping[str, JSON], text: str, citations: Sequence[str], sure: float) -> JSON:
    made = value(schema, text)
    if not isinstance(made, dict):
        return made
    fields = schema.get("properties")
    for name, field in (fields if isinstance(fields, Mapping) else {}).items():
        kind = field.get("type") if isinstance(field, Mapping) else None
        if name in CITES and kind == "array":
            made[name] = list(citations)
        elif name in SURE and kind == "number":
            made[name] = sure
    return made


def _text(message: Mapping[str, JSON]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))

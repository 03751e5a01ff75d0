"""A request is read as a turn of a conversation, and answered in the form that it asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fabric.core.values.units import JSON
from fabric.runtime.answer_shapes import DATA_SCHEMA
from simulator.agents.schema_values import arguments, value
from simulator.endpoint.wire import steps
from simulator.endpoint.wire.server import Received
from simulator.endpoint.wire.steps import Step

HANDS_ON = re.compile(
    r"transfer|hand[ _-]?(?:off|over)|delegat|spawn|sub[ _-]?agent|coworker|call_agent", re.IGNORECASE
)
"""Words in the name or description of a tool that gives the work to another agent, in several frameworks."""
CITES = ("citations", "sources", "references")
"""Fields of an answer that say what it rests on."""
SURE = ("score", "confidence", "probability", "certainty")
"""Fields of an answer that say how sure it is."""


@dataclass(frozen=True)
class Turn:
    """One request for a completion that ``problem`` accepts. ``seed`` feeds the behaviours that draw."""

    received: Received
    seed: int = 1
    protocol: str = "chat"
    count: int = 1
    """1 for the first request that asks for an answer."""

    @property
    def body(self) -> Mapping[str, JSON]:
        """Return the request's body."""
        found: Mapping[str, JSON] = self.received.body
        return found

    @property
    def output(self) -> str:
        """Return the name of this product's output that is asked for, empty for other clients."""
        return self.received.headers.get("x-fabric-output", "")

    @cached_property
    def messages(self) -> list[Mapping[str, JSON]]:
        """Return the conversation."""
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
        """Return the tool that the answer has to be given by. None: the answer is in words.

        It is the chosen tool. Where any call will do, it is the last tool on offer.
        """
        choice = self.body.get("tool_choice")
        if isinstance(choice, Mapping):
            function = choice.get("function")
            name = function.get("name") if isinstance(function, Mapping) else None
            return next((tool for tool in self.tools if tool["name"] == name), None)
        return self.tools[-1] if choice == "required" and self.tools else None

    @cached_property
    def number(self) -> int:
        """Return the number of answers that the model has given before in this conversation."""
        return sum(one.get("role") == "assistant" for one in self.messages)

    @cached_property
    def result(self) -> str:
        """Return the result of the last tool call, empty without one."""
        return next((_text(one) for one in reversed(self.messages) if one.get("role") == "tool"), "")

    @cached_property
    def question(self) -> str:
        """Return the last text of a person."""
        return next((_text(one) for one in reversed(self.messages) if one.get("role") == "user"), "")

    @cached_property
    def schema(self) -> Mapping[str, JSON] | None:
        """Return the JSON Schema that the answer has to fit. None: none was sent."""
        form: Mapping[str, JSON] = self.body.get("response_format") or {}
        found = form.get("json_schema", form).get("schema")
        return found if isinstance(found, Mapping) else None

    @property
    def wants_json(self) -> bool:
        """Return True if the answer has to be a JSON object.

        Either a form is asked for, or this product's first message asks for JSON.
        """
        form = self.body.get("response_format")
        if form and form.get("type") != "text":
            return True
        return bool(self.output) and "JSON" in (_text(self.messages[0]) if self.messages else "")

    @property
    def hands_on(self) -> Mapping[str, JSON] | None:
        """Return the first tool that gives the work to another agent. None: no tool does."""
        return next((one for one in self.tools if is_handing_on(one)), None)


def problem(body: JSON) -> str:
    """Return the sentence that says why a request for a completion is wrong. An empty text says that it is good."""
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


def data_schema(opening: str, schema: Mapping[str, JSON] | None) -> Mapping[str, JSON] | None:
    """Return the schema of the author's own data. None: no data is wanted.

    It stands in the request's first message. If not, it is in the schema that the answer has to fit.
    """
    for line in opening.splitlines():
        if line.startswith(DATA_SCHEMA):
            try:
                found = json.loads(line.removeprefix(DATA_SCHEMA))
            except ValueError:
                break
            return found if isinstance(found, Mapping) else None
    fields = (schema or {}).get("properties")
    held = fields.get("data") if isinstance(fields, Mapping) else None
    return held if isinstance(held, Mapping) else None


def is_handing_on(tool: Mapping[str, JSON]) -> bool:
    """Return True if a tool gives the work to another agent, by its name and description."""
    return bool(HANDS_ON.search(f"{tool.get('name')} {tool.get('description') or ''}"))


def calls(
    turn: Turn, words: Sequence[str], tool: Mapping[str, JSON] | None = None, *, text: str = "", **more: JSON
) -> Step:
    """Return a call for each of the words, of this tool or of the first on offer.

    The arguments fit the tool. ``more`` is as in ``steps.answer``.
    """
    taken = tool or turn.tools[0]
    parameters = taken.get("parameters")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    made = [
        steps.call(str(taken["name"]), arguments(parameters, said), f"call-{turn.number + 1}-{at}")
        for at, said in enumerate(words, start=1)
    ]
    return steps.answer(text, made, **more)


def says(turn: Turn, text: str, *, citations: Sequence[str] = (), sure: float = 0.9, **more: JSON) -> Step:
    """Return an answer in words, in the form that is asked for.

    ``sure``, from 0 to 1, fills the form's place for it.
    """
    if turn.answers_by is not None:
        return calls(turn, [text], turn.answers_by, **more)
    if not turn.wants_json:
        return steps.answer(" ".join([text, *(f"[{name}]" for name in citations)]), **more)
    if turn.schema is None or turn.output == "summary":
        said = {"text": text, "citations": list(citations)}
        wanted = data_schema(_text(turn.messages[0]) if turn.messages else "", turn.schema)
        data = {} if wanted is None else {"data": value(wanted, text)}
        return steps.answer(json.dumps(said | data), **more)
    return steps.answer(json.dumps(_fit_schema(turn.schema, text, citations, sure)), **more)


def _fit_schema(schema: Mapping[str, JSON], text: str, citations: Sequence[str], sure: float) -> JSON:
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

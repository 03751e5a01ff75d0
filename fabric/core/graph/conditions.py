"""Conditions of transitions: as a fabric writes them, and when each holds, one row a kind (semantics.md 5; S4 "Built-in Conditions")."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, field_validator, model_validator

from fabric.core.graph.patterns import found, number_of, pattern_of
from fabric.core.graph.registry import Registry, condition_of
from fabric.core.graph.state import NodeOutcome, Turn
from fabric.core.spec_parts import Name, SpecGroup
from fabric.core.taxonomy import ErrorClass
from fabric.core.text import INT_MAX, clean

JSON = Any
Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]
DEPTH_MAX = 8
"""Levels of conditions within conditions."""


class Always(SpecGroup):
    """Holds after every accepted turn."""

    kind: Literal["always"] = "always"


class FromSpeaker(SpecGroup):
    """Holds after a turn of one participant."""

    kind: Literal["from_speaker"] = "from_speaker"
    agent: Name = Field(description="The participant that spoke.")


class ToolCalled(SpecGroup):
    """Holds after a turn whose routing tool it was: the first one called, in the order of emission, that any rule of the graph names."""

    kind: Literal["tool_called"] = "tool_called"
    tool: Name = Field(description="The tool that was called.")


class ContextEquals(SpecGroup):
    """Holds while a context variable has a value, values of the same turn included."""

    kind: Literal["context_equals"] = "context_equals"
    key: Key = Field(description="Name of the context variable.")
    value: JsonValue = Field(default=None, description="What it must equal; null: also where it is not set.")

    @field_validator("value")
    @classmethod
    def _plain(cls, value: JsonValue) -> JsonValue:
        cleaned, changed = clean(value)
        if changed:
            raise ValueError(f"is no value that JSON keeps; write text, numbers up to {INT_MAX}, true, false or null")
        kept: JsonValue = cleaned
        return kept


class ContextText(SpecGroup):
    """Holds while a context variable, as text, compares so. One that is not set is the empty text; lists and groups are their JSON."""

    kind: Literal["context_text"] = "context_text"
    key: Key = Field(description="Name of the context variable.")
    compares: Literal["equals", "greater", "less", "at_least", "at_most", "contains", "matches", "is_set"] = Field(
        description="greater to at_most: as numbers, and what is none never holds. contains: a part of the text, or an item of a list. "
        "matches: a regular expression, anywhere in the first 500 characters. is_set: neither empty, nor false, nor 0."
    )
    value: Annotated[str, StringConstraints(max_length=1_000)] = Field(
        default="", description="What it is compared with; nothing for is_set."
    )

    @model_validator(mode="after")
    def _comparable(self) -> Self:
        if self.compares == "matches":
            pattern_of(self.value)
        if self.compares in NUMBERS and number_of(self.value) is None:
            raise ValueError(f"compares with {self.value!r}, which is no number")
        return self


class OutcomeIs(SpecGroup):
    """Holds after a turn that ended so."""

    kind: Literal["outcome_is"] = "outcome_is"
    outcome: NodeOutcome


class ErrorClassIs(SpecGroup):
    """Holds after a turn that failed so."""

    kind: Literal["error_class_is"] = "error_class_is"
    failure_class: ErrorClass


class AllOf(SpecGroup):
    """Holds where each of its conditions does."""

    kind: Literal["all_of"] = "all_of"
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1, max_length=16)]


class AnyOf(SpecGroup):
    """Holds where one of its conditions does."""

    kind: Literal["any_of"] = "any_of"
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1, max_length=16)]


class Not(SpecGroup):
    """Holds where its condition does not."""

    kind: Literal["not"] = "not"
    condition: Condition


class RegisteredCondition(SpecGroup):
    """One of the installation's own, by its name."""

    kind: Literal["registered"] = "registered"
    name: Name
    args: dict[str, JsonValue] = Field(default_factory=dict, description="What it is made with.")


KINDS = (
    Always,
    FromSpeaker,
    ToolCalled,
    ContextEquals,
    ContextText,
    OutcomeIs,
    ErrorClassIs,
    AllOf,
    AnyOf,
    Not,
    RegisteredCondition,
)
NAMES = tuple(str(kind.model_fields["kind"].default) for kind in KINDS)
Condition = Annotated[
    Always
    | FromSpeaker
    | ToolCalled
    | ContextEquals
    | ContextText
    | OutcomeIs
    | ErrorClassIs
    | AllOf
    | AnyOf
    | Not
    | RegisteredCondition,
    Field(discriminator="kind"),
]
for _group in (AllOf, AnyOf, Not):
    _group.model_rebuild()


def holds(condition: Condition, turn: Turn, registry: Registry) -> bool:
    """Whether a condition holds for a turn. Unanswered where one of the installation's own gives no answer."""
    return HOLDS[type(condition)](condition, turn, registry)


def _equals(condition: ContextEquals, turn: Turn, _: Registry) -> bool:
    return bool(turn.state.context.get(condition.key) == condition.value)


def text_of(value: JSON) -> str:
    """A context variable as text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


NUMBERS: Mapping[str, Callable[[float, float], bool]] = {
    "greater": operator.gt,
    "less": operator.lt,
    "at_least": operator.ge,
    "at_most": operator.le,
}


def _compares(condition: ContextText, turn: Turn, _: Registry) -> bool:
    value = turn.state.context.get(condition.key)
    text, other = text_of(value), condition.value
    if condition.compares in NUMBERS:
        here, there = number_of(text), number_of(other)
        return here is not None and there is not None and NUMBERS[condition.compares](here, there)
    if condition.compares == "contains":
        return other in map(text_of, value) if isinstance(value, list) else other in text
    if condition.compares == "matches":
        return found(other, text)
    return text == other if condition.compares == "equals" else text not in ("", "false", "0")


HOLDS: Mapping[type[SpecGroup], Callable[[Any, Turn, Registry], bool]] = {
    Always: lambda condition, turn, registry: True,
    FromSpeaker: lambda condition, turn, registry: turn.packet.speaker == condition.agent,
    ToolCalled: lambda condition, turn, registry: turn.tool == condition.tool,
    ContextEquals: _equals,
    ContextText: _compares,
    OutcomeIs: lambda condition, turn, registry: turn.packet.outcome is condition.outcome,
    ErrorClassIs: lambda condition, turn, registry: turn.packet.error is condition.failure_class,
    AllOf: lambda condition, turn, registry: all(holds(one, turn, registry) for one in condition.conditions),
    AnyOf: lambda condition, turn, registry: any(holds(one, turn, registry) for one in condition.conditions),
    Not: lambda condition, turn, registry: not holds(condition.condition, turn, registry),
    RegisteredCondition: lambda condition, turn, registry: condition_of(registry, condition.name, condition.args, turn),
}
"""When each kind holds. Total over ``KINDS``, by test."""


def inner(condition: Condition) -> tuple[tuple[str, Condition], ...]:
    """The conditions directly within one, each with the field that it stands in."""
    if isinstance(condition, AllOf | AnyOf):
        return tuple((f"conditions.{n}", one) for n, one in enumerate(condition.conditions))
    return (("condition", condition.condition),) if isinstance(condition, Not) else ()


def walk(condition: Condition, path: str = "") -> Iterator[tuple[str, Condition]]:
    """A condition and all within it, each with its path."""
    yield path, condition
    for field, one in inner(condition):
        yield from walk(one, f"{path}.{field}" if path else field)


def depth(condition: Condition) -> int:
    """How many levels of conditions there are."""
    return 1 + max((depth(one) for _, one in inner(condition)), default=0)

"""Declares conditions and targets of transitions, and evaluates them, one row a kind.

Both have a form in a fabric. A target names the next speaker (docs/specification/topologies.md; S4 "Built-in Targets").
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, field_validator, model_validator

from fabric.core.graph.registry import Next, Registry, build_target, evaluate_condition
from fabric.core.graph.state import NodeOutcome, Turn
from fabric.core.schema.parts import Line, Name, SpecGroup
from fabric.core.texts.text import INT_MAX, clean
from fabric.core.values.taxonomy import ErrorClass
from fabric.core.values.units import JSON

# -- patterns ----------------------------------------------------------------------------------------------------------

PATTERN_MAX = 200
"""Characters of a pattern."""
LOOKED_AT = 500
"""Characters of a text that a pattern is looked for in."""
UNBOUNDED_MAX = 2
"""Repetitions without an upper bound in one pattern: more make a search too long."""
_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?|\)(?P<group>[*+?{])|(?P<open>[*+]|\{\d*,\})|.", re.DOTALL)


@cache
def compile_pattern(text: str) -> re.Pattern[str]:
    """Return a compiled pattern. Raises ValueError with one sentence where it is none, or where a search for it
    might not end soon.
    """
    if len(text) > PATTERN_MAX:
        raise ValueError(f"has {len(text)} characters as a pattern; at most {PATTERN_MAX} are taken")
    unbounded = 0
    for part in _PART.finditer(text):
        if part[0] == "(?" or part["group"] or re.fullmatch(r"\\[1-9]", part[0]):
            raise ValueError(f"{text!r} repeats a group, looks around or refers back; write a plainer pattern")
        unbounded += part["open"] is not None
    if unbounded > UNBOUNDED_MAX:
        raise ValueError(f"{text!r} has {unbounded} open repetitions; at most {UNBOUNDED_MAX} are taken")
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no pattern: {error}") from None


def matches_text(pattern: str, text: str) -> bool:
    """Return True if a pattern matches anywhere in the beginning of a text."""
    return compile_pattern(pattern).search(text[:LOOKED_AT]) is not None


def find_number(text: str) -> float | None:
    """Return the number in a text; None if the text is no number."""
    try:
        return float(text)
    except ValueError:
        return None


# -- conditions --------------------------------------------------------------------------------------------------------

Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]
DEPTH_MAX = 8
"""Levels of conditions within conditions."""


class Always(SpecGroup):
    """Holds after every accepted turn."""

    kind: Literal["always"] = Field(default="always", description="Kind of the condition: it always holds.")


class FromSpeaker(SpecGroup):
    """Holds after a turn of one participant."""

    kind: Literal["from_speaker"] = Field(
        default="from_speaker", description="Kind of the condition: a participant spoke last."
    )
    agent: Name = Field(description="The participant that spoke.")


class ToolCalled(SpecGroup):
    """True after a turn that this tool routed. It is the first tool called that any rule of the graph names."""

    kind: Literal["tool_called"] = Field(
        default="tool_called", description="Kind of the condition: the turn called a tool."
    )
    tool: Name = Field(description="The tool that was called.")


class ContextEquals(SpecGroup):
    """True while a context variable has a value, values of the current turn included."""

    kind: Literal["context_equals"] = Field(
        default="context_equals", description="Kind of the condition: a context variable has a value."
    )
    key: Key = Field(description="Name of the context variable.")
    value: JsonValue = Field(default=None, description="Value for the comparison; null matches an unset one too.")

    @field_validator("value")
    @classmethod
    def _plain(cls, value: JsonValue) -> JsonValue:
        cleaned, changed = clean(value)
        if changed:
            raise ValueError(f"is no value that JSON keeps; write text, numbers up to {INT_MAX}, true, false or null")
        kept: JsonValue = cleaned
        return kept


class ContextText(SpecGroup):
    """True while the comparison with a context variable's text is true. An unset variable is the empty text; lists
    and groups are their JSON.
    """

    kind: Literal["context_text"] = Field(
        default="context_text",
        description="Kind of the condition: the text of a context variable compares in some way.",
    )
    key: Key = Field(description="Name of the context variable.")
    compares: Literal["equals", "greater", "less", "at_least", "at_most", "contains", "matches", "is_set"] = Field(
        description="greater to at_most: as numbers, and what is none never holds. contains: a part of the text, or an item of a list. "
        "matches: a regular expression, anywhere in the first 500 characters. is_set: neither empty, nor false, nor 0."
    )
    value: Annotated[str, StringConstraints(max_length=1_000)] = Field(
        default="", description="Value for the comparison; none for is_set."
    )

    @model_validator(mode="after")
    def _comparable(self) -> Self:
        if self.compares == "matches":
            compile_pattern(self.value)
        if self.compares in NUMBERS and find_number(self.value) is None:
            raise ValueError(f"compares with {self.value!r}, which is no number")
        return self


class OutcomeIs(SpecGroup):
    """Holds after a turn that ended so."""

    kind: Literal["outcome_is"] = Field(
        default="outcome_is", description="Kind of the condition: the turn ended in some way."
    )
    outcome: NodeOutcome = Field(description="How the turn ended.")


class ErrorClassIs(SpecGroup):
    """Holds after a turn that failed so."""

    kind: Literal["error_class_is"] = Field(
        default="error_class_is", description="Kind of the condition: the turn failed in a class."
    )
    failure_class: ErrorClass = Field(description="Class of the failure.")


class AllOf(SpecGroup):
    """Holds where each of its conditions does."""

    kind: Literal["all_of"] = Field(default="all_of", description="Kind of the condition: all of several hold.")
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1, max_length=16)] = Field(
        description="Conditions that all have to hold."
    )


class AnyOf(SpecGroup):
    """Holds where one of its conditions does."""

    kind: Literal["any_of"] = Field(default="any_of", description="Kind of the condition: one of several holds.")
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1, max_length=16)] = Field(
        description="Conditions of which one has to hold."
    )


class Not(SpecGroup):
    """Holds where its condition does not."""

    kind: Literal["not"] = Field(default="not", description="Kind of the condition: another one does not hold.")
    condition: Condition = Field(description="The condition that must not hold.")


class RegisteredCondition(SpecGroup):
    """Condition of the installation, by its name."""

    kind: Literal["registered"] = Field(
        default="registered", description="Kind of the condition: a function of the installation decides."
    )
    name: Name = Field(description="Name under which the function is registered.")
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
    """Return True if a condition is true for a turn. Raises Unanswered if a condition of the installation gives no
    answer.
    """
    return HOLDS[type(condition)](condition, turn, registry)


def _equals(condition: ContextEquals, turn: Turn, _: Registry) -> bool:
    return bool(turn.state.context.get(condition.key) == condition.value)


def read_text(value: JSON) -> str:
    """Return a context variable as text."""
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
    text, other = read_text(value), condition.value
    if condition.compares in NUMBERS:
        here, there = find_number(text), find_number(other)
        return here is not None and there is not None and NUMBERS[condition.compares](here, there)
    if condition.compares == "contains":
        return other in map(read_text, value) if isinstance(value, list) else other in text
    if condition.compares == "matches":
        return matches_text(other, text)
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
    RegisteredCondition: lambda condition, turn, registry: evaluate_condition(
        registry, condition.name, condition.args, turn
    ),
}
"""Evaluator of each kind of condition. Total over ``KINDS``, by test."""


def inner(condition: Condition) -> tuple[tuple[str, Condition], ...]:
    """Return the conditions directly within one, each with its field."""
    if isinstance(condition, AllOf | AnyOf):
        return tuple((f"conditions.{n}", one) for n, one in enumerate(condition.conditions))
    return (("condition", condition.condition),) if isinstance(condition, Not) else ()


def walk(condition: Condition, path: str = "") -> Iterator[tuple[str, Condition]]:
    """Yield a condition and all within it, each with its path."""
    yield path, condition
    for field, one in inner(condition):
        yield from walk(one, f"{path}.{field}" if path else field)


def depth(condition: Condition) -> int:
    """Return the number of levels of nested conditions."""
    return 1 + max((depth(one) for _, one in inner(condition)), default=0)


class ToAgent(SpecGroup):
    """A participant by name."""

    kind: Literal["agent"] = Field(default="agent", description="Kind of the target: a participant by name.")
    agent: Name = Field(description="Next speaker.")


class RoundRobin(SpecGroup):
    """The participant after the one that spoke, in their order; after the last the first."""

    kind: Literal["round_robin"] = Field(
        default="round_robin", description="Kind of the target: the next participant in order."
    )


class Stay(SpecGroup):
    """The last speaker speaks again."""

    kind: Literal["stay"] = Field(default="stay", description="Kind of the target: the same speaker again.")


class RevertToInitiator(SpecGroup):
    """Back to the participant that opened the conversation."""

    kind: Literal["revert_to_initiator"] = Field(
        default="revert_to_initiator", description="Kind of the target: the initiator of the conversation."
    )


class Terminate(SpecGroup):
    """The end, with its reason."""

    kind: Literal["terminate"] = Field(default="terminate", description="Kind of the target: the conversation ends.")
    reason: Line = Field(default="terminated", description="Why the conversation is closed.")


class RegisteredTarget(SpecGroup):
    """Target of the installation, by its name."""

    kind: Literal["registered"] = Field(
        default="registered", description="Kind of the target: a function of the installation chooses."
    )
    name: Name = Field(description="Name under which the function is registered.")
    args: dict[str, JsonValue] = Field(default_factory=dict, description="What it is made with.")


TARGET_KINDS = (ToAgent, RoundRobin, Stay, RevertToInitiator, Terminate, RegisteredTarget)
TARGET_NAMES = tuple(str(kind.model_fields["kind"].default) for kind in TARGET_KINDS)
Target = Annotated[
    ToAgent | RoundRobin | Stay | RevertToInitiator | Terminate | RegisteredTarget,
    Field(discriminator="kind"),
]


def resolve_target(target: Target, turn: Turn, registry: Registry) -> Next:
    """Return the next speaker of a target after a turn. Raises Unanswered if a target of the installation gives no
    answer.
    """
    return RESOLVES[type(target)](target, turn, registry)


def find_next_participant(participants: tuple[str, ...], speaker: str) -> str:
    """Return the participant after one, in their order; the first after the last."""
    return participants[(participants.index(speaker) + 1) % len(participants)]


RESOLVES: Mapping[type[SpecGroup], Callable[[Any, Turn, Registry], Next]] = {
    ToAgent: lambda target, turn, registry: Next(target.agent),
    RoundRobin: lambda target, turn, registry: Next(
        find_next_participant(turn.state.participants, turn.packet.speaker)
    ),
    Stay: lambda target, turn, registry: Next(turn.packet.speaker),
    RevertToInitiator: lambda target, turn, registry: Next(turn.state.initiator),
    Terminate: lambda target, turn, registry: Next(None, target.reason),
    RegisteredTarget: lambda target, turn, registry: build_target(registry, target.name, target.args, turn),
}
"""Resolver of each kind of target. Total over ``KINDS``, by test."""

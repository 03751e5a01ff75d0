"""TransitionGraph: the first speaker, the rules for the next speaker, the end. In a fabric, as a dict, and as bytes
(docs/specification/topologies.md; S4).
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from fabric.core.graph.conditions import DEPTH_MAX, TARGET_NAMES, Condition, Target, ToolCalled, depth, walk
from fabric.core.graph.conditions import NAMES as CONDITION_NAMES
from fabric.core.schema.limits import REQUIRED, Unit, declare_limit
from fabric.core.schema.parts import Name, SpecGroup
from fabric.core.schema.paths import path_in
from fabric.core.texts.wrong_values import SENTENCES, describe_wrong_value
from fabric.core.values.fingerprint import decode, encode
from fabric.core.values.units import JSON

_PAGE = "docs/specification/topologies.md"
Seconds = Annotated[float, Field(gt=0, le=30 * 86_400)]


class Transition(SpecGroup):
    """One rule: while its condition is true, its target names the next speaker."""

    when: Condition = Field(description="Condition under which the rule applies.")
    then: Target = Field(description="Target: the next speaker, or the end.")
    order: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] = Field(
        default=0,
        title="Order",
        description="Rules are tried in ascending order; rules with the same number in the order of the file.",
    )
    restart: bool = Field(
        default=False,
        description="True: the conversation starts over with the next speaker. Of failures only transient_infra may take this way, fewer times than policy.failure_signature.restart_limit.",
    )

    @field_validator("when")
    @classmethod
    def _flat_enough(cls, value: Condition) -> Condition:
        if depth(value) > DEPTH_MAX:
            raise ValueError(f"has conditions nested deeper than {DEPTH_MAX} levels; make it flatter")
        return value


class RetryTargets(SpecGroup):
    """Retry targets of a participant, after failures and before its goal is met (S1 "Goal gates", "When failures become
    fatal").
    """

    retry_target: Name | None = Field(
        default=None, description="The next speaker after a failed turn. None: the graph's."
    )
    fallback_retry_target: Name | None = Field(
        default=None, description="The next speaker if the retry target has no turn left or failed in the same way."
    )


class TurnWithin(SpecGroup):
    """A time limit of one turn, and its consequence."""

    kind: Literal["turn_within"] = Field(
        default="turn_within", description="Kind of the expectation: a turn takes no longer than a time."
    )
    seconds: Seconds = declare_limit(
        REQUIRED,
        "Turn timeout",
        Unit.SECONDS,
        "The expected speaker may take at most this long for one turn.",
        stops="the run warns, or closes the conversation",
        source="S4: default expectations",
    )
    on_violation: Literal["warn", "auto_close"] = Field(
        default="warn", description="warn: the conversation goes on. auto_close: it is closed."
    )


EXPECTATIONS = (TurnWithin(seconds=120), TurnWithin(seconds=600, on_violation="auto_close"))
"""S4 "Default expectations"."""


class GraphRules(SpecGroup):
    """Speaking rules of a graph without its participants: a first speaker, ordered rules, a default, and a limit."""

    initial_speaker: Name = Field(description="First speaker.")
    initiator: Name | None = Field(
        default=None, description="The speaker that revert_to_initiator returns to. None: the first speaker."
    )
    transitions: Annotated[tuple[Transition, ...], Field(max_length=1_000)] = Field(
        default=(), description="Rules that choose the next speaker after a turn."
    )
    default_target: Target | None = Field(
        default=None, description="The next speaker if no rule matches. None: the conversation ends."
    )
    retry_targets: Annotated[dict[Name, RetryTargets], Field(max_length=64)] = Field(
        default_factory=dict,
        description="Retry targets of single participants: who speaks next if a turn fails and no rule matches, or if the conversation would end before its goals are met.",
    )
    retry_target: Name | None = Field(
        default=None,
        description="The retry target of every participant, after its own targets.",
    )
    fallback_retry_target: Name | None = Field(
        default=None,
        description="The last of the four retry targets, for every participant.",
    )
    goal_target: Name | None = Field(
        default=None,
        description="The worker that continues if the conversation would end before each worker of policy.goal_gates.nodes has a result, after that worker's own targets. It replaces retry_target there. None: retry_target.",
    )
    max_turns: Annotated[int, Field(ge=1, le=100_000)] | None = declare_limit(
        None,
        "Turns of the conversation",
        Unit.TURNS,
        "The conversation may have at most this many accepted turns. None: only the limits of the run apply.",
        stops="the conversation is closed",
        source=_PAGE,
    )
    expectations: Annotated[tuple[TurnWithin, ...], Field(max_length=16)] = Field(
        default=EXPECTATIONS, description="Time limits of a turn."
    )
    ttl_s: Seconds | None = declare_limit(
        None,
        "Longest conversation",
        Unit.SECONDS,
        "The conversation may last at most this long. None: there is no limit.",
        stops="the conversation is closed",
        source=_PAGE,
    )

    @cached_property
    def ordered_rules(self) -> tuple[tuple[int, Transition], ...]:
        """The rules in the order in which they are tried, each with its place in the list."""
        return tuple(sorted(enumerate(self.transitions), key=lambda one: one[1].order))

    @cached_property
    def routing_tools(self) -> frozenset[str]:
        """Tools that a rule names, wherever in its condition."""
        conditions = (one for rule in self.transitions for _, one in walk(rule.when))
        return frozenset(one.tool for one in conditions if isinstance(one, ToolCalled))


class TransitionGraph(GraphRules):
    """A graph's rules, with its participants."""

    participants: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64)] = Field(
        description="Agents that take part, in the order in which round_robin goes through them."
    )

    def to_dict(self) -> dict[str, JSON]:
        """Return the whole graph as plain JSON values."""
        return self.model_dump(mode="json")

    def dumps(self) -> bytes:
        """Return the whole graph as JSON in one fixed form. Equal graphs give equal bytes, and ``loads`` reads them
        back.
        """
        return encode(self.to_dict())


def loads(raw: bytes) -> TransitionGraph:
    """Return the graph in the bytes of ``dumps``. Raises Unreadable with the problems; nothing is guessed."""
    try:
        tree = decode(raw)
    except ValueError as error:  # msgspec's own errors are among them.
        raise Unreadable([("", f"is no JSON ({error})")]) from None
    return from_dict(tree)


def from_dict(tree: JSON) -> TransitionGraph:
    """Return the graph in the values of ``to_dict``. Raises Unreadable with the problems, each with its path."""
    try:
        return TransitionGraph.model_validate(tree)
    except ValidationError as error:
        details = error.errors()
        raise Unreadable([_find_problem(one, tree) for one in details if not _follows(one, details)]) from None


class Unreadable(ValueError):
    """Raised for a malformed graph: the message is one sentence for each problem. ``problems`` lists them, path and
    sentence.
    """

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__(
            "; ".join(f"{path}: {sentence}" if path else f"the graph {sentence}" for path, sentence in problems)
        )
        self.problems = problems


def _follows(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Return True if an error only says that a list is too short. Another error is about an item of that list."""
    loc = detail["loc"]
    return detail["type"] == "too_short" and any(one["loc"][: len(loc)] == loc != one["loc"] for one in details)


def _find_problem(detail: ErrorDetails, tree: JSON) -> tuple[str, str]:
    path, message = path_in(tree, detail["loc"]), detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "union_tag_invalid":
        what = "condition" if str(detail["ctx"]["expected_tags"]).startswith("'always'") else "target"
        names = ", ".join(CONDITION_NAMES if what == "condition" else TARGET_NAMES)
        return f"{path}.kind", f"there is no {what} of kind {detail['ctx']['tag']!r}; there are: {names}"
    if detail["type"] in SENTENCES:
        return path, describe_wrong_value(detail)
    return path, _SENTENCES.get(detail["type"], f"{message[:1].lower()}{message[1:]}")


_SENTENCES = {
    "missing": "is missing; give it a value",
    "extra_forbidden": "there is no such field; take it out",
    "string_pattern_mismatch": "is no name; use lower-case letters, digits, - and _, a letter first",
    "too_short": "is empty; give at least one",
    "union_tag_not_found": "does not say its kind; give `kind`",
}

"""TransitionGraph: who speaks first, which rule picks the next speaker, when it ends. As a fabric writes it, as a dict, and as bytes (semantics.md 5; S4)."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from fabric.core.fingerprint import decode, encode
from fabric.core.graph.conditions import DEPTH_MAX, Condition, ToolCalled, depth, walk
from fabric.core.graph.conditions import NAMES as CONDITION_NAMES
from fabric.core.graph.targets import NAMES as TARGET_NAMES
from fabric.core.graph.targets import Target
from fabric.core.spec_parts import Name, SpecGroup
from fabric.core.spec_paths import path_in
from fabric.core.wrong_values import SENTENCES, describe_wrong_value

JSON = Any
Seconds = Annotated[float, Field(gt=0, le=30 * 86_400)]


class Transition(SpecGroup):
    """One rule: where its condition holds, its target says who speaks next."""

    when: Condition
    then: Target
    order: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] = Field(
        default=0, description="Rules are tried in ascending order; of equal ones the first written first."
    )
    restart: bool = Field(
        default=False,
        description="Whether the conversation begins anew with whom it leads to. Of failures only transient_infra may cross it, less often than policy.failure_signature.restart_limit says, by signature. S1: loop restart edges.",
    )

    @field_validator("when")
    @classmethod
    def _flat_enough(cls, value: Condition) -> Condition:
        if depth(value) > DEPTH_MAX:
            raise ValueError(f"has conditions nested deeper than {DEPTH_MAX} levels; make it flatter")
        return value


class RetryTargets(SpecGroup):
    """Where one participant's failures lead back to, and an end before its goal is met (S1 "Goal gates", "When failures become fatal")."""

    retry_target: Name | None = Field(default=None, description="Who speaks next then; None: the graph says.")
    fallback_retry_target: Name | None = Field(
        default=None, description="Who does where that one has no turn left, or failed the same way itself."
    )


class TurnWithin(SpecGroup):
    """A bound on one turn: how long the expected speaker may take, and what happens then."""

    kind: Literal["turn_within"] = "turn_within"
    seconds: Seconds
    on_violation: Literal["warn", "auto_close"] = "warn"


EXPECTATIONS = (TurnWithin(seconds=120), TurnWithin(seconds=600, on_violation="auto_close"))
"""S4 "Default expectations"."""


class GraphRules(SpecGroup):
    """Who speaks after whom, whoever takes part. A first speaker, rules in their order, what happens where none applies, and a bound."""

    initial_speaker: Name = Field(description="Who speaks first.")
    initiator: Name | None = Field(
        default=None, description="Whom revert_to_initiator goes back to; None: the first speaker."
    )
    transitions: Annotated[tuple[Transition, ...], Field(max_length=1_000)] = ()
    default_target: Target | None = Field(
        default=None, description="Who speaks next where no rule applies; None: the conversation ends."
    )
    retry_targets: Annotated[dict[Name, RetryTargets], Field(max_length=64)] = Field(
        default_factory=dict,
        description="Where turns of single participants lead back to that failed and that no rule on how a turn ended leads on from; and, of goals, an end before they are met.",
    )
    retry_target: Name | None = Field(
        default=None,
        description="Where any participant's do, after its own targets. S1: graph-level retry target.",
    )
    fallback_retry_target: Name | None = Field(
        default=None,
        description="Where they do as the last of the four. S1: graph-level fallback retry target.",
    )
    goal_target: Name | None = Field(
        default=None,
        description="Worker that a conversation goes on with where it would end before each worker among policy.goal_gates.nodes has come back with a result, "
        "after that worker's own targets; it stands in for retry_target there. None: retry_target. S1: retry targets of goal gates.",
    )
    max_turns: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Accepted turns after which it is closed; None: the run's own limits alone."
    )
    expectations: Annotated[tuple[TurnWithin, ...], Field(max_length=16)] = EXPECTATIONS
    ttl_s: Seconds | None = Field(
        default=None, description="Seconds after which the conversation is closed, wherever it stands; None: never."
    )

    @cached_property
    def ordered(self) -> tuple[tuple[int, Transition], ...]:
        """The rules in the order in which they are tried, each with its place in the list."""
        return tuple(sorted(enumerate(self.transitions), key=lambda one: one[1].order))

    @cached_property
    def routing_tools(self) -> frozenset[str]:
        """Tools that a rule names, wherever in its condition."""
        conditions = (one for rule in self.transitions for _, one in walk(rule.when))
        return frozenset(one.tool for one in conditions if isinstance(one, ToolCalled))


class TransitionGraph(GraphRules):
    """A graph with those who take part."""

    participants: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64)] = Field(
        description="Agents that take part, in the order in which round_robin goes through them."
    )

    def to_dict(self) -> dict[str, JSON]:
        """The whole graph as plain JSON values."""
        return self.model_dump(mode="json")

    def dumps(self) -> bytes:
        """The whole graph as JSON in one fixed form: equal graphs give equal bytes, and what ``loads`` reads gives them again."""
        return encode(self.to_dict())


def loads(raw: bytes) -> TransitionGraph:
    """Inverse of ``dumps``. Unreadable with what is wrong; nothing of it is guessed."""
    try:
        tree = decode(raw)
    except ValueError as error:  # msgspec's own errors are among them.
        raise Unreadable([("", f"is no JSON ({error})")]) from None
    return from_dict(tree)


def from_dict(tree: JSON) -> TransitionGraph:
    """Inverse of ``to_dict``. Unreadable with what is wrong, each with its path."""
    try:
        return TransitionGraph.model_validate(tree)
    except ValidationError as error:
        details = error.errors()
        raise Unreadable([_told(one, tree) for one in details if not _follows(one, details)]) from None


class Unreadable(ValueError):
    """Not a graph: the message is one sentence for each thing that is wrong. ``problems`` has them apart, path and sentence."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__(
            "; ".join(f"{path}: {sentence}" if path else f"the graph {sentence}" for path, sentence in problems)
        )
        self.problems = problems


def _follows(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Whether it only says that a list is too short whose item is wrong."""
    loc = detail["loc"]
    return detail["type"] == "too_short" and any(one["loc"][: len(loc)] == loc != one["loc"] for one in details)


def _told(detail: ErrorDetails, tree: JSON) -> tuple[str, str]:
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

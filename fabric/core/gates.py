"""What a fabric asks of its gates beside the schemas, which are always on (semantics.md 1, 9).

Groups that came later are left out of a spec's JSON where they are not given, so that a fabric of before keeps its digest.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from fabric.core.flow import Stage
from fabric.core.spec_parts import Line, Name, SpecGroup

Place = Literal["plan", "fan_out", "fan_in", "validate", "finalize", "arguments"]
"""Where guardrails look: what a stage passes on, or the arguments of tool calls."""
PLACES: tuple[Place, ...] = ("plan", "fan_out", "fan_in", "validate", "finalize", "arguments")


def _absent(value: Any) -> bool:
    return value is None


class GuardrailPattern(SpecGroup):
    """A pattern of the fabric's own."""

    name: Name
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=1_000)] = Field(
        description="RE2 syntax: no lookaround and no references back. (?i) at the start: letter case does not count."
    )


class GuardrailGroup(SpecGroup):
    """Rules and patterns, and where they look."""

    places: Annotated[tuple[Place, ...], Field(min_length=1)] = PLACES
    rules: tuple[Name, ...] = Field(default=(), description="Names of shipped rules.")
    patterns: tuple[GuardrailPattern, ...] = ()


class Invariant(SpecGroup):
    """A condition that what a stage passes on must keep."""

    stage: Stage
    name: Name
    expression: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)] = Field(
        description="CEL over payload (what the stage passes on), run (id, tier, epoch, depth, request, documents) and stage; true: it holds."
    )
    message: Line = Field(description="What is said when it does not hold.")


class OracleCheck(SpecGroup):
    """A condition that a finished outcome must keep."""

    name: Name
    expression: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)] = Field(
        description="CEL over outcome (text, citations), exit_criteria (the plan's) and run (as for invariants); true: it holds."
    )
    message: Line = Field(description="What is said when it does not hold.")


class CedarPolicy(SpecGroup):
    """One Cedar policy, under the name that decisions give."""

    name: Name
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000)] = Field(
        description="One permit or forbid over Agent, Engine, Tool and Stage, and context (docs/semantics.md 10)."
    )


class Gates(SpecGroup):
    """Built-in checks of the stage gates, beside the schemas which are always on."""

    citations: Literal["off", "exist", "required"] = Field(
        default="off", description="exist: each cited document is attached. required: and there is at least one."
    )
    max_outcome_chars: Annotated[int, Field(ge=1)] | None = None
    grounding: Literal["citations", "quotes", "numbers"] | None = Field(
        default=None,
        exclude_if=_absent,
        description="citations: each cited document is attached. quotes: and each quoted passage is in its source. "
        "numbers: and each number is in a source or a tool's answer, was calculated, or follows by a stated formula.",
    )
    invariants: tuple[Invariant, ...] | None = Field(
        default=None, exclude_if=_absent, description="Conditions on what stages pass on."
    )
    guardrails: tuple[GuardrailGroup, ...] | None = Field(
        default=None, exclude_if=_absent, description="What neither outputs nor arguments of tools may hold."
    )

    policies: Annotated[tuple[CedarPolicy, ...], Field(min_length=1)] | None = Field(
        default=None,
        exclude_if=_absent,
        description="Cedar policies, asked before each tool call, handoff and spawn, when a stage is entered, and on what it passes on. "
        "What none permits is denied, and so is what cannot be evaluated.",
    )

    oracle: Annotated[tuple[OracleCheck, ...], Field(min_length=1)] | None = Field(
        default=None,
        exclude_if=_absent,
        description="Conditions on the finished outcome, asked last: what does not keep them is no success.",
    )

    @property
    def reads_sources(self) -> bool:
        """Whether an answer is held against the texts that it rests on."""
        return self.grounding in ("quotes", "numbers")

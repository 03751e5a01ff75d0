"""The gates of a fabric, beside the schemas, which are always on (semantics.md 1, 9)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from fabric.core.flow import Stage
from fabric.core.spec_parts import Line, Name, SpecGroup

Place = Literal["plan", "fan_out", "fan_in", "validate", "finalize", "arguments"]
"""Where guardrails look: what a stage passes on, or the arguments of tool calls."""
PLACES: tuple[Place, ...] = ("plan", "fan_out", "fan_in", "validate", "finalize", "arguments")


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


OUTCOME_CREDENTIALS = GuardrailGroup(places=("finalize",), rules=("credentials",))
"""On in each fabric that gives no reason against it."""


class Invariant(SpecGroup):
    """A condition that what a stage passes on must keep."""

    stage: Stage
    name: Name
    expression: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)] = Field(
        description="CEL over payload (what the stage passes on), run (id, tier, epoch, depth, request, documents) and stage; true: it holds."
    )
    message: Line = Field(description="What is said when it does not hold.")


class HttpTest(SpecGroup):
    """A GET whose answer says something of the outcome."""

    url: Annotated[str, StringConstraints(strip_whitespace=True, min_length=9, max_length=1_000)] = Field(
        description="Address with {outcome.text}, {outcome.citations.0}, {exit_criteria.0} or {run.id} where the outcome goes in, behind the host alone."
    )
    timeout_s: Annotated[float, Field(gt=0, le=600)] | None = Field(
        default=None, description="Seconds for one attempt. None: the tier's."
    )


class OracleCheck(SpecGroup):
    """A condition that a finished outcome must keep: an expression over it, or what a tool, an address or an agent says of it."""

    name: Name
    expression: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)] | None = Field(
        default=None,
        description="CEL over outcome (text, citations), exit_criteria (the plan's), run (as for invariants), and answer where a tool or an "
        "address is asked; true: it holds. Alone, or with tool or http, where it may be left out.",
    )
    message: Line = Field(description="What is said when it does not hold; what a critic is asked to look at.")
    tool: Name | None = Field(default=None, description="Read-only tool that is asked.")
    arguments: dict[str, Any] | None = Field(
        default=None, description="The tool's arguments, with places as in http.url."
    )
    http: HttpTest | None = Field(default=None, description="Address that is asked.")
    critic: Name | None = Field(default=None, description="Agent that judges the outcome.")

    @model_validator(mode="after")
    def _one_way(self) -> OracleCheck:
        ways = [name for name in ("tool", "http", "critic") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise ValueError(f"an oracle check asks in one way, and this one names {' and '.join(ways)}; split it")
        if not ways and self.expression is None:
            raise ValueError("an oracle check asks nothing; give expression, tool, http or critic")
        if self.critic is not None and self.expression is not None:
            raise ValueError("a critic says itself whether the check holds; leave its expression out")
        if self.arguments is not None and self.tool is None:
            raise ValueError("arguments are a tool's; name the tool, or leave them out")
        return self

    @property
    def asks_world(self) -> bool:
        """Whether a command has to be issued for it."""
        return self.tool is not None or self.http is not None or self.critic is not None

    @property
    def asked_tool(self) -> str:
        """The tool that is asked: a declared one, or the name of its address; empty: none is."""
        return self.tool or (HTTP_TEST + self.name if self.http is not None else "")


HTTP_TEST = "oracle:"
"""How the tool is named that an address of the oracle stands for: no declared tool can have a colon in its name."""


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
        description="citations: each cited document is attached. quotes: and each quoted passage is in its source. "
        "numbers: and each number is in a source or a tool's answer, was calculated, or follows by a stated formula.",
    )
    invariants: tuple[Invariant, ...] | None = Field(default=None, description="Conditions on what stages pass on.")
    guardrails: tuple[GuardrailGroup, ...] | None = Field(
        default=None, description="What neither outputs nor arguments of tools may hold."
    )

    unguarded: Line | None = Field(
        default=None,
        description="Why the outcome is not searched for credentials: a deviation. None: it is, besides what the guardrails look for.",
    )

    unscreened: Line | None = Field(
        default=None,
        description="Why results are not screened for instructions before their agent changes something: a deviation. None: they are.",
    )

    policies: Annotated[tuple[CedarPolicy, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Cedar policies, asked before each tool call, handoff and spawn, when a stage is entered, and on what it passes on. "
        "What none permits is denied, and so is what cannot be evaluated.",
    )

    oracle: Annotated[tuple[OracleCheck, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Conditions on the finished outcome, asked last: what does not keep them is no success.",
    )

    grounding_critic: Name | None = Field(
        default=None,
        description="Agent that judges whether each statement is founded in the sources, on top of a grounding level.",
    )

    @property
    def guarded(self) -> tuple[GuardrailGroup, ...]:
        """The guardrails in force: the fabric's own, and credentials in the outcome."""
        own = self.guardrails or ()
        return own if self.unguarded is not None else (*own, OUTCOME_CREDENTIALS)

    @property
    def matches_sources(self) -> bool:
        """Whether an answer is compared with the texts that it rests on, word by word."""
        return self.grounding in ("quotes", "numbers")

    @property
    def reads_sources(self) -> bool:
        """Whether an answer is held against the texts that it rests on, by comparison or by an agent."""
        return self.matches_sources or self.grounding_critic is not None

"""The gates of a fabric, beside the schemas, which are always on (docs/specification/stages.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from fabric.core.schema.limits import Unit, declare_limit
from fabric.core.schema.parts import Line, Name, SpecGroup
from fabric.core.values.flow import Stage

_PAGE = "docs/specification/gates.md"
Place = Literal["plan", "fan_out", "fan_in", "validate", "finalize", "arguments"]
"""Guardrails look at a stage's output, or at the arguments of tool calls."""
PLACES: tuple[Place, ...] = ("plan", "fan_out", "fan_in", "validate", "finalize", "arguments")


class GuardrailPattern(SpecGroup):
    """A pattern of the fabric's own."""

    name: Name = Field(description="Name of the pattern in findings.")
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=1_000)] = Field(
        description="RE2 syntax, without lookaround and references back. (?i) at the start ignores letter case."
    )


class GuardrailGroup(SpecGroup):
    """Rules and patterns, and where they look."""

    places: Annotated[tuple[Place, ...], Field(min_length=1)] = Field(
        default=PLACES, description="Places where texts are scanned."
    )
    rules: tuple[Name, ...] = Field(default=(), description="Names of shipped rules.")
    patterns: tuple[GuardrailPattern, ...] = Field(default=(), description="Patterns of the fabric itself.")


OUTCOME_CREDENTIALS = GuardrailGroup(places=("finalize",), rules=("credentials",))
"""On in each fabric that gives no reason against it."""


class Invariant(SpecGroup):
    """A condition that what a stage passes on must keep."""

    stage: Stage = Field(description="Stage whose output is checked.")
    name: Name = Field(description="Name of the condition in findings.")
    expression: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)] = Field(
        description="CEL over payload (the stage's output), run (id, tier, epoch, depth, request, documents) and stage; it must be true."
    )
    message: Line = Field(description="The message if the condition is false.")


class HttpTest(SpecGroup):
    """A GET whose answer says something of the outcome."""

    url: Annotated[str, StringConstraints(strip_whitespace=True, min_length=9, max_length=1_000)] = Field(
        description="Address with {outcome.text}, {outcome.citations.0}, {exit_criteria.0} or {run.id} where the outcome goes in, behind the host alone."
    )
    timeout_s: Annotated[float, Field(gt=0, le=600)] | None = declare_limit(
        None,
        "Timeout of one attempt",
        Unit.SECONDS,
        "One attempt may take at most this long. None: the tier's call timeout.",
        stops="the attempt is given up",
        source=_PAGE,
    )


class OracleCheck(SpecGroup):
    """A condition that a finished outcome must keep. It is an expression, or the answer of a tool, an address or an
    agent.
    """

    name: Name = Field(description="Name of the check in findings.")
    expression: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)] | None = Field(
        default=None,
        description="CEL over outcome (text, citations), exit_criteria (the plan's), run (as for invariants), and answer (of a tool or an address); it must be true. Alone, or with tool or http, where it is optional.",
    )
    message: Line = Field(description="The message if the check fails; for a critic, its question.")
    tool: Name | None = Field(default=None, description="A read-only tool that the check calls.")
    arguments: dict[str, Any] | None = Field(
        default=None, description="The tool's arguments, with places as in http.url."
    )
    http: HttpTest | None = Field(default=None, description="An address that the check calls.")
    critic: Name | None = Field(default=None, description="An agent that judges the outcome.")

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
        """Return True where a command has to be issued for it."""
        return self.tool is not None or self.http is not None or self.critic is not None

    @property
    def asked_tool(self) -> str:
        """Return the tool that it asks: a declared one, or the name of its address. Empty where it asks no tool."""
        return self.tool or (HTTP_TEST + self.name if self.http is not None else "")


HTTP_TEST = "oracle:"
"""The engine names the tool of an oracle's address with this prefix. No declared tool can have a colon in its name."""


class CedarPolicy(SpecGroup):
    """One Cedar policy, under the name that decisions give."""

    name: Name = Field(description="Name of the policy in findings.")
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000)] = Field(
        description="One permit or forbid over Agent, Engine, Tool and Stage, and context (docs/specification/gates.md)."
    )


class Gates(SpecGroup):
    """Built-in checks of the stage gates, beside the schemas which are always on."""

    citations: Literal["off", "exist", "required"] = Field(
        default="off",
        description="exist: each cited document must be attached. required: there must also be at least one citation.",
    )
    max_outcome_chars: Annotated[int, Field(ge=1)] | None = declare_limit(
        None,
        "Longest answer",
        Unit.CHARACTERS,
        "The outcome may have at most this many characters. None: any number.",
        stops="a longer outcome does not pass the gate",
        source=_PAGE,
    )
    grounding: Literal["citations", "quotes", "numbers"] | None = Field(
        default=None,
        description="citations: each cited document must be attached. quotes: each quoted passage must also stand in its source. numbers: each number must also come from a source, a tool's answer, a calculation or a stated formula.",
    )
    invariants: tuple[Invariant, ...] | None = Field(
        default=None, description="Conditions that the output of a stage must meet."
    )
    guardrails: tuple[GuardrailGroup, ...] | None = Field(
        default=None, description="Content that outputs and tool arguments may not have."
    )

    unguarded: Line | None = Field(
        default=None,
        description="The reason why the outcome is not searched for credentials, which is a deviation. None: it is searched.",
    )

    unscreened: Line | None = Field(
        default=None,
        description="The reason why results are not screened for instructions before their agent changes something, which is a deviation. None: they are screened.",
    )

    policies: Annotated[tuple[CedarPolicy, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Cedar policies that judge each tool call, handoff, spawn, entry into a stage, and stage output. An action that no policy permits, or that cannot be judged, is denied.",
    )

    oracle: Annotated[tuple[OracleCheck, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Final checks of the outcome. A run whose outcome fails one is no success.",
    )

    grounding_critic: Name | None = Field(
        default=None,
        description="An agent that judges whether the sources support each statement, in addition to the grounding level.",
    )

    @property
    def guardrails_in_force(self) -> tuple[GuardrailGroup, ...]:
        """The guardrails in force: the fabric's own, and credentials in the outcome."""
        own = self.guardrails or ()
        return own if self.unguarded is not None else (*own, OUTCOME_CREDENTIALS)

    @property
    def matches_sources(self) -> bool:
        """Return True where an answer is compared with its sources word by word."""
        return self.grounding in ("quotes", "numbers")

    @property
    def reads_sources(self) -> bool:
        """Return True where an answer is compared with its sources, by words or by an agent."""
        return self.matches_sources or self.grounding_critic is not None

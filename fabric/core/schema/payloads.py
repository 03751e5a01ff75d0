"""Typed payloads between stages: each stage's output and the next stage's input (S0 "Stage Anatomy").

A model's answer is validated against one of these types. A mismatch costs the step a correction, and the model
receives it field by field. Unknown fields are ignored rather than refused: a small model decorates its answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200_000)]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]


class _Payload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Brief(_Payload):
    """One agent's share of the plan."""

    agent: Line
    """Name of the worker that gets it."""
    title: Line = "Untitled"
    instructions: Text


class Plan(_Payload):
    """Output of the plan stage: the briefs with their agents, and the criteria of a good outcome."""

    goal: Line = "Answer the request."
    briefs: Annotated[tuple[Brief, ...], Field(min_length=1, max_length=1_000)]
    exit_criteria: Annotated[tuple[Line, ...], Field(min_length=1, max_length=50)]
    """Conditions on the outcome. A plan without one is malformed (docs/specification/stages.md)."""


class FixedBrief(Brief):
    """One agent's share of a plan that an author wrote. An unknown field is a slip there, and refused."""

    model_config = ConfigDict(extra="forbid")


class FixedPlan(Plan):
    """A plan that an author wrote into the fabric. An unknown field is refused."""

    model_config = ConfigDict(extra="forbid")

    briefs: Annotated[tuple[FixedBrief, ...], Field(min_length=1, max_length=1_000)]


class Summary(_Payload):
    """Output of one branch, and of an aggregator or finalizer agent."""

    text: Text
    citations: tuple[Line, ...] = ()
    """Names of the attached documents that the text rests on."""


class Critique(_Payload):
    """Output of the critic: a score that never comes from the agent that produced the payload."""

    score: Annotated[float, Field(ge=0.0, le=1.0)]
    reasons: tuple[Line, ...] = ()


class Judgement(_Payload):
    """Output of a judge of a plan, an answer's grounding or a finished outcome: accepted, or its problems."""

    accept: bool
    score: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """Confidence from 0 to 1; None: not given."""
    findings: Annotated[tuple[Line, ...], Field(max_length=20)] = ()
    """Problems, a sentence each; at least one if the output is not accepted, none if it is."""
    evidence: Annotated[tuple[Line, ...], Field(min_length=1, max_length=20)]
    """Reasons for the verdict."""

    @model_validator(mode="after")
    def _says_why(self) -> Judgement:
        if self.accept and self.findings:
            raise ValueError("it is accepted and has findings; say accept false, or leave the findings out")
        if not self.accept and not self.findings:
            raise ValueError("it is not accepted and has no finding; say what is wrong")
        return self


class Verdict(Summary):
    """Output of a debate's judge, and of each vote: the winner, and in ``text`` the reason."""

    winner: Line
    """The side that it is for, by its name."""


class Part(_Payload):
    """One branch's part of the fan-out's output: the reference of its summary, or its gap."""

    branch: int
    brief: int = -1
    """Number of the plan's brief that a turn executed, from 0. Several turns may share one. -1: no turn; the branch's
    number is the brief's.
    """
    agent: Line
    title: Line = "Untitled"
    ref: str = ""
    """Content reference of the branch's answer; "" if there is none."""
    gap: str = ""
    """Reason for a missing summary; "" if there is one."""
    accepted: bool = False
    """The fabric goes on without it: its retries are exhausted, and gaps are allowed."""


class Aggregate(_Payload):
    """Output of the fan-in stage."""

    text: Text
    citations: tuple[Line, ...] = ()


class Outcome(_Payload):
    """Output of the finalize stage, which the caller receives."""

    text: Text
    citations: tuple[Line, ...] = ()
    gaps: tuple[Line, ...] = ()


class TypedSummary(Summary):
    """A summary of an agent with an ``output_schema``."""

    data: Any
    """JSON; other code checks that it fits the author's schema (``answers``, ``edits``)."""


class TypedAggregate(Aggregate):
    """Output of an aggregator with an ``output_schema``."""

    data: Any


class TypedOutcome(Outcome):
    """An outcome that was written by an agent with an ``output_schema``."""

    data: Any


TYPED: Mapping[type[BaseModel], type[BaseModel]] = {
    Summary: TypedSummary,
    Aggregate: TypedAggregate,
    Outcome: TypedOutcome,
}
"""Variant with ``data`` of each payload that may have it. Without a schema the field is absent, so that such
payloads read unchanged.
"""


def typed_model(model: type[BaseModel], payload: Any) -> type[BaseModel]:
    """Return the type that reads a payload with or without data."""
    return TYPED[model] if isinstance(payload, Mapping) and "data" in payload else model


class Request(_Payload):
    """A caller's request, as the run records it."""

    text: Text
    documents: tuple[Line, ...] = ()
    """Names of the attached documents, in the order they were attached."""
    document_bytes: tuple[int, ...] = ()
    """Sizes of the documents in bytes, in order."""
    note: str = ""
    """For a retried child run: the failure, or a person's words about it. Agents read it after the text; no answer
    may cite it.
    """


AGENT_OUTPUT: dict[str, type[BaseModel]] = {
    "plan": Plan,
    "summary": Summary,
    "critique": Critique,
    "judgement": Judgement,
    "verdict": Verdict,
}
"""The shapes an agent may be asked for, by name (``Step.output``)."""


@cache
def json_schema(name: str) -> Mapping[str, Any]:
    """Return the JSON schema of an agent output for a model; raises KeyError for an unknown name. Callers must not
    change it.

    It has no titles and no bounds on lengths: endpoints turn a schema into a grammar, and large repetitions break
    small ones. The bounds apply when the answer is validated here.
    """
    schema: dict[str, Any] = _plain(AGENT_OUTPUT[name].model_json_schema())
    return schema


LEFT_OUT = frozenset({"title", "description", "maxLength", "minLength", "maxItems", "default"})
"""Schema keywords that are left out for a model. A property may have one of these names, so only scalar values are
left out.
"""


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        kept = {
            key: value for key, value in node.items() if not (key in LEFT_OUT and isinstance(value, str | int | list))
        }
        return {key: _plain(value) for key, value in kept.items()}
    if isinstance(node, list):
        return [_plain(item) for item in node]
    return node


def typed_json_schema(model: type[BaseModel], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole schema of a payload with data, the author's schema in it word for word."""
    found = TYPED[model].model_json_schema()
    draft = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    return {**draft, **found, "properties": {**found["properties"], "data": dict(schema)}}


def asked_json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a summary with data for a model, without the keywords that endpoints refuse.

    Leaving keywords out makes the schema wider, never narrower; they apply when the answer is validated here.
    """
    summary = json_schema("summary")
    return {
        **summary,
        "properties": {**summary["properties"], "data": _without_keywords(schema)},
        "required": [*summary.get("required", ()), "data"],
    }


NOT_ASKED = LEFT_OUT | {
    *("$schema", "$id", "$anchor", "$comment", "examples", "deprecated", "readOnly", "writeOnly"),
    *("pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"),
    *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
    *("patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"),
    *("contains", "minContains", "maxContains", "uniqueItems", "unevaluatedItems"),
}
"""Keywords of an author's schema that a model is not asked for: no endpoint's grammar knows them all."""
_VALUES = frozenset({"const", "enum", "required"})
_NAMED = frozenset({"properties", "$defs", "definitions"})


def _without_keywords(node: Any) -> Any:
    """Return an author's schema without those keywords. Names of properties and values are never taken for keywords."""
    if isinstance(node, list):
        return [_without_keywords(one) for one in node]
    if not isinstance(node, Mapping):
        return node
    left_out = NOT_ASKED | ({"additionalProperties"} if "patternProperties" in node else frozenset())
    found: dict[str, Any] = {}
    for key, value in node.items():
        if key in _VALUES:
            found[key] = value
        elif key in _NAMED and isinstance(value, Mapping):
            found[key] = {name: _without_keywords(one) for name, one in value.items()}
        elif key not in left_out:
            found[key] = _without_keywords(value)
    return found
